"""Set up a measurement: the simulator of a world, its agent and its fitted utilities.

Tables can be simulated too, to compare sampled results with exact ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidUtilityError, require, shown, whole
from goalmeter._types import AnyArray, ArrayLike, BoolArray, FloatArray
from goalmeter.meg.simulator import continuous_worlds, protocol
from goalmeter.meg.simulator import gymnasium_worlds as environments
from goalmeter.meg.simulator.agents import SimulatorAgent, actor_of, actor_of_rows, table_actor
from goalmeter.meg.simulator.continuous_worlds import BoxSimulator
from goalmeter.meg.simulator.gymnasium_worlds import GymnasiumSimulator
from goalmeter.meg.simulator.protocol import Episodes, StepOutcome
from goalmeter.meg.simulator.result import SimulatorResult
from goalmeter.meg.simulator.states import FROM_GENERATOR, StateOf, chance_of
from goalmeter.meg.simulator.utilities import (
    NO_UTILITY,
    REWARD,
    FrozenUtility,
    LearntUtility,
    NamedUtilities,
    Range,
    Recorded,
    fitted_module,
    named_utilities,
    outputs,
    ranges_of,
)
from goalmeter.tabular.mdp import TabularMDP

# --- Tables --------------------------------------------------------------------------------------
_CHUNK = 64


class TabularSimulator:
    """Simulator of a `TabularMDP`: states are observed, transitions and payoffs are not."""

    # An absorbing state without payoffs of any utility ends an episode.

    name = "tabular world"
    chunk = _CHUNK
    returns_to_states = True
    why_not = ""
    reference = protocol.FREE_CHOICE
    why_unbounded = ""
    chance = FROM_GENERATOR
    # The states of a table do not depend on how they were reached.
    met_again: Collection[int] = ()

    def __init__(
        self,
        mdp: TabularMDP,
        *,
        seed: int = 0,
        utilities: Mapping[str, ArrayLike] | None = None,
        bounds: Mapping[str, Range] | None = None,
    ) -> None:
        named = {REWARD: mdp.reward} if utilities is None else dict(utilities)
        if not named:
            raise InvalidParameterError(NO_UTILITY)
        self._mdp, self._seed = mdp, seed
        # States of a table are only numbers, so there is nothing to compare.
        self.walked: Counter[tuple[int, int, StepOutcome]] = Counter()
        self._after, self._probability = mdp.transition.to_successors()
        self._paid = np.stack([self._array(name, array) for name, array in named.items()], axis=-1)
        low, high = self._paid.min(axis=(0, 1)), self._paid.max(axis=(0, 1))
        ranges = {name: Range(low[i], high[i]) for i, name in enumerate(named)}
        if unknown := [name for name in bounds or {} if name not in named]:
            raise InvalidParameterError(
                f"bounds are given for {unknown[0]!r}, expected one of {', '.join(named)}"
            )
        for name, given in (bounds or {}).items():
            if not (given.low <= ranges[name].low and ranges[name].high <= given.high):
                raise InvalidUtilityError(
                    f"the utility {name!r} pays {ranges[name].low:g} to {ranges[name].high:g}, "
                    f"outside its bounds ({given.low:g}, {given.high:g}); widen bounds="
                )
        self.utilities = NamedUtilities(dict.fromkeys(named), ranges | dict(bounds or {}))

    @property
    def n_actions(self) -> int:
        """Number of actions, A."""
        return self._mdp.n_actions

    @property
    def most_information(self) -> float:
        """Maximum relative entropy of a decision to free choice, in nats."""
        return math.log(self.n_actions)

    @property
    def n_states(self) -> int:
        """Number of states, S, including unreached ones."""
        return self._mdp.n_states

    def free_choice(self) -> SimulatorAgent:
        """Return the agent that takes every action with the same probability."""
        shape = (1, self.n_states, self.n_actions)
        return actor_of_rows(np.full(shape, 1.0 / self.n_actions), protocol.FREE_CHOICE)

    def play(self, actor: SimulatorAgent, horizon: int, number: int) -> Episodes:
        """Play a chunk of episodes at once; the agent must be a table."""
        if actor.table is None:
            raise InvalidParameterError(
                f"the agent of a tabular world must be a policy table, got {actor.name}"
            )
        rng = np.random.default_rng(protocol.seeded(self._seed, protocol.EPISODES, number))
        state = rng.choice(self.n_states, size=_CHUNK, p=self._mdp.initial)
        returns = np.zeros((_CHUNK, self._paid.shape[-1]))
        decisions, gained = np.zeros(_CHUNK, dtype=np.int64), np.zeros(_CHUNK)
        starts, going = state.copy(), ~self._ends[state]
        for t in range(horizon):
            rows = actor.table[min(t, len(actor.table) - 1), state]
            action = _drawn(np.cumsum(rows, axis=1), rng)
            returns += going[:, None] * self._paid[state, action]
            decisions += going
            gained += going * _information(rows)
            place = _drawn(self._cumulative[state, action], rng)
            state = self._after[state, action, place]
            going &= ~self._ends[state]
            if not going.any():
                break
        return Episodes(returns, decisions, gained, starts)

    @property
    def one_start(self) -> bool:
        """Whether every episode begins in the same state."""
        return bool((self._mdp.initial > 0).sum() == 1)

    def policy(self, actor: SimulatorAgent, horizon: int) -> FloatArray | None:
        """Return the agent's table, [T, S, A]."""
        return actor.table

    def remarks(self, actor: SimulatorAgent) -> list[str]:
        """Return no remarks: a table has no unverified assumptions."""
        return []

    def observed_range(self, which: int) -> tuple[float, float]:
        """Return the range of a utility's payoffs."""
        paid = self._paid[..., which]
        return float(paid.min()), float(paid.max())

    def draw(
        self, state: int, action: int, count: int, generator: np.random.Generator
    ) -> tuple[Counter[StepOutcome], bool]:
        """Sample steps from a state; also return whether the outcome is deterministic."""
        row = self._probability[state, action]
        certain = bool((row > 0).sum() == 1)
        times = generator.multinomial(2 if certain else count, row / row.sum())
        paid = tuple(self._paid[state, action].tolist())
        draws: Counter[StepOutcome] = Counter()
        for after, n in zip(self._after[state, action], times, strict=True):
            if n:
                state_after = protocol.END if self._ends[after] else int(after)
                draws[StepOutcome(state_after, paid)] += int(n)
        return draws, certain

    def draw_again(
        self, state: int, action: int, count: int, generator: np.random.Generator
    ) -> Counter[StepOutcome]:
        """Raise an error: this is never called, since `met_again` is empty."""
        raise NotImplementedError

    @cached_property
    def _cumulative(self) -> FloatArray:
        return np.asarray(np.cumsum(self._probability, axis=-1))

    @cached_property
    def _ends(self) -> BoolArray:
        """Mask of absorbing states without payoffs, [S]."""
        home = np.arange(self.n_states)[:, None, None]
        stays = ((self._after == home) | (self._probability == 0)).all(axis=(1, 2))
        return np.asarray(stays & (self._paid == 0).all(axis=(1, 2)))

    def _array(self, name: str, array: ArrayLike) -> FloatArray:
        try:
            values = np.asarray(array, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidUtilityError(
                f"the utility {name!r} is {shown(array)}, expected {REWARD!r} or an array of "
                f"numbers for each state, or for each state and action"
            ) from None
        shape = (self._mdp.n_states, self._mdp.n_actions)
        if values.shape not in (shape, shape[:1]) or not np.isfinite(values).all():
            raise InvalidUtilityError(
                f"the utility {name!r} has shape {list(values.shape)}, expected finite numbers "
                f"[{shape[0]}] or [{shape[0]}, {shape[1]}]"
            )
        return np.broadcast_to(values if values.ndim == 2 else values[:, None], shape)


# A world that can be run. Reached states are numbered from 0.
Simulator = TabularSimulator | GymnasiumSimulator


def _drawn(cumulative: FloatArray, rng: np.random.Generator) -> AnyArray:
    """Draw one index for each row of cumulative probabilities, [N]."""
    points = rng.random(len(cumulative))[:, None] * cumulative[:, -1:]
    return np.asarray((points >= cumulative).sum(axis=1))


def _information(rows: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(rows > 0, rows * np.log(rows), 0.0)
    return np.asarray(np.log(rows.shape[1]) + parts.sum(axis=1))


# --- Fitted utilities ---------------------------------------------------------------------------
# Share of the budget if a utility has no number of steps; maximum steps; minimum episodes.
_SHARE, _MOST, _LEAST_EPISODES = 0.3, 20_000, 8
# First episode numbers of the agent and of the reference, disjoint from those used for bounds.
_AGENT, _REFERENCE = 2**41, 2**42


@dataclass
class Recorder:
    """Utility that records the features of each step and pays 0."""

    learnt: Mapping[str, LearntUtility]
    space: Any
    rows: dict[str, list[AnyArray]] = field(default_factory=dict)

    def __call__(self, observation: Any, info: Any) -> float:
        """Record a step."""
        for name, utility in self.learnt.items():
            where = f"the utility {name!r}"
            features = utility.seen(observation, info, self.space, where)
            before = self.rows.setdefault(name, [])
            if before and before[0].shape != features.shape:
                raise InvalidUtilityError(
                    f"the features of {where} have shape {list(features.shape)} after "
                    f"{list(before[0].shape)}, expected the same shape at every step"
                )
            before.append(features)
        return 0.0

    def recorded(self, lengths: list[int]) -> dict[str, Recorded]:
        """Return the steps recorded since the last call, by name."""
        counts = np.array(lengths, dtype=np.int64)
        out = {name: Recorded(np.stack(rows), counts) for name, rows in self.rows.items()}
        self.rows.clear()
        return out


@dataclass(frozen=True)
class UtilityFits:
    """Utilities fitted before the measurement."""

    frozen: Mapping[str, FrozenUtility]
    episodes: tuple[int, int]
    steps: int
    reference: str

    def annotated(self, results: Mapping[str, SimulatorResult]) -> dict[str, SimulatorResult]:
        """Add the steps of the fit, and the fitted utilities, to results."""
        agent, reference = self.episodes
        note = (
            f"the utility was fitted to {agent:,} episodes of the agent and {reference:,} of "
            f"{self.reference}, and bounded on other episodes: the interval refers to the best "
            f"utility of its class"
        )
        out = {}
        for name, result in results.items():
            out[name] = replace(result, steps={**result.steps, "fit": self.steps})
            if name in self.frozen:
                out[name] = replace(
                    out[name],
                    notes=(*result.notes, note),
                    fitted_episodes=agent + reference,
                    utility_function=self.frozen[name],
                )
        return out


def learnt_of(utility: Any, bounds: Any) -> dict[str, LearntUtility]:
    """Return the utilities to be learnt, by name."""
    several = utility if isinstance(utility, Mapping) else {"learnt": utility}
    learnt = {name: each for name, each in several.items() if isinstance(each, LearntUtility)}
    given = bounds if isinstance(bounds, Mapping) else dict.fromkeys(several, bounds)
    if bounded := [name for name in learnt if given.get(name) is not None]:
        raise InvalidParameterError(
            f"bounds are given for {bounded[0]!r}, which is learnt and has its own bounds; give "
            f"bounds= by name for the other utilities only"
        )
    return learnt


def fits_of(
    learnt: Mapping[str, LearntUtility],
    world: Any,
    simulator_of: Callable[[NamedUtilities], Simulator],
    actor: SimulatorAgent,
    horizon: int,
    budget: int,
) -> UtilityFits:
    """Fit utilities to episodes of the agent and of its reference."""
    require("torch", extra="neural", feature="A learnt utility")
    recorder = Recorder(learnt, world.observation_space)
    simulator = simulator_of(NamedUtilities({" and ".join(map(str, learnt)): recorder}, {}))
    requested = [each.steps for each in learnt.values() if each.steps is not None]
    limit = max(requested, default=min(int(_SHARE * budget), _MOST))
    if limit > budget / 2:
        raise InvalidParameterError(
            f"steps of a learnt utility are {limit:,}, expected at most half of the budget, "
            f"{budget // 2:,}; the other half is needed for the bounds"
        )
    parts, lengths = [], []
    for player, first in ((actor, _AGENT), (simulator.free_choice(), _REFERENCE)):
        decided: list[int] = []
        while sum(decided) < limit / 2 or len(decided) < _LEAST_EPISODES:
            decided += simulator.play(player, horizon, first + len(decided)).decisions.tolist()
        parts.append(recorder.recorded(decided))
        lengths.append(decided)
    frozen = {}
    for name, each in learnt.items():
        mine, others = (part[name] for part in parts)
        known = None if simulator.returns_to_states else horizon
        module = fitted_module(each, mine, others, horizon=known, name=name)
        values = outputs(module, np.concatenate([mine.features, others.features]))
        factor = 1.0 / max(float(np.abs(values).max()), 1e-12)
        low, high = float(values.min()) * factor, float(values.max()) * factor
        frozen[name] = FrozenUtility(each, module, factor, low, high, world.observation_space, name)
    counts = len(lengths[0]), len(lengths[1])
    return UtilityFits(frozen, counts, sum(map(sum, lengths)), simulator.reference)


# --- Set-up -------------------------------------------------------------------------------------
_MOST_HORIZON = 10**6


@dataclass(frozen=True, kw_only=True)
class MeasurementRequest:
    """Arguments of `from_simulator`; see there."""

    utility: Any
    horizon: int | None
    budget: int
    seed: int
    state: str | StateOf | None
    bounds: Any
    reference: Any
    chance: str | None


class MeasurementSetup(NamedTuple):
    """Simulator, agent, horizon H, and fitted utilities."""

    simulator: Simulator
    actor: SimulatorAgent
    horizon: int
    fits: UtilityFits | None = None


def of_table(mdp: TabularMDP, agent: Any, request: MeasurementRequest) -> MeasurementSetup:
    """Set up a sampled table; its utilities are arrays."""
    utility, chance = request.utility, request.chance
    _no_reference(request.reference)
    if chance not in (None, FROM_GENERATOR):
        raise InvalidParameterError(
            f"chance is {chance!r}, but the transitions of a TabularMDP are always drawn from a "
            f"generator; omit chance="
        )
    if mdp.discount != 1.0:
        raise InvalidParameterError(
            f"the MDP has discount {mdp.discount:g}, but payoffs of a simulator are summed without "
            f"discount; use discount=1 and horizon=, or `meg.known_utility`"
        )
    if learnt_of(utility, None) or callable(utility):
        raise InvalidParameterError(
            "utility is a function or a LearntUtility, but a TabularMDP has no observations; pass "
            "an array [S] or [S, A], or several by name (combined=True finds their best "
            "combination)"
        )
    name = REWARD if isinstance(utility, str) else "utility"
    several = utility if isinstance(utility, Mapping) else {name: utility}
    arrays = {
        name: mdp.reward if isinstance(array, str) and array == REWARD else array
        for name, array in several.items()
    }
    steps = _horizon(request.horizon, mdp.horizon, "this MDP")
    bounds = ranges_of(arrays, request.bounds)
    simulator = TabularSimulator(mdp, seed=request.seed, utilities=arrays, bounds=bounds)
    actor = table_actor(agent, mdp.n_states, mdp.n_actions, steps)
    return MeasurementSetup(simulator, actor, steps)


def of_environment(
    env: Any, agent: Any, request: MeasurementRequest, closing: ExitStack
) -> MeasurementSetup:
    """Set up a Gymnasium environment; `closing` closes it if it was created here."""
    utility, bounds, seed = request.utility, request.bounds, request.seed
    world = environments.opened(env)
    if isinstance(env, (str, type)) or not hasattr(env, "step"):
        closing.callback(environments.closed, world)
    declared = chance_of(world, request.chance)
    learnt = learnt_of(utility, bounds)
    continuous = continuous_worlds.is_box(world.action_space)
    density = (
        continuous_worlds.reference_density(request.reference, world.action_space)
        if continuous
        else None
    )
    if density is None:
        _no_reference(request.reference)

    def simulator_of(named: NamedUtilities) -> GymnasiumSimulator:
        if density is not None:
            return BoxSimulator(world, named, seed=seed, reference=density, chance=declared)
        return GymnasiumSimulator(world, named, seed=seed, state=request.state, chance=declared)

    steps = _horizon(
        request.horizon, environments.time_limit(world), environments.world_name(world)
    )
    actor = (
        continuous_worlds.continuous_actor(agent) if continuous else actor_of(agent, world, steps)
    )
    if not learnt:
        return MeasurementSetup(simulator_of(named_utilities(utility, bounds)), actor, steps)
    fits = fits_of(learnt, world, simulator_of, actor, steps, request.budget)
    several = utility if isinstance(utility, Mapping) else {"learnt": utility}
    named = named_utilities({**several, **fits.frozen}, bounds)
    ranges = {name: each.range for name, each in fits.frozen.items()}
    named = NamedUtilities(named.functions, {**named.bounds, **ranges}, frozenset(fits.frozen))
    return MeasurementSetup(simulator_of(named), actor, steps, fits)


def _no_reference(reference: Any) -> None:
    if reference is not None:
        raise InvalidParameterError(
            f"reference is {reference!r}, but discrete actions are always compared with free "
            f"choice; omit reference="
        )


def _horizon(given: int | None, limit: int | None, world: str) -> int:
    if given is None:
        if limit is None:
            raise InvalidParameterError(
                f"{world} has no time limit, so the number of decisions is unknown; give horizon="
            )
        return limit
    horizon = whole(given, "horizon", least=1, most=_MOST_HORIZON)
    if limit is not None and horizon > limit:
        raise InvalidParameterError(
            f"horizon is {horizon}, but {world} truncates episodes after {limit} decisions; use a "
            f"horizon up to {limit}, or create the environment with a longer limit "
            f"(gymnasium.make(..., max_episode_steps={horizon}))"
        )
    return horizon
