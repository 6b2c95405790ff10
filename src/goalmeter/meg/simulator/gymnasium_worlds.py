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
    MetStates,
    Origin,
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
        # Environments raise various exceptions for options.
        except Exception as cause:
            raise InvalidParameterError(
                f"gymnasium cannot make {env!r}: {in_a_line(cause).rstrip('.')}; check the options "
                f"and the id (MODULE:ID for an environment of another package)"
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
            f"env is {env!r}, which has no action_space or no accessible inner environment, or is "
            f"not derived from gymnasium.Env; derive it from gymnasium.Env"
        )
    if callable(env):
        return opened(_made(env), **options)
    raise InvalidParameterError(
        f"env is {env!r}, expected a Gymnasium environment, its id, a function that creates one, "
        f"or a TabularMDP"
    )


def closed(env: Any) -> None:
    """Close an environment; ignore failures, which do not affect the measurement."""
    with suppress(Exception, SystemExit):
        env.close()


def _made(factory: Any) -> Any:
    """Call a caller's function or class that creates an environment."""
    try:
        return factory()
    except GoalmeterError:
        raise
    except Exception as cause:
        raise InvalidParameterError(
            f"{getattr(factory, '__name__', 'the function')} created no environment: it raised "
            f"{in_a_line(cause)}; fix it, or pass an environment"
        ) from cause


def _leads_to_bare(env: Any) -> bool:
    try:
        return bool(layers(env))
    except AttributeError:
        return False


def world_name(env: Any) -> str:
    """Return the id of an environment, or its class name if it has none."""
    spec = getattr(env, "spec", None)
    return str(getattr(spec, "id", None) or type(env.unwrapped).__name__)


def time_limit(env: Any) -> int | None:
    """Return the number of steps after which episodes are truncated; None if unknown."""
    limits = [getattr(layer, "_max_episode_steps", None) for layer in layers(env)]
    limits += [getattr(env.unwrapped, name, None) for name in ("max_steps", "max_episode_steps")]
    known = [int(limit) for limit in limits if limit]
    return min(known) if known else None


# --- Starts -------------------------------------------------------------------------------------
class Starts:
    """Start states of one environment."""

    def __init__(self, states: MetStates, chance: str) -> None:
        self._states, self._chance = states, chance
        self._drew = False
        # State of the generator after the last reset.
        self._after: Any = None
        self._resets, self._alike = 0, True
        self._met: set[int] = set()

    def reset(self, env: Any, seed: int, episode: int) -> tuple[Any, Any]:
        """Reset with a seed, and record whether the reset drew from the generator."""
        out = protocol.reset_of(env, seed, partial(protocol.at_reset, episode))
        if self._chance == FROM_GENERATOR:
            generator, fresh = bit_generator(env), np.random.PCG64(seed).state
            after = generator.state
            self._drew |= after != fresh
            self._alike &= self._resets == 0 or after == self._after
            self._after = after
            self._resets += 1
            if self._drew and self._alike and self._resets > 1:
                # A wrapper resets with a fixed seed, so all episodes would have the same draws.
                generator.state = fresh
        return out

    def note(self, state: int) -> None:
        """Record the state in which an episode began."""
        self._met.add(state)
        if self._chance == NO_CHANCE and len(self._met) > 1:
            raise InvalidParameterError(
                "episodes begin in different states, but chance='none' declares a deterministic "
                "world; declare chance='generator' or chance='unknown'"
            )

    @property
    def are_one(self) -> bool:
        """Whether every episode begins in the same state, given the declared chance."""
        # If the kind of environment does not determine it: with chance "none", if no reset drew
        # from the generator, or if all resets left it in the same state for all seeds.
        known = self._states.one_start()
        if known is not None:
            return known
        fixed = not self._drew or (self._alike and self._resets > 1)
        return len(self._met) == 1 and (self._chance == NO_CHANCE or fixed)

    def remarks(self) -> list[str]:
        """Return remarks on the starts for a reader."""
        if self._states.why_not or len(self._met) != 1 or self.are_one:
            return []
        return [
            "all episodes began in one state, but others are possible, so starts are treated as "
            "random, which widens the interval"
        ]


def bit_generator(env: Any) -> Any:
    """Return the bit generator of an environment's Gymnasium generator."""
    out = getattr(env.unwrapped.np_random, "bit_generator", None)
    if not isinstance(out, np.random.PCG64):
        raise InvalidParameterError(
            f"the environment's np_random is {shown(env.unwrapped.np_random)}, expected the "
            f"numpy.random.Generator that Gymnasium's reset creates; declare chance='unknown'"
        )
    return out


# --- Answers by state ---------------------------------------------------------------------------
# Number of calls of a caller's function for each state, and tolerance of its answers.
_CALLS, _ALIKE = 3, 1e-6


class AnswersByState:
    """Answers of one agent in the states of one environment."""

    def __init__(self, states: MetStates, n_actions: int, first: int) -> None:
        self._states, self._n_actions, self._first = states, n_actions, first
        self._rows: dict[int, FloatArray] = {}
        # Answers by decision and state, [T, S, A]; T = 1 unless the decision's number matters.
        self.table: FloatArray | None = None
        self.differ = False

    def compare(self, state: int, row: FloatArray) -> None:
        """Record whether a caller's function returned another distribution, [A], for the state."""
        first = self._rows.setdefault(state, row)
        self.differ |= bool((np.abs(first - row) > _ALIKE).any())

    def remarks(self, actor: SimulatorAgent) -> list[str]:
        """Return remarks on the agent's answers for a reader."""
        if self.differ:
            return [
                f"{actor.name} answered the same state with different distributions, so its return "
                f"is bounded by its episodes and not computed"
            ]
        if self._states.observations_differ:
            return [
                "the same state had different observations, so the return of the agent is bounded "
                "by its episodes and not computed"
            ]
        if self.table is not None and not actor.is_function:
            return [
                f"the return of {actor.name} was computed from its answers, assuming that equal "
                f"observations always get equal answers, as they did in all calls"
            ]
        return []

    def ask(self, actor: SimulatorAgent, horizon: int) -> FloatArray | None:
        """Return the answers of an agent without memory in all states; None if there are none."""
        times = range(horizon) if actor.timed else range(1)
        rows = np.zeros((len(times), len(self._states), self._n_actions))
        for state, observation in enumerate(self._states.observations):
            # Navigators in goalmeter's worlds read the state, not the observation.
            self._states.put_back(state)
            where = partial(protocol.in_state, state)
            answer = protocol.begin_of(actor, np.random.default_rng(0), where)
            for t in times:
                for _ in range(1 if actor.is_function else _CALLS):
                    # An agent may change the observation in place.
                    shown = copy.deepcopy(observation)
                    answered = protocol.answer_of(answer, shown, t, actor.name, where)
                    row = agents.parse_answer(answered, self._n_actions, actor.name, self._first)[1]
                    if row is None:
                        return None
                    if not actor.is_function:
                        self.compare(state, row)
                if self.differ:
                    return None
                rows[t, state] = row
        return rows


# --- Gymnasium simulator ------------------------------------------------------------------------
# Wrappers that only count and check; single steps bypass them.
_COUNTING = frozenset({"TimeLimit", "OrderEnforcing", "PassiveEnvChecker"})
_SEEDS = 2**31  # number of seeds that Gymnasium accepts
_MOST_ACTIONS = 10**6  # each decision of free choice has a row of this length


class GymnasiumSimulator:
    """Simulator of one environment with discrete actions."""

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
        # Actions are numbered from 0 here, whatever the environment's first action is.
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
                f"the environment has action space {space}, expected Discrete(n) or a Box of real "
                f"numbers; wrap it to have one of them (gymnasium.wrappers.TransformAction)"
            )
        if count > _MOST_ACTIONS:
            raise InvalidParameterError(
                f"the environment has {count:,} actions, expected at most {_MOST_ACTIONS:,}; "
                f"exclude some with a wrapper (gymnasium.wrappers.TransformAction)"
            )
        return count

    def _decide(
        self, answer: Any, generator: np.random.Generator, name: str
    ) -> tuple[Any, float, FloatArray | None]:
        """Return the action, its relative entropy to free choice in nats, and its row."""
        action, row = agents.choose_action(answer, self.n_actions, generator, name, self._first)
        return action, agents.information(row, self.n_actions), row

    @property
    def most_information(self) -> float:
        """Maximum relative entropy of a decision to free choice, in nats."""
        return math.log(self.n_actions)

    @property
    def n_states(self) -> int:
        """Number of states reached so far."""
        return len(self._states)

    @property
    def met_again(self) -> Collection[int]:
        """States with a second copy, saved when they were reached by another decision."""
        return self._states.met_again

    @property
    def returns_to_states(self) -> bool:
        """Whether states can be restored and identified."""
        return not self.why_not

    def free_choice(self) -> SimulatorAgent:
        """Return the agent that takes every action with the same probability."""
        row = np.full(self.n_actions, 1.0 / self.n_actions)
        return agents.actor_of_function(
            lambda observation: row, protocol.FREE_CHOICE, is_function=True
        )

    @protocol.caller_guard()
    def play(self, actor: SimulatorAgent, horizon: int, number: int) -> Episodes:
        """Play one episode with its own seed until its end or the horizon."""
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
                origin = None if truncated else (here, action)
                after = protocol.END if terminated else self._number(observation, info, origin)
                self.walked[here, action, StepOutcome(after, paid)] += 1
                here = after
            if terminated:
                break
            if truncated and t + 1 < horizon:
                raise InvalidParameterError(
                    f"the environment truncated episode {number} after {t + 1} decisions, but the "
                    f"horizon is {horizon}; use horizon={t + 1}, or create the environment without "
                    f"its time limit"
                )
        self._payments.check_total(total, number)
        return Episodes(total[None], np.array([decisions]), np.array([gained]), np.array([start]))

    def _step(self, env: Any, action: Any, where: Callable[[], str]) -> Any:
        return protocol.step_of(env, action + self._first, where)

    @property
    def one_start(self) -> bool:
        """Whether every episode is known to begin in the same state (see `Starts`)."""
        return self._starts.are_one

    @protocol.caller_guard()
    def policy(self, actor: SimulatorAgent, horizon: int) -> FloatArray | None:
        """Return the agent's distribution in each state, [T, S, A]; None if it is not unique."""
        if actor.remembers or self._answers.differ or self._states.observations_differ:
            return None
        # An observation transformed by a caller's function may differ between visits.
        if any(type(layer).__name__ == "TransformObservation" for layer in layers(self._env)):
            return None
        table = self._answers.table
        if table is None or table.shape[1] != self.n_states:
            self._answers.table = self._answers.ask(actor, horizon)
        return self._answers.table

    def remarks(self, actor: SimulatorAgent) -> list[str]:
        """Return remarks on the agent and the starts for a reader."""
        return [*self._answers.remarks(actor), *self._starts.remarks()]

    def observed_range(self, which: int) -> tuple[float, float]:
        """Return the observed range of a utility's payoffs."""
        return self._payments.extremes(which)

    def draw(
        self, state: int, action: int, count: int, generator: np.random.Generator
    ) -> tuple[Counter[StepOutcome], bool]:
        """Sample steps from a state; also return whether the outcome is deterministic."""
        # A step is deterministic if it leaves the generator unchanged or chance is "none".
        return self._drawn(False, state, action, count, generator)

    def draw_again(
        self, state: int, action: int, count: int, generator: np.random.Generator
    ) -> Counter[StepOutcome]:
        """Sample steps from a copy saved after another decision, to detect incomplete keys."""
        return self._drawn(True, state, action, count, generator)[0]

    @protocol.caller_guard()
    def _drawn(
        self, again: bool, state: int, action: int, count: int, generator: np.random.Generator
    ) -> tuple[Counter[StepOutcome], bool]:
        outcomes: Counter[StepOutcome] = Counter()
        certain = True
        where = partial(protocol.in_state, state)
        for done in range(count):
            if done >= 2 and certain:
                break
            self._env = self._states.renewed(state, self._env, again=again)
            bare = self._env.unwrapped
            own = bit_generator(bare) if self.chance == FROM_GENERATOR else None
            if own is not None:
                # The environment may have several references to its generator: keep the object.
                own.state = generator.bit_generator.state
            chance = self._states.chance(action)
            stepped = bare if self._is_plain else self._env
            observation, reward, terminated, cut, info = self._step(stepped, action, where)
            paid = self._payments.pay(reward, observation, info, where)
            origin = None if cut else (state, action)
            after = protocol.END if terminated else self._number(observation, info, origin)
            if own is not None:
                drew = own.state != generator.bit_generator.state if chance is None else chance
                certain &= not drew and own is bit_generator(bare)
                generator.bit_generator.state = own.state
            outcomes[StepOutcome(after, paid)] += 1
            if certain and len(outcomes) > 1:
                raise InvalidParameterError(
                    f"action {action} in state {state} did not draw from np_random but had "
                    f"different outcomes, which chance={self.chance!r} excludes; declare "
                    f"chance='unknown', or use deterministic utilities"
                )
        return outcomes, certain

    def _number(self, observation: Any, info: Any, origin: Origin = None) -> int:
        return self._states.number(self._env, observation, info, origin)
