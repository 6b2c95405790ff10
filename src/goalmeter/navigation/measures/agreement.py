"""Does an agent do the same in another frame, once the actions are relabelled?

`agreement` is how often an answer in the frame is that of the original; `self_agreement` is how
often two answers within a frame are the same, which is all that an agent that draws its answers can
reach. Their difference is half the squared distance between the two distributions: `shortfall`, 0
on average for an agent that does not mind the frame. Only states visited twice in both count, which
makes all three unbiased. Two answers that are no action never agree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from goalmeter._types import IntArray
from goalmeter.gridworld.planner import LAYERS
from goalmeter.gridworld.transforms import Transform
from goalmeter.gridworld.world import Cell
from goalmeter.navigation.measures.grids import DIFFERENCE
from goalmeter.navigation.measures.observed import INVALID, OUTCOMES, Observed
from goalmeter.statistics.clustered import Estimate, estimate


class _Answers(NamedTuple):
    counts: IntArray  # how often each answer was given in each state, [states, 5]
    shape: tuple[int, int]  # of the world


def agreements(
    seen: Observed, transform: Transform, confidence: float
) -> tuple[Estimate, Estimate, Estimate] | tuple[None, None, None]:
    """Agreement with the original, within each frame, and the difference.

    Each is a mean over states, then over the conditions of a grid, then over grids; None for a
    transform that is no isometry.
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
        estimate(across, confidence=confidence, bounds=(0.0, 1.0)),
        estimate(within, confidence=confidence, bounds=(0.0, 1.0)),
        estimate(within - across, confidence=confidence, bounds=DIFFERENCE, paired=True),
    )


def _pairs(before: IntArray, after: IntArray, transform: Transform) -> tuple[float, float] | None:
    """Pairs of equal answers across frames and within, as shares, averaged over states.

    Args:
        before: counts in the original, [states, 5].
        after: counts in the same states of the frame, under its labels, [states, 5].
        transform: the frame.
    """
    # Answers that were none are among the answers, not among those that can agree.
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
    """The answers in each grid under each condition in one frame."""
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
    """The number in the frame of each state of the original, [states]."""
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
