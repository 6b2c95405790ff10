"""Estimate MEG in a simulator: `from_simulator`, and a measurement as it is stored."""

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
from goalmeter.meg.simulator.exploration import StatesMeasure
from goalmeter.meg.simulator.protocol import caller_guard, seeded_globals
from goalmeter.meg.simulator.result import SimulatorInterrupted, SimulatorProgress, SimulatorResult
from goalmeter.meg.simulator.start_bounds import Ends, StartMeasure, UtilityEstimate, estimate_in
from goalmeter.meg.simulator.states import StateOf
from goalmeter.meg.simulator.utilities import REWARD, LearntUtility, Utility
from goalmeter.meg.simulator.worlds import MeasurementRequest, of_environment, of_table
from goalmeter.statistics.verdicts import Verdict, verdict
from goalmeter.tabular.mdp import TabularMDP

# --- Public function -----------------------------------------------------------------------------
# The name of the best combination of all utilities among the results.
COMBINATION = "best combination"
_MOST_STEPS = 10**12
_LEAST_STEPS = 100  # fewer steps than this show nothing of any world
# Of the error, where the bound from the start may have to take the place of that by states.
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
    """MEG of an agent in a world that can only be run: an estimate, and an interval that holds it.

    The world is a simulator: `reset` and `step`. MEG at rationality b is b times what the agent
    collects less the soft value of the start. Where the simulator can be put back into states, and
    few enough can be reached within the horizon, these are tried action by action, and the interval
    becomes as narrow as the budget allows. Otherwise episodes of free choice from the start bound
    it: the lower end is then at most about the logarithm of their number, and no method that knows
    nothing else of the world can do better (docs/mathematics.md).

    Args:
        env: a Gymnasium environment with discrete or continuous actions, its id, a function that
            makes one, a vector environment (one of its copies is used); or a `TabularMDP`.
        agent: a model of Stable-Baselines3, the name of an agent, a table over integer observations
            [S, A] or [H, S, A], a function of the observation that gives a distribution [A], an
            action, or with continuous actions a `GaussianAnswer`, or an object whose
            `begin(generator)` gives such a function for an episode. Of an agent that gives only
            actions, what it did counts, and its own entropy bounds nothing.
        utility: what each decision pays: "reward"; a function of (observation, info) as `step`
            returned them after the action; a `LearntUtility`; or several by name, measured on the
            same steps.
        combined: whether MEG towards the best linear combination of the utilities is measured too,
            by the name "best combination", with its `weights`; its upper end holds for every
            utility. Only for worlds that are measured by states.
        horizon: decisions that are measured; by default, and at most, the environment's time limit.
        budget: steps of the simulator, in all; what is under way is finished beyond it.
        level: probability with which the interval, of all utilities together, holds.
        precision: the measurement ends before its budget is spent when the lower end seems to be
            within this share of the estimate; 0 to spend all.
        seed: of everything that is drawn.
        state: which states are the same. None: what is known of this kind of environment (our grid
            worlds, Gymnasium's toy text, classic control and MuJoCo, MiniGrid). "observation": what
            is observed determines what can follow. Or a function of (observation, info) that names
            the state. The interval assumes that this is true.
        bounds: (low, high) of what one decision may pay, or (low, high, least, most) with what all
            decisions from some state on may pay together; by name for several utilities. Default:
            what was seen, which the interval then assumes.
        reference: what continuous actions are compared with: "uniform" over a bounded box,
            "gaussian(SCALE)" or "gaussian(SCALE,CENTRE)" for independent normals that the box
            clips, or an object with `draw(generator)` and a `name`. There is no maximum then, the
            bound is that from the start, and the upper end may be infinite.
        chance: where the chance of the environment, its wrappers and the utilities comes from,
            which the interval assumes: "generator" (all is drawn from the environment's
            `np_random`, and `reset` uses its seed for nothing else), "none" (all episodes begin in
            one state), or "unknown" (only that episodes are independent: no state is put back).
            Default "generator" for Gymnasium's own environments and ours, else "unknown".
        progress: a function that is told how the bound tightens; True for lines on standard error,
            False for silence; default lines at a terminal.

    Returns:
        A `SimulatorResult`; for several utilities a dictionary of them by name.

    Raises:
        SimulatorInterrupted: interrupted at the keyboard; `results` has what was proven by then.

    Source: MEG paper (NeurIPS 2024), Definition 3.2; bounds in docs/mathematics.md, "Worlds without
    a table".

    Example: the mouse that goes for the cheese with probability 0.8 (the paper's Example 1).
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
                f"a utility has the name {COMBINATION!r}, which combined=True gives to the best "
                f"combination of all; give it another name"
            )
        left = budget if world.fits is None else max(budget - world.fits.steps, _LEAST_STEPS)
        states = StatesMeasure(*world[:3], _STATES_SHARE * (1 - level), seed, left, precision)

        def told(steps: int, rough: list[UtilityEstimate]) -> None:
            for name, known in zip(world.simulator.utilities.names, rough, strict=True):
                if tell is not None:
                    tell(SimulatorProgress(name, steps, known.value, known.ends.low))

        try:
            results = _by_best_means(states, level, told, combined)
        except SimulatorInterrupted as so_far:
            if world.fits is None:
                raise
            raise SimulatorInterrupted(world.fits.annotated(so_far.results)) from so_far
        if world.fits is not None:
            results = world.fits.annotated(results)
    several = isinstance(utility, Mapping) or combined
    return results if several else next(iter(results.values()))


def _by_best_means(
    states: StatesMeasure,
    level: float,
    tell: Callable[[int, list[UtilityEstimate]], None],
    combined: bool,
) -> dict[str, SimulatorResult]:
    """By states where that can be done, else from the start with the error and steps left."""
    simulator, budget, error, before = states.simulator, states.budget, 1 - level, 0
    tried = exploration.TRIED * simulator.n_actions
    if simulator.returns_to_states and tried > exploration.FIRST_STATES * budget:
        notes = [
            f"one state has {simulator.n_actions:,} actions, more than "
            f"{exploration.FIRST_STATES * budget:,.0f} steps can try, so the bound is that from "
            f"the start; give a larger budget"
        ]
    elif simulator.returns_to_states:
        results = _results(states, level, tell, [], exploration.METHOD, combined)
        if results is not None:
            return _with_start(states, results, level)
        notes = [
            f"more states can be reached than {exploration.FIRST_STATES * budget:,.0f} steps can "
            f"try ({simulator.n_states:,} were met), so the bound is that from the start; give "
            f"a larger budget, a shorter horizon, or state= a coarser name of the state"
        ]
        before = sum(states.steps.values())
        budget -= before
        error -= states.error
    else:
        notes = [f"{simulator.why_not}; the bound is that from the start"]
    if combined:
        notes.append("the best combination of utilities is measured by states only")
    budget = max(budget, _LEAST_STEPS)
    start = StartMeasure(simulator, states.actor, states.horizon, error, budget, before)
    # An interruption before its first episodes leaves what the states have shown by then.
    method = f"episodes of {simulator.reference} from the start"
    results = _results(start, level, tell, notes, method, before=states if states.begun else None)
    assert results is not None, "the bound from the start always ends"
    return results


def _with_start(
    states: StatesMeasure, results: dict[str, SimulatorResult], level: float
) -> dict[str, SimulatorResult]:
    """Results by states, with the bound from the start as well where it may prove more."""
    left = states.budget - sum(states.steps.values())
    known = [(r.lower, r.value if r.estimated else math.inf) for r in results.values()]
    if left < _LEAST_STEPS or not states.wants_start(known):
        return results
    simulator, error = states.simulator, 1 - level - states.error
    before, played = states.exploration.steps, states.played
    start = StartMeasure(simulator, states.actor, states.horizon, error, left, before, played)
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
    """Results by states, with the ends of another bound where these are better."""
    out = {}
    for name, one in results.items():
        # The best combination explains at least as much as any of the utilities.
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
    """What a measurement comes to, at worst what `before` has shown; None for too many states."""

    def told(rough: list[UtilityEstimate]) -> None:
        tell(sum(measure.steps.values()), rough)

    try:
        if isinstance(measure, StatesMeasure) and not measure.explore():
            return None
        stopped = measure.run(told)
        results = _collected(measure, level, notes, method, stopped)
        if combined and isinstance(measure, StatesMeasure):
            results[COMBINATION] = _combination(measure, list(results.values()))
        return results
    # What was drawn by then bounds as it would have at the end: the limits hold at every look.
    except KeyboardInterrupt as interrupt:
        if measure.begun:
            known = _collected(measure, level, notes, method, "interrupt")
        elif before is not None:
            known = _collected(before, level, [], exploration.METHOD, "interrupt")
        else:
            raise
        raise SimulatorInterrupted(known) from interrupt


def _combination(measure: StatesMeasure, parts: list[SimulatorResult]) -> SimulatorResult:
    """The result of the best combination, beside those of the utilities that it is made of."""
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
    unbounded = [f"there is no upper end: {why}"] if why else []
    out = {}
    measurement = uuid4().hex
    each = zip(simulator.utilities.names, measure.ends(), measure.assumed(), strict=True)
    remarks = measure.remarks()
    for name, known, assumed in each:
        # What is learnt could as well have had the other sign.
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
# The kind of runs that hold one, and the key of their only trial.
KIND, KEY = "simulator", "measurement"


class Difference(NamedTuple):
    """How much more MEG is towards one utility than towards another."""

    towards: str
    than: str
    value: float
    interval: tuple[float, float]

    @property
    def verdict(self) -> Verdict:
        """Whether the one is above the other, as far as the interval tells."""
        return verdict(self.interval, 0.0)

    def to_json(self) -> dict[str, Any]:
        """The fields and the verdict as JSON values."""
        ends = [json_number(end) for end in self.interval]
        return self._asdict() | {"interval": ends, "verdict": str(self.verdict)}


@dataclass(frozen=True)
class Measurement:
    """All that one call of `from_simulator` gave."""

    agent: str
    horizon: int
    budget: int
    seed: int
    results: Mapping[str, SimulatorResult]
    tightening: Sequence[SimulatorProgress] = ()

    @property
    def first(self) -> SimulatorResult:
        """The result towards the utility that was named first."""
        return next(iter(self.results.values()))

    @property
    def differences(self) -> list[Difference]:
        """Every two utilities, in order; the best combination, which is above all, left out."""
        plain = [result for name, result in self.results.items() if name != COMBINATION]
        return [
            Difference(one.utility, other.utility, *one.less(other))
            for one, other in combinations(plain, 2)
        ]

    def to_json(self) -> dict[str, Any]:
        """The first result as JSON values, with all of them and their differences beside."""
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
        """What `to_json` made; `where` names the file in errors."""
        try:
            # Results of one file are of one call, and of no other file's.
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
            # A file that somebody changed is refused here and not while a page is made of it.
            out.to_json()
            return out
        except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as cause:
            raise InvalidFileError(
                f"{where} holds no measurement in a simulator "
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
    # Both ends are known by where they come from.
    read["binding"] = {end: read["binding"][end] for end in ("lower", "upper")}
    return SimulatorResult(**read)


def _fields(record: type, values: Mapping[str, Any], *left_out: str) -> dict[str, Any]:
    """Return the fields of a record from JSON values, which anybody may have edited."""
    kinds = get_type_hints(record)
    names = [each.name for each in fields(record) if each.name not in left_out]
    return {name: _read(kinds[name], values[name]) for name in names}


def _read(kind: Any, value: Any) -> Any:
    """Return a JSON value as a type; an infinity is spelled as text."""
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
        raise TypeError(f"{shown(value)} is no {'number' if kind is float else 'text'}")
    return kind(value)
