"""Intervals of means over few clusters: with one more cluster that was not seen, or by Student's t.

Resampling few clusters shows only what these few show: where all of them share a value a bootstrap
interval has no width, though the next cluster may be of a kind that none of them was. A mean of
quantities within bounds has an interval that knows of it. Beside the clusters that were seen
there is one that was not, at the worst place that there is: at the lower bound for the lower end,
at the upper bound for the upper end. The clusters and this one share the weight of the whole by
chance, every division of it as likely as any other, and the ends are quantiles of the mean.

Why this one. Where clusters are 0 or 1 it is Clopper and Pearson's interval, so it is right at the
bounds, and of n equal clusters at v the lower end is v (alpha / 2)^(1/n). It has a width for any n,
which shrinks with n and never closes. It asks nothing of the distribution but its bounds, whereas
Student's t asks for a normal one: an agent that is stuck in one grid of ten, and as good as
perfect elsewhere, is covered by t only if such a grid was among those drawn. The price is width
where clusters are few and much alike; `benchmarks/few_clusters.py` shows both.

Clusters need not weigh the same. For a ratio of sums with the values x and the denominators w, the
numbers w (x - r) have mean 0 at the true ratio r and are within bounds if w is. The bound of their
mean rejects those r that lie beyond the ends which are found with an unseen cluster of the greatest
possible w. So a caller has to know how much a cluster can weigh: that nine grids of six steps went
well says nothing of a tenth in which an agent is stuck for as many steps as it is given. The same
holds for strata of few clusters beside strata of many, where a cluster of a small one weighs more.

A quantity without bounds has no worst place. There it is Student's t, with the variance of
weighted clusters corrected for the part that each has in its own mean (CR2), and Satterthwaite's
degrees of freedom over strata; without spread it has nothing to say.

Source: Gaffke, Three test statistics for a nonparametric one-sided hypothesis on the mean of a
nonnegative variable (2005); Learned-Miller and Thomas, A new confidence interval for the mean of a
bounded random variable (2019), section 4, for the same bound, its identity with Clopper and
Pearson's, and numerical evidence that it always covers, for which a proof is missing; Rubin, The
Bayesian bootstrap (1981). For t: Bell and McCaffrey, Bias reduction in standard errors for linear
regression with multi-stage samples (2002); Kish, Survey Sampling (1965), section 8.2, for unequal
weights.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray, IntArray

# Random divisions: with so many, chance moves an end by less than a hundredth of the width.
DRAWS = 4000
# Values closer than this, for their size, count as the same.
_ALIKE = 1e-12

Ends = tuple[float, float]


def tail_of(confidence: float) -> float:
    """What an interval of some coverage leaves outside on either side."""
    if not 0.0 < confidence < 1.0:
        raise InvalidParameterError(
            f"confidence is {confidence!r}, expected a number between 0 and 1, such as 0.95"
        )
    return (1.0 - confidence) / 2.0


def bounded_ends(
    values: FloatArray,
    weights: FloatArray,
    bounds: Ends,
    tail: float,
    unseen: float | None = None,
) -> Ends:
    """The interval of the weighted mean of clusters within bounds.

    Args:
        values: of each cluster, [C], at least one.
        weights: how much of the mean each is, [C], positive.
        bounds: least and greatest value that a cluster can have.
        tail: what is left outside on either side.
        unseen: weight of the cluster that was not seen: the greatest that a cluster can have. The
            mean weight if not given, which is right where weights are equal.

    Returns:
        The ends, within the bounds, with the mean between them.

    Example: three clusters that are all 1 tell little of whether one in two is.
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
    """The interval of the weighted mean of clusters by Student's t; None without any spread.

    Args:
        values: of each cluster, [C].
        weights: how much of the mean each is, [C], positive.
        stratum: number of the stratum of each cluster, [C]; spread is that within strata. Each
            has two clusters at least.
        tail: what is left outside on either side.
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
