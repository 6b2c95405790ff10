"""Behaviour measures by size and complexity, exact values, and a mixed model of accuracy."""

from __future__ import annotations

import json
import warnings
from collections import Counter
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
    Walks,
    observed,
)
from goalmeter.statistics import discrimination
from goalmeter.statistics.clusters import Estimate, estimate, estimate_of_sums

# --- Calibration ----------------------------------------------------------------------------------
# Confidence is the highest action probability. The accuracy of a step is the share of optimal
# actions among the actions with this probability.

BINS = 10


@dataclass(frozen=True)
class Bin(JsonFields):
    """Steps in one bin: mean confidence, accuracy and number of steps."""

    confidence: float
    accuracy: float
    steps: int


@dataclass(frozen=True)
class ConfidenceCalibration(JsonFields):
    """Calibration over steps, with intervals clustered by grid."""

    error: Estimate  # expected calibration error over 10 bins
    brier: Estimate  # mean squared difference between confidence and accuracy of a step
    steps: int  # number of steps with probabilities
    unknown: int  # number of steps without probabilities
    bins: tuple[Bin, ...]  # non-empty bins


def calibration(seen: Observed, *, confidence: float = 0.95) -> ConfidenceCalibration | None:
    """Return the calibration of trajectories; None if no step has probabilities."""
    known = np.asarray(~np.isnan(seen.probabilities).any(axis=1))
    steps = int(known.sum())
    if not steps:
        return None
    probabilities, optimal = seen.probabilities[known], seen.optimal[known]
    highest = probabilities.max(axis=1)
    modal = probabilities >= highest[:, None] - 1e-12
    accuracy = (modal & optimal).sum(axis=1) / modal.sum(axis=1)
    squared_error = (highest - accuracy) ** 2
    grids, cluster = np.unique(seen.grid[seen.trajectory[known]], return_inverse=True)
    bin_of = discrimination.confidence_bins(highest, BINS)
    steps_of = np.bincount(cluster, minlength=len(grids))
    most_steps = np.bincount(seen.grid, seen.caps, len(seen.grids))[grids]
    common: dict[str, Any] = {"n": steps, "bounds": UNIT, "confidence": confidence}
    return ConfidenceCalibration(
        error=estimate_of_sums(
            discrimination.calibration_sums(highest, accuracy, cluster, len(grids), BINS),
            discrimination.calibration_of_sums,
            heaviest=float(most_steps.max() / steps_of.mean()),
            **common,
        ),
        brier=estimate(
            np.bincount(cluster, squared_error), steps_of, heaviest=most_steps, **common
        ),
        steps=steps,
        unknown=len(known) - steps,
        bins=tuple(
            Bin(float(highest[bin_of == b].mean()), float(accuracy[bin_of == b].mean()), int(n))
            for b, n in enumerate(np.bincount(bin_of, minlength=BINS))
            if n
        ),
    )


# --- Behaviour ------------------------------------------------------------------------------------
# The paper defines its measures in section 3. Measures of states are averaged over the visited
# states of a grid, then over grids.

# Entropy of uniform answers; its correction is largest if each answer was given once.
_MOST_BITS = float(np.log2(OUTCOMES))
_MOST_CORRECTED = _MOST_BITS + (OUTCOMES - 1) / (2 * np.log(2) * OUTCOMES)

_Labels = tuple[int | None, float | None, str | None, str]  # size, complexity, frame, condition


class _FlatFields:
    """Dataclass of estimates under a condition; its JSON is one level deep."""

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
    """Measures of a set of trajectories."""

    size: int | None  # None for an average over sizes; likewise `complexity`
    complexity: float | None
    transform: str | None  # name of the frame; None for the original
    condition: str  # as JSON
    grids: int
    trajectories: int
    outcomes: dict[str, int]  # number of trajectories by outcome
    success: Estimate  # ended at the goal within the cap
    spl: Estimate  # success times shortest path over steps taken
    accuracy: Estimate  # share of optimal actions of a walk, averaged over walks, then grids
    accuracy_pooled: Estimate  # share of optimal actions among all steps
    accuracy_detour: Estimate  # the same in detour states, where the greedy agent may err
    greedy_detour: Estimate  # accuracy of the greedy agent in detour states
    beyond_greedy: Estimate  # accuracy_detour less greedy_detour; above 0 for agents that plan
    regret: Estimate  # steps lost by all decisions of a walk
    entropy: Estimate  # of the answers in a state of a grid, in bits, Miller-Madow corrected
    entropy_plug_in: Estimate  # uncorrected entropy (both are biased downwards for few walks)
    jsd: Estimate  # divergence from the uniform distribution over optimal actions, in bits
    mass: Estimate  # share of optimal answers
    mass_detour: Estimate  # the same in detour states
    invalid: Estimate  # share of invalid answers, which count as wrong and as a fifth answer


@dataclass(frozen=True)
class DistanceRow(_FlatFields):
    """Accuracy of the agent and of the greedy agent at one distance from the goal."""

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
    by_size: tuple[Row, ...]  # averaged over complexities
    by_complexity: tuple[Row, ...]  # averaged over sizes
    overall: tuple[Row, ...]  # averaged over both
    by_distance: tuple[DistanceRow, ...]  # for each distance from the goal
    calibration: ConfidenceCalibration | None  # None if no probabilities were recorded


def behaviour(trajectories: Walks, *, confidence: float = 0.95) -> SuiteBehaviour:
    """Measure the trajectories of one agent in one suite."""
    seen = observed(trajectories)

    def groups(*merged: str) -> list[tuple[_Labels, Observed]]:
        """Group trajectories by their labels except the merged ones, in order of appearance."""
        kinds: dict[_Labels, list[int]] = {}
        changes: dict[str, Any] = dict.fromkeys(merged)
        for number in np.unique(seen.kind).tolist():
            kinds.setdefault(seen.kinds[number]._replace(**changes)[1:], []).append(number)
        return [(labels, seen.where(np.isin(seen.kind, each))) for labels, each in kinds.items()]

    def rows(*merged: str) -> tuple[Row, ...]:
        return tuple(row(part, confidence, labels) for labels, part in groups(*merged))

    by_distance = []
    for (_, _, frame, condition), part in groups("size", "complexity"):
        grids = Grids(part, confidence)
        # Distances are not chosen by the user, so there are no strata.
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
    """Measure trajectories that have each grid in one frame and condition only."""
    grids = Grids(seen, confidence)
    grid_of, counts, optimal, is_detour = grids.visited()
    shares = counts / counts.sum(axis=1, keepdims=True)
    # The fifth answer is an invalid one.
    optimal = np.pad(optimal, ((0, 0), (0, 1)))
    # Where no way leads to the goal, no action is optimal.
    uniform = optimal / np.maximum(optimal.sum(axis=1, keepdims=True), 1)
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
        entropy=grids.states(corrected, grid_of, bounds=(0.0, _MOST_CORRECTED)),
        entropy_plug_in=grids.states(plug_in, grid_of, bounds=(0.0, _MOST_BITS)),
        jsd=grids.states(discrimination.jensen_shannon(shares, uniform), grid_of),
        mass=grids.states(mass, grid_of),
        mass_detour=grids.states(mass[is_detour], grid_of[is_detour]),
        invalid=grids.steps(seen.action == INVALID),
    )


# --- Exact values ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class Exact:
    """Exact values of a policy in one world."""

    # Probability of an optimal action, averaged over the states that can be reached from an open
    # cell without the key and that can reach the goal. In a maze these are the open cells.
    accuracy: float
    accuracy_detour: float  # the same over detour states; NaN if there are none
    states: int
    detours: int
    success: float  # probability of reaching the goal within the cap
    key: float  # probability of holding the key or neutral object at the end; NaN without one


def exact(policy: ArrayLike, plan: Plan, *, cap: int) -> Exact:
    """Return the exact values of a policy [states, 4], such as `Memoryless.policy`."""
    rows = np.asarray(policy, dtype=float)
    world, successors = plan.world, plan.plans.successors[plan.index]
    inside = _averaged_states(plan)
    optimal = plan.plans.optimal[plan.index]
    accuracy = (rows * optimal).sum(axis=1)
    greedy_accuracy = (grid_agents.greedy(plan) * optimal).sum(axis=1)
    detour = inside & (greedy_accuracy < 1 - 1e-9)
    # The distribution over states after the last step.
    mass: FloatArray = np.zeros(len(successors))
    mass[plan.number(plan.start)] = 1.0
    for _ in range(cap):
        mass = np.bincount(successors.ravel(), (mass[:, None] * rows).ravel()).astype(float)
    end = mass.reshape(LAYERS, *world.shape)
    return Exact(
        accuracy=float(accuracy[inside].mean()),
        accuracy_detour=float(accuracy[detour].mean()) if detour.any() else float("nan"),
        states=int(inside.sum()),
        detours=int(detour.sum()),
        success=float(end[:, world.goal.row, world.goal.column].sum()),
        key=float("nan") if world.thing is None else float(end[1:].sum()),
    )


def _averaged_states(plan: Plan) -> BoolArray:
    """Return a mask of the states that accuracy is averaged over, [states]; see `Exact`."""
    world = plan.world
    successors, distances = plan.plans.successors[plan.index], plan.plans.distances[plan.index]
    open_cells = ~world.walls
    for place in (world.goal, world.thing, world.door):
        if place is not None:
            open_cells[place] = False
    reached = np.zeros(len(successors), dtype=bool)
    front = np.flatnonzero(open_cells)  # the first layer is the one without the key
    while front.size:
        reached[front] = True
        front = np.setdiff1d(successors[front], np.flatnonzero(reached))
    return np.asarray(reached & (distances > 0))


# --- Mixed model ----------------------------------------------------------------------------------
# Accuracy of a walk = intercept + size + complexity + distance + random intercept of its grid +
# noise. The paper fits such a model to error rates, with frames.

TERMS = ("size", "complexity", "distance")


@dataclass(frozen=True)
class Term(JsonFields):
    """Coefficient of "intercept", "size" (rows), "complexity" or "distance" (steps)."""

    name: str
    coefficient: float
    stderr: float
    # From Student's t; degrees of freedom are the number of grids less the number of terms.
    interval: tuple[float, float]
    p_value: float  # two-sided


@dataclass(frozen=True)
class MixedModel(JsonFields):
    """Fit of the mixed model of accuracy."""

    terms: tuple[Term, ...]  # terms that vary among the walks; the intercept comes first
    between_grids: float  # standard deviation of the random intercepts
    within_grids: float  # standard deviation of the noise
    walks: int
    grids: int
    notes: tuple[str, ...]  # warnings of the fit


def mixed_model(trajectories: Walks, *, confidence: float = 0.95) -> MixedModel:
    """Fit the mixed model of accuracy by restricted maximum likelihood."""
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
            f"there are {len(seen.trajectories)} walks in {len(counts)} grids, expected at least 2 "
            f"grids and 2 walks in one of them for a mixed model"
        )
    columns = {"intercept": np.ones(len(seen.length))}
    for name in TERMS:  # only terms that vary and are known for all walks
        values = [getattr(walk, name) for walk in seen.trajectories]
        if None not in values and len(set(values)) > 1:
            columns[name] = np.array(values, dtype=float)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = models.MixedLM(
            seen.accuracy, np.stack(list(columns.values()), axis=1), groups=seen.grid
        ).fit(reml=True)
    # Terms are constant within a grid, so the number of grids sets the degrees of freedom. The
    # normal quantiles of the fit are valid for many grids only.
    freedom = max(1, len(counts) - len(columns))
    slopes, errors = np.asarray(fit.fe_params), np.asarray(fit.bse_fe)
    width = float(t.ppf(0.5 + confidence / 2, freedom)) * errors
    with np.errstate(divide="ignore", invalid="ignore"):
        p_values = 2 * t.sf(np.abs(slopes / errors), freedom)
    numbers = np.stack([slopes, errors, slopes - width, slopes + width, p_values], axis=1).tolist()
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
