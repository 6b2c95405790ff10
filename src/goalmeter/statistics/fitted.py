"""What a sample says of a maximised average: bootstrap intervals, and the likelihood-ratio test."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.statistics.few_clusters import Ends, bounded_ends, student_ends, tail_of

# Resamples of fewer units have too few different values: all of two lie between the two.
FEW = 10
# Of fewer nothing is said: two or three that fit a goal by luck have hardly any spread.
FEWEST = 5
_ALIKE = 1e-9


def resample_weights(n: int, resamples: int, rng: np.random.Generator) -> FloatArray:
    """How often each of n units is drawn in each bootstrap sample, over n: [resamples, n]."""
    return rng.multinomial(n, np.full(n, 1.0 / n), size=resamples) / n


def percentile_interval(
    replicates: FloatArray, bias: float, n: int, confidence: float
) -> tuple[float, float]:
    """Percentile interval of a statistic that is biased upwards by `bias`.

    A bootstrap replicate carries the bias twice: once because its sample is fitted to, and
    once because the sample it is drawn from already was. Percentiles are taken further out than
    the nominal ones by what a t interval is wider than the bootstrap's normal one, which
    matters for small n only.

    Args:
        replicates: the statistic in each bootstrap sample, [R].
        bias: its bias.
        n: size of the sample.
        confidence: nominal coverage, in (0, 1).

    Raises:
        InvalidParameterError: confidence outside (0, 1).

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
    ends: tuple[float, float],
    units: FloatArray,
    centre: float,
    bounds: tuple[float, float],
    confidence: float,
) -> tuple[float, float]:
    """A percentile interval that does not close where its units are few or all the same.

    Of fewer than five units nothing is known but the bounds; of fewer than ten it takes in their t
    interval. Where all are the same, as many as luck can hide among n may be of another kind, the
    share u = 1 - (alpha / 2)^(1 / n) (`few_clusters`). They say nothing for the goal themselves,
    and which of both kinds comes next cannot be predicted, which costs its entropy: the lower end
    is (1 - u) centre - h(u). That is a rule and no proof; simulation is in docs/statistics.md.

    Args:
        ends: the percentile interval.
        units: what each adds to the statistic, to first order, [n].
        centre: the estimate.
        bounds: between which the statistic is.
        confidence: nominal coverage, in (0, 1).
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
    if not keep.any() or values[-1] <= 0:
        return LikelihoodRatioTest(statistic, 0.0, 1.0, 1.0)
    root = vectors[:, keep] / np.sqrt(values[keep])
    inner = root.T @ score_variance @ root
    first, second = float(np.trace(inner)), float((inner * inner.T).sum())
    if first <= 0:
        return LikelihoodRatioTest(statistic, 0.0, 1.0, 1.0)
    scale, freedom = second / first, first**2 / second
    return LikelihoodRatioTest(
        statistic, freedom, scale, float(chi2.sf(statistic / scale, freedom))
    )
