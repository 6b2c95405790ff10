"""Confidence intervals: betting, bootstrap, and the likelihood-ratio test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.statistics.clusters import Ends, bounded_ends, student_ends, tail_of

# --- Betting --------------------------------------------------------------------------------------
# A gambler who thinks that the mean exceeds m stakes a share c of the fortune on each
# observation: it is multiplied by 1 - c + c x / m, whose expectation is at most 1 if the mean is
# at most m. By Ville's inequality such a fortune ever reaches 1 / error with probability `error`
# at most, so means at which it has are rejected. The limits therefore hold at every sample size
# at once: looking at them early, or stopping when they please, costs nothing. Shares are not
# adapted to the data but mixed over a fixed grid, which makes the limits independent of the order
# of the observations and monotone in each of them: an observation replaced by a smaller one gives
# a smaller lower limit.
#
# Source: Waudby-Smith & Ramdas, "Estimating means of bounded random variables by betting" (JRSS B
# 2024), section 4 (capital processes) and appendix (mixtures in place of adaptive bets).

# Shares that are staked: from what suits a million noisy observations to all but everything. Steps
# by half cost log(30) nats of fortune together, and at most 4% of its rate each.
_SHARES = np.append(1.5 ** -np.arange(1.0, 30.0), 0.999)
_BISECTIONS = 60
# The limit is the rejected end of a bracket this narrow, as a share of the range.
_NARROW = 1e-7
# Observations beyond the range by this share of it are rounding.
_ROUNDING = 1e-9


def lower_limit(values: ArrayLike, *, low: float, high: float, error: float) -> float:
    """Return a number that the mean of values [N] exceeds, but for a probability of `error`."""
    # Values are in [low, high] and have the same mean given those before them. The limit lies
    # between `low`, which too few of them give, and their mean; it holds over all sample sizes.
    if not (math.isfinite(low) and math.isfinite(high) and low <= high and 0.0 < error < 1.0):
        raise InvalidParameterError(
            f"the range is {low} to {high} and error {error}, expected two finite numbers in order "
            f"and a probability: without bounds on a variable no sample bounds its mean"
        )
    x, width = np.asarray(values, dtype=np.float64), high - low
    slack = _ROUNDING * max(width, abs(low), abs(high))
    outside = x[(x < low - slack) | (x > high + slack)]
    if outside.size:
        raise InvalidParameterError(
            f"a value is {float(outside[0])}, outside of the range {low} to {high}"
        )
    if width == 0.0:
        return float(low)
    x = np.clip((x - low) / width, 0.0, 1.0)
    if not x.any():
        return float(low)
    distinct, counts = np.unique(x, return_counts=True)
    weights = counts.astype(np.float64)
    target = math.log(_SHARES.size / error)
    rejected, kept = 0.0, float(x.mean())
    for _ in range(_BISECTIONS):
        middle = 0.5 * (rejected + kept)
        if kept - rejected <= _NARROW or middle <= 0.0:
            break
        growth = np.log1p(np.multiply.outer(_SHARES, distinct / middle - 1.0)) @ weights
        top = float(growth.max())
        # The log of the sum of the fortunes of all shares.
        if top + math.log(float(np.exp(growth - top).sum())) >= target:
            rejected = middle
        else:
            kept = middle
    return float(low + width * rejected)


def upper_limit(values: ArrayLike, *, low: float, high: float, error: float) -> float:
    """Return a number that the mean falls below; see `lower_limit`."""
    return -lower_limit(-np.asarray(values, dtype=np.float64), low=-high, high=-low, error=error)


# --- Bootstrap ------------------------------------------------------------------------------------
# Resamples of fewer units have too few different values: all of two lie between the two.
FEW = 10
# Of fewer nothing is said: two or three that fit a goal by luck have hardly any spread.
FEWEST = 5
_ALIKE = 1e-9


def resample_weights(n: int, resamples: int, rng: np.random.Generator) -> FloatArray:
    """Return how often each unit is drawn in each bootstrap sample, over n: [resamples, n]."""
    return rng.multinomial(n, np.full(n, 1.0 / n), size=resamples) / n


def percentile_interval(replicates: FloatArray, bias: float, n: int, confidence: float) -> Ends:
    """Return the percentile interval of a statistic that is biased upwards by `bias`.

    A bootstrap replicate contains the bias twice: its own sample is fitted, and so was the sample
    from which it is drawn. Percentiles are further out than the nominal ones, by the ratio of a t
    interval to the normal one of the bootstrap, which matters for small n only.

    Shapes: replicates [R], each of a sample of size n.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 10 and 13;
    Hesterberg, What teachers should know about the bootstrap (2015), section 5.3.
    """
    from scipy.stats import norm, t

    tail = tail_of(confidence)
    if n > 1:
        tail = float(norm.cdf(np.sqrt(n / (n - 1)) * t.ppf(tail, n - 1)))
    low, high = np.quantile(replicates - 2.0 * bias, [tail, 1.0 - tail])
    return float(low), float(high)


def widened_for_few(
    ends: Ends, units: FloatArray, centre: float, bounds: Ends, confidence: float
) -> Ends:
    """Return a percentile interval widened for few units, or for units that are all equal.

    With fewer than five units it is the bounds; with fewer than ten it includes the t interval of
    the units. If all units are equal, the share of units of another kind that n draws can miss is
    u = 1 - (alpha / 2)^(1 / n) (`clusters.bounded_ends`). Such units may have no evidence for the
    goal, and the kind of the next unit is unpredictable, which costs its entropy: the lower end is
    (1 - u) centre - h(u). This is not proven; docs/notes/statistics.md simulates it.

    Shapes: units [n].
    """
    n, tail = len(units), tail_of(confidence)
    if n < FEWEST:
        return bounds
    wider: Ends | None = None
    if np.ptp(units) <= _ALIKE:
        _, top = bounded_ends(np.full(n, np.clip(centre, *bounds)), np.ones(n), bounds, tail)
        hidden = 1.0 - tail ** (1.0 / n)
        chance = hidden * np.log(hidden) + (1.0 - hidden) * np.log1p(-hidden)
        wider = (1.0 - hidden) * centre + float(chance), top
    elif n < FEW:
        wider = student_ends(units - units.mean() + centre, np.ones(n), np.zeros(n, int), tail)
    low, high = ends if wider is None else (min(ends[0], wider[0]), max(ends[1], wider[1]))
    return max(low, bounds[0]), min(high, bounds[1])


# --- Tests ----------------------------------------------------------------------------------------
_WEIGHT = 0.5  # weight of each outcome in a predictor, a Dirichlet mixture


def contradict(first: Sequence[int], second: Sequence[int], error: float) -> bool:
    """Return whether counts [K] of two samples contradict one distribution.

    For samples of one distribution this has a probability of at most `error`, at any time: with a
    predictor q fixed in advance, q(first) q(second) / max over p of p(first) p(second) exceeds
    1 / error with no larger probability.

    Source: Wasserman, Ramdas & Balakrishnan, "Universal inference" (PNAS 2020).
    """
    together = [a + b for a, b in zip(first, second, strict=True)]
    likely = sum(n * math.log(n / sum(together)) for n in together if n)
    return _predicted(first) + _predicted(second) - likely > -math.log(error)


def _predicted(counts: Sequence[int]) -> float:
    """Return the log probability of a sequence with these counts under the mixture."""
    size = _WEIGHT * len(counts)
    out = math.lgamma(size) - math.lgamma(size + sum(counts))
    return out + sum(math.lgamma(_WEIGHT + n) - math.lgamma(_WEIGHT) for n in counts)


class LikelihoodRatioTest(NamedTuple):
    """Twice the log-likelihood gained, its reference distribution and p-value."""

    statistic: float
    degrees_of_freedom: float
    scale: float
    p_value: float


def likelihood_ratio_test(
    statistic: float, information: FloatArray, score_variance: FloatArray
) -> LikelihoodRatioTest:
    """Test a null model against a fitted one that contains it.

    Under the null the statistic is distributed like a sum of chi-squares weighted by the
    eigenvalues of information^-1 score_variance. They are all 1 when evidence is plain
    log-likelihood; when decisions are discounted they are not, and the sum is matched by a
    scaled chi-square with the same mean and variance (Satterthwaite).

    Args:
        statistic: 2 (log-likelihood of the fit - of the null).
        information: expected curvature at the null, per unit, [D, D]; may be singular.
        score_variance: variance of the score at the null, per unit, [D, D].
    """
    from scipy.stats import chi2

    # Directions without information are no degrees of freedom: nothing was fitted along them.
    values, vectors = np.linalg.eigh(information)
    keep = values > 1e-10 * max(float(values[-1]), np.finfo(float).tiny)
    root = vectors[:, keep] / np.sqrt(values[keep])
    inner = root.T @ score_variance @ root
    first, second = float(np.trace(inner)), float((inner * inner.T).sum())
    if first <= 0:
        return LikelihoodRatioTest(statistic, 0.0, 1.0, 1.0)
    scale, freedom = second / first, first**2 / second
    p_value = float(chi2.sf(statistic / scale, freedom))
    return LikelihoodRatioTest(statistic, freedom, scale, p_value)
