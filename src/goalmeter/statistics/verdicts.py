"""Compare measurements: paired tests, Welch's test, and verdicts for a stated margin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._files import JsonFields
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.statistics.clusters import Ends, bounded_ends

CONFIDENCE = 0.95  # of all intervals that verdicts are read from

# --- Welch's test --------------------------------------------------------------------------------
# Below so many runs the spread tells too little of the error: no interval and no verdict.
FEWEST = 5
TOO_FEW = "too few seeds"  # the verdict on an average over fewer runs


def reach(errors: Sequence[float], runs: Sequence[int]) -> float:
    """Return how many standard errors a 95% interval of a difference of averages reaches.

    Source: B. L. Welch, The generalization of "Student's" problem when several different
    population variances are involved, Biometrika 34 (1947).
    """
    if min(runs) < FEWEST:
        return math.nan
    from scipy.stats import t

    squares = [error**2 for error in errors]
    pooled = sum(square**2 / (n - 1) for square, n in zip(squares, runs, strict=True))
    freedom = sum(squares) ** 2 / pooled if pooled > 0 else min(runs) - 1  # or an exact number
    return float(t.ppf((1 + CONFIDENCE) / 2, freedom))


# --- Paired tests -------------------------------------------------------------------------------
# That a difference is not significant does not show that there is none; an equivalence test does,
# to within a margin that is stated beforehand.

# Below these the paper's code does not test.
LEAST_PAIRS, LEAST_NONZERO = 10, 5
_LEVEL = 0.05  # of each one-sided test
NAN = math.nan


@dataclass(frozen=True)
class SignedRanks(JsonFields):
    """Wilcoxon's signed-rank test."""

    statistic: float  # W, the smaller of the two sums of ranks
    p_value: float  # two-sided; NaN with fewer than 10 pairs or 5 differences other than 0
    effect: float  # 1 - 2 W / (n (n + 1) / 2) over the n differences other than 0; NaN without any
    n: int  # pairs
    nonzero: int  # pairs that differ


@dataclass(frozen=True)
class Equivalence(JsonFields):
    """Two one-sided t tests: both reject exactly if the interval lies within the margin."""

    mean: float
    margin: float
    p_value: float  # the larger one; NaN for fewer than two pairs, or no spread and no bounds
    interval: Ends | None
    n: int


def signed_ranks(differences: ArrayLike) -> SignedRanks:
    """Wilcoxon's signed-rank test of differences, those of 0 dropped, as the LM paper has it."""
    from scipy.stats import rankdata, wilcoxon

    values = _differences(differences)
    moved = values[values != 0]
    n = len(moved)
    if n == 0:
        return SignedRanks(0.0, NAN, NAN, len(values), 0)
    ranks = rankdata(np.abs(moved))
    statistic = float(min(ranks[moved > 0].sum(), ranks[moved < 0].sum()))
    effect = 1 - 2 * statistic / (n * (n + 1) / 2)
    # The effect needs no test, so it is given for fewer pairs as well.
    enough = len(values) >= LEAST_PAIRS and n >= LEAST_NONZERO
    p_value = float(wilcoxon(values).pvalue) if enough else NAN
    return SignedRanks(statistic, p_value, effect, len(values), n)


def equivalence(
    differences: ArrayLike, margin: float, *, bounds: Ends | None = None
) -> Equivalence:
    """Test that the mean of differences [n] is within a margin either way (Schuirmann 1987)."""
    # Differences that are all the same have no spread for a t test. Within bounds, n of n at one
    # place have a probability of at most q^n if the mean is outside the margin, where q is the
    # greatest share that can be at this place while the others are at a bound.
    from scipy.stats import t

    values = _differences(differences)
    if not margin > 0:
        raise InvalidParameterError(f"margin is {margin!r}, expected a positive number")
    n = len(values)
    if n < 2:
        return Equivalence(float(values[0]) if n else NAN, margin, NAN, None, n)
    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(n)
    if error == 0:
        if bounds is None:
            return Equivalence(mean, margin, NAN, None, n)
        ends = bounded_ends(values, np.ones(n), bounds, _LEVEL)
        p_value = max(_alike(mean, margin, bounds[1], n), _alike(mean, -margin, bounds[0], n))
        return Equivalence(mean, margin, p_value if abs(mean) < margin else 1.0, ends, n)
    p_value = float(t.sf((margin - abs(mean)) / error, n - 1))
    half = float(t.ppf(1 - _LEVEL, n - 1)) * error
    return Equivalence(mean, margin, p_value, (mean - half, mean + half), n)


def mean_differs(differences: ArrayLike, *, bounds: Ends | None = None) -> float:
    """Two-sided p-value that the mean is 0; equal differences as in `equivalence`; else NaN."""
    from scipy.stats import t

    values = _differences(differences)
    n = len(values)
    if n < 2:
        return NAN
    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(n)
    if error == 0:
        if mean == 0:
            return 1.0
        if bounds is None:
            return NAN
        return min(1.0, 2.0 * _alike(mean, 0.0, bounds[0] if mean > 0 else bounds[1], n))
    return float(2 * t.sf(abs(mean) / error, n - 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for how many there are (Holm 1979); NaN does not count."""
    tested = sorted((p, i) for i, p in enumerate(p_values) if not np.isnan(p))
    corrected = [NAN] * len(p_values)
    largest = 0.0
    for rank, (p, i) in enumerate(tested):
        largest = max(largest, min(1.0, p * (len(tested) - rank)))
        corrected[i] = largest
    return corrected


def _alike(place: float, mean: float, bound: float, n: int) -> float:
    """The greatest probability that n of n are at a place if the mean is another one."""
    if place == bound:
        # All of them at the bound: a mean that is no further out does not speak against it.
        return float(abs(mean) <= abs(bound))
    return float(np.clip((bound - mean) / (bound - place), 0.0, 1.0)) ** n


def _differences(differences: ArrayLike) -> FloatArray:
    values = np.asarray(differences, dtype=float)
    if not np.isfinite(values).all():
        raise InvalidParameterError("a difference is not finite; expected one for each pair")
    return values


# --- Verdicts -----------------------------------------------------------------------------------
# A sign says nothing: it flips on other grids. That a test does not reject says nothing either: few
# data reject nothing. An interval says which differences the data leave open, and a verdict is what
# all of these have in common.


class Verdict(StrEnum):
    """Verdict of a comparison of two numbers."""

    ABOVE = "above"
    BELOW = "below"
    EQUAL = "equal"
    UNTOLD = "inconclusive"


def verdict(interval: Ends | None, margin: float) -> Verdict:
    """Return the verdict on two numbers from the interval of their difference.

    - *equal*: the whole interval lies within the margin: at 95% two one-sided tests of equivalence,
      each at 2.5%. It comes first: a smaller difference, however certain, is none.
    - *above*, *below*: the whole interval lies on one side of 0.
    - *inconclusive*: everything else, and where there is no interval.

    Args:
        interval: of the difference, both ends; None, or an end that is NaN, if there is none.
        margin: the largest difference that counts as none, in the unit of the interval; 0 if only
            the same number is equal.

    Source: Schuirmann, A comparison of the two one-sided tests procedure (1987).

    Example: the same width, at three places.
        >>> [str(verdict((low, low + 4), margin=5)) for low in (-2, 3, 7)]
        ['equal', 'above', 'above']
        >>> str(verdict((-1, 6), margin=5))
        'inconclusive'
    """
    if interval is None or any(math.isnan(end) for end in interval):
        return Verdict.UNTOLD
    low, high = interval
    if not margin >= 0 or low > high:
        raise InvalidParameterError(
            f"interval is ({low:g}, {high:g}) and margin {margin:g}, expected the lower end first "
            f"and a margin of at least 0"
        )
    if -margin <= low and high <= margin:
        return Verdict.EQUAL
    if low > 0:
        return Verdict.ABOVE
    return Verdict.BELOW if high < 0 else Verdict.UNTOLD


def words(judgement: Verdict, margin: float, unit: str = "") -> str:
    """Return a verdict as in tables; "equal" is followed by its margin.

    Example:
        >>> words(Verdict.EQUAL, 5, "points"), words(Verdict.ABOVE, 5, "points")
        ('equal within 5 points', 'above')
    """
    if judgement is not Verdict.EQUAL:
        return str(judgement)
    return f"{judgement} within {margin:g} {unit}".rstrip()


FOLLOWS, NOT_FOLLOWS = "follows", "does not follow"


def follows_goal(
    before: Ends | None,
    after: Ends | None,
    over: Sequence[Ends | None] = (),
    *,
    margin: float,
    removed: bool = False,
) -> str:
    """Return whether an agent follows its goal through a change, by intervals of shares.

    It *follows* if the goal explains more than the margin before and after the change, and more
    after it than each control, by the intervals `over` of the differences. It *does not follow* if
    the goal explains less than the margin before or after. Everything else is *inconclusive*. With
    `removed`, the share after the change is of a goal that has lost its value, and must be below
    the margin.

    Example: a goal that explains half of the maximum before its value is removed.
        >>> [follows_goal((0.4, 0.6), after, margin=0.1, removed=True)
        ...  for after in ((-0.1, 0.05), (0, 0.2), (0.3, 0.5))]
        ['follows', 'inconclusive', 'does not follow']
    """
    if before is None or after is None:
        return Verdict.UNTOLD.value
    holds, fails = after[0] > margin, after[1] < margin
    if removed:
        holds, fails = fails, holds
    if before[1] < margin or fails:
        return NOT_FOLLOWS
    is_better = all(ends is not None and ends[0] > 0 for ends in over)
    return FOLLOWS if before[0] > margin and holds and is_better else Verdict.UNTOLD.value


def difference(
    first: float, first_interval: Ends | None, second: float, second_interval: Ends | None
) -> Ends | None:
    """Return the interval of `first` minus `second`, from independent intervals of both.

    They need not be symmetric; an exact number has an interval of width 0.

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


def share_interval(successes: int, n: int) -> Ends:
    """Return the interval of a share from n independent draws.

    Source: Wilson, Probable inference, the law of succession, and statistical inference (1927).

    Example: by hand, with z = 1.96, 50 of 100 gives 0.5 ± 0.0962.
        >>> [round(end, 3) for end in share_interval(50, 100)]
        [0.404, 0.596]
    """
    from scipy.stats import norm

    z = float(norm.ppf((1 + CONFIDENCE) / 2))
    share = successes / n
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    # At 0 and at n the ends are those of the share itself, but for rounding.
    return (min(middle - half, share), max(middle + half, share))
