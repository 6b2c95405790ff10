"""Logistic regression, for one question: does another predictor tell more?

The gain of a model over the one without the predictor is told in two ways: as a likelihood-ratio
test on the sample that both were fitted to, and as log-likelihood on another sample, which neither
has seen.

Source: McCullagh and Nelder, Generalized Linear Models (1989), chapter 4; Wilks, The large-sample
distribution of the likelihood ratio (1938).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, FloatArray

_MOST_STEPS = 200
_CLOSE = 1e-10  # of the log-likelihood, between two steps


@dataclass(frozen=True, eq=False)
class LogisticModel:
    """log(p / (1 - p)) = intercept + features times weights, of standardised features."""

    intercept: float  # at the mean of all features
    weights: FloatArray  # of each standardised feature, [K]
    centre: FloatArray  # means that are taken off, [K]
    scale: FloatArray  # standard deviations that are divided by, [K]; 1 for a constant feature

    def log_likelihoods(self, features: ArrayLike, outcomes: ArrayLike) -> FloatArray:
        """The log-probability of each outcome, nats, [N]; features are [N, K]."""
        standard = (np.asarray(features, dtype=float) - self.centre) / self.scale
        signs = 2.0 * np.asarray(outcomes, dtype=float) - 1.0
        return -np.logaddexp(0.0, -signs * (self.intercept + standard @ self.weights))


def logistic_fit(features: ArrayLike, outcomes: ArrayLike, *, ridge: float = 1e-6) -> LogisticModel:
    """Fit by Newton's method, halving steps that overshoot.

    Args:
        features: [N, K].
        outcomes: 0 or 1, [N], both of them there.
        ridge: what half the squared weights of standardised features cost, nats. A little keeps
            weights finite where a feature separates the outcomes; 1 is a standard normal prior.
    """
    table, target = np.asarray(features, dtype=float), np.asarray(outcomes, dtype=float)
    if table.ndim != 2 or len(table) != len(target) or set(np.unique(target)) != {0.0, 1.0}:
        raise InvalidParameterError(
            f"features have shape {table.shape} and outcomes {target.shape} with values "
            f"{sorted(set(target.tolist()))[:5]}; expected a row for each outcome, and outcomes "
            f"0 and 1, both of them there"
        )
    centre, scale = table.mean(axis=0), table.std(axis=0)
    # A constant tells nothing; divided by 1 it becomes 0 and keeps no weight.
    scale = np.where(scale > 0, scale, 1.0)
    design = np.column_stack([np.ones(len(table)), (table - centre) / scale])
    cost = np.diag([0.0, *np.full(table.shape[1], ridge)])
    signs = 2.0 * target - 1.0

    def height(at: FloatArray) -> float:
        return float(-np.logaddexp(0.0, -signs * (design @ at)).sum() - 0.5 * at @ cost @ at)

    at = np.zeros(design.shape[1])
    current = height(at)
    for _ in range(_MOST_STEPS):
        # exp overflows beyond 709; at 500 the share is 0 or 1 to the last digit.
        share = 1.0 / (1.0 + np.exp(-np.clip(design @ at, -500, 500)))
        slope = design.T @ (target - share) - cost @ at
        bend = (design.T * (share * (1 - share))) @ design + cost
        step = np.linalg.lstsq(bend, slope, rcond=None)[0]
        # A full Newton step may overshoot where the curve is flat, so it is halved until it climbs.
        length = 1.0
        while height(at + length * step) < current and length > 1e-8:
            length /= 2
        at = at + length * step
        before, current = current, height(at)
        if current - before < _CLOSE:
            break
    return LogisticModel(float(at[0]), at[1:], centre, scale)


class AddedPredictors(NamedTuple):
    """What a logistic model gains by more predictors, on the sample it was fitted to."""

    statistic: float  # twice the gain in log-likelihood
    degrees_of_freedom: int  # predictors that were added
    p_value: float  # of the chi-square distribution


def added_predictors(features: ArrayLike, more: ArrayLike, outcomes: ArrayLike) -> AddedPredictors:
    """The likelihood-ratio test of a model with more predictors against one without them.

    Both have the features [N, K], the larger one `more` [N, L] besides; outcomes, 0 or 1, [N], are
    independent of each other given the features. Raises as `logistic_fit`.
    """
    from scipy.stats import chi2

    small, extra = np.asarray(features, dtype=float), np.asarray(more, dtype=float)
    large = np.column_stack([small, extra])
    heights = [
        logistic_fit(table, outcomes).log_likelihoods(table, outcomes).sum()
        for table in (small, large)
    ]
    # A ridge may leave the larger model a hair below the smaller one.
    statistic = max(2.0 * float(heights[1] - heights[0]), 0.0)
    return AddedPredictors(statistic, extra.shape[1], float(chi2.sf(statistic, extra.shape[1])))
