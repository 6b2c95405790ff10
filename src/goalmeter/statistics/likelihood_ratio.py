"""The likelihood-ratio test, with a correction for weighted evidence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from goalmeter._types import FloatArray


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
