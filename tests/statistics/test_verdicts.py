"""Verdicts from intervals: worked by hand, and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest, t

from goalmeter.statistics.verdicts import Verdict, difference, share_interval, verdict


@pytest.mark.parametrize(
    ("interval", "message"),
    [
        ((1, 9), "above"),  # excludes 0, and reaches beyond 5
        ((-9, -1), "below"),
        ((-4, 4.9), "equal"),
        ((1, 4), "equal"),  # it is certainly above 0, and by less than what matters
        ((-5, 5), "equal"),  # the ends belong to the margin
        ((-5.1, 4), "cannot be told"),
        ((-1, 6), "cannot be told"),
        ((0, 6), "cannot be told"),  # 0 itself is left open
        ((-20, 20), "cannot be told"),
        ((6, 7), "above"),
        (None, "cannot be told"),
        ((math.nan, math.nan), "cannot be told"),
    ],
)
def test_intervals_by_hand(interval: tuple[float, float] | None, message: str) -> None:
    assert verdict(interval, margin=5) == message


def test_a_difference_of_symmetric_intervals_is_the_usual_one() -> None:
    # Standard errors 0.3 and 0.4, both times 2: 2 * 0.5 = 1.
    assert difference(1.5, (0.9, 2.1), 1.0, (0.2, 1.8)) == pytest.approx((-0.5, 1.5))
    # 100 with room below only, less an exact 99.
    assert difference(100, (96, 100), 99, (99, 99)) == pytest.approx((-3, 1))
    assert difference(100, None, 99, (99, 99)) is None


def test_false_verdicts_are_as_rare_as_their_level() -> None:
    """Means of 10 from two normal distributions, t intervals combined; 1000 draws."""
    rng = np.random.default_rng(1)
    reach = t.ppf(0.975, 9)

    def verdicts(shift: float) -> list[Verdict]:
        out = []
        for draw in rng.normal(0.0, 1.0, (1000, 2, 10)):
            first, second = draw[0] + shift, draw[1]
            halves = [reach * values.std(ddof=1) / math.sqrt(10) for values in (first, second)]
            means = [values.mean() for values in (first, second)]
            ends = [(m - h, m + h) for m, h in zip(means, halves, strict=True)]
            out.append(verdict(difference(means[0], ends[0], means[1], ends[1]), margin=2.0))
        return out

    # No difference is called one in at most 5%, one as large as the margin none in at most 2.5%.
    level = verdicts(0.0)
    assert (level.count(Verdict.ABOVE) + level.count(Verdict.BELOW)) / 1000 < 0.05
    assert verdicts(2.0).count(Verdict.EQUAL) / 1000 < 0.025
    assert verdicts(-2.0).count(Verdict.ABOVE) == 0
    # And there is power: equality is shown in most draws where it holds.
    assert level.count(Verdict.EQUAL) / 1000 > 0.9


def test_the_interval_of_a_share_is_wilsons() -> None:
    for successes, n in ((66, 98), (95, 95), (0, 40), (16, 94)):
        oracle = binomtest(successes, n).proportion_ci(method="wilson")
        assert share_interval(successes, n) == pytest.approx((oracle.low, oracle.high), abs=1e-12)
