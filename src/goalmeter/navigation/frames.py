"""Changed frames of a task: equivalence of accuracy and consistency of actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from goalmeter._errors import InvalidTrajectoryError
from goalmeter._files import JsonFields
from goalmeter._types import FloatArray, IntArray
from goalmeter.gridworld.planner import LAYERS
from goalmeter.gridworld.world import TRANSFORMS, Cell, Transform
from goalmeter.navigation.steps import DIFFERENCE, INVALID, OUTCOMES, Grids, Observed, observed
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.statistics.clusters import Estimate, estimate
from goalmeter.statistics.verdicts import Equivalence, SignedRanks, equivalence, holm, signed_ranks

METRICS = ("success", "accuracy", "spl")
MARGIN = 0.05


@dataclass(frozen=True)
class Comparison(JsonFields):
    """One metric in a frame against the original, over pairs of grids.

    Attributes:
        metric: "success", "accuracy" or "spl".
        base, changed: means over grids of the original and of the frame.
        difference: changed less base.
        test: Wilcoxon's, as published.
        equivalence: test that they are equal to within the margin.
        test_corrected, equivalence_corrected: p-values corrected for the number of frames.
    """

    metric: str
    base: float
    changed: float
    difference: Estimate
    test: SignedRanks
    test_corrected: float
    equivalence: Equivalence
    equivalence_corrected: float


@dataclass(frozen=True)
class Frame(JsonFields):
    """One frame against the original.

    Attributes:
        transform: name.
        isometry: whether nothing but labels changes.
        pairs: number of grids in both.
        comparisons: one for each metric.
        agreement: of relabelled answers across frames; None unless an isometry.
        self_agreement: within each frame.
        shortfall: self_agreement less agreement.
    """

    transform: str
    isometry: bool
    pairs: int
    comparisons: tuple[Comparison, ...]
    agreement: Estimate | None
    self_agreement: Estimate | None
    shortfall: Estimate | None


@dataclass(frozen=True)
class Frames(JsonFields):
    """Every frame of a suite; means within `margin` (a share) count as equal."""

    margin: float
    frames: tuple[Frame, ...]


def frames(trajectories: Sequence[Trajectory] | Observed, *, margin: float = MARGIN) -> Frames:
    """Compare every frame with the original."""
    seen = observed(trajectories)
    names = list(dict.fromkeys(kind.transform for kind in seen.kinds))
    means = {name: _means(seen, name) for name in names}
    changed = [name for name in names if name is not None]
    compared = {name: _compared(means[None], means[name], name, margin) for name in changed}
    for metric in range(len(METRICS)):
        column = [compared[name][metric] for name in changed]
        published = holm([c.test.p_value for c in column])
        equal = holm([c.equivalence.p_value for c in column])
        for name, published_p, equal_p in zip(changed, published, equal, strict=True):
            compared[name][metric] = replace(
                compared[name][metric], test_corrected=published_p, equivalence_corrected=equal_p
            )
    return Frames(
        margin,
        tuple(
            Frame(
                name,
                TRANSFORMS[name].isometry,
                len(means[None].keys() & means[name].keys()),
                tuple(compared[name]),
                *_agreements(seen, TRANSFORMS[name]),
            )
            for name in changed
        ),
    )


def _means(seen: Observed, transform: str | None) -> dict[int, FloatArray]:
    """Mean metrics of each grid in a frame."""
    wanted = [number for number, kind in enumerate(seen.kinds) if kind.transform == transform]
    of_frame = seen.where(np.isin(seen.kind, wanted))
    grids = Grids(of_frame, 0.95)
    walked = of_frame.length > 0
    success = grids.means(grids.cluster, of_frame.arrived.astype(float))[0]
    accuracy, known = grids.means(grids.cluster[walked], of_frame.accuracy[walked])
    accuracy = np.where(known > 0, accuracy, np.nan)
    columns = np.stack([success, accuracy, grids.means(grids.cluster, of_frame.spl)[0]], axis=1)
    return {int(grid): values for grid, values in zip(grids.numbers, columns, strict=True)}


def _compared(
    base: dict[int, FloatArray], changed: dict[int, FloatArray], name: str, margin: float
) -> list[Comparison]:
    pairs = sorted(base.keys() & changed.keys())
    if not pairs:
        raise InvalidTrajectoryError(
            f"none of the grids in the frame {name!r} was walked through in the original"
        )
    original = np.array([base[pair] for pair in pairs])
    turned = np.array([changed[pair] for pair in pairs])
    out = []
    for column, metric in enumerate(METRICS):
        known = ~np.isnan(original[:, column] + turned[:, column])
        before, after = original[known, column], turned[known, column]
        # Rounding must not make a difference of two equal means.
        difference = np.round(after - before, 12)
        out.append(
            Comparison(
                metric,
                estimate(before).value,
                estimate(after).value,
                estimate(difference, bounds=DIFFERENCE, paired=True),
                signed_ranks(difference),
                float("nan"),
                equivalence(difference, margin, bounds=DIFFERENCE),
                float("nan"),
            )
        )
    return out


# --- Agreement of actions -------------------------------------------------------------------------
class _Answers(NamedTuple):
    counts: IntArray  # how often each answer was given in each state, [states, 5]
    shape: tuple[int, int]  # of the world


def _agreements(
    seen: Observed, transform: Transform
) -> tuple[Estimate, Estimate, Estimate] | tuple[None, None, None]:
    """Agreement with the original, within each frame, and the difference.

    Each is averaged over states, conditions of a grid and grids.
    """
    if not transform.isometry:
        return None, None, None
    original, changed = _answers(seen, None), _answers(seen, transform.name)
    by_grid: dict[int, list[tuple[float, float]]] = {}
    for grid, condition in original.keys() & changed.keys():
        before = original[grid, condition]
        moved = _moved(transform, before.shape)
        pairs = _pairs(before.counts, changed[grid, condition].counts[moved], transform)
        if pairs is not None:
            by_grid.setdefault(grid, []).append(pairs)
    means = [np.mean(by_grid[grid], axis=0) for grid in sorted(by_grid)]
    across, within = np.array(means).reshape(-1, 2).T
    return (
        estimate(across, bounds=(0.0, 1.0)),
        estimate(within, bounds=(0.0, 1.0)),
        estimate(within - across, bounds=DIFFERENCE, paired=True),
    )


def _pairs(before: IntArray, after: IntArray, transform: Transform) -> tuple[float, float] | None:
    """Shares of pairs of equal answers across frames and within, averaged over states.

    Counts [states, 5] are of the original and of the same states in the frame. Invalid answers
    agree with none.
    """
    n, m = before.sum(axis=1), after.sum(axis=1)
    twice = (n >= 2) & (m >= 2)
    if not twice.any():
        return None
    n, m = n[twice], m[twice]
    first, second = before[twice, :INVALID], after[twice][:, list(transform.actions)]
    across = (first * second).sum(axis=1) / (n * m)
    within = (first * (first - 1)).sum(axis=1) / (n * (n - 1))
    within = within + (second * (second - 1)).sum(axis=1) / (m * (m - 1))
    return float(across.mean()), float(within.mean() / 2)


def _answers(seen: Observed, transform: str | None) -> dict[tuple[int, str], _Answers]:
    """Answers in each grid under each condition in one frame."""
    out: dict[tuple[int, str], _Answers] = {}
    ends = np.cumsum(seen.length)
    for number, walk in enumerate(seen.trajectories):
        kind = seen.kinds[seen.kind[number]]
        if kind.transform != transform:
            continue
        key = int(seen.grid[number]), kind.condition
        if key not in out:
            size = LAYERS * walk.world.walls.size
            out[key] = _Answers(np.zeros((size, OUTCOMES), np.int64), walk.world.shape)
        steps = slice(ends[number] - seen.length[number], ends[number])
        np.add.at(out[key].counts, (seen.state[steps], seen.action[steps]), 1)
    return out


def _moved(transform: Transform, shape: tuple[int, int]) -> IntArray:
    """Number in the frame of each state of the original, [states]."""
    rows, columns = shape
    corner = transform.cell(Cell(rows - 1, columns - 1), shape)
    origin = transform.cell(Cell(0, 0), shape)
    height = abs(corner.row - origin.row) + 1
    width = abs(corner.column - origin.column) + 1
    out = np.empty((LAYERS, rows, columns), dtype=np.int64)
    for row, column in np.ndindex(rows, columns):
        to = transform.cell(Cell(row, column), shape)
        out[:, row, column] = (np.arange(LAYERS) * height + to.row) * width + to.column
    return out.reshape(-1)
