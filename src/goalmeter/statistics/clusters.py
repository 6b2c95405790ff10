"""Estimates from clustered observations: few clusters, many clusters, two crossed samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, FloatArray, IntArray

# --- Few clusters ---------------------------------------------------------------------------------
# A bootstrap of few clusters has no width where all of them are equal, though the next cluster may
# differ. For a quantity within bounds, one unseen cluster is added at the worst place: at the lower
# bound for the lower end, at the upper bound for the upper end. The seen clusters and this one
# share the total weight at random, every division equally likely, and the ends are quantiles of the
# mean.
#
# Where clusters are 0 or 1 this is Clopper and Pearson's interval; of n equal clusters at v the
# lower end is v (alpha / 2)^(1/n). It assumes nothing of the distribution but its bounds, whereas
# Student's t assumes normality; the price is width (`benchmarks/few_clusters.py`).
#
# For a ratio of sums with values x and denominators w, the numbers w (x - r) have mean 0 at the
# true ratio r and are bounded if w is. So the unseen cluster needs the greatest possible w, which
# the caller has to know; likewise for small strata, whose clusters weigh more.
#
# A quantity without bounds has no worst place. There it is Student's t, with the CR2 variance of
# weighted clusters and Satterthwaite's degrees of freedom over strata.
#
# Source: Gaffke, Three test statistics for a nonparametric one-sided hypothesis on the mean of a
# nonnegative variable (2005); Learned-Miller and Thomas, A new confidence interval for the mean
# of a bounded random variable (2019), section 4, for the same bound, its identity with Clopper
# and Pearson's, and numerical evidence that it always covers, for which a proof is missing;
# Rubin, The Bayesian bootstrap (1981). For t: Bell and McCaffrey, Bias reduction in standard
# errors for linear regression with multi-stage samples (2002); Kish, Survey Sampling (1965),
# section 8.2, for unequal weights.

# Random divisions: with so many, chance moves an end by less than a hundredth of the width.
DRAWS = 4000
# Values closer than this, for their size, count as the same.
_ALIKE = 1e-12

Ends = tuple[float, float]


def tail_of(confidence: float) -> float:
    """Return what an interval of some coverage leaves outside on either side."""
    if not 0.0 < confidence < 1.0:
        raise InvalidParameterError(f"confidence is {confidence!r}, expected between 0 and 1")
    return (1.0 - confidence) / 2.0


def bounded_ends(
    values: FloatArray, weights: FloatArray, bounds: Ends, tail: float, unseen: float | None = None
) -> Ends:
    """Return the interval of the weighted mean of clusters within bounds.

    Shapes: values [C], weights [C].

    Example: three clusters that are all 1 exclude only means below 0.29.
        >>> low, high = bounded_ends(np.ones(3), np.ones(3), (0.0, 1.0), 0.025)
        >>> round(low, 3), high
        (0.292, 1.0)
    """
    low, high = bounds
    parts = weights / weights.mean()
    heaviest = 1.0 if unseen is None else unseen / float(weights.mean())
    mean = float(parts @ values / len(values))
    scale = max(abs(low), abs(high), 1.0)
    equal = np.ptp(parts) <= _ALIKE and abs(heaviest - 1.0) <= _ALIKE
    if equal and np.ptp(values) <= _ALIKE * scale:
        # The quantile in closed form, so that equal clusters are free of the error of drawing.
        hidden = 1.0 - tail ** (1.0 / len(values))
        ends = mean + (low - mean) * hidden, mean + (high - mean) * hidden
    else:
        drawn, other = _divisions(len(values))
        other = heaviest * other
        seen, whole = drawn @ (parts * values), drawn @ parts + other
        below = np.quantile((seen + other * low) / whole, tail)
        ends = float(below), float(np.quantile((seen + other * high) / whole, 1.0 - tail))
    lower, upper = np.clip([min(ends[0], mean), max(ends[1], mean)], low, high)
    return float(lower), float(upper)


def student_ends(
    values: FloatArray, weights: FloatArray, stratum: IntArray, tail: float
) -> Ends | None:
    """Return the interval of the weighted mean of clusters by Student's t; None without spread.

    Shapes: values [C], weights [C], stratum [C].
    """
    from scipy.stats import t

    parts = weights / weights.sum()
    within = parts / np.bincount(stratum, parts)[stratum]  # each one's part in its stratum's mean
    centre = np.bincount(stratum, within * values)[stratum]
    # CR2: a cluster is too near the mean that it is part of; dividing by 1 - its part mends that.
    pieces = np.bincount(stratum, parts**2 * (values - centre) ** 2 / (1.0 - within))
    # Unequal clusters are as good as fewer equal ones (Kish), each of them one freedom but one.
    freedoms = 1.0 / np.bincount(stratum, within**2) - 1.0
    variance = float(pieces.sum())
    mean = float(parts @ values)
    if variance <= (_ALIKE * max(1.0, float(np.abs(values).max()))) ** 2:
        return None
    # Two clusters have one degree of freedom, however unlike their weights are.
    freedom = variance**2 / float((pieces**2 / np.maximum(freedoms, 1.0)).sum())
    half = float(t.ppf(1.0 - tail, freedom)) * float(np.sqrt(variance))
    return mean - half, mean + half


@lru_cache(maxsize=32)
def _divisions(clusters: int) -> tuple[FloatArray, FloatArray]:
    """Random divisions among clusters, [draws, C], and the part of the unseen one, [draws]."""
    rng = np.random.default_rng([clusters, DRAWS])
    drawn = rng.exponential(size=(DRAWS, clusters))
    # The share of the unseen cluster is Beta(1, C) and takes evenly spaced quantiles in place of
    # random ones, which leaves less to chance where it matters most.
    levels = (np.arange(DRAWS) + 0.5) / DRAWS
    share = -np.expm1(np.log(levels) / clusters)
    return drawn, drawn.sum(axis=1) * share / (1.0 - share)


# --- Estimates ------------------------------------------------------------------------------------
# A cluster was drawn at random (a grid), a stratum was chosen (a size and a complexity). Intervals
# generalise to clusters that were not drawn:
#
# - A quantity within bounds has one more cluster at the worst place.
# - Paired differences, and quantities without bounds, have Student's t, which needs a spread; equal
#   differences are again bounded ones. (Two conditions of one grid succeed and fail together, so an
#   unseen grid is not expected to have the worst difference; and the interval agrees with the t
#   tests of `verdicts`.)
# - One cluster has no interval, nor have equal clusters without bounds.
#
# The spread between strata is no part of the error. Student's t leaves it out where every stratum
# has ten clusters or more. Elsewhere, and within bounds, clusters are one sample of unequal
# weights, which errs on the wide side, since few clusters of a stratum may agree by luck. For the
# same reason paired differences are treated as bounded where strata are small and uneven.

RESAMPLES = 2000
# Clusters of the smallest stratum from which on Student's t has spread within strata only.
LARGE = 10
# Why an estimate has no interval.
ONE_CLUSTER = "one cluster tells nothing of the spread"
NO_SPREAD = "all clusters are the same, and nothing bounds what another one could be"


@dataclass(frozen=True)
class Estimate:
    """Estimate with its interval and the numbers of observations and clusters."""

    value: float
    interval: Ends | None
    n: int
    clusters: int

    @property
    def reason(self) -> str | None:
        """Reason for a missing interval; None if there is one, or no data."""
        if self.interval is not None or self.clusters == 0:
            return None
        return ONE_CLUSTER if self.clusters == 1 else NO_SPREAD

    def shifted(self, by: float) -> Estimate:
        """Return the estimate with a constant added."""
        interval = self.interval and (self.interval[0] + by, self.interval[1] + by)
        return Estimate(self.value + by, interval, self.n, self.clusters)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; NaN is null. Without an interval there is its `reason`."""
        plain = {
            "value": None if np.isnan(self.value) else self.value,
            "interval": None if self.interval is None else list(self.interval),
            "n": self.n,
            "clusters": self.clusters,
        }
        return plain if self.reason is None else plain | {"reason": self.reason}

    def record(self, name: str) -> dict[str, float | None]:
        """Return the entries of a flat record; the ends are None without an interval.

        >>> Estimate(0.5, (0.25, 0.75), n=12, clusters=3).record("flips")
        {'flips': 0.5, 'flips_low': 0.25, 'flips_high': 0.75, 'flips_n': 12}
        """
        low, high = self.interval or (None, None)
        return {name: self.value, f"{name}_low": low, f"{name}_high": high, f"{name}_n": self.n}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Estimate:
        """Return the estimate that `to_json` was called on."""
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
    bounds: Ends | None = None,
    paired: bool = False,
    confidence: float = 0.95,
) -> Estimate:
    """Estimate the ratio of two sums over clusters, averaged over strata.

    Without denominators it is the mean of the clusters. Clusters whose denominator is 0 are left
    out. Shapes: numerators, denominators and strata [C].

    Args:
        numerators: of each cluster.
        denominators: of each cluster.
        heaviest: the greatest denominator that a cluster can have, or that each could have had,
            [C]; needed for a ratio within bounds.
        n: observations behind them; the number of clusters if not given.
        strata: number of the stratum of each cluster.
        bounds: least and greatest value that a cluster can have. With them any
            two clusters have an interval, without them only clusters that differ.
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
            "a ratio within bounds needs `heaviest`, the greatest denominator of a cluster"
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
    bounds: Ends | None = None,
    paired: bool = False,
    confidence: float = 0.95,
) -> Estimate:
    """Estimate any function of sums over clusters.

    The interval is that of the mean of Tukey's pseudo-values: what a cluster adds to the
    statistic, which is seen by leaving it out. For a mean they are the clusters' own values.

    The statistic maps totals [..., K] of sums [C, K], with strata weighted as they are to count, to
    numbers [...]; the scale of totals must not matter. A cluster can weigh `heaviest` times the
    mean in its stratum. If the statistic is the optimum of a fit to the totals, and
    therefore biased, `held` is the same statistic with its parameters fixed at their fit to all
    clusters; the bias in resamples is then subtracted. There are `n` observations; other arguments
    are those of `estimate`.

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
    bounds: Ends | None,
    tail: float,
    paired: bool,
    unseen: float,
) -> Ends | None:
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


# --- Rows and columns -----------------------------------------------------------------------------
# Agents and grids are both samples, so both are resampled, independently of each other, and the
# statistic is recomputed for the drawn agents in the drawn grids. The interval errs on the wide
# side.
#
# Source: Owen, The pigeonhole bootstrap (2007), which bounds how far; Rao and Wu, Resampling
# inference with complex survey data (1988), for drawing one grid fewer than there are; Davison and
# Hinkley, Bootstrap Methods and their Application (1997), section 5.2, for the basic bootstrap;
# Hesterberg, What teachers should know about the bootstrap (2015), section 5.3, for percentiles of
# the t distribution; Clopper and Pearson, The use of confidence or fiducial limits (1934).


@dataclass(frozen=True, eq=False)
class TwoWayDraws:
    """Rows and columns of each of R resamples."""

    rows: IntArray  # numbers of the drawn rows, [R, rows]
    columns: FloatArray  # the weight of each, [R, columns]; they add up to the number of columns
    freedom: int  # degrees of freedom of the smaller of the two samples


def two_way_draws(
    rows: int,
    columns: int,
    *,
    strata: ArrayLike | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> TwoWayDraws:
    """Draw rows and columns, independently of each other.

    Shapes: strata [columns].
    """
    if min(rows, columns) < 2:
        raise InvalidParameterError(f"{rows} rows and {columns} columns, expected 2 of each")
    rng = np.random.default_rng([seed, rows, columns])
    labels = np.zeros(columns) if strata is None else np.asarray(strata)
    _, stratum, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    # One fewer than one would be none: such a stratum cannot be resampled by itself.
    if sizes.min() == 1:
        stratum, sizes = np.zeros_like(stratum), np.array([columns])
    weights = np.zeros((resamples, columns))
    for index, size in enumerate(sizes.tolist()):
        members = np.flatnonzero(stratum == index)
        drawn = rng.multinomial(size - 1, np.full(size, 1.0 / size), size=resamples)
        weights[:, members] = drawn * (size / (size - 1))
    picked = rng.integers(rows, size=(resamples, rows))
    return TwoWayDraws(picked, weights, min(rows - 1, columns - len(sizes)))


def two_way_interval(
    value: float,
    replicates: ArrayLike,
    freedom: int,
    *,
    bounds: Ends = (-np.inf, np.inf),
    confidence: float = 0.95,
) -> Ends | None:
    """Return the percentile interval of a statistic's replicates; None where there are none.

    Shapes: replicates [R].
    """
    from scipy.stats import norm, t

    tail = tail_of(confidence)
    known = np.asarray(replicates, dtype=float)
    known = known[~np.isnan(known)]
    if not known.size or np.isnan(value):
        return None
    # Percentiles of few units are too close together by as much as the normal is narrower than t.
    farther = float(norm.cdf(t.ppf(tail, freedom)))
    low, high = np.quantile(known, [farther, 1.0 - farther]).tolist()
    if not low <= value <= high:
        # Of a biased statistic both percentiles lie to one side. An end at the value itself would
        # be none: no resample says how far below it, or above, the truth may be. The interval that
        # is mirrored at the value (the basic bootstrap) errs the other way; both are taken in.
        low, high = min(low, 2.0 * value - high), max(high, 2.0 * value - low)
    return max(low, bounds[0]), min(high, bounds[1])


def at_least_binomial(
    interval: Ends | None, share: float, n: int, *, confidence: float = 0.95
) -> Ends | None:
    """Return an interval of a share, at least as wide as that of n independent observations.

    If all agents are right, all resamples are equal and the bootstrap interval has no width.

    Example: two of two are at least 16%: their lower end squared is 0.025.
        >>> round(at_least_binomial((1.0, 1.0), 1.0, 2)[0], 3)
        0.158
    """
    from scipy.stats import beta

    tail = tail_of(confidence)
    if n == 0 or np.isnan(share):
        return None
    hits = round(share * n)
    low = 0.0 if hits == 0 else float(beta.ppf(tail, hits, n - hits + 1))
    high = 1.0 if hits == n else float(beta.ppf(1 - tail, hits + 1, n - hits))
    if interval is None:
        return low, high
    return min(low, interval[0]), max(high, interval[1])
