"""A Gymnasium environment with discrete actions as a simulator."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.meg.simulator.agents.acting import Actor, FunctionActor, chosen, information
from goalmeter.meg.simulator.agents.numbered_spaces import count_of, first_of
from goalmeter.meg.simulator.seeds import CHOICES, EPISODES, seeded
from goalmeter.meg.simulator.states.chance import FROM_GENERATOR, UNDECLARED
from goalmeter.meg.simulator.states.met_states import Came, MetStates
from goalmeter.meg.simulator.states.naming import StateOf
from goalmeter.meg.simulator.states.wrappers import layers
from goalmeter.meg.simulator.utilities.named_utilities import NamedUtilities
from goalmeter.meg.simulator.utilities.payments import Payments
from goalmeter.meg.simulator.worlds.answers_by_state import AnswersByState
from goalmeter.meg.simulator.worlds.guarded_calls import (
    answer_of,
    at_decision,
    at_reset,
    begin_of,
    caller_guard,
    in_state,
    step_of,
)
from goalmeter.meg.simulator.worlds.opening import world_name
from goalmeter.meg.simulator.worlds.protocol import END, FREE_CHOICE, UNKNOWN, Episodes, Outcome
from goalmeter.meg.simulator.worlds.starts import Starts, bit_generator

# Wrappers that only count and check, and are left out of single steps.
_COUNTING = frozenset({"TimeLimit", "OrderEnforcing", "PassiveEnvChecker"})
# Seeds that Gymnasium takes.
_SEEDS = 2**31
# Each decision of free choice has a row of them.
_MOST_ACTIONS = 10**6


class GymnasiumSimulator:
    """One environment, stepped one step at a time.

    Args:
        env: the environment; it is used and left in any state.
        utilities: what its steps are worth.
        seed: of all that is drawn.
        state: which states are the same: None for what the kind of environment knows,
            "observation" if the observation determines all that can follow, or a function of
            (observation, info) with a hashable name of the state.
        chance: where the environment's chance comes from; see `from_simulator`.
    """

    chunk = 1
    reference = FREE_CHOICE
    why_unbounded = ""

    def __init__(
        self,
        env: Any,
        utilities: NamedUtilities,
        *,
        seed: int,
        state: str | StateOf | None = None,
        chance: str = UNDECLARED,
    ) -> None:
        self.n_actions = self._count_actions(env.action_space)
        self._env, self._seed, self.utilities = env, seed, utilities
        # Actions are counted from 0 here, whatever the environment and its agents call the first.
        self._first = first_of(env.action_space)
        self.name = world_name(env)
        self.chance = chance
        self._states = MetStates(env, state, chance)
        self.why_not = self._states.why_not
        self._starts = Starts(self._states, chance)
        self._answers = AnswersByState(self._states, self.n_actions, self._first)
        self._payments = Payments(utilities)
        self.walked: Counter[tuple[int, int, Outcome]] = Counter()
        self._is_plain = all(type(layer).__name__ in _COUNTING for layer in layers(env)[:-1])

    def _count_actions(self, space: Any) -> int:
        count = count_of(space)
        if count is None:
            raise InvalidParameterError(
                f"the environment takes actions from {space}, expected Discrete(n) or a Box of "
                f"real numbers; wrap it so that it takes one of them "
                f"(gymnasium.wrappers.TransformAction)"
            )
        if count > _MOST_ACTIONS:
            raise InvalidParameterError(
                f"the environment has {count:,} actions, expected {_MOST_ACTIONS:,} at most; "
                f"leave some out by a wrapper (gymnasium.wrappers.TransformAction)"
            )
        return count

    def _decide(
        self, answer: Any, generator: np.random.Generator, name: str
    ) -> tuple[Any, float, FloatArray | None]:
        """The action to be taken, the nats by which its choice differs from free choice, its row.

        The row is the distribution that was told, [A]; None without one.
        """
        action, row = chosen(answer, self.n_actions, generator, name, self._first)
        return action, information(row, self.n_actions), row

    @property
    def most_information(self) -> float:
        """Nats by which a decision may differ from free choice at most."""
        return math.log(self.n_actions)

    @property
    def n_states(self) -> int:
        """States that were met so far."""
        return len(self._states)

    @property
    def met_again(self) -> Collection[int]:
        """States of which there is a copy as they were met after another decision."""
        return self._states.met_again

    @property
    def returns_to_states(self) -> bool:
        """Whether states can be gone back to, and told from each other."""
        return not self.why_not

    def free_choice(self) -> Actor:
        """Every action with the same probability."""
        row = np.full(self.n_actions, 1.0 / self.n_actions)
        return FunctionActor(lambda observation: row, FREE_CHOICE, is_function=True)

    @caller_guard()
    def play(self, actor: Actor, horizon: int, number: int) -> Episodes:
        """One episode: `reset` with a seed of its own, and steps until the end or the horizon."""
        generator = np.random.default_rng(seeded(self._seed, CHOICES, number))
        seed = int(seeded(self._seed, EPISODES, number).generate_state(1)[0] % _SEEDS)
        observation, info = self._starts.reset(self._env, seed, number)
        start = here = self._number(observation, info) if self.returns_to_states else UNKNOWN
        self._starts.note(start)
        answer = begin_of(actor, generator, partial(at_reset, number))
        total, gained, decisions = np.zeros(len(self.utilities.names)), 0.0, 0
        for t in range(horizon):
            where = partial(at_decision, t, number)
            answered = answer_of(answer, observation, t, actor.name, where)
            action, differs, row = self._decide(answered, generator, actor.name)
            if row is not None and self.returns_to_states and not actor.is_function:
                self._answers.compare(here, row)
            observation, reward, terminated, truncated, info = self._step(self._env, action, where)
            paid = self._payments.pay(reward, observation, info, where)
            total += paid
            gained += differs
            decisions += 1
            if self.returns_to_states:
                came = None if truncated else (here, action)
                after = END if terminated else self._number(observation, info, came)
                self.walked[here, action, Outcome(after, paid)] += 1
                here = after
            if terminated:
                break
            if truncated and t + 1 < horizon:
                raise InvalidParameterError(
                    f"the environment cut episode {number} off after {t + 1} decisions without "
                    f"terminating it, but the horizon is {horizon}: what would have followed is "
                    f"not known; measure with horizon={t + 1}, or make the environment without "
                    f"its time limit"
                )
        self._payments.check_total(total, number)
        return Episodes(total[None], np.array([decisions]), np.array([gained]), np.array([start]))

    def _step(self, env: Any, action: Any, where: Callable[[], str]) -> Any:
        return step_of(env, action + self._first, where)

    @property
    def one_start(self) -> bool:
        """Whether every episode begins in the same state, with certainty; see `Starts`."""
        return self._starts.are_one

    @caller_guard()
    def policy(self, actor: Actor, horizon: int) -> FloatArray | None:
        """The agent's distribution in each state that was met, [1, S, A].

        None if it gives none, or if it or a state was seen to contradict that it depends on the
        state alone.
        """
        if actor.remembers or self._answers.differ or self._states.observations_differ:
            return None
        # An observation that a caller's function makes may differ from visit to visit.
        if any(type(layer).__name__ == "TransformObservation" for layer in layers(self._env)):
            return None
        if not self._answers.covers_all:
            self._answers.ask(actor, horizon)
        return self._answers.table

    def remarks(self, actor: Actor) -> list[str]:
        """What a reader of a measurement by states has to know of the agent and the starts."""
        return [*self._answers.remarks(actor), *self._starts.remarks()]

    def seen(self, which: int) -> tuple[float, float]:
        """The extremes of what was paid."""
        return self._payments.extremes(which)

    def draw(
        self, state: int, action: int, count: int, generator: np.random.Generator
    ) -> tuple[Counter[Outcome], bool]:
        """Steps from a state, drawn by a generator of their own in place of the environment's.

        A step leaves nothing to chance if it leaves that generator as it was, or where nothing is
        declared to be left to chance.
        """
        return self._drawn(False, state, action, count, generator)

    def draw_again(
        self, state: int, action: int, count: int, generator: np.random.Generator
    ) -> Counter[Outcome]:
        """Steps from a copy that was made when the state was met after another decision.

        What differs between the two, and the state's name leaves out, may show here.
        """
        return self._drawn(True, state, action, count, generator)[0]

    @caller_guard()
    def _drawn(
        self, again: bool, state: int, action: int, count: int, generator: np.random.Generator
    ) -> tuple[Counter[Outcome], bool]:
        seen: Counter[Outcome] = Counter()
        certain = True
        where = partial(in_state, state)
        for done in range(count):
            if done >= 2 and certain:
                break
            self._env = self._states.renewed(state, self._env, again=again)
            bare = self._env.unwrapped
            own = bit_generator(bare) if self.chance == FROM_GENERATOR else None
            if own is not None:
                # The environment may know its generator by several names, so it stays the same one.
                own.state = generator.bit_generator.state
            chance = self._states.chance(action)
            stepped = bare if self._is_plain else self._env
            observation, reward, terminated, cut, info = self._step(stepped, action, where)
            paid = self._payments.pay(reward, observation, info, where)
            came = None if cut else (state, action)
            after = END if terminated else self._number(observation, info, came)
            if own is not None:
                drew = own.state != generator.bit_generator.state if chance is None else chance
                certain &= not drew and own is bit_generator(bare)
                generator.bit_generator.state = own.state
            seen[Outcome(after, paid)] += 1
            if certain and len(seen) > 1:
                raise InvalidParameterError(
                    f"action {action} in state {state} drew nothing from np_random and had "
                    f"different outcomes, which chance={self.chance!r} excludes; declare "
                    f"chance='unknown', or give utilities that draw nothing"
                )
        return seen, certain

    def _number(self, observation: Any, info: Any, came: Came = None) -> int:
        return self._states.number(self._env, observation, info, came)
