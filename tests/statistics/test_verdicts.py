"""Verdicts from intervals and tests of pairs: by hand, by SciPy, and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from oracles import intervals as oracle
from scipy.stats import binomtest, ttest_1samp, wilcoxon

from goalmeter.statistics.verdicts import (
    difference,
    equivalence,
    holm,
    mean_differs,
    share_interval,
    signed_ranks,
    verdict,
)


@pytest.mark.parametrize(
    ("interval", "message"),
    [
        ((1, 9), "above"),  # excludes 0, and reaches beyond 5
        ((-9, -1), "below"),
        ((-4, 4.9), "equal"),
        ((1, 4), "equal"),  # it is certainly above 0, and by less than what matters
        ((-5, 5), "equal"),  # the ends belong to the margin
        ((-5.1, 4), "inconclusive"),
        ((-1, 6), "inconclusive"),
        ((0, 6), "inconclusive"),  # 0 itself is left open
        ((-20, 20), "inconclusive"),
        ((6, 7), "above"),
        (None, "inconclusive"),
        ((math.nan, math.nan), "inconclusive"),
    ],
)
def test_intervals_by_hand(interval: tuple[float, float] | None, message: str) -> None:
    assert verdict(interval, margin=5) == message
    if interval is not None:
        assert oracle.verdict(*interval, margin=5) == message


def test_a_difference_of_symmetric_intervals_is_the_usual_one() -> None:
    # Standard errors 0.3 and 0.4, both times 2: 2 * 0.5 = 1.
    assert difference(1.5, (0.9, 2.1), 1.0, (0.2, 1.8)) == pytest.approx((-0.5, 1.5))
    # 100 with room below only, less an exact 99.
    assert difference(100, (96, 100), 99, (99, 99)) == pytest.approx((-3, 1))
    assert difference(100, None, 99, (99, 99)) is None


def test_the_interval_of_a_share_is_wilsons() -> None:
    for successes, n in ((66, 98), (95, 95), (0, 40), (16, 94)):
        oracle = binomtest(successes, n).proportion_ci(method="wilson")
        assert share_interval(successes, n) == pytest.approx((oracle.low, oracle.high), abs=1e-12)


NAN = float("nan")


def test_signed_ranks_by_hand() -> None:
    # Ranks of |d|: 1 -> 1, 2 -> 2.5 twice, 4 -> 4; the negative ones have 1 + 2.5.
    result = signed_ranks([2, -1, 0, -2, 4, 0])
    assert result.statistic == 3.5 and (result.n, result.nonzero) == (6, 4)
    assert result.effect == pytest.approx(1 - 2 * 3.5 / 10)
    assert np.isnan(result.p_value)  # too few for a test
    assert signed_ranks([1.0, 2.0, 3.0]).effect == 1
    nothing = signed_ranks(np.zeros(20))
    assert np.isnan(nothing.p_value) and np.isnan(nothing.effect) and nothing.nonzero == 0
    assert nothing.to_json() == {
        "statistic": 0.0,
        "p_value": None,
        "effect": None,
        "n": 20,
        "nonzero": 0,
    }


def test_signed_ranks_are_scipy_s() -> None:
    rng = np.random.default_rng(0)
    for n in (12, 80):
        for shift in (0, 0.4):
            values = np.round(rng.normal(shift, 1, size=n), 1)
            expected = wilcoxon(values)
            result = signed_ranks(values)
            assert result.statistic == expected.statistic
            assert result.p_value == pytest.approx(expected.pvalue)


def test_equivalence_is_two_t_tests() -> None:
    rng = np.random.default_rng(1)
    for shift in (-0.3, 0.0, 0.2, 0.9):
        values = rng.normal(shift, 0.5, size=15)
        above = ttest_1samp(values, -0.4, alternative="greater").pvalue
        below = ttest_1samp(values, 0.4, alternative="less").pvalue
        result = equivalence(values, 0.4)
        assert result.p_value == pytest.approx(max(above, below))
        interval = ttest_1samp(values, 0).confidence_interval(0.9)
        assert result.interval == pytest.approx((interval.low, interval.high))
        inside = (
            result.interval is not None and -0.4 < result.interval[0] < result.interval[1] < 0.4
        )
        assert inside == (result.p_value < 0.05)
        assert mean_differs(values) == pytest.approx(ttest_1samp(values, 0).pvalue)


def test_without_spread() -> None:
    # Five equal pairs do not say that the next one is: there could be others, as far as the bounds.
    few = equivalence([0.0] * 5, 0.1)
    assert np.isnan(few.p_value) and few.interval is None and few.mean == 0
    # Nine in ten at 0 and one at 1 have a mean of 0.1, and leave five of five at 0 so often:
    shares = equivalence([0.0] * 5, 0.1, bounds=(-1, 1))
    assert shares.p_value == pytest.approx(0.9**5)
    assert shares.interval == pytest.approx((0.05**0.2 - 1, 1 - 0.05**0.2))
    assert equivalence([0.2] * 5, 0.1, bounds=(-1, 1)).p_value == 1
    # All of them at a bound is what a mean outside of the margin gives most easily.
    for end in (-1.0, 1.0):
        assert equivalence([end] * 5, 0.1, bounds=(-1, 1)).p_value == 1
        # A margin beyond the bounds holds whatever they are.
        assert equivalence([end] * 5, 2.0, bounds=(-1, 1)).p_value == 0
    for n in (28, 29):  # 0.9 ** 29 is the first below 0.05
        many = equivalence([0.0] * n, 0.1, bounds=(-1, 1))
        assert many.interval is not None
        assert (many.p_value < 0.05) == (n == 29) == (many.interval[1] < 0.1)
    # From 0.05 the margin is nearer above: 0.9 of 0.95 may be there, the others at 1.
    aside = equivalence([0.05] * 10, 0.1, bounds=(-1, 1))
    assert aside.p_value == pytest.approx((0.9 / 0.95) ** 10)
    alone = equivalence([0.0], 0.1)
    assert np.isnan(alone.p_value) and alone.interval is None
    assert alone.to_json()["p_value"] is None
    assert equivalence([0.1, 0.2], 0.5).to_json()["interval"] == pytest.approx(
        [-0.1657, 0.4657], abs=1e-3
    )
    assert mean_differs([0.0, 0.0]) == 1 and np.isnan(mean_differs([0.5, 0.5]))
    # Two in three at 0.5 and one at -1 have a mean of 0.
    assert mean_differs([0.5] * 9, bounds=(-1, 1)) == pytest.approx(2 * (2 / 3) ** 9)
    assert mean_differs([-0.5] * 2, bounds=(-1, 1)) == pytest.approx(2 * (2 / 3) ** 2)
    assert np.isnan(mean_differs([0.5])) and np.isnan(mean_differs([]))
    assert np.isnan(equivalence([], 0.1).mean) and signed_ranks([]).n == 0


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([]) == []
    result = holm([0.02, NAN, 0.01])  # what was not tested does not count
    assert result[0] == 0.02 and result[2] == 0.02 and np.isnan(result[1])
