"""Averages that respect where the data come from: decisions lie in walks, and walks in grids.

A mean over walks is taken as the paper takes it: of each grid's walks first, then of the grids of a
kind (a size and complexity in a frame), then of kinds. A pooled share divides sums of steps over
all grids of a kind. Either way the grid is what was drawn at random, so intervals are over grids.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._types import ArrayLike, BoolArray, FloatArray, IntArray
from goalmeter.navigation.measures.observed import OUTCOMES, Observed
from goalmeter.statistics.clustered import Estimate, estimate

UNIT = (0.0, 1.0)
DIFFERENCE = (-1.0, 1.0)  # of two shares
Bounds = tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class States:
    """The answers in each visited state, pooled over the walks of its grid: K of them.

    Attributes:
        cluster: number of the grid, [K].
        counts: of the four actions and of answers that were none, [K, 5].
        optimal: whether an action is optimal there, [K, 4].
        detour: whether the compass may err there, [K].
    """

    cluster: IntArray
    counts: IntArray
    optimal: BoolArray
    detour: BoolArray


class Grids:
    """Some trajectories by grid, with the averages over them.

    Every grid has one kind: a set of trajectories holds no grid in two frames or conditions.

    Args:
        seen: the trajectories.
        confidence: nominal coverage of intervals.
    """

    def __init__(self, seen: Observed, confidence: float) -> None:
        self.seen = seen
        self.confidence = confidence
        self.numbers, first, cluster = np.unique(seen.grid, return_index=True, return_inverse=True)
        self.strata = seen.kind[first]
        self.cluster = np.asarray(cluster, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.numbers)

    def walks(
        self,
        values: ArrayLike,
        *,
        known: BoolArray | None = None,
        bounds: Bounds = UNIT,
        paired: bool = False,
    ) -> Estimate:
        """The mean over walks of a grid, grids of a kind, kinds; of values [N] that are known.

        `bounds` are the least and the greatest possible value; `paired` as in `estimate`.
        """
        kept = np.ones(len(self.cluster), dtype=bool) if known is None else known
        means, has_any = self.means(self.cluster[kept], np.asarray(values, dtype=float)[kept])
        return self._estimate(means, has_any, 1.0, int(kept.sum()), bounds, paired)

    def steps(
        self,
        values: ArrayLike,
        *,
        among: BoolArray | None = None,
        bounds: Bounds = UNIT,
        paired: bool = False,
    ) -> Estimate:
        """The mean over all steps of a kind, then over kinds; of values [M], among some steps.

        `bounds` and `paired` as in `walks`.
        """
        of = self.cluster[self.seen.trajectory]
        kept = np.ones(len(of), dtype=bool) if among is None else among
        sums: FloatArray = np.bincount(
            of[kept], np.asarray(values, dtype=float)[kept], len(self)
        ).astype(float)
        counts = np.bincount(of[kept], minlength=len(self))
        return self._estimate(sums, counts, self.most_steps(), int(kept.sum()), bounds, paired)

    def most_steps(self) -> FloatArray:
        """How many steps the walks of each grid could have had, [C]: an agent may be stuck."""
        caps = [walk.cap for walk in self.seen.trajectories]
        return np.bincount(self.cluster, caps, len(self)).astype(float)

    def states(self, values: ArrayLike, cluster: IntArray, *, bounds: Bounds = UNIT) -> Estimate:
        """The mean over states of a grid, grids of a kind, kinds."""
        means, has_any = self.means(cluster, np.asarray(values, dtype=float))
        return self._estimate(means, has_any, 1.0, len(cluster), bounds, False)

    def visited(self) -> States:
        """The answers in each state."""
        seen = self.seen
        of = self.cluster[seen.trajectory]
        most = int(seen.state.max(initial=0)) + 1
        keys, first, index = np.unique(
            of * most + seen.state, return_index=True, return_inverse=True
        )
        counts = np.zeros((len(keys), OUTCOMES), dtype=np.int64)
        np.add.at(counts, (index, seen.action), 1)
        return States(of[first], counts, seen.optimal[first], seen.detour[first])

    def means(self, cluster: IntArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The mean of each grid, and 1 for those that have any value, 0 for others: [C] each."""
        counts = np.bincount(cluster, minlength=len(self))
        sums = np.bincount(cluster, values, len(self))
        return sums / np.maximum(counts, 1), np.asarray(counts > 0, dtype=float)

    def _estimate(
        self,
        tops: FloatArray,
        bottoms: ArrayLike,
        heaviest: ArrayLike,
        n: int,
        bounds: Bounds,
        paired: bool,
    ) -> Estimate:
        return estimate(
            tops,
            bottoms,
            heaviest=heaviest,
            n=n,
            strata=self.strata,
            bounds=bounds,
            paired=paired,
            confidence=self.confidence,
        )
