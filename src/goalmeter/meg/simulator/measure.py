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
from goalmeter.meg.simulator import exploration
from goalmeter.meg.simulator.environments import (
    MeasurementRequest,
    MeasurementSetup,
    of_environment,
    of_table,
)
from goalmeter.meg.simulator.exploration import StatesMeasure
from goalmeter.meg.simulator.protocol import caller_guard, seeded_globals
from goalmeter.meg.simulator.result import SimulatorInterrupted, SimulatorProgress, SimulatorResult
from goalmeter.meg.simulator.start_bounds import Ends, StartMeasure, UtilityEstimate, estimate_in
from goalmeter.meg.simulator.states import StateOf
from goalmeter.meg.simulator.utilities import REWARD, LearntUtility, Utility
from goalmeter.statistics.verdicts import Verdict, verdict
from goalmeter.tabular.mdp import TabularMDP

# --- Public function -----------------------------------------------------------------------------
# Name of the best combination of all utilities in the results.
COMBINATION = "best combination"
_MOST_STEPS = 10**12
_LEAST_STEPS = 100  # fewer steps carry no information about any world
# Share of the error for the bound by states; the rest is reserved for the bound from the start.
_STATES_SHARE = 0.75

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
    precision: float = 0.02,
    seed: int = 0,
    state: str | StateOf | None = None,
    bounds: Any = None,
    reference: Any = None,
    chance: str | None = None,
    progress: Callable[[SimulatorProgress], None] | bool | None = None,
) -> Results:
    """Estimate MEG of an agent in a simulator, with a confidence interval.

    A simulator has `reset` and `step`. MEG at rationality b is b times the return of the agent
    minus the soft value of the start. If the simulator can be restored to states, and few enough
    are reachable within the horizon, every action is sampled in each state, and the interval is as
    narrow as the budget allows. Otherwise it is based on episodes of free choice from the start:
    the lower bound is then at most about the logarithm of their number, and no method without
    further knowledge of the world can do better (docs/mathematics.md).

    Args:
        env: a Gymnasium environment with discrete or continuous actions, its id, a function that
            creates one, a vector environment (one of its copies is used), or a `TabularMDP`.
        agent: a Stable-Baselines3 model, the name of an agent, a table over integer observations
            [S, A] or [H, S, A], a function of the observation that returns a distribution [A], an
            action or (for continuous actions) a `GaussianAnswer`, or an object whose
            `begin(generator)` returns such a function for an episode. If an agent returns only
            actions, the actions taken are counted, and its own entropy is not used for bounds.
        utility: the payoff of each decision: "reward"; a function of the (observation, info) that
            `step` returned after the action; a `LearntUtility`; or several by name, measured on
            the same steps.
        combined: whether to measure MEG towards the best linear combination of the utilities as
            well, with the name "best combination" and its `weights`; its upper bound holds for
            every utility. Only for worlds measured by states.
        horizon: number of decisions; by default, and at most, the environment's time limit.
        budget: total number of simulator steps; an episode in progress is completed.
        level: probability that the intervals of all utilities hold together.
        precision: the measurement stops before its budget is spent once the lower bound seems to
            be within this share of the estimate; 0 to spend the whole budget.
        seed: random seed.
        state: which states are identical. None: by the kind of environment (goalmeter's grid
            worlds, Gymnasium's toy text, classic control and MuJoCo, MiniGrid). "observation": the
            observation determines the distribution of all that follows. Or a function of
            (observation, info) that returns a hashable key. The interval assumes that this is true.
        bounds: (low, high) of the payoff of one decision, or (low, high, least, most) with the
            bounds of the total payoff from any state on; by name for several utilities. Default:
            the observed range, which the interval then assumes.
        reference: distribution with which continuous actions are compared: "uniform" over a bounded
            box, "gaussian(SCALE)" or "gaussian(SCALE,CENTRE)" for independent normals clipped to
            the box, or an object with `draw(generator)` and a `name`. There is no maximum then, the
            bound is that from the start, and the upper bound may be infinite.
        chance: source of randomness of the environment, its wrappers and the utilities, which the
            interval assumes: "generator" (all draws use the environment's `np_random`, and `reset`
            uses its seed only for that), "none" (all episodes begin in one state), or "unknown"
            (episodes are independent; no state is restored). Default: "generator" for environments
            of Gymnasium and goalmeter, otherwise "unknown".
        progress: a callback for the current bounds; True for lines on standard error, False for
            none; by default lines if standard error is a terminal.

    Returns:
        A `SimulatorResult`; for several utilities a dictionary of them by name.

    Raises:
        SimulatorInterrupted: interrupted at the keyboard; `results` has the bounds proven so far.

    Source: MEG paper (NeurIPS 2024), Definition 3.2; bounds in docs/mathematics.md, "Worlds without
    a table".

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
    precision = finite(precision, "precision", least=0.0, most=1.0)
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
        if isinstance(env, TabularMDP):
            world = of_table(env, agent, request)
        else:
            with caller_guard():
                world = of_environment(env, agent, request, closing)
        if combined and COMBINATION in world.simulator.utilities.names:
            raise InvalidParameterError(
                f"a utility is named {COMBINATION!r}, which combined=True uses for the best "
                f"combination of all; choose another name"
            )
        left = budget if world.fits is None else max(budget - world.fits.steps, _LEAST_STEPS)
        states = StatesMeasure(*world[:3], _STATES_SHARE * (1 - level), seed, left, precision)

        def report(steps: int, estimates: list[UtilityEstimate]) -> None:
            for name, known in zip(world.simulator.utilities.names, estimates, strict=True):
                if tell is not None:
                    tell(SimulatorProgress(name, steps, known.value, known.ends.low))

        try:
            results = _measured(states, level, report, combined)
        except SimulatorInterrupted as so_far:
            if world.fits is None:
                raise
            raise SimulatorInterrupted(_annotated(world, so_far.results)) from so_far
        if world.fits is not None:
            results = _annotated(world, results)
    several = isinstance(utility, Mapping) or combined
    return results if several else next(iter(results.values()))


def _annotated(
    world: MeasurementSetup, results: Mapping[str, SimulatorResult]
) -> dict[str, SimulatorResult]:
    """Add the steps of a fit, and the fitted utilities, to results."""
    assert world.fits is not None, "used only for learnt utilities"
    agent, reference = world.fits.episodes
    note = (
        f"the utility was fitted to {agent:,} episodes of the agent and {reference:,} of "
        f"{world.simulator.reference}, and bounded on other episodes: the interval refers to the "
        f"best utility of its class"
    )
    out = {}
    for name, result in results.items():
        out[name] = replace(result, steps={**result.steps, "fit": world.fits.steps})
        if name in world.fits.frozen:
            out[name] = replace(
                out[name],
                notes=(*result.notes, note),
                fitted_episodes=agent + reference,
                utility_function=world.fits.frozen[name],
            )
    return out


def _measured(
    states: StatesMeasure,
    level: float,
    tell: Callable[[int, list[UtilityEstimate]], None],
    combined: bool,
) -> dict[str, SimulatorResult]:
    """Measure by states if possible, otherwise from the start with remaining error and steps."""
    simulator, budget, error, before = states.simulator, states.budget, 1 - level, 0
    tried = exploration.TRIED * simulator.n_actions
    if simulator.returns_to_states and tried > exploration.FIRST_STATES * budget:
        notes = [
            f"one state has {simulator.n_actions:,} actions, more than "
            f"{exploration.FIRST_STATES * budget:,.0f} steps can sample, so the bound is that from "
            f"the start; increase the budget"
        ]
    elif simulator.returns_to_states:
        results = _results(states, level, tell, [], exploration.METHOD, combined)
        if results is not None:
            return _with_start(states, results, level)
        notes = [
            f"more states are reachable than {exploration.FIRST_STATES * budget:,.0f} steps can "
            f"sample ({simulator.n_states:,} were reached), so the bound is that from the start; "
            f"use a larger budget, a shorter horizon, or a state= that merges more states"
        ]
        before = sum(states.steps.values())
        budget -= before
        error -= states.error
    else:
        notes = [f"{simulator.why_not}; the bound is that from the start"]
    if combined:
        notes.append("the best combination of utilities is measured only by states")
    budget = max(budget, _LEAST_STEPS)
    start = StartMeasure(simulator, states.actor, states.horizon, error, budget, before)
    # An interruption before the first episodes returns the bounds by states so far.
    method = f"episodes of {simulator.reference} from the start"
    results = _results(start, level, tell, notes, method, before=states if states.begun else None)
    assert results is not None, "the bound from the start always ends"
    return results


def _with_start(
    states: StatesMeasure, results: dict[str, SimulatorResult], level: float
) -> dict[str, SimulatorResult]:
    """Improve results by states with the bound from the start if it may be tighter."""
    remaining = states.budget - sum(states.steps.values())
    known = [(r.lower, r.value if r.estimated else math.inf) for r in results.values()]
    if remaining < _LEAST_STEPS or not states.wants_start(known):
        return results
    simulator, error = states.simulator, 1 - level - states.error
    before, played = states.exploration.steps, states.played
    start = StartMeasure(simulator, states.actor, states.horizon, error, remaining, before, played)
    method = f"{exploration.METHOD}, and episodes of {simulator.reference} from the start"
    try:
        others = _results(start, level, lambda *_: None, [], method, before=states)
    except SimulatorInterrupted as so_far:
        raise SimulatorInterrupted(_tighter(results, so_far.results)) from so_far
    assert others is not None, "the bound from the start always ends"
    return _tighter(results, others)


def _tighter(
    results: Mapping[str, SimulatorResult], others: Mapping[str, SimulatorResult]
) -> dict[str, SimulatorResult]:
    """Return results by states with the ends of another bound if these are tighter."""
    out = {}
    for name, one in results.items():
        # MEG towards the best combination is at least that towards any utility.
        best = max(others.values(), key=lambda each: each.lower)
        other = others.get(name, best)
        lower = max(one, other, key=lambda each: each.lower)
        upper = min(one, others.get(name, one), key=lambda each: each.upper_bound)
        ends = Ends(lower.lower, upper.upper_bound, lower.binding["lower"], upper.binding["upper"])
        known = estimate_in(ends, one.value, lower.rationality)
        notes = dict.fromkeys((*one.notes, *other.notes))
        if PESSIMISES in notes and PESSIMISES not in lower.notes:
            del notes[PESSIMISES]
        out[name] = replace(
            one,
            value=known.value,
            estimated=one.estimated and known.estimated,
            interval=(ends.low, ends.high),
            maximum=other.maximum,
            rationality=known.rationality,
            method=other.method,
            steps=other.steps,
            binding={"lower": ends.low_by, "upper": ends.high_by},
            episodes=other.episodes,
            notes=tuple(notes),
            stopped=other.stopped,
            rests_on_assumption=one.rests_on_assumption or other.rests_on_assumption,
        )
    return out


def _results(
    measure: StatesMeasure | StartMeasure,
    level: float,
    tell: Callable[[int, list[UtilityEstimate]], None],
    notes: list[str],
    method: str,
    combined: bool = False,
    before: StatesMeasure | None = None,
) -> dict[str, SimulatorResult] | None:
    """Run a measurement, early interruptions return `before`; None if there are too many states."""

    def report(estimates: list[UtilityEstimate]) -> None:
        tell(sum(measure.steps.values()), estimates)

    try:
        if isinstance(measure, StatesMeasure) and not measure.explore():
            return None
        stopped = measure.run(report)
        results = _collected(measure, level, notes, method, stopped)
        if combined and isinstance(measure, StatesMeasure):
            results[COMBINATION] = _combination(measure, list(results.values()))
        return results
    # The confidence bounds hold at every look, so samples drawn so far suffice.
    except KeyboardInterrupt as interrupt:
        if measure.begun:
            known = _collected(measure, level, notes, method, "interrupt")
        elif before is not None:
            known = _collected(before, level, [], exploration.METHOD, "interrupt")
        else:
            raise
        raise SimulatorInterrupted(known) from interrupt


def _combination(measure: StatesMeasure, parts: list[SimulatorResult]) -> SimulatorResult:
    """Return the result of the best combination of utilities, given those of the utilities."""
    weights, known = measure.combined()
    names = measure.simulator.utilities.names
    notes = [note for part in parts for note in part.notes if note != PESSIMISES]
    return replace(
        parts[0],
        value=float(known.value),
        interval=(float(known.ends.low), float(known.ends.high)),
        rationality=float(known.rationality),
        utility=COMBINATION,
        binding={"lower": known.ends.low_by, "upper": known.ends.high_by},
        weights=dict(zip(names, weights.tolist(), strict=True)),
        estimated=known.estimated,
        notes=tuple(dict.fromkeys(notes)),
        rests_on_assumption=any(part.rests_on_assumption for part in parts),
        exceeds={},
    )


def _collected(
    measure: StatesMeasure | StartMeasure, level: float, notes: list[str], method: str, stopped: str
) -> dict[str, SimulatorResult]:
    simulator, episodes = measure.simulator, measure.episodes
    actions, why = simulator.n_actions, simulator.why_unbounded
    unbounded = [f"there is no upper bound: {why}"] if why else []
    out = {}
    measurement = uuid4().hex
    each = zip(simulator.utilities.names, measure.ends(), measure.assumed(), strict=True)
    remarks = measure.remarks()
    for name, known, assumed in each:
        # A learnt utility has no natural sign.
        signed = known.value > 0 and name not in simulator.utilities.learnt
        pessimises = [PESSIMISES] if signed and known.rationality < 0 else []
        out[name] = SimulatorResult(
            value=float(known.value),
            interval=(float(known.ends.low), float(known.ends.high)),
            level=level,
            maximum=float(episodes.decisions.mean()) * math.log(actions) if actions else None,
            rationality=float(known.rationality),
            utility=name,
            world=simulator.name,
            method=method,
            steps=dict(measure.steps),
            binding={"lower": known.ends.low_by, "upper": known.ends.high_by},
            episodes=len(episodes.decisions),
            notes=(*notes, *remarks, *([assumed] if assumed else []), *unbounded, *pessimises),
            rests_on_assumption=bool(assumed),
            stopped=stopped,
            reference=simulator.reference,
            estimated=known.estimated,
            chance=simulator.chance,
            exceeds={simulator.utilities.names[i]: more for i, more in known.exceeds.items()},
            measurement=measurement,
        )
    return out


def _listener(
    progress: Callable[[SimulatorProgress], None] | bool | None,
) -> Callable[[SimulatorProgress], None] | None:
    if progress is None:
        progress = sys.stderr is not None and sys.stderr.isatty()
    if progress is False:
        return None
    if progress is True:
        return lambda now: print(now, file=sys.stderr, flush=True)
    if not callable(progress):
        raise InvalidParameterError(
            f"progress is {progress!r}, expected a function of one argument, True or False"
        )
    return progress


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
