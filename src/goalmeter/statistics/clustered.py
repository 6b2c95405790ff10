"""Estimates whose observations come in clusters: many decisions in a grid are not many grids.

A cluster is what was drawn at random (a grid), a stratum what was chosen (a size and a complexity).
An interval is a statement about clusters that were not drawn, so it rests on how many clusters
there are, however many observations each of them has. The methods are those of `few_clusters`:

- of a quantity within bounds, one more cluster at the worst place there is;
- of paired differences, and of what has no bounds, Student's t, which needs a spread. Differences
  that are all the same are again bounded ones. (Two conditions of one grid succeed and fail
  together, so the worst difference is not to be expected of an unseen grid as the worst share is;
  and the interval is to agree with the t tests of `paired`.)
- One cluster has no interval, nor have clusters that are all the same without any bounds.

What lies between strata was chosen, and is no part of the error. Student's t leaves it out where
every stratum has ten clusters or more. Elsewhere, and within bounds, clusters are one sample of
unequal weights, which errs on the wide side: few clusters of a stratum may agree by luck. For the
same reason differences of pairs are taken within their bounds where strata are small and uneven.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, FloatArray, IntArray
from goalmeter.statistics.few_clusters import bounded_ends, student_ends, tail_of

RESAMPLES = 2000
# Clusters of the smallest stratum from which on Student's t has spread within strata only.
LARGE = 10
# Why an estimate has no interval.
ONE_CLUSTER = "one cluster tells nothing of the spread"
NO_SPREAD = "all clusters are the same, and nothing bounds what another one could be"


@dataclass(frozen=True)
class Estimate:
    """A number and how far it can be trusted.

    Attributes:
        value: NaN if there was nothing to take it from.
        interval: None where nothing can be said of the spread; `reason` says why.
        n: observations.
        clusters: independent ones among what they come from.
    """

    value: float
    interval: tuple[float, float] | None
    n: int
    clusters: int

    @property
    def reason(self) -> str | None:
        """Why there is no interval; None where there is one, and where nothing was drawn."""
        if self.interval is not None or self.clusters == 0:
            return None
        return ONE_CLUSTER if self.clusters == 1 else NO_SPREAD

    def shifted(self, by: float) -> Estimate:
        """The estimate with a constant added."""
        interval = self.interval and (self.interval[0] + by, self.interval[1] + by)
        return Estimate(self.value + by, interval, self.n, self.clusters)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; NaN is null. Without an interval there is its `reason`."""
        plain = {
            "value": None if np.isnan(self.value) else self.value,
            "interval": None if self.interval is None else list(self.interval),
            "n": self.n,
            "clusters": self.clusters,
        }
        return plain if self.reason is None else plain | {"reason": self.reason}

    def record(self, name: str) -> dict[str, float | None]:
        """The entries of a flat record: NAME, NAME_low, NAME_high and NAME_n.

        The ends are None without an interval.

        >>> Estimate(0.5, (0.25, 0.75), n=12, clusters=3).record("flips")
        {'flips': 0.5, 'flips_low': 0.25, 'flips_high': 0.75, 'flips_n': 12}
        """
        low, high = self.interval or (None, None)
        return {name: self.value, f"{name}_low": low, f"{name}_high": high, f"{name}_n": self.n}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Estimate:
        """The estimate that `to_json` was of; KeyError if an entry is missing."""
        number = float("nan") if value["value"] is None else value["value"]
        interval = None if value["interval"] is None else tuple(value["interval"])
        return cls(number, interval, value["n"], value["clusters"])


def estimate(
    numerators: ArrayLike,
    denominators: ArrayLike | None = None,
    *,
    heaviest: ArrayLike | None = None,
    n: int | None = None,
    strata: ArrayLike | None = None,
    bounds: tuple[float, float] | None = None,
    paired: bool = False,
    confidence: float = 0.95,
) -> Estimate:
    """The ratio of two sums over clusters, averaged over strata.

    Without denominators it is the mean of the clusters. Clusters whose denominator is 0 have
    nothing to say and are left out.

    Args:
        numerators: of each cluster, [C].
        denominators: of each cluster, [C].
        heaviest: the greatest denominator that a cluster can have, or that each of them could have
            had, [C]. Needed for a ratio within bounds: nothing is known of an unseen cluster that
            may weigh any amount.
        n: observations behind them; the number of clusters if not given.
        strata: number of the stratum of each cluster, [C]; one stratum if not given.
        bounds: least and greatest value that a cluster can have. With them there is an interval
            for any two clusters, without them only for such as differ.
        paired: whether the clusters are differences between two conditions of each.
        confidence: nominal coverage, in (0, 1).

    Example: three grids of a size and three of another, each grid with its accuracy.
        >>> accuracy = estimate([1, 0.5, 0.75, 0.5, 0.25, 0.75], strata=[7, 7, 7, 9, 9, 9])
        >>> accuracy.value, accuracy.clusters
        (0.625, 6)
    """
    tail = tail_of(confidence)
    tops = np.asarray(numerators, dtype=float)
    bottoms = np.ones_like(tops) if denominators is None else np.asarray(denominators, dtype=float)
    if heaviest is None and denominators is not None and bounds is not None and not paired:
        raise InvalidParameterError(
            "a ratio within bounds needs `heaviest`, the greatest denominator of a cluster: "
            "without it a cluster that was not drawn may outweigh all others"
        )
    most = np.broadcast_to(bottoms if heaviest is None else np.asarray(heaviest), bottoms.shape)
    labels = np.zeros(len(tops)) if strata is None else np.asarray(strata)
    kept = bottoms > 0
    tops, bottoms, most, labels = tops[kept], bottoms[kept], most[kept], labels[kept]
    clusters = len(tops)
    observations = clusters if n is None else n
    if clusters == 0:
        return Estimate(float("nan"), None, 0 if n is None else n, 0)
    stratum = np.unique(labels, return_inverse=True)[1]
    value = float(np.mean(np.bincount(stratum, tops) / np.bincount(stratum, bottoms)))
    if clusters == 1:
        return Estimate(value, None, observations, clusters)
    # The estimate is a mean of what each cluster has, with the weight that it has in the mean.
    sums = np.bincount(stratum, bottoms)[stratum]
    unseen = float((most / sums).max())
    paired = paired and not _is_uneven(stratum)
    ends = _ends(tops / bottoms, bottoms / sums, stratum, bounds, tail, paired, unseen)
    return Estimate(value, ends, observations, clusters)


def estimate_of_sums(
    sums: ArrayLike,
    statistic: Callable[[FloatArray], FloatArray],
    *,
    n: int,
    heaviest: float = 1.0,
    strata: ArrayLike | None = None,
    held: Callable[[FloatArray], FloatArray] | None = None,
    bounds: tuple[float, float] | None = None,
    paired: bool = False,
    confidence: float = 0.95,
) -> Estimate:
    """Any function of sums over clusters.

    The interval is that of the mean of Tukey's pseudo-values: what a cluster adds to the
    statistic, which is seen by leaving it out. For a mean they are the clusters' own values.

    Args:
        sums: of each cluster, [C, K]; with strata, weighted as they are to count.
        statistic: from totals, [..., K], to numbers, [...]; what all totals are multiplied with
            must not matter to it.
        n: observations behind them.
        heaviest: how much a cluster can weigh, as a multiple of the mean weight in its stratum.
        strata: number of the stratum of each cluster, [C]; one stratum if not given.
        held: for a statistic that is the best of a fit to the totals, and so biased: the same
            with what was fitted to all clusters held fixed. By how much fitting anew is better is
            the bias that resamples show. It is taken off.
        bounds: as in `estimate`.
        paired: as in `estimate`.
        confidence: nominal coverage; raises `InvalidParameterError` if it is outside (0, 1).

    Source: Tukey, Bias and confidence in not-quite large samples (1958), for pseudo-values; for
    the bias, Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 10; Rao and Wu,
    Resampling inference with complex survey data (1988), for drawing one cluster fewer than there
    are.
    """
    tail = tail_of(confidence)
    table = np.asarray(sums, dtype=float)
    clusters = len(table)
    if clusters == 0:
        return Estimate(float("nan"), None, n, 0)
    total = table.sum(axis=0)
    value = float(statistic(total))
    if clusters == 1:
        return Estimate(value, None, n, clusters)
    labels = np.zeros(clusters) if strata is None else np.asarray(strata)
    stratum = np.unique(labels, return_inverse=True)[1]
    sizes = np.bincount(stratum)
    # Clusters of the smallest stratum weigh most.
    unseen = heaviest * clusters / (len(sizes) * float(sizes.min()))
    if held is not None:
        totals = _resampled(table, _at_least(2, stratum))
        value -= float(np.mean(statistic(totals) - held(totals)))
    paired = paired and not _is_uneven(stratum)
    is_bounded = bounds is not None and not paired
    stratum = np.zeros_like(stratum) if is_bounded else _at_least(LARGE, stratum)
    sizes = np.bincount(stratum)
    # A stratum that has lost a cluster keeps its weight: the others stand in for it.
    left = (sizes / (sizes - 1))[stratum]
    of_stratum = np.zeros((len(sizes), table.shape[1]))
    np.add.at(of_stratum, stratum, table)
    without = total - of_stratum[stratum] + left[:, None] * (of_stratum[stratum] - table)
    lacking = np.asarray(statistic(without), dtype=float)
    centre = (np.bincount(stratum, lacking) / sizes)[stratum]
    # Each stratum counts with its share of clusters in a mean over all of them.
    pseudo = value + (sizes[stratum] - 1) * (centre - lacking) * clusters / sizes[stratum]
    # A pseudo-value has the weight of its cluster in it, so that of an unseen one goes as far
    # beyond the bounds.
    wide = bounds and (value + unseen * (bounds[0] - value), value + unseen * (bounds[1] - value))
    ends = _ends(pseudo, np.ones(clusters), stratum, wide, tail, paired, 1.0)
    if ends is not None:
        low, high = bounds or ends
        ends = min(max(ends[0], low), value), max(min(ends[1], high), value)
    return Estimate(value, ends, n, clusters)


def _at_least(fewest: int, stratum: IntArray) -> IntArray:
    """The strata, or one of all clusters where a stratum has fewer."""
    return np.zeros_like(stratum) if np.bincount(stratum).min() < fewest else stratum


def _is_uneven(stratum: IntArray) -> bool:
    """Whether a stratum of few clusters, which may agree by luck, weighs as much as a large one."""
    sizes = np.bincount(stratum)
    return bool(sizes.min() < LARGE and sizes.max() > 2 * sizes.min())


def _ends(
    values: FloatArray,
    weights: FloatArray,
    stratum: IntArray,
    bounds: tuple[float, float] | None,
    tail: float,
    paired: bool,
    unseen: float,
) -> tuple[float, float] | None:
    """The interval of a weighted mean: within bounds, or by Student's t."""
    if bounds is None or paired:
        ends = student_ends(values, weights, _at_least(LARGE, stratum), tail)
        if bounds is None:
            return ends
        if ends is not None:
            return max(ends[0], bounds[0]), min(ends[1], bounds[1])
    return bounded_ends(values, weights, bounds, tail, unseen)


def _resampled(table: FloatArray, stratum: IntArray) -> FloatArray:
    """Totals of resamples, [resamples, K]."""
    totals = np.zeros((RESAMPLES, table.shape[1]))
    for index, size in enumerate(np.bincount(stratum).tolist()):
        # One cluster fewer than there are is drawn: the stratum is to keep its weight.
        totals += size / (size - 1) * (_draws(size, index) @ table[stratum == index])
    return totals


@lru_cache(maxsize=256)
def _draws(clusters: int, stream: int) -> FloatArray:
    """How often each cluster is drawn when one fewer than all are, [resamples, clusters]."""
    rng = np.random.default_rng([stream, clusters])
    drawn = rng.integers(clusters, size=(RESAMPLES, clusters - 1))
    drawn += clusters * np.arange(RESAMPLES)[:, None]
    counts = np.bincount(drawn.reshape(-1), minlength=RESAMPLES * clusters)
    return np.asarray(counts.reshape(RESAMPLES, clusters), dtype=float)
