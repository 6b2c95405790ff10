"""Confidence limits of the mean of a bounded variable, by betting against every smaller mean.

A gambler who thinks that the mean exceeds m stakes a share c of the fortune on each observation:
it is multiplied by 1 - c + c x / m, whose expectation is at most 1 if the mean is at most m. By
Ville's inequality such a fortune ever reaches 1 / error with probability `error` at most, so means
at which it has are rejected. The limits therefore hold at every sample size at once: looking at
them early, or stopping when they please, costs nothing. Shares are not adapted to the data but
mixed over a fixed grid, which makes the limits independent of the order of the observations and
monotone in each of them: an observation replaced by a smaller one gives a smaller lower limit.

Source: Waudby-Smith & Ramdas, "Estimating means of bounded random variables by betting" (JRSS B
2024), section 4 (capital processes) and appendix (mixtures in place of adaptive bets).
"""

from __future__ import annotations

import math

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, FloatArray

# Shares that are staked: from what suits a million noisy observations to all but everything. Steps
# by half cost log(30) nats of fortune together, and at most 4% of its rate each.
_SHARES = np.append(1.5 ** -np.arange(1.0, 30.0), 0.999)
_BISECTIONS = 60
# The limit is the rejected end of a bracket this narrow, as a share of the range.
_NARROW = 1e-7
# Observations beyond the range by this share of it are rounding.
_ROUNDING = 1e-9


def lower_limit(values: ArrayLike, *, low: float, high: float, error: float) -> float:
    """A number that the mean exceeds, but for a probability of `error`.

    Args:
        values: [N] observations with the same mean given those before them, in [low, high].
        low: the smallest possible observation.
        high: the largest possible one.
        error: probability with which the limit may fail, in (0, 1), over all sample sizes at once.

    Returns:
        The limit, from `low` (which no observations, or too few, give) to the sample mean.

    Example: of 200 observations half are 1.
        >>> print(round(lower_limit([0.0, 1.0] * 100, low=0, high=1, error=0.025), 2))
        0.38
    """
    x = _scaled(values, low, high, error)
    if x.size == 0 or not x.any() or high == low:
        return float(low)
    distinct, counts = np.unique(x, return_counts=True)
    weights = counts.astype(np.float64)
    target = math.log(_SHARES.size / error)
    rejected, kept = 0.0, float(x.mean())
    for _ in range(_BISECTIONS):
        middle = 0.5 * (rejected + kept)
        if kept - rejected <= _NARROW or middle <= 0.0:
            break
        if _log_fortune(distinct, weights, middle) >= target:
            rejected = middle
        else:
            kept = middle
    return float(low + (high - low) * rejected)


def upper_limit(values: ArrayLike, *, low: float, high: float, error: float) -> float:
    """A number that the mean falls below, but for a probability of `error`; see `lower_limit`.

    Example:
        >>> print(round(upper_limit([0.0, 1.0] * 100, low=0, high=1, error=0.025), 2))
        0.62
    """
    return -lower_limit(-np.asarray(values, dtype=np.float64), low=-high, high=-low, error=error)


def _log_fortune(distinct: FloatArray, weights: FloatArray, mean: float) -> float:
    """The log of the sum of the fortunes of all shares."""
    growth = np.log1p(np.multiply.outer(_SHARES, distinct / mean - 1.0)) @ weights
    top = float(growth.max())
    return top + math.log(float(np.exp(growth - top).sum()))


def _scaled(values: ArrayLike, low: float, high: float, error: float) -> FloatArray:
    """The observations in [0, 1]."""
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise InvalidParameterError(
            f"the range is {low} to {high}, expected two finite numbers in order: without bounds "
            f"on a variable no sample bounds its mean"
        )
    if not 0.0 < error < 1.0:
        raise InvalidParameterError(f"error is {error!r}, expected a probability between 0 and 1")
    x = np.asarray(values, dtype=np.float64)
    width = high - low
    slack = _ROUNDING * max(width, abs(low), abs(high))
    if not ((x >= low - slack) & (x <= high + slack)).all():
        bad = int(np.argmax(~((x >= low - slack) & (x <= high + slack))))
        raise InvalidParameterError(
            f"values[{bad}] is {float(x.ravel()[bad])}, outside of the range {low} to {high}"
        )
    return np.clip((x - low) / width, 0.0, 1.0) if width > 0 else np.zeros_like(x)
