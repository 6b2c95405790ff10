"""Behaviour of agents by size and complexity, exact values, and a mixed model of accuracy."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidTrajectoryError, require
from goalmeter._files import JsonFields
from goalmeter._types import ArrayLike, BoolArray, FloatArray
from goalmeter.agents import grid_agents
from goalmeter.gridworld.planner import LAYERS, Plan
from goalmeter.navigation.steps import (
    DIFFERENCE,
    INVALID,
    OUTCOMES,
    UNIT,
    Grids,
    Observed,
    observed,
)
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.statistics import discrimination
from goalmeter.statistics.clusters import Estimate, estimate, estimate_of_sums

# --- Calibration ----------------------------------------------------------------------------------
# Confidence is the greatest probability of an action, and is right by the share of optimal actions
# among those that have it.

BINS = 10


@dataclass(frozen=True)
class Bin(JsonFields):
    """Steps in one bin: mean confidence, share that is right, number."""

    confidence: float
    accuracy: float
    steps: int


@dataclass(frozen=True)
class ConfidenceCalibration(JsonFields):
    """Calibration over steps, with intervals clustered by grid."""

    error: Estimate  # expected calibration error over 10 bins
    brier: Estimate  # mean squared difference between confidence and being right
    steps: int  # number of steps with probabilities
    unknown: int  # and without
    bins: tuple[Bin, ...]  # those that have steps


def calibration(seen: Observed, *, confidence: float = 0.95) -> ConfidenceCalibration | None:
    """Return the calibration of trajectories; None if no step has probabilities."""
    known = np.asarray(~np.isnan(seen.probabilities).any(axis=1))
    steps = int(known.sum())
    if not steps:
        return None
    probabilities, optimal = seen.probabilities[known], seen.optimal[known]
    sure = probabilities.max(axis=1)
    modal = probabilities >= sure[:, None] - 1e-12
    right = (modal & optimal).sum(axis=1) / modal.sum(axis=1)
    names, cluster = np.unique(seen.grid[seen.trajectory[known]], return_inverse=True)
    bin_of = discrimination.confidence_bins(sure, BINS)
    steps_of = np.bincount(cluster, minlength=len(names))
    most_steps = np.bincount(seen.grid, seen.caps, len(seen.grids))[names]
    common: dict[str, Any] = {"n": steps, "bounds": UNIT, "confidence": confidence}
    return ConfidenceCalibration(
        error=estimate_of_sums(
            discrimination.calibration_sums(sure, right, cluster, len(names), BINS),
            discrimination.calibration_of_sums,
            heaviest=float(most_steps.max() / steps_of.mean()),
            **common,
        ),
        brier=estimate(
            np.bincount(cluster, (sure - right) ** 2), steps_of, heaviest=most_steps, **common
        ),
        steps=steps,
        unknown=len(known) - steps,
        bins=tuple(
            Bin(float(sure[bin_of == b].mean()), float(right[bin_of == b].mean()), int(n))
            for b, n in enumerate(np.bincount(bin_of, minlength=BINS))
            if n
        ),
    )


# --- Behaviour ------------------------------------------------------------------------------------
# Measures are those of section 3 of the paper where they are its own. Those of states are averaged
# over the visited states of a grid, then over grids.

# All kinds of answers equally often; the correction is largest where each was given once.
_MOST_BITS = float(np.log2(OUTCOMES))
_MOST_CORRECTED = _MOST_BITS + (OUTCOMES - 1) / (2 * np.log(2) * OUTCOMES)

_Labels = tuple[int | None, float | None, str | None, str]  # size, complexity, frame, condition


class _FlatFields:
    """A dataclass of estimates under a condition, whose JSON is one level deep."""

    condition: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields, with NAME_interval and NAME_n for each estimate."""
        out: dict[str, Any] = {}
        for name, value in vars(self).items():
            out[name] = value
            if isinstance(value, Estimate):
                plain = value.to_json()
                out |= {name: plain["value"], f"{name}_interval": plain["interval"]}
                out[f"{name}_n"] = value.n
        return out | {"condition": json.loads(self.condition)}


@dataclass(frozen=True)
class Row(_FlatFields):
    """Measures of some trajectories."""

    size: int | None  # None for a row over several, as the next one
    complexity: float | None
    transform: str | None  # name of the frame; None for the grids as they were generated
    condition: str  # as JSON
    grids: int
    trajectories: int
    outcomes: dict[str, int]  # number of trajectories by outcome
    success: Estimate  # ended at the goal within the cap
    spl: Estimate  # success times shortest path over steps taken
    accuracy: Estimate  # share of optimal actions of a walk, averaged over walks, then grids
    accuracy_pooled: Estimate  # the share among all steps
    accuracy_detour: Estimate  # the share in detour states, where the greedy agent may err
    greedy_detour: Estimate  # the greedy agent's own share there
    beyond_greedy: Estimate  # the difference: it distinguishes a plan from a compass
    regret: Estimate  # steps lost by all decisions of a walk
    entropy: Estimate  # of the answers in a state of a grid, in bits, by Miller and Madow
    entropy_plug_in: Estimate  # without their correction (few walks make both too low)
    jsd: Estimate  # divergence from the uniform distribution over optimal actions, in bits
    mass: Estimate  # share of the answers that is optimal
    mass_detour: Estimate  # the same in detour states
    invalid: Estimate  # answers that are no action: wrong above, and a fifth kind of answer


@dataclass(frozen=True)
class DistanceRow(_FlatFields):
    """Accuracy at one distance from the goal, and that of the greedy agent in the same states."""

    transform: str | None
    condition: str
    distance: int
    accuracy: Estimate
    greedy: Estimate


@dataclass(frozen=True)
class SuiteBehaviour(JsonFields):
    """Behaviour of an agent in a suite."""

    suite: str
    cells: tuple[Row, ...]  # for each size and complexity, in each frame and under each condition
    by_size: tuple[Row, ...]  # the same over complexities
    by_complexity: tuple[Row, ...]  # over sizes
    overall: tuple[Row, ...]  # over both
    by_distance: tuple[DistanceRow, ...]  # for each distance from the goal
    calibration: ConfidenceCalibration | None  # None if no probabilities were recorded


def behaviour(
    trajectories: Sequence[Trajectory] | Observed, *, confidence: float = 0.95
) -> SuiteBehaviour:
    """Measure the trajectories of one agent in one suite."""
    seen = observed(trajectories)

    def groups(*merged: str) -> list[tuple[_Labels, Observed]]:
        """Trajectories of kinds that differ in some labels only, in order of appearance."""
        kinds: dict[_Labels, list[int]] = {}
        for number, kind in enumerate(seen.kinds):
            changes: dict[str, Any] = dict.fromkeys(merged)
            labels = kind._replace(**changes)[1:]
            if (seen.kind == number).any():  # some trajectories may have been left out
                kinds.setdefault(labels, []).append(number)
        return [(labels, seen.where(np.isin(seen.kind, each))) for labels, each in kinds.items()]

    def rows(*merged: str) -> tuple[Row, ...]:
        return tuple(row(part, confidence, labels) for labels, part in groups(*merged))

    by_distance = []
    for (_, _, frame, condition), part in groups("size", "complexity"):
        grids = Grids(part, confidence)
        # Distances are not chosen, so there are no strata.
        grids.strata = np.zeros_like(grids.strata)
        for distance in np.unique(part.to_goal):
            accuracy, greedy = (
                grids.steps(values, among=part.to_goal == distance)
                for values in (part.correct, part.greedy)
            )
            by_distance.append(DistanceRow(frame, condition, int(distance), accuracy, greedy))
    return SuiteBehaviour(
        suite=", ".join(dict.fromkeys(grid.suite for grid in seen.grids)),
        cells=rows(),
        by_size=rows("complexity"),
        by_complexity=rows("size"),
        overall=rows("size", "complexity"),
        by_distance=tuple(by_distance),
        calibration=calibration(seen, confidence=confidence),
    )


def row(seen: Observed, confidence: float, labels: _Labels) -> Row:
    """Measure some trajectories, no grid of which is in two frames or conditions."""
    grids = Grids(seen, confidence)
    of, counts, optimal, is_detour = grids.visited()
    shares = counts / counts.sum(axis=1, keepdims=True)
    # The fifth kind of answer is an invalid one.
    optimal = np.pad(optimal, ((0, 0), (0, 1)))
    uniform = optimal / optimal.sum(axis=1, keepdims=True)
    mass = (shares * optimal).sum(axis=1)
    corrected = discrimination.miller_madow_entropy(counts)
    plug_in, detour = discrimination.plug_in_entropy(counts), seen.detour
    return Row(
        *labels,
        grids=len(grids),
        trajectories=len(seen.trajectories),
        outcomes=dict(sorted(Counter(t.outcome for t in seen.trajectories).items())),
        success=grids.walks(seen.arrived),
        spl=grids.walks(seen.spl),
        accuracy=grids.walks(seen.accuracy),
        accuracy_pooled=grids.steps(seen.correct),
        accuracy_detour=grids.steps(seen.correct, among=detour),
        greedy_detour=grids.steps(seen.greedy, among=detour),
        beyond_greedy=grids.steps(
            seen.correct - seen.greedy, among=detour, bounds=DIFFERENCE, paired=True
        ),
        # A step away from the goal loses two.
        regret=grids.walks(
            np.bincount(seen.trajectory, seen.gap, minlength=len(seen.length)),
            bounds=(0.0, 2.0 * float(seen.caps.max())),
        ),
        entropy=grids.states(corrected, of, bounds=(0.0, _MOST_CORRECTED)),
        entropy_plug_in=grids.states(plug_in, of, bounds=(0.0, _MOST_BITS)),
        jsd=grids.states(discrimination.jensen_shannon(shares, uniform), of),
        mass=grids.states(mass, of),
        mass_detour=grids.states(mass[is_detour], of[is_detour]),
        invalid=grids.steps(seen.action == INVALID),
    )


# --- Exact values ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class Exact:
    """Exact values of a policy in one world."""

    # Probability of an optimal action, averaged over all states from which the goal can be reached
    # and that can be reached from an open cell without the key. In a maze these are the open cells.
    accuracy: float
    accuracy_detour: float  # the same over detour states; NaN without any
    states: int
    detours: int
    success: float  # probability of reaching the goal within the cap
    key: float  # probability of having the key or neutral object by then; NaN without one


def exact(policy: ArrayLike, plan: Plan, *, cap: int) -> Exact:
    """Return the exact values of a policy [states, 4], as `Memoryless.policy` gives it."""
    rows = np.asarray(policy, dtype=float)
    world, successors = plan.world, plan.plans.successors[plan.index]
    inside = _states_that_count(plan)
    optimal = plan.plans.optimal[plan.index]
    right = (rows * optimal).sum(axis=1)
    compass = (grid_agents.greedy(plan) * optimal).sum(axis=1)
    detour = inside & (compass < 1 - 1e-9)
    # The distribution over states after the last step.
    mass: FloatArray = np.zeros(len(successors))
    mass[plan.number(plan.start)] = 1.0
    for _ in range(cap):
        mass = np.bincount(successors.ravel(), (mass[:, None] * rows).ravel()).astype(float)
    end = mass.reshape(LAYERS, *world.shape)
    return Exact(
        accuracy=float(right[inside].mean()),
        accuracy_detour=float(right[detour].mean()) if detour.any() else float("nan"),
        states=int(inside.sum()),
        detours=int(detour.sum()),
        success=float(end[:, world.goal.row, world.goal.column].sum()),
        key=float("nan") if world.thing is None else float(end[1:].sum()),
    )


def _states_that_count(plan: Plan) -> BoolArray:
    """Which states accuracy is averaged over, [states]; see `Exact`."""
    world = plan.world
    successors, distances = plan.plans.successors[plan.index], plan.plans.distances[plan.index]
    put = ~world.walls
    for place in (world.goal, world.thing, world.door):
        if place is not None:
            put[place] = False
    seen = np.zeros(len(successors), dtype=bool)
    front = np.flatnonzero(put)  # the first layer is the one without the key
    while front.size:
        seen[front] = True
        front = np.unique(successors[front])
        front = front[~seen[front]]
    return np.asarray(seen & (distances > 0))


# --- Mixed model ----------------------------------------------------------------------------------
# Accuracy of a walk = intercept + size + complexity + distance + random intercept of its grid +
# noise. The authors of the paper fit such a model of error rates, with frames.

TERMS = ("size", "complexity", "distance")


@dataclass(frozen=True)
class Term(JsonFields):
    """Coefficient of "intercept", "size" (rows), "complexity" or "distance" (steps)."""

    name: str
    coefficient: float
    stderr: float
    # Of Student's t, with a degree of freedom for each grid less one for each term.
    interval: tuple[float, float]
    p_value: float  # two-sided


@dataclass(frozen=True)
class MixedModel(JsonFields):
    """Fit of the mixed model."""

    terms: tuple[Term, ...]  # those that vary among the walks, the intercept first
    between_grids: float  # standard deviation of the random intercepts
    within_grids: float  # and of the noise
    walks: int
    grids: int
    notes: tuple[str, ...]  # warnings of the fit


def mixed_model(
    trajectories: Sequence[Trajectory] | Observed, *, confidence: float = 0.95
) -> MixedModel:
    """Fit the model by restricted maximum likelihood."""
    from scipy.stats import t

    models = require(
        "statsmodels.regression.mixed_linear_model",
        extra="stats",
        feature="the mixed-effects model of accuracy",
    )
    seen = observed(trajectories)
    seen = seen.where(seen.length > 0)
    counts = np.unique(seen.grid, return_counts=True)[1]
    if len(counts) < 2 or counts.max() < 2:
        raise InvalidTrajectoryError(
            f"there are {len(seen.trajectories)} walks in {len(counts)} grids; a mixed model needs "
            f"at least 2 grids and 2 walks in one of them"
        )
    columns = {"intercept": np.ones(len(seen.length))}
    for name in TERMS:  # those that vary and are known for all walks
        values = [getattr(walk, name) for walk in seen.trajectories]
        if None not in values and len(set(values)) > 1:
            columns[name] = np.array(values, dtype=float)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = models.MixedLM(
            seen.accuracy, np.stack(list(columns.values()), axis=1), groups=seen.grid
        ).fit(reml=True)
    # Terms are constant within a grid, so grids count, not walks. The normal quantiles of the fit
    # are right for many grids only.
    freedom = max(1, len(counts) - len(columns))
    slopes, errors = np.asarray(fit.fe_params), np.asarray(fit.bse_fe)
    reach = float(t.ppf(0.5 + confidence / 2, freedom)) * errors
    with np.errstate(divide="ignore", invalid="ignore"):
        p_values = 2 * t.sf(np.abs(slopes / errors), freedom)
    numbers = np.stack([slopes, errors, slopes - reach, slopes + reach, p_values], axis=1).tolist()
    return MixedModel(
        terms=tuple(
            Term(name, value, error, (low, high), p_value)
            for name, (value, error, low, high, p_value) in zip(columns, numbers, strict=True)
        ),
        between_grids=float(np.sqrt(np.asarray(fit.cov_re)[0, 0])),
        within_grids=float(np.sqrt(fit.scale)),
        walks=len(seen.length),
        grids=len(counts),
        notes=tuple(dict.fromkeys(str(warning.message) for warning in caught)),
    )
