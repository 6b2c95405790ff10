"""What the interval of a difference says, by a margin that is stated beforehand.

A sign says nothing: it flips on other grids. That a test does not reject says nothing either: few
data reject nothing. An interval says which differences the data leave open, and a verdict is what
all of these have in common.
"""

from __future__ import annotations

import math
from enum import StrEnum

from goalmeter._errors import InvalidParameterError

Interval = tuple[float, float]
# Of all intervals that verdicts are read from.
CONFIDENCE = 0.95


class Verdict(StrEnum):
    """How a number stands to another."""

    ABOVE = "above"
    BELOW = "below"
    EQUAL = "equal"
    UNTOLD = "cannot be told"


def verdict(interval: Interval | None, margin: float) -> Verdict:
    """How a number stands to another, by the interval of their difference.

    - *equal*: the whole interval lies within the margin. At 95% these are two one-sided tests of
      equivalence, each at 2.5%. It comes first: a difference that is certain, but smaller than what
      was said to matter, is none.
    - *above*, *below*: the whole interval lies on one side of 0.
    - *cannot be told*: everything else, and where there is no interval.

    Args:
        interval: of the difference, both ends; None, or an end that is NaN, if there is none.
        margin: the largest difference that counts as none, in the unit of the interval; 0 if only
            the same number is equal.

    Source: Schuirmann, A comparison of the two one-sided tests procedure (1987).

    Example: the same width, at three places.
        >>> [str(verdict((low, low + 4), margin=5)) for low in (-2, 3, 7)]
        ['equal', 'above', 'above']
        >>> str(verdict((-1, 6), margin=5))
        'cannot be told'
    """
    if not margin >= 0:
        raise InvalidParameterError(f"margin is {margin!r}, expected a number that is not negative")
    if interval is None or any(math.isnan(end) for end in interval):
        return Verdict.UNTOLD
    low, high = interval
    if low > high:
        raise InvalidParameterError(
            f"interval is ({low:g}, {high:g}), expected its lower end first"
        )
    if -margin <= low and high <= margin:
        return Verdict.EQUAL
    if low > 0:
        return Verdict.ABOVE
    return Verdict.BELOW if high < 0 else Verdict.UNTOLD


def words(judgement: Verdict, margin: float, unit: str = "") -> str:
    """A verdict as tables print it: what is equal says within what.

    Example:
        >>> words(Verdict.EQUAL, 5, "points"), words(Verdict.ABOVE, 5, "points")
        ('equal within 5 points', 'above')
    """
    if judgement is not Verdict.EQUAL:
        return str(judgement)
    return f"{judgement} within {margin:g} {unit}".rstrip()


def difference(
    first: float, first_interval: Interval | None, second: float, second_interval: Interval | None
) -> Interval | None:
    """Interval of `first` less `second`, from independent intervals of each.

    Works with intervals of any method that need not be symmetric, and gives the usual root of the
    sum of squares where they are. A number that is exact has an interval without width.

    Returns:
        Both ends; None where either has no interval.

    Source: Zou and Donner, Construction of confidence limits about effect measures: a general
    approach (2008).

    Example: 3 and 4 in the squares make 5.
        >>> difference(10, (7, 13), 10, (6, 14))
        (-5.0, 5.0)
    """
    if first_interval is None or second_interval is None:
        return None
    down = math.hypot(first - first_interval[0], second_interval[1] - second)
    up = math.hypot(first_interval[1] - first, second - second_interval[0])
    return (first - second - down, first - second + up)


def share_interval(successes: int, n: int) -> Interval:
    """Interval of a share from n independent draws.

    Source: Wilson, Probable inference, the law of succession, and statistical inference (1927).

    Example: by hand, with z = 1.96, 50 of 100 gives 0.5 ± 0.0962.
        >>> [round(end, 3) for end in share_interval(50, 100)]
        [0.404, 0.596]
    """
    if not (n > 0 and 0 <= successes <= n):
        raise InvalidParameterError(f"{successes} of {n} is no share, expected 0 to n of n > 0")
    from scipy.stats import norm

    z = float(norm.ppf((1 + CONFIDENCE) / 2))
    share = successes / n
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    # At 0 and at n the ends are those of the share itself, but for rounding.
    return (min(middle - half, share), max(middle + half, share))
