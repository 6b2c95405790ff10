"""Changed frames of a task: equivalence of accuracy and consistency of actions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from goalmeter._errors import InvalidTrajectoryError
from goalmeter._files import JsonFields
from goalmeter._types import FloatArray, IntArray
from goalmeter.gridworld.planner import LAYERS
from goalmeter.gridworld.world import TRANSFORMS, Cell, GridWorld, Transform
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
from goalmeter.statistics.clusters import Estimate, estimate
from goalmeter.statistics.verdicts import (
    Equivalence,
    SignedRanks,
    Verdict,
    equivalence,
    holm,
    signed_ranks,
    verdict,
)

METRICS = {"success": "arrived", "accuracy": "accuracy", "spl": "spl"}  # columns of walks
ACCURACY = "accuracy"
MARGIN, LEVEL = 0.05, 0.05


@dataclass(frozen=True)
class FrameComparison(JsonFields):
    """Comparison of one metric between a frame and the original, over pairs of grids."""

    metric: str
    base: float  # mean over grids of the original
    changed: float  # mean over grids of the frame
    difference: Estimate  # changed less base
    test: SignedRanks  # Wilcoxon signed-rank test, as published
    test_corrected: float  # its p-value, corrected for the number of frames
    equivalence: Equivalence  # equivalence test with the margin
    equivalence_corrected: float

    @property
    def verdict(self) -> Verdict:
        """The verdict of both tests at `LEVEL`, corrected for the number of frames."""
        if self.equivalence_corrected < LEVEL:
            return Verdict.EQUAL
        # So written that NaN, where no test can be made, is not taken for a difference.
        if not self.test_corrected < LEVEL:
            return Verdict.UNTOLD
        # Wilcoxon's test has no direction of the mean, so the interval of the mean must have one.
        return verdict(self.difference.interval, margin=0)


@dataclass(frozen=True)
class Frame(JsonFields):
    """Comparison of one frame with the original."""

    transform: str  # name
    isometry: bool  # whether only labels change
    pairs: int  # number of grids in both frames
    comparisons: tuple[FrameComparison, ...]  # one for each metric
    agreement: Estimate | None  # of relabelled answers across frames; None unless an isometry
    self_agreement: Estimate | None  # agreement within each frame
    shortfall: Estimate | None  # self_agreement less agreement


@dataclass(frozen=True)
class Frames(JsonFields):
    """Comparisons of every frame of a suite; means within `margin` (a share) count as equal."""

    margin: float
    frames: tuple[Frame, ...]


def frames(trajectories: Walks, *, margin: float = MARGIN) -> Frames:
    """Compare every frame with the original."""
    seen = observed(trajectories)
    names = _frames_in(seen)
    base, *changed = (_in_frame(seen, name) for name in (None, *names))
    by_metric = []
    for metric, column in METRICS.items():
        parts = [_compare(metric, base.pairs(grids, column), margin) for grids in changed]
        published = holm([part.test.p_value for part in parts])
        equal = holm([part.equivalence.p_value for part in parts])
        by_metric.append(
            [
                replace(part, test_corrected=p, equivalence_corrected=q)
                for part, p, q in zip(parts, published, equal, strict=True)
            ]
        )
    out = []
    for name, grids, *comparisons in zip(names, changed, *by_metric, strict=True):
        transform, pairs = TRANSFORMS[name], len(np.intersect1d(base.numbers, grids.numbers))
        if not pairs:
            raise InvalidTrajectoryError(
                f"no grid in the frame {name!r} has walks in the original frame"
            )
        agreements = _agreements(seen, transform)
        out.append(Frame(name, transform.isometry, pairs, tuple(comparisons), *agreements))
    return Frames(margin, tuple(out))


def _frames_in(seen: Observed) -> list[str]:
    """Return the names of the changed frames."""
    return list(dict.fromkeys(kind.transform for kind in seen.kinds if kind.transform))


def _in_frame(seen: Observed, transform: str | None) -> Grids:
    kinds = [number for number, kind in enumerate(seen.kinds) if kind.transform == transform]
    return Grids(seen.where(np.isin(seen.kind, kinds)))


def _compare(metric: str, pairs: FloatArray, margin: float) -> FrameComparison:
    before, after = pairs.T
    # Rounding removes differences of equal means in the last digits.
    difference = np.round(after - before, 12)
    return FrameComparison(
        metric,
        base=estimate(before).value,
        changed=estimate(after).value,
        difference=estimate(difference, bounds=DIFFERENCE, paired=True),
        test=signed_ranks(difference),
        test_corrected=float("nan"),
        equivalence=equivalence(difference, margin, bounds=DIFFERENCE),
        equivalence_corrected=float("nan"),
    )


# --- Invariance -----------------------------------------------------------------------------------
SHORTFALL = "shortfall"


def invariance(trajectories: Walks) -> dict[str, dict[str, float]]:
    """Return what changes in each grid with a rotation or reflection, by name and grid.

    Each metric of `METRICS` has its mean over the isometries less that in the original frame, and
    "shortfall" is the agreement of two answers within a frame less that of relabelled answers
    across frames, averaged over the isometries: 0 for an agent that does not see the frame. Grids
    without two answers in a state have none.
    """
    seen = observed(trajectories)
    images = [name for name in TRANSFORMS if name in _frames_in(seen) and TRANSFORMS[name].isometry]
    base, *changed = (_in_frame(seen, name) for name in (None, *images))
    agreements = [_agreement_by_grid(seen, TRANSFORMS[name]) for name in images]
    out: dict[str, dict[str, float]] = {}
    for metric, column in METRICS.items():
        before, *after = (grids.means(getattr(grids.seen, column)) for grids in (base, *changed))
        changes = np.mean(after, axis=0) - before
        out[metric] = dict(zip(base.names, changes.tolist(), strict=True))
    out[SHORTFALL] = {}
    for grid, name in zip(base.numbers.tolist(), base.names, strict=True):
        if pairs := [each[grid] for each in agreements if grid in each]:
            across, within = np.mean(pairs, axis=0)
            out[SHORTFALL][name] = float(within - across)
    return out


# --- Agreement of actions -------------------------------------------------------------------------
def _agreements(
    seen: Observed, transform: Transform
) -> tuple[Estimate, Estimate, Estimate] | tuple[None, None, None]:
    """Estimate agreement with the original, agreement within each frame, and the difference."""
    if not transform.isometry:
        return None, None, None
    means = [*_agreement_by_grid(seen, transform).values()]
    across, within = np.array(means).reshape(-1, 2).T
    return (
        estimate(across, bounds=UNIT),
        estimate(within, bounds=UNIT),
        estimate(within - across, bounds=DIFFERENCE, paired=True),
    )


def _agreement_by_grid(seen: Observed, transform: Transform) -> dict[int, FloatArray]:
    """Return agreement with the original and within each frame by grid, over conditions."""
    original, changed = _answers(seen, None), _answers(seen, transform.name)
    by_grid: dict[int, list[tuple[float, float]]] = {}
    for grid, condition in original.keys() & changed.keys():
        world, before = original[grid, condition]
        after = changed[grid, condition][1][_frame_states(transform, world.shape)]
        if (pairs := _pairs(before, after[:, [*transform.actions, INVALID]])) is not None:
            by_grid.setdefault(grid, []).append(pairs)
    return {grid: np.mean(by_grid[grid], axis=0) for grid in sorted(by_grid)}


def _pairs(before: IntArray, after: IntArray) -> tuple[float, float] | None:
    """Return the shares of equal pairs of answers, across and within frames, over states."""
    n, m = before.sum(axis=1), after.sum(axis=1)
    twice = (n >= 2) & (m >= 2)
    if not twice.any():
        return None
    n, m, first, second = n[twice], m[twice], before[twice, :INVALID], after[twice, :INVALID]
    across = (first * second).sum(axis=1) / (n * m)
    within = (first * (first - 1)).sum(axis=1) / (n * (n - 1))
    within = within + (second * (second - 1)).sum(axis=1) / (m * (m - 1))
    return float(across.mean()), float(within.mean() / 2)


def _answers(
    seen: Observed, transform: str | None
) -> dict[tuple[int, str], tuple[GridWorld, IntArray]]:
    """Return world and answer counts [states, 5] of each grid and condition in one frame."""
    out: dict[tuple[int, str], tuple[GridWorld, IntArray]] = {}
    for number, walk in enumerate(seen.trajectories):
        kind = seen.kinds[seen.kind[number]]
        if kind.transform == transform:
            none = np.zeros((LAYERS * walk.world.walls.size, OUTCOMES), dtype=np.int64)
            key = int(seen.grid[number]), kind.condition
            _, counts = out.setdefault(key, (walk.world, none))
            steps = seen.steps_of(number)
            np.add.at(counts, (seen.state[steps], seen.action[steps]), 1)
    return out


def _frame_states(transform: Transform, shape: tuple[int, int]) -> IntArray:
    """Return the number in the frame of each state of the original, [states]."""
    rows, columns = shape
    to = np.array([transform.cell(Cell(*place), shape) for place in np.ndindex(rows, columns)])
    height, width = to.max(axis=0) + 1
    layers = np.arange(LAYERS)[:, None] * height * width
    return np.asarray((layers + to[:, 0] * width + to[:, 1]).reshape(-1))
