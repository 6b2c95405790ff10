"""Estimate MEG in a simulator (`from_simulator`), and store measurements."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from goalmeter._errors import (
    MOST_SEED,
    IncompleteRunError,
    InvalidFileError,
    InvalidParameterError,
    finite,
    whole,
)
from goalmeter.meg.result import PESSIMISES
from goalmeter.meg.simulator.collection import INTERRUPT, Collection, collect
from goalmeter.meg.simulator.counts import Bootstrap, CountEstimate
from goalmeter.meg.simulator.environments import (
    GymnasiumSimulator,
    MeasurementRequest,
    MeasurementSetup,
    of_environment,
    of_table,
)
from goalmeter.meg.simulator.fitted import LEAST_EPISODES, Fitting
from goalmeter.meg.simulator.guarantee import (
    Ends,
    bounds_from_start,
    guaranteed_interval,
)
from goalmeter.meg.simulator.protocol import (
    Episodes,
    caller_guard,
    episodes_until,
    seeded_globals,
)
from goalmeter.meg.simulator.result import (
    JsonRecord,
    SimulatorInterrupted,
    SimulatorProgress,
    SimulatorResult,
    from_json_values,
    json_values,
)
from goalmeter.meg.simulator.states import StateOf
from goalmeter.meg.simulator.utilities import REWARD, LearntUtility, Range, Utility
from goalmeter.report.numbers import nats, percent
from goalmeter.statistics.verdicts import Verdict, verdict
from goalmeter.tabular.mdp import TabularMDP

# --- Public function -----------------------------------------------------------------------------
# Name of the best combination of all utilities in the results.
COMBINATION = "best combination"
_MOST_STEPS = 10**12
_LEAST_STEPS = 100  # fewer steps carry no information about any world

Results = SimulatorResult | dict[str, SimulatorResult]


def from_simulator(
    env: Any,
    agent: Any,
    *,
    utility: Utility | LearntUtility | Mapping[str, Utility | LearntUtility] = REWARD,
    combined: bool = False,
    horizon: int | None = None,
    budget: int = 200_000,
    level: float = 0.95,
    guarantee: bool = False,
    seed: int = 0,
    state: str | StateOf | None = None,
    bounds: Any = None,
    reference: Any = None,
    chance: str | None = None,
    progress: Callable[[SimulatorProgress], None] | bool | None = None,
) -> Results:
    """Estimate MEG of an agent in a simulator, with a confidence interval.

    A simulator has `reset` and `step`. MEG at rationality b is b times the return of the agent
    minus the soft value of the start. If states are named and recur, steps are counted by state and
    action, and MEG is that of the estimated table; its interval comes from resampled counts.
    Otherwise soft values are fitted to the steps and checked by fresh episodes; for continuous
    actions they are averaged over draws of a named reference. Without an estimate (see the notes of
    a result) the interval is a guaranteed one from episodes of the reference: its lower end is at
    most about the logarithm of their number, and no method without further knowledge of the world
    can do better (docs/mathematics.md).

    Args:
        env: a Gymnasium environment with discrete or continuous actions, its id, a function that
            creates one, a vector environment (one of its copies is used), or a `TabularMDP`.
        agent: a Stable-Baselines3 model, the name of an agent, a table over integer observations
            [S, A] or [H, S, A], a function of the observation that returns a distribution [A], an
            action or (for continuous actions) a `GaussianAnswer`, or an object whose
            `begin(generator)` returns such a function for an episode. The policy of an agent that
            returns only actions is estimated from them.
        utility: the payoff of each decision: "reward"; a function of the (observation, info) that
            `step` returned after the action; a `LearntUtility`; or several by name, measured on
            the same steps.
        combined: whether to measure MEG towards the best linear combination of the utilities as
            well, with the name "best combination" and its `weights`. Only if states are counted.
        horizon: number of decisions; by default, and at most, the environment's time limit.
        budget: total number of simulator steps; an episode in progress is completed.
        level: confidence level of each interval.
        guarantee: whether to add bounds that hold for any number of steps, jointly for all
            utilities (`result.guaranteed`).
        seed: random seed.
        state: which states are identical. None: by the kind of environment (goalmeter's grid
            worlds, Gymnasium's toy text, classic control and MuJoCo, MiniGrid). "observation": the
            observation determines the distribution of all that follows. Or a function of
            (observation, info) that returns a hashable key. The interval assumes that this is true.
        bounds: (low, high) of the payoff of one decision, or (low, high, least, most) with the
            bounds of the total payoff from any state on; by name for several utilities. Only the
            guarantee uses them; without them it assumes the observed range.
        reference: distribution with which continuous actions are compared: "uniform" over a bounded
            box, "gaussian(SCALE)" or "gaussian(SCALE,CENTRE)" for independent normals clipped to
            the box, or an object with `draw(generator)`, a `name`, and for an estimate
            `quantile(share)`, from the unit cube [..., k] to actions. There is no maximum then.
        chance: source of randomness of the environment, its wrappers and the utilities, which the
            interval assumes: "generator" (all draws use the environment's `np_random`, and `reset`
            uses its seed only for that), "none" (all episodes begin in one state), or "unknown"
            (episodes are independent; no state is restored). Default: "generator" for environments
            of Gymnasium and goalmeter, otherwise "unknown".
        progress: a callback for the current estimate; True for lines on standard error, False for
            none; by default lines if standard error is a terminal.

    Returns:
        A `SimulatorResult`; for several utilities a dictionary of them by name.

    Raises:
        SimulatorInterrupted: interrupted at the keyboard; `results` has the estimates so far.

    Source: MEG paper (NeurIPS 2024), Definition 3.2; estimators in docs/mathematics.md, "Worlds
    without a table".

    Example: a mouse that goes for the cheese with probability 0.8 (Example 1 of the paper).
        >>> to_cheese, to_nothing = [0, 1, 0], [0, 0, 1]
        >>> stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
        >>> mouse = TabularMDP([[to_cheese, to_nothing], *stay], [0, 1, -1], horizon=2)
        >>> result = from_simulator(mouse, [[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]])
        >>> print([round(end, 4) for end in result.interval])
        [0.1927, 0.1927]
    """
    budget = whole(budget, "budget", least=_LEAST_STEPS, most=_MOST_STEPS)
    seed = whole(seed, "seed", least=0, most=MOST_SEED)
    level = finite(level, "level", least=0.5, most=1 - 1e-9)
    tell = _listener(progress)
    with ExitStack() as closing:
        closing.enter_context(seeded_globals(seed))
        request = MeasurementRequest(
            utility=utility,
            horizon=horizon,
            budget=budget,
            seed=seed,
            state=state,
            bounds=bounds,
            reference=reference,
            chance=chance,
        )
        with caller_guard():
            if isinstance(env, TabularMDP):
                world = of_table(env, agent, request)
            else:
                world = of_environment(env, agent, request, closing)
            if combined and COMBINATION in world.simulator.utilities.names:
                raise InvalidParameterError(
                    f"a utility is named {COMBINATION!r}, which combined=True uses for the best "
                    f"combination of all; choose another name"
                )
            measurement = _SimulatorMeasurement(world, request, level, tell)
            results = measurement.run(combined, guarantee)
    if measurement.interrupted:
        raise SimulatorInterrupted(results)
    several = isinstance(utility, Mapping) or combined
    return results if several else next(iter(results.values()))


def _listener(
    progress: Callable[[SimulatorProgress], None] | bool | None,
) -> Callable[[SimulatorProgress], None]:
    if progress is None:
        progress = sys.stderr is not None and sys.stderr.isatty()
    if progress is False:
        return lambda now: None
    if progress is True:
        return lambda now: print(now, file=sys.stderr, flush=True)
    if not callable(progress):
        raise InvalidParameterError(
            f"progress is {progress!r}, expected a function of one argument, True or False"
        )
    return progress


# --- One measurement ------------------------------------------------------------------------------
_COUNTED = "MEG of the table estimated from counted steps; interval from resampled counts"
# What is known of every utility before there is an estimate.
_NOTHING = {
    "value": 0.0,
    "interval": None,
    "rationality": 0.0,
    "method": "none: interrupted before there was an estimate",
    "estimated": False,
    "stopped": INTERRUPT,
}
# Guaranteed bounds of each utility, and its range.
_Bounds = Sequence[tuple[Ends, Range]]
# Share of the steps for the agent where states are not counted; further steps for a guarantee where
# they are counted in episodes, as a share of the budget.
_AGENT_SHARE, _FREE_SHARE = 0.35, 0.3
_FREE = 2**40  # number of the first episode of free choice, so that no seed is shared


class _SimulatorMeasurement:
    """Measurement of all utilities of one world."""

    def __init__(
        self,
        world: MeasurementSetup,
        request: MeasurementRequest,
        level: float,
        tell: Callable[[SimulatorProgress], None],
    ) -> None:
        self._world, self._simulator = world, world.simulator
        self._names = world.simulator.utilities.names
        self._seed, self._level, self._tell = request.seed, level, tell
        self._error = 1.0 - level
        self._budget = request.budget
        if world.fits is not None:
            self._budget = max(self._budget - world.fits.steps, _LEAST_STEPS)
        self._notes: list[str] = []
        self._steps: dict[str, int] = {}  # besides those of the estimate
        self.interrupted = False

    def run(self, combined: bool, guarantee: bool) -> dict[str, SimulatorResult]:
        """Return the result of each utility by name."""
        simulator = self._simulator
        if simulator.names_states:
            if simulator.why_not:
                self._notes.append(f"steps are counted in episodes only: {simulator.why_not}")
            collection = collect(*self._world[:3], self._budget, self._seed, self._report)
            if collection.complete:
                return self._counted(collection, combined, guarantee)
            if collection.stopped == INTERRUPT:
                self.interrupted = True
                unknown = dict.fromkeys(self._names, _NOTHING)
                return self._results(collection.episodes, collection.steps, unknown)
            self._steps["states"] = spent = sum(collection.steps.values())
            self._budget = max(self._budget - spent, _LEAST_STEPS)
            self._notes = [
                f"more states are reachable than {self._budget:,} steps can count "
                f"({simulator.n_states:,} were reached), so they are not counted; a larger budget, "
                f"a shorter horizon, or a state= that merges more states can change that"
            ]
        else:
            self._notes.append(f"states are not counted: {simulator.why_not}")
        if combined:
            self._notes.append(
                "the best combination of utilities is measured only if states are counted"
            )
        if not (why_not := self._why_not_fitted()):
            return self._fitted(guarantee)
        self._notes.append(f"there is no estimate: {why_not}")
        return self._from_start()

    def _report(self, collection: Collection) -> None:
        """Report the current estimate of each utility, without resamples."""
        bootstrap = Bootstrap(collection.table, collection.agent(), self._seed, resamples=0)
        steps = sum(collection.steps.values())
        for name, direction in zip(self._names, np.eye(len(self._names)), strict=True):
            now = bootstrap.measure(direction[:, None], self._level)
            low = max(now.value - 2.0 * now.standard_error, 0.0)
            self._tell(SimulatorProgress(name, steps, now.value, low))

    # --- States that recur ------------------------------------------------------------------------
    def _counted(
        self, collection: Collection, combined: bool, guarantee: bool
    ) -> dict[str, SimulatorResult]:
        self.interrupted = collection.stopped == INTERRUPT
        each = np.eye(len(self._names))
        directions = {name: row[:, None] for name, row in zip(self._names, each, strict=True)}
        if combined:
            directions[COMBINATION] = each
        bootstrap = Bootstrap(collection.table, collection.agent(), self._seed, collection.length)
        estimates = {name: bootstrap.measure(one, self._level) for name, one in directions.items()}
        values = {name: self._of_counts(collection, name, x) for name, x in estimates.items()}
        for one in self._names:
            values[one]["differences"] = {
                other: estimates[one].minus(estimates[other], self._level)[1]
                for other in self._names
                if other != one
            }
        bounds = self._bounds_from_counts(collection) if guarantee else ()
        return self._results(collection.episodes, collection.steps, values, bounds)

    def _of_counts(
        self, collection: Collection, name: str, estimate: CountEstimate
    ) -> dict[str, Any]:
        """Return the fields of the result of one utility."""
        interval, notes = estimate.interval, self._simulator.remarks(self._world.actor)
        if (untried := max(estimate.untried)) > 0:
            who = "the agent" if estimate.untried[0] == untried else "the model"
            notes.append(
                f"{percent(untried)} of the decisions of {who} are in actions that were never "
                f"sampled, which are excluded"
                + ("; there is no interval, increase the budget" if interval is None else "")
            )
        if interval is not None and estimate.unseen > (interval[1] - interval[0]) / 2 > 0:
            notes.append(
                f"an outcome that was never sampled could change MEG by up to "
                f"{nats(estimate.unseen)} nats (rule of three), more than the interval includes"
            )
        weights = dict(zip(self._names, estimate.weights.tolist(), strict=True))
        return {
            "value": estimate.value,
            "interval": interval,
            "rationality": weights.get(name, 1.0),
            "method": _COUNTED,
            "steps_to_halve": math.ceil(estimate.steps_to_halve) or None if interval else None,
            "weights": weights if name == COMBINATION else None,
            "stopped": collection.stopped,
            "notes": notes,
        }

    def _bounds_from_counts(self, collection: Collection) -> _Bounds:
        """Return guaranteed bounds: the pilot and some episodes choose, all else bounds."""
        simulator = self._simulator
        if not simulator.returns_to_states:
            return self._bounds_from_start(collection.episodes)
        halves, ranges = collection.tables(), self._ranges()
        ends = [
            guaranteed_interval(
                halves,
                collection.episodes,
                ranges,
                collection.agent().policy,
                weights,
                one_start=simulator.one_start,
                level=1.0 - self._error / len(self._names),
            )
            for weights in np.eye(len(self._names))
        ]
        return [*zip(ends, ranges, strict=True)]

    # --- States that do not recur -----------------------------------------------------------------
    def _why_not_fitted(self) -> str:
        """Return why soft values cannot be fitted; "" if they can."""
        least = LEAST_EPISODES * self._world.horizon
        if not isinstance(self._simulator, GymnasiumSimulator):
            return "a table with so many states is measured exactly by meg.known_utility"
        reference = self._simulator.reference_density
        if not (reference.n_actions or reference.quantile):
            return "a reference of continuous actions needs a quantile function, as named ones have"
        if not self._simulator.environment.observation_space.is_np_flattenable:
            return "observations are not vectors of fixed length; wrap the environment"
        if self._budget < least:
            return f"soft values need a budget of at least {least:,} steps"
        return ""

    def _fitted(self, guarantee: bool) -> dict[str, SimulatorResult]:
        """Return estimates from fitted soft values."""
        world = self._world
        assert isinstance(world.simulator, GymnasiumSimulator), "see _why_not_fitted"
        fitting = Fitting(
            world.simulator, world.actor, world.horizon, self._budget, self._seed, self._level
        )

        def report(which: int, value: float, low: float) -> None:
            steps = sum(fitting.steps.values())
            self._tell(SimulatorProgress(self._names[which], steps, value, low))

        try:
            estimates = [vars(estimate) for estimate in fitting.estimates(report)]
        except KeyboardInterrupt:
            if not fitting.played:
                raise
            self.interrupted, guarantee = True, False
            estimates = [_NOTHING] * len(self._names)
        bounds = self._bounds_from_start(fitting.agent) if guarantee else ()
        values = dict(zip(self._names, estimates, strict=True))
        return self._results(fitting.agent, fitting.steps, values, bounds)

    def _from_start(self) -> dict[str, SimulatorResult]:
        """Return guaranteed bounds from episodes alone, without an estimate."""
        simulator, world = self._simulator, self._world
        if simulator.reference_density.why_unbounded:
            why = simulator.reference_density.why_unbounded
            self._notes.append(f"there is no upper bound: {why}")
        share = _AGENT_SHARE * self._budget
        agent = Episodes.of([*episodes_until(simulator, world.actor, world.horizon, share)])
        bounds = self._bounds_from_start(agent, 1 - _AGENT_SHARE)
        values = {
            name: {
                "value": bound.low,
                "interval": (bound.low, bound.high),
                "rationality": bound.rationality,
                "method": f"episodes of {simulator.reference} from the start",
                "estimated": False,
            }
            for name, (bound, _) in zip(self._names, bounds, strict=True)
        }
        return self._results(agent, {"agent": agent.steps}, values, bounds)

    def _bounds_from_start(self, agent: Episodes, share: float = _FREE_SHARE) -> _Bounds:
        """Return guaranteed bounds from episodes of the agent and of free choice."""
        simulator, horizon = self._simulator, self._world.horizon
        player, steps = simulator.free_choice(), share * self._budget
        free = Episodes.of([*episodes_until(simulator, player, horizon, steps, _FREE)])
        self._steps[simulator.reference] = free.steps
        most, ranges = simulator.reference_density.most_information, self._ranges(agent, free)
        ends = bounds_from_start(agent, free, ranges, most, horizon, self._error)
        return [*zip(ends, ranges, strict=True)]

    # --- Results ----------------------------------------------------------------------------------
    def _ranges(self, *episodes: Episodes) -> list[Range]:
        """Return the range of each utility; if none was given, that of payoffs or of returns."""
        out = []
        for i, name in enumerate(self._names):
            known = Range(*self._simulator.observed_range(i), assumed=True)
            if episodes:
                returns = np.concatenate([each.returns[:, i] for each in episodes])
                least, most = min(float(returns.min()), 0.0), max(float(returns.max()), 0.0)
                known = Range(least, most, least, most, assumed=True)
            out.append(self._simulator.utilities.bounds.get(name) or known)
        return out

    def _results(
        self,
        episodes: Episodes,
        steps: Mapping[str, int],
        values: Mapping[str, Mapping[str, Any]],
        bounds: _Bounds = (),
    ) -> dict[str, SimulatorResult]:
        """Return results of the agent's episodes; `values` are their other fields by utility."""
        simulator, fits, maximum = self._simulator, self._world.fits, None
        if simulator.n_actions:
            maximum = float(episodes.decisions.mean()) * math.log(simulator.n_actions)
        if fits is not None:
            self._steps["fit"] = fits.steps
        call, out = uuid4().hex, {}
        guaranteed = dict(zip(self._names, bounds, strict=False))  # not of the combination
        for name, given in values.items():
            is_learnt = name in simulator.utilities.learnt
            each, notes = dict(given), [*self._notes, *given.get("notes", ())]
            each["interval"] = each["interval"] or (0.0, math.inf if maximum is None else maximum)
            # A learnt utility has no natural sign.
            if each["value"] > 0 > each["rationality"] and not is_learnt:
                notes.append(PESSIMISES)
            if name in guaranteed:
                bound, known = guaranteed[name]
                # The upper bound of a learnt utility does not hold for the others of its class.
                high, by = (math.inf, "nothing") if is_learnt else (bound.high, bound.high_by)
                each["guaranteed"] = bound.low, high
                each["binding"] = {"lower": bound.low_by, "upper": by}
                each["rests_on_assumption"] = known.assumed
                notes += [known.in_words()] if known.assumed else []
            if fits is not None and name in fits.frozen:
                agent, reference = fits.episodes
                notes.append(
                    f"the utility was fitted to {agent:,} episodes of the agent and {reference:,} "
                    f"of {simulator.reference}, and measured on other episodes: MEG towards the "
                    f"best utility of its class is at least this"
                )
                each["fitted_episodes"] = agent + reference
                each["utility_function"] = fits.frozen[name]
            out[name] = SimulatorResult(
                utility=name,
                level=self._level,
                maximum=maximum,
                world=simulator.name,
                steps={**steps, **self._steps},
                episodes=len(episodes.decisions),
                reference=simulator.reference,
                chance=simulator.chance,
                measurement=call,
                **each | {"notes": tuple(notes)},
            )
        return out


# --- Measurement --------------------------------------------------------------------------------
# Kind of runs with a measurement, and key of their only trial.
KIND, KEY = "simulator", "measurement"


class Difference(NamedTuple):
    """Difference of the MEG towards two utilities."""

    towards: str
    than: str
    value: float
    interval: tuple[float, float]

    @property
    def verdict(self) -> Verdict:
        """Verdict on the difference, from its interval."""
        return verdict(self.interval, 0.0)

    def to_json(self) -> dict[str, Any]:
        """Return the fields and the verdict as JSON values."""
        return {**json_values(self._asdict()), "verdict": str(self.verdict)}


@dataclass(frozen=True)
class Measurement(JsonRecord):
    """Results of one call of `from_simulator`."""

    agent: str
    horizon: int
    budget: int
    seed: int
    utilities: tuple[SimulatorResult, ...]
    tightening: tuple[SimulatorProgress, ...] = ()

    @property
    def results(self) -> dict[str, SimulatorResult]:
        """Results by utility."""
        return {result.utility: result for result in self.utilities}

    @property
    def differences(self) -> list[Difference]:
        """Differences of all pairs of utilities in order, without the best combination."""
        plain = [result for result in self.utilities if result.utility != COMBINATION]
        return [
            Difference(one.utility, other.utility, *one.less(other))
            for one, other in combinations(plain, 2)
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the first result as JSON values, with all results and their differences."""
        differences = {"differences": json_values(self.differences)}
        return self.utilities[0].to_json() | super().to_json() | differences

    @classmethod
    def from_json(cls, values: Any, where: str) -> Measurement:
        """Read the output of `to_json`; `where` names the file in errors."""
        try:
            out: Measurement = from_json_values(cls, values)
            # The results belong to one call and to no other file.
            call, ends = uuid4().hex, ("lower", "upper")
            utilities = [
                replace(each, measurement=call, binding={end: each.binding[end] for end in ends})
                for each in out.utilities
            ]
            out = replace(out, utilities=tuple(utilities))
            # An edited file is refused here rather than while its page is rendered.
            out.to_json()
            return out
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as cause:
            raise InvalidFileError(
                f"{where} contains no measurement in a simulator "
                f"({type(cause).__name__}: {cause}); measure again into another folder"
            ) from cause


def load(run: str | Path) -> Measurement:
    """Read the stored run of a measurement."""
    from goalmeter.runs.reading import another_kind, read_run

    stored = read_run(run)
    if stored.what.get("kind") != KIND:
        raise another_kind(run, stored.what.get("kind"), KIND)
    if KEY not in stored.values:
        raise IncompleteRunError(run, stored.what, "1 of 1 measurements")
    return Measurement.from_json(stored.values[KEY], str(run))
