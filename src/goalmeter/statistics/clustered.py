"""Estimates whose observations come in clusters: many decisions in a grid are not many grids.

A cluster is what was drawn at random (a grid), a stratum what was chosen (a size and a complexity).
Intervals resample clusters within their strata.

Source: Rao and Wu, Resampling inference with complex survey data (1988), for drawing one cluster
fewer than there are, which makes the spread of few clusters right; Hesterberg, What teachers should
know about the bootstrap (2015), section 5.3, for percentiles of the t distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, FloatArray

RESAMPLES = 2000


@dataclass(frozen=True)
class Estimate:
    """A number and how far it can be trusted.

    Attributes:
        value: NaN if there was nothing to take it from.
        interval: None where one cluster, or none, tells nothing of the spread.
        n: observations.
        clusters: independent ones among what they come from.
    """

    value: float
    interval: tuple[float, float] | None
    n: int
    clusters: int

    def shifted(self, by: float) -> Estimate:
        """The same with a constant added."""
        interval = self.interval and (self.interval[0] + by, self.interval[1] + by)
        return Estimate(self.value + by, interval, self.n, self.clusters)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; NaN is null."""
        return {
            "value": None if np.isnan(self.value) else self.value,
            "interval": None if self.interval is None else list(self.interval),
            "n": self.n,
            "clusters": self.clusters,
        }


def estimate(
    numerators: ArrayLike,
    denominators: ArrayLike | None = None,
    *,
    n: int | None = None,
    strata: ArrayLike | None = None,
    bounds: tuple[float, float] | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """The ratio of two sums over clusters, averaged over strata.

    Without denominators it is the mean of the clusters. Clusters whose denominator is 0 have
    nothing to say and are left out.

    Where every cluster is at one of the bounds, all resamples are the same and a bootstrap
    interval has no width; the bound is then what C of C say of a quantity within bounds (Clopper
    and Pearson's, with one observation a cluster).

    Args:
        numerators: of each cluster, [C].
        denominators: of each cluster, [C].
        n: observations behind them; the number of clusters if not given.
        strata: number of the stratum of each cluster, [C]; one stratum if not given.
        bounds: least and greatest value that a cluster can have.
        confidence: nominal coverage, in (0, 1).

    Raises:
        InvalidParameterError: confidence outside (0, 1).

    Example: three grids of a size and three of another, each grid with its accuracy.
        >>> accuracy = estimate([1, 0.5, 0.75, 0.5, 0.25, 0.75], strata=[7, 7, 7, 9, 9, 9])
        >>> accuracy.value, accuracy.clusters
        (0.625, 6)
    """
    tail = _tail(confidence)
    tops = np.asarray(numerators, dtype=float)
    bottoms = np.ones_like(tops) if denominators is None else np.asarray(denominators, dtype=float)
    labels = np.zeros(len(tops)) if strata is None else np.asarray(strata)
    kept = bottoms > 0
    tops, bottoms, labels = tops[kept], bottoms[kept], labels[kept]
    clusters = len(tops)
    observations = clusters if n is None else n
    if clusters == 0:
        return Estimate(float("nan"), None, 0 if n is None else n, 0)
    names, stratum, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    value = float(np.mean(np.bincount(stratum, tops) / np.bincount(stratum, bottoms)))
    if bounds is not None:
        low, high = bounds
        room = (high - low) * (1.0 - tail ** (1.0 / clusters))
        if np.all(tops == high * bottoms):
            return Estimate(high, (high - room, high), observations, clusters)
        if np.all(tops == low * bottoms):
            return Estimate(low, (low, low + room), observations, clusters)
    if clusters == 1:
        return Estimate(value, None, observations, clusters)
    if sizes.min() == 1:
        # A stratum of one does not tell its spread: resample over strata, each cluster with the
        # weight that it has in the mean.
        weights = bottoms / np.bincount(stratum, bottoms)[stratum]
        tops, bottoms = weights * tops / bottoms, weights
        stratum, names, sizes = np.zeros_like(stratum), names[:1], np.array([clusters])
    replicates = np.zeros(RESAMPLES)
    for index in range(len(names)):
        here = stratum == index
        drawn = _draws(int(sizes[index]), index)
        replicates += (drawn @ tops[here]) / (drawn @ bottoms[here])
    freedom = clusters - len(names)
    low, high = _percentiles(replicates / len(names), tail, freedom)
    return Estimate(value, (low, high), observations, clusters)


def estimate_of_sums(
    sums: ArrayLike,
    statistic: Callable[[FloatArray], FloatArray],
    *,
    n: int,
    strata: ArrayLike | None = None,
    held: Callable[[FloatArray], FloatArray] | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """Any function of sums over clusters.

    Args:
        sums: of each cluster, [C, K]; with strata, weighted as they are to count.
        statistic: from totals, [..., K], to numbers, [...]; what all totals are multiplied with
            must not matter to it.
        n: observations behind them.
        strata: number of the stratum of each cluster, [C]; one stratum if not given, or if one of
            them has a single cluster, which does not tell its spread.
        held: for a statistic that is the best of a fit to the totals, and so biased: the same
            with what was fitted to all clusters held fixed. By how much fitting anew is better is
            the bias that resamples show. It is taken off; a resample carries it twice.
        confidence: nominal coverage, in (0, 1).

    Raises:
        InvalidParameterError: confidence outside (0, 1).

    Source: for the bias, Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 10.
    """
    tail = _tail(confidence)
    table = np.asarray(sums, dtype=float)
    clusters = len(table)
    if clusters == 0:
        return Estimate(float("nan"), None, n, 0)
    value = float(statistic(table.sum(axis=0)))
    if clusters == 1:
        return Estimate(value, None, n, clusters)
    labels = np.zeros(clusters) if strata is None else np.asarray(strata)
    _, stratum, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if sizes.min() == 1:
        stratum, sizes = np.zeros_like(stratum), np.array([clusters])
    totals = np.zeros((RESAMPLES, table.shape[1]))
    for index, size in enumerate(sizes.tolist()):
        # One cluster fewer than there are is drawn: the stratum is to keep its weight.
        totals += size / (size - 1) * (_draws(size, index) @ table[stratum == index])
    replicates = statistic(totals)
    bias = 0.0 if held is None else float(np.mean(replicates - held(totals)))
    value -= bias
    low, high = _percentiles(replicates - 2.0 * bias, tail, clusters - len(sizes))
    return Estimate(value, (min(low, value), max(high, value)), n, clusters)


def _tail(confidence: float) -> float:
    """What is left outside on either side."""
    if not 0.0 < confidence < 1.0:
        raise InvalidParameterError(
            f"confidence is {confidence!r}, expected a number between 0 and 1, such as 0.95"
        )
    return (1.0 - confidence) / 2.0


def _percentiles(replicates: FloatArray, tail: float, freedom: int) -> tuple[float, float]:
    """Quantiles as far out as those of the t distribution are."""
    tail = _tail_of_t(tail, freedom)
    low, high = np.quantile(replicates, [tail, 1.0 - tail])
    return float(low), float(high)


@lru_cache(maxsize=1024)
def _tail_of_t(tail: float, freedom: int) -> float:
    """The tail of a normal distribution that starts where that of the t distribution does."""
    from scipy.stats import norm, t

    return float(norm.cdf(t.ppf(tail, freedom)))


@lru_cache(maxsize=256)
def _draws(clusters: int, stream: int) -> FloatArray:
    """How often each cluster is drawn when one fewer than all are, [resamples, clusters]."""
    rng = np.random.default_rng([stream, clusters])
    drawn = rng.integers(clusters, size=(RESAMPLES, clusters - 1))
    drawn += clusters * np.arange(RESAMPLES)[:, None]
    counts = np.bincount(drawn.reshape(-1), minlength=RESAMPLES * clusters)
    return np.asarray(counts.reshape(RESAMPLES, clusters), dtype=float)
