"""The table of behaviour: one row for each size and complexity, and rows over several of them.

Definitions (facts of the paper's section 3 where they are its own):

- success: ended at the goal within the cap. SPL: success times shortest path over steps taken.
- accuracy: share of optimal actions in a walk, averaged over walks of a grid, then over grids;
  `accuracy_pooled` is the share among all steps.
- A detour state is one where the compass may err: the probability that the greedy agent chooses an
  optimal action there is less than 1. `accuracy_detour` is the share of optimal actions
  among the steps in such states, `greedy_detour` what the greedy agent would have there on average,
  `beyond_greedy` the difference. They tell a plan from a compass.
- regret: steps lost by all decisions of a walk, as far as it went.
- Of all answers in one state of one grid, pooled over its walks: `entropy` with Miller and Madow's
  correction and `entropy_plug_in`, in bits; `jsd`, the divergence from the uniform distribution
  over the optimal actions, in bits (a deterministic agent that chooses one of two has 0.311);
  `mass`, their share that is optimal, and `mass_detour` in detour states. Each is averaged over
  visited states of a grid, then over grids. A state that was visited once has entropy 0, so
  entropies of few walks are too low whatever the correction.
- invalid: share of answers that were no action. They count as wrong in all of the above, and as a
  fifth kind of answer in distributions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._json import JsonFields
from goalmeter._types import BoolArray
from goalmeter.navigation.measures.calibrated import Calibration, calibration
from goalmeter.navigation.measures.grids import DIFFERENCE, Grids
from goalmeter.navigation.measures.observed import INVALID, OUTCOMES, Kind, Observed, observed
from goalmeter.navigation.record import Trajectory
from goalmeter.statistics.clustered import Estimate
from goalmeter.statistics.entropy import jensen_shannon, miller_madow_entropy, plug_in_entropy

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
