"""One rationality for the walks of many worlds: its fit, its interval, and what it explains.

The fit is to the mean over the walks of a grid, the grids of a kind and kinds, as any average of
navigation. Intervals are over grids, and fit again without each of them.

A utility and its negation have the same goal-directedness, so nats are given a sign: below 0 the
fitted rationality is, and the agent keeps away from the thing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from goalmeter._types import FloatArray, IntArray
from goalmeter.gridworld.world import ACTIONS
from goalmeter.navigation.directed.rationality import (
    Curves,
    RationalityFit,
    best_fit,
    rationality_of,
    signed_nats,
)
from goalmeter.navigation.measures.grids import Grids
from goalmeter.statistics.clustered import Estimate, estimate_of_sums

_CHI_SQUARE = 3.841  # 95% of it, with one degree of freedom


class Clusters(Protocol):
    """Which walks are of one grid, and which grids of one kind, as `Grids` has it."""

    @property
    def cluster(self) -> IntArray:
        """Number of the grid of each walk, from 0 without gaps, [N]."""

    @property
    def strata(self) -> IntArray:
        """The kind of each grid."""

    def __len__(self) -> int:
        """How many grids there are."""


@dataclass(frozen=True)
class GoalFit:
    """How far the wish for one thing explains the walks.

    Attributes:
        nats: a walk, corrected for the bias of a fit; below 0 if the agent keeps away from it.
        share: of `maximum`; with the same sign.
        maximum: nats a walk if every decision were explained: log 4 each.
        rationality: that of the fit, nats that a step of having it is worth; infinite where no
            decision speaks against.
    """

    nats: Estimate
    share: Estimate
    maximum: float
    rationality: float

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "nats": self.nats.to_json(),
            "share": self.share.to_json(),
            "maximum": self.maximum,
            "rationality": self.rationality,
        }


def goal_fit(grids: Grids, curves: Curves, most: FloatArray) -> GoalFit:
    """The best fit to the evidence of walks that could have given `most`, nats, [N]."""
    mean = _by_grid(grids, np.column_stack([curves.nats, most])).sum(axis=0) / _kinds(grids)
    best = best_fit(mean[:-1], curves.rationalities)
    maximum = float(mean[-1])
    seen = fitted(grids, [curves], lambda nats: nats)
    # A grid that was not seen may tell nothing of the thing, or all. Where the fit is not told
    # from chance, with one observation a grid, it may as well tell the opposite.
    told = 2.0 * seen.clusters * abs(seen.value) >= _CHI_SQUARE
    low = 0.0 if told and seen.value > 0 else -1.0
    high = 0.0 if told and seen.value < 0 else 1.0
    # Walks of an unseen grid may be longer than those that were seen, as long as caps let them.
    most_of_any = float(np.log(len(ACTIONS))) * max(walk.cap for walk in grids.seen.trajectories)
    return GoalFit(
        nats=fitted(
            grids, [curves], lambda nats: nats, bounds=(low * most_of_any, high * most_of_any)
        ),
        share=fitted(
            grids,
            [curves],
            lambda nats, most: nats / np.where(most > 0, most, np.nan),
            most,
            bounds=(low, high),
        ),
        maximum=maximum,
        rationality=float(rationality_of(best, curves.rationalities)),
    )


def fit_tops(grids: Clusters, curves: Curves) -> IntArray:
    """Indices of the rationalities that are best for all walks, and without each of the grids."""
    sums = _by_grid(grids, curves.nats)
    total = sums.sum(axis=0)
    return np.unique(best_fit(np.vstack([total, total - sums]), curves.rationalities).top)


def fitted(
    grids: Clusters,
    curves: Sequence[Curves],
    combine: Callable[..., FloatArray],
    *others: FloatArray,
    bounds: tuple[float, float] | None = None,
    paired: bool = False,
) -> Estimate:
    """What is made of one fit or of several, each with a rationality of its own.

    Args:
        grids: of N walks.
        curves: the evidence of the walks, for each fit.
        combine: of the nats of each fit and the means of others; all [...].
        others: [N] each.
        bounds: as in `estimate_of_sums`.
        paired: as in `estimate_of_sums`.
    """
    n = len(curves[0].nats)
    nats = [each.nats for each in curves]
    sums = _by_grid(grids, np.column_stack([*nats, *others, np.ones(n)]))
    total = sums.sum(axis=0)
    ends = np.cumsum([0, *(len(each.rationalities) for each in curves)]).tolist()
    parts = [slice(start, stop) for start, stop in pairwise(ends)]
    lists = [each.rationalities for each in curves]
    fits = [
        best_fit(total[part] / total[-1], tried) for part, tried in zip(parts, lists, strict=True)
    ]

    def of(totals: FloatArray, fits: Sequence[RationalityFit | None]) -> FloatArray:
        means = totals[..., :-1] / totals[..., -1:]
        fitted_nats = [
            signed_nats(means[..., part], fit, tried)
            for part, fit, tried in zip(parts, fits, lists, strict=True)
        ]
        return combine(*fitted_nats, *np.moveaxis(means[..., parts[-1].stop :], -1, 0))

    return estimate_of_sums(
        sums,
        lambda totals: of(totals, [None] * len(fits)),
        n=n,
        strata=grids.strata,
        held=lambda totals: of(totals, fits),
        bounds=bounds,
        paired=paired,
    )


def _by_grid(grids: Clusters, columns: FloatArray) -> FloatArray:
    """The mean of columns [N, K] over the walks of each grid, every kind with the same weight."""
    sums = np.zeros((len(grids), columns.shape[1]))
    np.add.at(sums, grids.cluster, columns)
    walks = np.bincount(grids.cluster, minlength=len(grids))
    _, kind, sizes = np.unique(grids.strata, return_inverse=True, return_counts=True)
    return np.asarray(sums / (walks * sizes[kind])[:, None])


def _kinds(grids: Clusters) -> int:
    return len(np.unique(grids.strata))
