"""Estimate MEG in a simulator (`from_simulator`), and store measurements."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints
from uuid import uuid4

import numpy as np

from goalmeter._errors import (
    MOST_SEED,
    IncompleteRunError,
    InvalidFileError,
    InvalidParameterError,
    finite,
    shown,
    whole,
)
from goalmeter.meg.result import PESSIMISES, json_number
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
from goalmeter.meg.simulator.result import SimulatorInterrupted, SimulatorProgress, SimulatorResult
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
    Otherwise soft values are fitted to the steps and checked by fresh episodes. For continuous
    actions there is no estimate; the interval is a guaranteed one from episodes of the reference:
    its lower end is at most about the logarithm of their number, and no method without further
    knowledge of the world can do better (docs/mathematics.md).

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
            the box, or an object with `draw(generator)` and a `name`. There is no maximum then.
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
            left = budget if world.fits is None else max(budget - world.fits.steps, _LEAST_STEPS)
            measurement = _SimulatorMeasurement(world, left, level, seed, tell)
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
# Share of the steps for the agent where states are not counted; further steps for a guarantee where
# they are counted in episodes, as a share of the budget.
_AGENT_SHARE, _FREE_SHARE = 0.35, 0.3
_FREE = 2**40  # number of the first episode of free choice, so that no seed is shared


class _SimulatorMeasurement:
    """Measurement of all utilities of one world."""

    def __init__(
        self,
        world: MeasurementSetup,
        budget: int,
        level: float,
        seed: int,
        tell: Callable[[SimulatorProgress], None],
    ) -> None:
        self._world, self._simulator = world, world.simulator
        self._budget, self._level, self._seed, self._tell = budget, level, seed, tell
        self._names = self._simulator.utilities.names
        self._notes: list[str] = []
        self._steps: dict[str, int] = {}
        self._measurement = uuid4().hex
        self.interrupted = False

    def run(self, combined: bool, guarantee: bool) -> dict[str, SimulatorResult]:
        """Return the result of each utility by name."""
        collection = None
        if self._simulator.names_states:
            if self._simulator.why_not:
                self._notes.append(f"steps are counted in episodes only: {self._simulator.why_not}")
            collection = collect(*self._world[:3], self._budget, self._seed, self._report)
            if not collection.complete and collection.stopped == INTERRUPT:
                return self._annotated(self._interrupted(collection.episodes, collection.steps))
            if not collection.complete:
                spent = sum(collection.steps.values())
                self._steps["states"] = spent
                self._budget = max(self._budget - spent, _LEAST_STEPS)
                self._notes = [
                    f"more states are reachable than {self._budget:,} steps can count "
                    f"({self._simulator.n_states:,} were reached), so they are not counted; a "
                    f"larger budget, a shorter horizon, or a state= that merges more states can "
                    f"change that"
                ]
        else:
            self._notes.append(f"states are not counted: {self._simulator.why_not}")
        if collection is not None and collection.complete:
            results = self._counted(collection, combined, guarantee)
        else:
            if combined:
                self._notes.append(
                    "the best combination of utilities is measured only if states are counted"
                )
            why_not = self._why_not_fitted()
            if why_not:
                self._notes.append(f"there is no estimate: {why_not}")
            results = self._from_start() if why_not else self._fitted(guarantee)
        return self._annotated(results)

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
        each, agent = np.eye(len(self._names)), collection.agent()
        directions = {name: row[:, None] for name, row in zip(self._names, each, strict=True)}
        if combined:
            directions[COMBINATION] = each
        bootstrap = Bootstrap(collection.table, agent, self._seed, collection.length)
        estimates = {name: bootstrap.measure(one, self._level) for name, one in directions.items()}
        out = {name: self._of_counts(collection, name, one) for name, one in estimates.items()}
        for one in self._names:
            differences = {
                other: estimates[one].minus(estimates[other], self._level)[1]
                for other in self._names
                if other != one
            }
            out[one] = replace(out[one], differences=differences)
        if guarantee:
            out |= self._guaranteed(out, *self._bounds_from_counts(collection))
        return out

    def _bounds_from_counts(self, collection: Collection) -> tuple[list[Ends], list[Range]]:
        """Return guaranteed bounds: the pilot and some episodes choose, all else bounds."""
        simulator = self._simulator
        if not simulator.returns_to_states:
            return self._bounds_from_start(collection.episodes, _FREE_SHARE * self._budget)
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
        return ends, ranges

    def _bounds_from_start(self, agent: Episodes, steps: float) -> tuple[list[Ends], list[Range]]:
        """Return guaranteed bounds from episodes of the agent and of free choice, and ranges."""
        simulator, horizon = self._simulator, self._world.horizon
        free = Episodes.of(
            [*episodes_until(simulator, simulator.free_choice(), horizon, steps, _FREE)]
        )
        self._steps[simulator.reference] = free.steps
        most, ranges = simulator.reference_density.most_information, self._ranges(agent, free)
        return bounds_from_start(agent, free, ranges, most, horizon, self._error), ranges

    def _of_counts(
        self, collection: Collection, name: str, estimate: CountEstimate
    ) -> SimulatorResult:
        interval, notes = estimate.interval, self._simulator.remarks(self._world.actor)
        untried = max(estimate.untried)
        who = "the agent" if estimate.untried[0] == untried else "the model"
        if untried > 0:
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
        known, weights = estimate.weights, None
        if name == COMBINATION:
            weights = {n: float(w) for n, w in zip(self._names, known, strict=True)}
        return self._result(
            name,
            collection.episodes,
            value=estimate.value,
            interval=interval,
            rationality=1.0 if weights else float(known[self._names.index(name)]),
            method=_COUNTED,
            steps=dict(collection.steps),
            steps_to_halve=math.ceil(estimate.steps_to_halve) or None if interval else None,
            stopped=collection.stopped,
            weights=weights,
            notes=tuple(notes),
        )

    # --- States that do not recur -----------------------------------------------------------------
    def _why_not_fitted(self) -> str:
        """Return why soft values cannot be fitted; "" if they can."""
        least = LEAST_EPISODES * self._world.horizon
        if not isinstance(self._simulator, GymnasiumSimulator):
            return "a table with so many states is measured exactly by meg.known_utility"
        if not self._simulator.n_actions:
            return "soft values are fitted only for discrete actions"
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
            estimates = fitting.estimates(report)
        except KeyboardInterrupt:
            if not fitting.played:
                raise
            return self._interrupted(fitting.agent, fitting.steps)
        out = {
            name: self._result(
                name,
                fitting.agent,
                value=each.value,
                interval=each.interval,
                rationality=each.rationality,
                method=each.method,
                steps=dict(fitting.steps),
                steps_to_halve=each.steps_to_halve,
                notes=each.notes,
            )
            for name, each in zip(self._names, estimates, strict=True)
        }
        if guarantee:
            bounds = self._bounds_from_start(fitting.agent, _FREE_SHARE * self._budget)
            return out | self._guaranteed(out, *bounds)
        return {
            name: replace(each, steps={**each.steps, **self._steps}) for name, each in out.items()
        }

    def _from_start(self) -> dict[str, SimulatorResult]:
        """Return guaranteed bounds from episodes alone, without an estimate."""
        actor = self._world.actor
        if self._simulator.reference_density.why_unbounded:
            self._notes.append(
                f"there is no upper bound: {self._simulator.reference_density.why_unbounded}"
            )
        share = _AGENT_SHARE * self._budget
        agent = Episodes.of([*episodes_until(self._simulator, actor, self._world.horizon, share)])
        steps = (1 - _AGENT_SHARE) * self._budget
        ends, ranges = self._bounds_from_start(agent, steps)
        out = {
            name: self._result(
                name,
                agent,
                value=bound.low,
                interval=(bound.low, bound.high),
                rationality=bound.rationality,
                method=f"episodes of {self._simulator.reference} from the start",
                steps={"agent": agent.steps},
                notes=(),
                estimated=False,
            )
            for name, bound in zip(self._names, ends, strict=True)
        }
        return out | self._guaranteed(out, ends, ranges)

    # --- Results ----------------------------------------------------------------------------------
    def _interrupted(
        self, episodes: Episodes, steps: Mapping[str, int]
    ) -> dict[str, SimulatorResult]:
        """Return results of a measurement that was interrupted before there was an estimate."""
        self.interrupted = True
        return {
            name: self._result(
                name,
                episodes,
                value=0.0,
                interval=None,
                rationality=0.0,
                method="none: interrupted before there was an estimate",
                steps=dict(steps),
                notes=(),
                estimated=False,
                stopped=INTERRUPT,
            )
            for name in self._names
        }

    @property
    def _error(self) -> float:
        return 1.0 - self._level

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

    def _guaranteed(
        self,
        results: Mapping[str, SimulatorResult],
        ends: Sequence[Ends],
        ranges: Sequence[Range],
    ) -> dict[str, SimulatorResult]:
        out = {}
        for name, known, bound in zip(self._names, ranges, ends, strict=True):
            assumed = (known.in_words(),) if known.assumed else ()
            # The upper bound of a learnt utility does not hold for the other ones of its class.
            learnt = name in self._simulator.utilities.learnt
            out[name] = replace(
                results[name],
                steps={**results[name].steps, **self._steps},
                guaranteed=(bound.low, math.inf if learnt else bound.high),
                binding={"lower": bound.low_by, "upper": "nothing" if learnt else bound.high_by},
                rests_on_assumption=known.assumed,
                notes=(*results[name].notes, *assumed),
            )
        return out

    def _result(
        self,
        name: str,
        episodes: Episodes,
        *,
        interval: tuple[float, float] | None,
        rationality: float,
        notes: tuple[str, ...],
        **values: Any,
    ) -> SimulatorResult:
        simulator = self._simulator
        maximum = None
        if simulator.n_actions:
            maximum = float(episodes.decisions.mean()) * math.log(simulator.n_actions)
        # A learnt utility has no natural sign.
        signed = values["value"] > 0 and name not in simulator.utilities.learnt
        pessimises = (PESSIMISES,) if signed and rationality < 0 else ()
        return SimulatorResult(
            utility=name,
            interval=interval or (0.0, math.inf if maximum is None else maximum),
            level=self._level,
            maximum=maximum,
            rationality=rationality,
            world=simulator.name,
            episodes=len(episodes.decisions),
            reference=simulator.reference,
            chance=simulator.chance,
            notes=(*self._notes, *notes, *pessimises),
            measurement=self._measurement,
            **values,
        )

    def _annotated(self, results: Mapping[str, SimulatorResult]) -> dict[str, SimulatorResult]:
        """Add the steps of a fit, and the fitted utilities, to results."""
        fits = self._world.fits
        if fits is None:
            return dict(results)
        agent, reference = fits.episodes
        note = (
            f"the utility was fitted to {agent:,} episodes of the agent and {reference:,} of "
            f"{self._simulator.reference}, and measured on other episodes: MEG towards the best "
            f"utility of its class is at least this"
        )
        out = {}
        for name, result in results.items():
            out[name] = replace(result, steps={**result.steps, "fit": fits.steps})
            if name in fits.frozen:
                out[name] = replace(
                    out[name],
                    notes=(*result.notes, note),
                    fitted_episodes=agent + reference,
                    utility_function=fits.frozen[name],
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
        ends = [json_number(end) for end in self.interval]
        return self._asdict() | {"interval": ends, "verdict": str(self.verdict)}


@dataclass(frozen=True)
class Measurement:
    """Results of one call of `from_simulator`."""

    agent: str
    horizon: int
    budget: int
    seed: int
    results: Mapping[str, SimulatorResult]
    tightening: Sequence[SimulatorProgress] = ()

    @property
    def first(self) -> SimulatorResult:
        """Result for the first utility."""
        return next(iter(self.results.values()))

    @property
    def differences(self) -> list[Difference]:
        """Differences of all pairs of utilities in order, without the best combination."""
        plain = [result for name, result in self.results.items() if name != COMBINATION]
        return [
            Difference(one.utility, other.utility, *one.less(other))
            for one, other in combinations(plain, 2)
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the first result as JSON values, with all results and their differences."""
        return self.first.to_json() | {
            "agent": self.agent,
            "horizon": self.horizon,
            "budget": self.budget,
            "seed": self.seed,
            "utilities": [result.to_json() for result in self.results.values()],
            "differences": [difference.to_json() for difference in self.differences],
            "tightening": [asdict(progress) for progress in self.tightening],
        }

    @classmethod
    def from_json(cls, values: Any, where: str) -> Measurement:
        """Read the output of `to_json`; `where` names the file in errors."""
        try:
            # The results of one file belong to one call and to no other file.
            measurement = uuid4().hex
            results = [_result(each, measurement) for each in values["utilities"]]
            out = cls(
                agent=_read(str, values["agent"]),
                horizon=int(values["horizon"]),
                budget=int(values["budget"]),
                seed=int(values["seed"]),
                results={result.utility: result for result in results},
                tightening=[
                    SimulatorProgress(**_fields(SimulatorProgress, each))
                    for each in values["tightening"]
                ],
            )
            # An edited file is refused here rather than while its page is rendered.
            out.to_json()
            return out
        except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as cause:
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


def _result(values: Mapping[str, Any], measurement: str) -> SimulatorResult:
    named = {**values, "value": values["meg"], "measurement": measurement}
    read = _fields(SimulatorResult, named, "utility_function")
    # Keep only the bindings of the two ends.
    read["binding"] = {end: read["binding"][end] for end in ("lower", "upper")}
    return SimulatorResult(**read)


def _fields(record: type, values: Mapping[str, Any], *left_out: str) -> dict[str, Any]:
    """Return the fields of a record from JSON values that may have been edited."""
    kinds = get_type_hints(record)
    names = [each.name for each in fields(record) if each.name not in left_out]
    return {name: _read(kinds[name], values[name]) for name in names}


def _read(kind: Any, value: Any) -> Any:
    """Convert a JSON value to a type; infinity is a string."""
    inner = get_args(kind)
    if type(None) in inner:
        return None if value is None else _read(inner[0], value)
    if get_origin(kind) is tuple:
        kinds = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(_read(*each) for each in zip(kinds, value, strict=True))
    if inner:
        return {str(name): _read(inner[1], each) for name, each in value.items()}
    expected = {float: int | float | str, str: str}.get(kind, object)
    if not isinstance(value, expected) or (kind is float and isinstance(value, bool)):
        raise TypeError(f"{shown(value)} is not a {'number' if kind is float else 'string'}")
    return kind(value)
