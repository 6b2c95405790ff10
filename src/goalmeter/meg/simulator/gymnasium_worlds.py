"""Gymnasium environments with discrete actions as simulators."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from goalmeter._errors import GoalmeterError, InvalidParameterError, in_a_line, shown
from goalmeter._types import FloatArray
from goalmeter.meg.simulator import agents, protocol
from goalmeter.meg.simulator.agents import SimulatorAgent
from goalmeter.meg.simulator.protocol import Episodes, StepOutcome
from goalmeter.meg.simulator.states import (
    FROM_GENERATOR,
    NO_CHANCE,
    UNDECLARED,
    Came,
    MetStates,
    StateOf,
    check_layers,
    layers,
    one_of,
)
from goalmeter.meg.simulator.utilities import NamedUtilities, Payments


# --- Environments -------------------------------------------------------------------------------
def opened(env: Any, **options: Any) -> Any:
    """Return the environment of an id, a factory, a vector environment or an environment."""
    if isinstance(env, str):
        from goalmeter._errors import require

        gymnasium = require("gymnasium", extra="rl", feature="An environment by its id")
        try:
            return gymnasium.make(env, **options)
        # Its own errors, and whatever an environment makes of options.
        except Exception as cause:
            raise InvalidParameterError(
                f"gymnasium cannot make {env!r}: {in_a_line(cause).rstrip('.')}; check the options "
                f"and the id, which is MODULE:ID for an environment of another package"
            ) from cause
    if isinstance(env, type):
        return opened(_made(env), **options)
    if hasattr(env, "step") and (hasattr(env, "envs") or hasattr(env, "num_envs")):
        return opened(one_of(env))
    if hasattr(env, "step") and hasattr(env, "reset"):
        if hasattr(env, "action_space") and _leads_to_bare(env):
            check_layers(env)
            return env
        raise InvalidParameterError(
            f"env is {env!r}, which has no action_space, no way through its wrappers, or is not "
            f"derived from gymnasium.Env; derive it from gymnasium.Env"
        )
    if callable(env):
        return opened(_made(env), **options)
    raise InvalidParameterError(
        f"env is {env!r}, expected a Gymnasium environment, its id, a function that makes one, or "
        f"a TabularMDP"
    )


def closed(env: Any) -> None:
    """Close what was made here; a failure of that changes nothing that was measured."""
    with suppress(Exception, SystemExit):
        env.close()


def _made(factory: Any) -> Any:
    """What a caller's function or class makes."""
    try:
        return factory()
    except GoalmeterError:
        raise
    except Exception as cause:
        raise InvalidParameterError(
            f"{getattr(factory, '__name__', 'the function')} made no environment: it raised "
            f"{in_a_line(cause)}; mend it, or give an environment"
        ) from cause


def _leads_to_bare(env: Any) -> bool:
    try:
        return bool(layers(env))
    except AttributeError:
        return False


def world_name(env: Any) -> str:
    """The id of an environment, or its class where it has none."""
    spec = getattr(env, "spec", None)
    return str(getattr(spec, "id", None) or type(env.unwrapped).__name__)


def time_limit(env: Any) -> int | None:
    """After how many steps an environment cuts episodes off; None where nothing says so."""
    limits = [getattr(layer, "_max_episode_steps", None) for layer in layers(env)]
    limits += [getattr(env.unwrapped, name, None) for name in ("max_steps", "max_episode_steps")]
    known = [int(limit) for limit in limits if limit]
    return min(known) if known else None


# --- Starts -------------------------------------------------------------------------------------
class Starts:
    """The starts of one environment."""

    def __init__(self, states: MetStates, chance: str) -> None:
        self._states, self._chance = states, chance
        self._drew = False
        # The generator's state after each reset, while it is the same after all of them.
        self._after: Any = None
        self._resets, self._alike = 0, True
        self._met: set[int] = set()

    def reset(self, env: Any, seed: int, episode: int) -> tuple[Any, Any]:
        """Begin an episode with a seed; note whether anything was drawn for it."""
        out = protocol.reset_of(env, seed, partial(protocol.at_reset, episode))
        if self._chance == FROM_GENERATOR:
            generator, fresh = bit_generator(env), np.random.PCG64(seed).state
            after = generator.state
            self._drew |= after != fresh
            self._alike &= self._resets == 0 or after == self._after
            self._after = after
            self._resets += 1
            if self._drew and self._alike and self._resets > 1:
                # A wrapper resets with one seed, and all episodes would meet the same chance.
                generator.state = fresh
        return out

    def note(self, state: int) -> None:
        """Note the state in which an episode began."""
        self._met.add(state)
        if self._chance == NO_CHANCE and len(self._met) > 1:
            raise InvalidParameterError(
                "episodes begin in different states, but chance='none' says that nothing is left "
                "to chance; declare chance='generator' or chance='unknown'"
            )

    @property
    def are_one(self) -> bool:
        """Whether every episode begins in the same state, as far as the declared chance says."""
        # Where the kind of environment does not know it: without chance, if no reset drew from the
        # generator, or if all resets left it in one state whatever their seed.
        known = self._states.one_start()
        if known is not None:
            return known
        fixed = not self._drew or (self._alike and self._resets > 1)
        return len(self._met) == 1 and (self._chance == NO_CHANCE or fixed)

    def remarks(self) -> list[str]:
        """What a reader has to know of the starts."""
        if self._states.why_not or len(self._met) != 1 or self.are_one:
            return []
        return [
            "all episodes began in one state, but others may be drawn, so starts count as "
            "drawn, which costs width"
        ]


def bit_generator(env: Any) -> Any:
    """What Gymnasium's generator of an environment draws from."""
    out = getattr(env.unwrapped.np_random, "bit_generator", None)
    if not isinstance(out, np.random.PCG64):
        raise InvalidParameterError(
            f"the environment's np_random is {shown(env.unwrapped.np_random)}, expected the "
            f"numpy.random.Generator that Gymnasium's reset makes; declare chance='unknown'"
        )
    return out


# --- Answers by state ---------------------------------------------------------------------------
# How often a caller's function is asked about each state, and by how much its answers may differ.
_ASKED, _ALIKE = 3, 1e-6


class AnswersByState:
    """What one agent answers in the states of one environment."""

    def __init__(self, states: MetStates, n_actions: int, first: int) -> None:
        self._states, self._n_actions, self._first = states, n_actions, first
        self._rows: dict[int, FloatArray] = {}
        # At each decision in each state, [T, S, A], T = 1 unless the decision's number matters.
        self.table: FloatArray | None = None
        self.differ = False

    def compare(self, state: int, row: FloatArray) -> None:
        """Note if a caller's function gave another distribution, [A], in the same state before."""
        first = self._rows.setdefault(state, row)
        self.differ |= bool((np.abs(first - row) > _ALIKE).any())

    def remarks(self, actor: SimulatorAgent) -> list[str]:
        """What a reader has to know of the agent's answers."""
        if self.differ:
            return [
                f"{actor.name} answered the same state with different distributions, so what it "
                f"collects is bounded by its episodes and not computed"
            ]
        if self._states.observations_differ:
            return [
                "the same state showed different observations, so what the agent collects is "
                "bounded by its episodes and not computed"
            ]
        if self.table is not None and not actor.is_function:
            return [
                f"what {actor.name} collects was computed from its answers: this rests on its "
                f"answering an observation always alike, as it did whenever it was asked"
            ]
        return []

    def ask(self, actor: SimulatorAgent, horizon: int) -> FloatArray | None:
        """The table of what an agent without memory answers in every state; None if it has none."""
        times = range(horizon) if actor.timed else range(1)
        rows = np.zeros((len(times), len(self._states), self._n_actions))
        for state, observation in enumerate(self._states.observations):
            # A walker of our worlds looks at the state, not at the observation.
            self._states.put_back(state)
            where = partial(protocol.in_state, state)
            answer = protocol.begin_of(actor, np.random.default_rng(0), where)
            for t in times:
                for _ in range(1 if actor.is_function else _ASKED):
                    # An agent may change in place what it is shown.
                    shown = copy.deepcopy(observation)
                    answered = protocol.answer_of(answer, shown, t, actor.name, where)
                    row = agents.told(answered, self._n_actions, actor.name, self._first)[1]
                    if row is None:
                        return None
                    if not actor.is_function:
                        self.compare(state, row)
                if self.differ:
                    return None
                rows[t, state] = row
        return rows


# --- Gymnasium simulator ------------------------------------------------------------------------
# Wrappers that only count and check, and are left out of single steps.
_COUNTING = frozenset({"TimeLimit", "OrderEnforcing", "PassiveEnvChecker"})
_SEEDS = 2**31  # seeds that Gymnasium takes
_MOST_ACTIONS = 10**6  # each decision of free choice has a row of them


class GymnasiumSimulator:
    """One environment, stepped one step at a time."""

    chunk = 1
    reference = protocol.FREE_CHOICE
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
        self._first = agents.first_of(env.action_space)
        self.name = world_name(env)
        self.chance = chance
        self._states = MetStates(env, state, chance)
        self.why_not = self._states.why_not
        self._starts = Starts(self._states, chance)
        self._answers = AnswersByState(self._states, self.n_actions, self._first)
        self._payments = Payments(utilities)
        self.walked: Counter[tuple[int, int, StepOutcome]] = Counter()
        self._is_plain = all(type(layer).__name__ in _COUNTING for layer in layers(env)[:-1])

    def _count_actions(self, space: Any) -> int:
        count = agents.count_of(space)
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
        """The action to take, the nats by which its choice differs from free choice, its row."""
        action, row = agents.chosen(answer, self.n_actions, generator, name, self._first)
        return action, agents.information(row, self.n_actions), row

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

    def free_choice(self) -> SimulatorAgent:
        """Every action with the same probability."""
        row = np.full(self.n_actions, 1.0 / self.n_actions)
        return agents.actor_of_function(
            lambda observation: row, protocol.FREE_CHOICE, is_function=True
        )

    @protocol.caller_guard()
    def play(self, actor: SimulatorAgent, horizon: int, number: int) -> Episodes:
        """One episode: `reset` with a seed of its own, and steps until the end or the horizon."""
        generator = np.random.default_rng(protocol.seeded(self._seed, protocol.CHOICES, number))
        seed = int(
            protocol.seeded(self._seed, protocol.EPISODES, number).generate_state(1)[0] % _SEEDS
        )
        observation, info = self._starts.reset(self._env, seed, number)
        start = here = (
            self._number(observation, info) if self.returns_to_states else protocol.UNKNOWN
        )
        self._starts.note(start)
        answer = protocol.begin_of(actor, generator, partial(protocol.at_reset, number))
        total, gained, decisions = np.zeros(len(self.utilities.names)), 0.0, 0
        for t in range(horizon):
            where = partial(protocol.at_decision, t, number)
            answered = protocol.answer_of(answer, observation, t, actor.name, where)
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
                after = protocol.END if terminated else self._number(observation, info, came)
                self.walked[here, action, StepOutcome(after, paid)] += 1
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
        return protocol.step_of(env, action + self._first, where)

    @property
    def one_start(self) -> bool:
        """Whether every episode begins in the same state, with certainty; see `Starts`."""
        return self._starts.are_one

    @protocol.caller_guard()
    def policy(self, actor: SimulatorAgent, horizon: int) -> FloatArray | None:
        """The agent's distribution in each state met, [1, S, A]; None if not one of each."""
        if actor.remembers or self._answers.differ or self._states.observations_differ:
            return None
        # An observation that a caller's function makes may differ from visit to visit.
        if any(type(layer).__name__ == "TransformObservation" for layer in layers(self._env)):
            return None
        table = self._answers.table
        if table is None or table.shape[1] != self.n_states:
            self._answers.table = self._answers.ask(actor, horizon)
        return self._answers.table

    def remarks(self, actor: SimulatorAgent) -> list[str]:
        """What a reader of a measurement by states has to know of the agent and the starts."""
        return [*self._answers.remarks(actor), *self._starts.remarks()]

    def seen(self, which: int) -> tuple[float, float]:
        """The extremes of what was paid."""
        return self._payments.extremes(which)

    def draw(
        self, state: int, action: int, count: int, generator: np.random.Generator
    ) -> tuple[Counter[StepOutcome], bool]:
        """Steps from a state, drawn by a generator of their own."""
        # One that leaves that generator as it was, or where no chance is declared, is certain.
        return self._drawn(False, state, action, count, generator)

    def draw_again(
        self, state: int, action: int, count: int, generator: np.random.Generator
    ) -> Counter[StepOutcome]:
        """Steps from a copy made after another decision, to show what a state's name omits."""
        return self._drawn(True, state, action, count, generator)[0]

    @protocol.caller_guard()
    def _drawn(
        self, again: bool, state: int, action: int, count: int, generator: np.random.Generator
    ) -> tuple[Counter[StepOutcome], bool]:
        seen: Counter[StepOutcome] = Counter()
        certain = True
        where = partial(protocol.in_state, state)
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
            after = protocol.END if terminated else self._number(observation, info, came)
            if own is not None:
                drew = own.state != generator.bit_generator.state if chance is None else chance
                certain &= not drew and own is bit_generator(bare)
                generator.bit_generator.state = own.state
            seen[StepOutcome(after, paid)] += 1
            if certain and len(seen) > 1:
                raise InvalidParameterError(
                    f"action {action} in state {state} drew nothing from np_random and had "
                    f"different outcomes, which chance={self.chance!r} excludes; declare "
                    f"chance='unknown', or give utilities that draw nothing"
                )
        return seen, certain

    def _number(self, observation: Any, info: Any, came: Came = None) -> int:
        return self._states.number(self._env, observation, info, came)
