"""The best rationality for a behaviour: a root found with derivatives.

f is concave in b and its slope is M(b) - c, with M(b) > 0 the regret of the model, falling to 0
as b grows, and c the regret of the behaviour. If c = 0 the optimum lies at infinity. Otherwise
log M(b) = log c is solved by Newton steps: M falls like an exponential, so its log is
close to a line, and steps stay good from b = 0 to the largest b. A bracket guards each step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.evidence import Evidence

# Slopes at b = 0 below this share of the regrets are rounding: the optimum is b = 0.
ZERO_SLOPE = 1e-13
# Newton steps square the relative error: after one this small, the rest is rounding.
_LAST_STEP = 1e-7
_NARROW = 1e-13
_MAX_STEPS = 200

Evaluate = Callable[[FloatArray], Evidence]


def first_size(at_zero: Evidence) -> FloatArray:
    """Where a Newton step from 0 leads; 1 where the evidence is not concave there.

    Utilities are normalised, so 1 is a sensible size. Logs that stop early can be convex at 0.
    """
    bends = at_zero.curvature < 0
    return np.where(bends, np.abs(at_zero.slope) / np.where(bends, -at_zero.curvature, 1.0), 1.0)


def best_rationality(evaluate: Evaluate, at_zero: Evidence) -> FloatArray:
    """Argmax over b in [-inf, inf] of the evidence of B behaviours: [B].

    Args:
        evaluate: evidence at signed rationalities [B]; slopes are with respect to |b|.
        at_zero: `evaluate(zeros)`, whose slope decides the sign.
    """
    scale = at_zero.model_loss + at_zero.loss
    sign = np.where(np.abs(at_zero.slope) <= ZERO_SLOPE * scale, 0.0, np.sign(at_zero.slope))
    # A utility that no choice influences: nothing is lost whatever is chosen.
    sign = np.where(at_zero.start_loss <= 0.0, 0.0, sign)
    size = np.where(sign == 0, 0.0, first_size(at_zero))
    low, high = np.zeros_like(size), np.full_like(size, np.inf)
    open_ = sign != 0
    for _ in range(_MAX_STEPS):
        if not open_.any():
            break
        now = evaluate(sign * size)
        # A behaviour that gives nothing up is explained ever better by larger b.
        infinite = open_ & (now.loss <= 0.0)
        size = np.where(infinite, np.inf, size)
        open_ &= ~infinite
        rising = now.slope > 0
        low = np.where(open_ & rising, size, low)
        high = np.where(open_ & ~rising, size, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # Newton's step for log M(b) = log c, in which M' is the curvature.
            step = -now.model_loss * np.log(now.model_loss / now.loss) / now.curvature
            guess = size + step
            middle = np.where(np.isinf(high), 4.0 * size, 0.5 * (low + high))
        inside = np.isfinite(guess) & (guess > low) & (guess < high)
        settled = inside & (np.abs(step) <= _LAST_STEP * size)
        settled |= (now.slope == 0) | (high - low <= _NARROW * size)
        size = np.where(
            open_, np.where(settled | inside, np.where(inside, guess, size), middle), size
        )
        open_ &= ~settled
    return np.asarray(sign * size)
