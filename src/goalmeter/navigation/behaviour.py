"""The table of behaviour: accuracy, success and calibration by size and complexity.

Also the exact values of memoryless agents and a mixed model of accuracy.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidTrajectoryError, require
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
    Kind,
    Observed,
    observed,
)
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.statistics.clusters import Estimate, estimate, estimate_of_sums
from goalmeter.statistics.discrimination import (
    calibration_of_sums,
    calibration_sums,
    confidence_bins,
    jensen_shannon,
    miller_madow_entropy,
    plug_in_entropy,
)

# --- Calibrated -----------------------------------------------------------------------------------
# Confidence is the greatest probability of an action; it is right if that action is optimal, and by
# halves if it is one of two equally probable ones.

BINS = 10


@dataclass(frozen=True)
class Bin(JsonFields):
    """Steps of like confidence: how sure, how often right, how many."""

    confidence: float
    accuracy: float
    steps: int


@dataclass(frozen=True)
class Calibration(JsonFields):
    """Calibration over steps, with intervals clustered by grid.

    Attributes:
        error: expected calibration error over 10 bins, the last one closed.
        brier: mean squared distance between confidence and being right.
        steps: with probabilities.
        unknown: steps without.
        bins: those that have steps.
    """

    error: Estimate
    brier: Estimate
    steps: int
    unknown: int
    bins: tuple[Bin, ...]


def calibration(seen: Observed, *, confidence: float = 0.95) -> Calibration | None:
    """The calibration of some trajectories; None if no step has probabilities."""
    known = np.asarray(~np.isnan(seen.probabilities).any(axis=1))
    steps = int(known.sum())
    if not steps:
        return None
    probabilities, optimal = seen.probabilities[known], seen.optimal[known]
    sure = probabilities.max(axis=1)
    modal = probabilities >= sure[:, None] - 1e-12
    right = (modal & optimal).sum(axis=1) / modal.sum(axis=1)
    names, cluster = np.unique(seen.grid[seen.trajectory[known]], return_inverse=True)
    bin_of = confidence_bins(sure, BINS)
    squares = np.bincount(cluster, (sure - right) ** 2, len(names))
    steps_of = np.bincount(cluster, minlength=len(names))
    caps = np.array([walk.cap for walk in seen.trajectories])
    most_steps = np.array([caps[seen.grid == name].sum() for name in names])
    return Calibration(
        error=estimate_of_sums(
            calibration_sums(sure, right, cluster, len(names), BINS),
            calibration_of_sums,
            n=steps,
            heaviest=float(most_steps.max() / steps_of.mean()),
            bounds=UNIT,
            confidence=confidence,
        ),
        brier=estimate(
            squares,
            steps_of,
            heaviest=most_steps,
            n=steps,
            bounds=UNIT,
            confidence=confidence,
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
# Definitions (facts of the paper's section 3 where they are its own):
#
# - success: ended at the goal within the cap. SPL: success times shortest path over steps taken.
# - accuracy: share of optimal actions in a walk, averaged over walks of a grid, then over grids;
#   `accuracy_pooled` is the share among all steps.
# - A detour state is one where the compass may err: the probability that the greedy agent chooses
# an
#   optimal action there is less than 1. `accuracy_detour` is the share of optimal actions
#     among the steps in such states, `greedy_detour` what the greedy agent would have there on
#   average,
#   `beyond_greedy` the difference. They tell a plan from a compass.
# - regret: steps lost by all decisions of a walk, as far as it went.
# - Of all answers in one state of one grid, pooled over its walks: `entropy` with Miller and
# Madow's
#   correction and `entropy_plug_in`, in bits; `jsd`, the divergence from the uniform distribution
#   over the optimal actions, in bits (a deterministic agent that chooses one of two has 0.311);
#   `mass`, their share that is optimal, and `mass_detour` in detour states. Each is averaged over
#   visited states of a grid, then over grids. A state that was visited once has entropy 0, so
#   entropies of few walks are too low whatever the correction.
# - invalid: share of answers that were no action. They count as wrong in all of the above, and as a
#   fifth kind of answer in distributions.

# All kinds of answers as often; the correction adds most where each was given once.
_MOST_BITS = float(np.log2(OUTCOMES))
_MOST_CORRECTED = _MOST_BITS + (OUTCOMES - 1) / (2 * np.log(2) * OUTCOMES)

_Labels = tuple[int | None, float | None, str | None, str]  # size, complexity, frame, condition


class _FlatFields:
    """A dataclass of estimates under a condition, whose JSON is one level deep."""

    condition: str

    def to_json(self) -> dict[str, Any]:
        """Numbers under their names, with NAME_interval and NAME_n beside each estimate."""
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
    """What was measured of some trajectories; the head of the module says what each measure is.

    Attributes:
        size: None for a row over several.
        complexity: None for a row over several, and where there is none.
        transform: name of the frame; None for the grids as they were generated.
        condition: as JSON.
        grids: how many.
        trajectories: how many.
        outcomes: how many trajectories had each outcome.
    """

    size: int | None
    complexity: float | None
    transform: str | None
    condition: str
    grids: int
    trajectories: int
    outcomes: dict[str, int]
    success: Estimate
    spl: Estimate
    accuracy: Estimate
    accuracy_pooled: Estimate
    accuracy_detour: Estimate
    greedy_detour: Estimate
    beyond_greedy: Estimate
    regret: Estimate
    entropy: Estimate
    entropy_plug_in: Estimate
    jsd: Estimate
    mass: Estimate
    mass_detour: Estimate
    invalid: Estimate


@dataclass(frozen=True)
class DistanceRow(_FlatFields):
    """Accuracy at one distance from the goal, among all steps there.

    Attributes:
        transform: name of the frame.
        condition: as JSON.
        distance: steps from the state to the goal.
        accuracy: share of optimal actions.
        greedy: what the greedy agent would have there on average.
    """

    transform: str | None
    condition: str
    distance: int
    accuracy: Estimate
    greedy: Estimate


@dataclass(frozen=True)
class Behaviour(JsonFields):
    """How an agent behaved in a suite.

    Attributes:
        suite: its name.
        cells: for each size and complexity, in each frame and under each condition.
        by_size: over complexities.
        by_complexity: over sizes.
        overall: over both.
        by_distance: for each distance from the goal.
        calibration: where probabilities were recorded; None if nowhere.
    """

    suite: str
    cells: tuple[Row, ...]
    by_size: tuple[Row, ...]
    by_complexity: tuple[Row, ...]
    overall: tuple[Row, ...]
    by_distance: tuple[DistanceRow, ...]
    calibration: Calibration | None


def behaviour(
    trajectories: Sequence[Trajectory] | Observed, *, confidence: float = 0.95
) -> Behaviour:
    """Measure the trajectories of one agent in one suite.

    Args:
        trajectories: all of them, in any order.
        confidence: nominal coverage of intervals.
    """
    seen = observed(trajectories)

    def all_of(kind: Kind) -> _Labels:
        return None, None, kind.transform, kind.condition

    def rows(of: Callable[[Kind], _Labels]) -> tuple[Row, ...]:
        return tuple(
            row(seen.where(mask), confidence, labels) for labels, mask in _groups(seen, of)
        )

    return Behaviour(
        suite=", ".join(dict.fromkeys(grid.suite for grid in seen.grids)),
        cells=rows(lambda kind: kind[1:]),
        by_size=rows(lambda kind: (kind.size, None, kind.transform, kind.condition)),
        by_complexity=rows(lambda kind: (None, kind.complexity, kind.transform, kind.condition)),
        overall=rows(all_of),
        by_distance=tuple(
            distance_row
            for (_, _, frame, condition), mask in _groups(seen, all_of)
            for distance_row in _by_distance(seen.where(mask), confidence, frame, condition)
        ),
        calibration=calibration(seen, confidence=confidence),
    )


def row(seen: Observed, confidence: float, labels: _Labels) -> Row:
    """The row of some trajectories, no grid of which is in two frames or conditions."""
    grids = Grids(seen, confidence)
    states = grids.visited()
    shares = states.counts / states.counts.sum(axis=1, keepdims=True)
    # An answer that is no action is a fifth kind of answer, and never optimal.
    optimal = np.pad(states.optimal, ((0, 0), (0, 1)))
    uniform = optimal / optimal.sum(axis=1, keepdims=True)
    mass = (shares * optimal).sum(axis=1)
    detour, of = seen.detour, states.cluster
    return Row(
        *labels,
        grids=len(grids),
        trajectories=len(seen.trajectories),
        outcomes=dict(sorted(Counter(t.outcome for t in seen.trajectories).items())),
        success=grids.walks(seen.arrived),
        spl=grids.walks(seen.spl),
        # A walk that failed before its first step counts for success, and has no accuracy.
        accuracy=grids.walks(seen.accuracy, known=seen.length > 0),
        accuracy_pooled=grids.steps(seen.correct),
        accuracy_detour=grids.steps(seen.correct, among=detour),
        greedy_detour=grids.steps(seen.greedy, among=detour),
        beyond_greedy=grids.steps(
            seen.correct - seen.greedy, among=detour, bounds=DIFFERENCE, paired=True
        ),
        # A walk can lose two steps with each of its own: it leads away instead of closer.
        regret=grids.walks(
            np.bincount(seen.trajectory, seen.gap, minlength=len(seen.length)),
            bounds=(0.0, 2.0 * max(walk.cap for walk in seen.trajectories)),
        ),
        entropy=grids.states(
            miller_madow_entropy(states.counts), of, bounds=(0.0, _MOST_CORRECTED)
        ),
        entropy_plug_in=grids.states(plug_in_entropy(states.counts), of, bounds=(0.0, _MOST_BITS)),
        jsd=grids.states(jensen_shannon(shares, uniform), of),
        mass=grids.states(mass, of),
        mass_detour=grids.states(mass[states.detour], of[states.detour]),
        invalid=grids.steps(seen.action == INVALID),
    )


def _groups(seen: Observed, of: Callable[[Kind], _Labels]) -> list[tuple[_Labels, BoolArray]]:
    """The trajectories with the same labels, in the order in which the labels come up."""
    kinds: dict[_Labels, list[int]] = {}
    for number, kind in enumerate(seen.kinds):
        kinds.setdefault(of(kind), []).append(number)
    return [(labels, np.isin(seen.kind, numbers)) for labels, numbers in kinds.items()]


def _by_distance(
    seen: Observed, confidence: float, transform: str | None, condition: str
) -> list[DistanceRow]:
    pooled = Grids(seen, confidence)
    # Distances are not chosen, so that there are no strata to keep apart.
    pooled.strata = np.zeros_like(pooled.strata)
    return [
        DistanceRow(
            transform,
            condition,
            int(distance),
            pooled.steps(seen.correct, among=seen.to_goal == distance),
            pooled.steps(seen.greedy, among=seen.to_goal == distance),
        )
        for distance in np.unique(seen.to_goal)
    ]


# --- Exact ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Exact:
    """Exact values of a policy in one world.

    Attributes:
        accuracy: probability of an optimal action, averaged over every state that an agent can be
            in which is put without the key on any open cell (not the goal, the key or the door),
            and from which there is a way to the goal. In a maze these are the open cells: the
            protocol of asking for an action in every cell.
        accuracy_detour: the same over detour states, where the compass may err; NaN without any.
        states: how many there are.
        detours: how many of them are detour states.
        success: probability of being at the goal within the cap.
        key: probability of having the key, or the neutral object, by then; NaN without one.
    """

    accuracy: float
    accuracy_detour: float
    states: int
    detours: int
    success: float
    key: float


def exact(policy: ArrayLike, plan: Plan, *, cap: int) -> Exact:
    """The exact values of a policy.

    Args:
        policy: [states, 4] by the planner's numbers of states, as `Memoryless.policy` gives it.
        plan: of the world.
        cap: steps after which a walk is ended.

    Example: a compass in a maze without walls.
        >>> from goalmeter.agents.grid_agents import navigator
        >>> from goalmeter.gridworld import maze, plan
        >>> room = plan(maze(7, 0, seed=1).world)
        >>> found = exact(navigator("greedy").policy(room), room, cap=room.distance)
        >>> found.accuracy, found.success
        (1.0, 1.0)
    """
    rows = np.asarray(policy, dtype=float)
    inside = every_state(plan)
    if rows.shape != (len(inside), 4):
        raise InvalidParameterError(
            f"policy has shape {rows.shape}, expected [states, 4], here {(len(inside), 4)}"
        )
    if not (np.allclose(rows[inside].sum(axis=1), 1) and (rows[inside] >= 0).all()):
        raise InvalidParameterError("a row of the policy is no distribution over the four actions")
    optimal = plan.plans.optimal[plan.index]
    right = (rows * optimal).sum(axis=1)
    compass = (grid_agents.greedy(plan) * optimal).sum(axis=1)
    detour = inside & (compass < 1 - 1e-9)
    end = after(rows, plan, cap).reshape(LAYERS, *plan.world.shape)
    return Exact(
        accuracy=float(right[inside].mean()),
        accuracy_detour=float(right[detour].mean()) if detour.any() else float("nan"),
        states=int(inside.sum()),
        detours=int(detour.sum()),
        success=float(end[:, plan.world.goal.row, plan.world.goal.column].sum()),
        key=float("nan") if plan.world.thing is None else float(end[1:].sum()),
    )


def after(policy: FloatArray, plan: Plan, steps: int) -> FloatArray:
    """Where an agent is after some steps from the start, as a distribution, [states]."""
    successors = plan.plans.successors[plan.index]
    mass: FloatArray = np.zeros(len(successors))
    mass[plan.number(plan.start)] = 1.0
    # The goal leads to itself, so who has arrived stays there.
    for _ in range(steps):
        moved = (mass[:, None] * policy).reshape(-1)
        mass = np.bincount(successors.reshape(-1), moved).astype(float)
    return mass


def every_state(plan: Plan) -> BoolArray:
    """Whether a state is one of those that accuracy is averaged over, [states]; see `Exact`."""
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


# --- Mixed ----------------------------------------------------------------------------------------
# A linear mixed model: accuracy of a walk = intercept + size + complexity + distance + grid +
# noise, where grids have a random intercept.
#
# Source: the authors of the paper fit such a model by hand; theirs is of error rates, with frames.

INTERCEPT = "intercept"
TERMS = ("size", "complexity", "distance")


@dataclass(frozen=True)
class Term(JsonFields):
    """One coefficient: accuracy gained by one more row, unit of complexity, or step.

    Attributes:
        name: "intercept", "size", "complexity" or "distance".
        coefficient: the estimate.
        stderr: its standard error.
        interval: Student's t, with a degree of freedom for each grid less one for each term, at
            the nominal coverage that was asked for.
        p_value: two-sided, that it is 0, by the same.
    """

    name: str
    coefficient: float
    stderr: float
    interval: tuple[float, float]
    p_value: float


@dataclass(frozen=True)
class MixedModel(JsonFields):
    """The fit.

    Attributes:
        terms: those that vary among the walks, the intercept first.
        between_grids: standard deviation of the random intercepts.
        within_grids: standard deviation of the noise.
        walks: observations.
        grids: groups.
        notes: what the fit had to say, such as that it did not converge.
    """

    terms: tuple[Term, ...]
    between_grids: float
    within_grids: float
    walks: int
    grids: int
    notes: tuple[str, ...]


def mixed_model(
    trajectories: Sequence[Trajectory] | Observed, *, confidence: float = 0.95
) -> MixedModel:
    """Fit the model by restricted maximum likelihood.

    The normal quantiles that the fit itself offers are right for many grids only: with five and
    three terms they reach less than half as far as Student's t.

    Walks without a decision have no accuracy and are left out. A term that is the same for all
    walks, or not known for some, is left out as well.
    """
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
    columns = {INTERCEPT: np.ones(len(seen.length))}
    for name in TERMS:
        values = [getattr(walk, name) for walk in seen.trajectories]
        if None not in values and len(set(values)) > 1:
            columns[name] = np.array(values, dtype=float)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = models.MixedLM(
            seen.accuracy, np.stack(list(columns.values()), axis=1), groups=seen.grid
        ).fit(reml=True)
    # Size, complexity and distance are those of a grid: its walks add nothing to tell them by.
    freedom = max(1, len(counts) - len(columns))
    estimates, errors = np.asarray(fit.fe_params), np.asarray(fit.bse_fe)
    reach = float(t.ppf(0.5 + confidence / 2, freedom)) * errors
    with np.errstate(divide="ignore", invalid="ignore"):
        p_values = 2 * t.sf(np.abs(estimates / errors), freedom)
    return MixedModel(
        terms=tuple(
            Term(
                name,
                float(estimates[i]),
                float(errors[i]),
                (float(estimates[i] - reach[i]), float(estimates[i] + reach[i])),
                float(p_values[i]),
            )
            for i, name in enumerate(columns)
        ),
        between_grids=float(np.sqrt(np.asarray(fit.cov_re)[0, 0])),
        within_grids=float(np.sqrt(fit.scale)),
        walks=len(seen.length),
        grids=len(counts),
        notes=tuple(dict.fromkeys(str(warning.message) for warning in caught)),
    )
