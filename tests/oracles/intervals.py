"""Intervals of shares and verdicts in their most literal form: sums over counts, and ends.

Sources: Clopper and Pearson, The use of confidence or fiducial limits illustrated in the case of
the binomial (1934); Schuirmann, A comparison of the two one-sided tests procedure (1987).
"""

from __future__ import annotations

import math

from scipy.optimize import brentq


def at_least(successes: int, n: int, share: float) -> float:
    """The probability of so many successes or more in n independent draws."""
    return math.fsum(
        math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(successes, n + 1)
    )


def exact_interval(successes: int, n: int, tail: float = 0.025) -> tuple[float, float]:
    """The shares under which neither so many successes nor so many failures are rarer than tail."""

    def lowest(count: int) -> float:
        if count == 0:
            return 0.0
        return float(brentq(lambda share: at_least(count, n, share) - tail, 0.0, 1.0, xtol=1e-14))

    return lowest(successes), 1.0 - lowest(n - successes)


def highest_rate(n: int, level: float = 0.95) -> float:
    """The rate at which n draws lack the event with probability 1 - level: about 3 / n."""
    return float(1.0 - (1.0 - level) ** (1.0 / n))


def verdict(low: float, high: float, margin: float) -> str:
    """What all differences between low and high have in common."""
    if -margin <= low and high <= margin:
        return "equal"
    if low > 0:
        return "above"
    if high < 0:
        return "below"
    return "inconclusive"
