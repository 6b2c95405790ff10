"""Estimates over two crossed samples: every agent walks through every grid, and both were drawn.

Had other agents been drawn, or other grids, the number would be another one. So both are resampled:
agents with replacement, grids with replacement, each independently of the other, and the statistic
is worked out anew for the drawn agents in the drawn grids. Such an interval errs on the wide side.

Source: Owen, The pigeonhole bootstrap (2007), which bounds how far; Rao and Wu, Resampling
inference with complex survey data (1988), for drawing one grid fewer than there are; Davison and
Hinkley, Bootstrap Methods and their Application (1997), section 5.2, for the basic bootstrap;
Hesterberg, What teachers should know about the bootstrap (2015), section 5.3, for percentiles of
the t distribution; Clopper and Pearson, The use of confidence or fiducial limits (1934).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, FloatArray, IntArray
from goalmeter.statistics.few_clusters import tail_of

RESAMPLES = 1000


@dataclass(frozen=True, eq=False)
class TwoWayDraws:
    """Which rows and columns are in each of R resamples."""

    rows: IntArray  # numbers of the drawn rows, [R, rows]
    columns: FloatArray  # the weight of each, [R, columns]; they add up to the number of columns
    freedom: int  # degrees of freedom of the smaller of the two samples


def two_way_draws(
    rows: int,
    columns: int,
    *,
    strata: ArrayLike | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> TwoWayDraws:
    """Draw rows and columns, independently of each other.

    Args:
        rows: how many there are, at least 2; as many are drawn.
        columns: how many there are, at least 2; one fewer is drawn of each stratum, and they are
            weighted to make up for it.
        strata: number of the stratum of each column, [columns]; one stratum if not given, or if one
            of them has a single column, which does not tell its spread.
        resamples: how many resamples.
        seed: of the draws.
    """
    if rows < 2 or columns < 2:
        raise InvalidParameterError(
            f"there are {rows} rows and {columns} columns, expected at least 2 of each to resample"
        )
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
    bounds: tuple[float, float] = (-np.inf, np.inf),
    confidence: float = 0.95,
) -> tuple[float, float] | None:
    """Return the percentile interval of a statistic's replicates; None where there are none.

    Args:
        value: of the statistic; the interval contains it, and exceeds it on both sides unless it is
            at a bound.
        replicates: the statistic in each resample, [R]; NaN where a resample tells nothing.
        freedom: as in `TwoWayDraws`.
        bounds: least and greatest possible value of the statistic.
        confidence: nominal coverage; raises `InvalidParameterError` if it is outside (0, 1).
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
    interval: tuple[float, float] | None, share: float, n: int, *, confidence: float = 0.95
) -> tuple[float, float] | None:
    """An interval of a share, never narrower than the exact one of n independent observations.

    Where all agents are right all resamples are alike, and the bootstrap's interval has no width.

    Args:
        interval: of the share by resampling; None if there is none.
        share: of n, in [0, 1].
        n: observations that are independent of each other at best; 0 tells nothing.
        confidence: nominal coverage, in (0, 1).

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
