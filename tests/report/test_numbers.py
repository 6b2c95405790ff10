"""Numbers as text: nothing claims more than the number, in any of the spellings."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalmeter.report import numbers
from goalmeter.report.numbers import between, general, nats, number, percent, plus, points
from goalmeter.statistics.clusters import Estimate

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1.0, "100.0%"),
        (1.0 - 1e-12, "100.0%"),  # rounding of the computation
        (0.9999, ">99.9%"),
        (0.9994, "99.9%"),
        (0.0006, "0.1%"),
        (0.0004, "<0.1%"),
        (1e-15, "0.0%"),
        (0.0, "0.0%"),
        (-0.03, "−3.0%"),
        (-1e-15, "0.0%"),
        (NAN, "–"),
    ],
)
def test_only_1_is_all_and_only_0_is_nothing(share: float, text: str) -> None:
    assert percent(share) == text


def test_digits_of_a_share() -> None:
    assert [percent(x, 0) for x in (1.0, 0.999, 0.25, 0.004, 0.0)] == [
        *("100%", ">99%", "25%", "<1%", "0%")
    ]


@given(st.floats(0.0, 1.0), st.integers(0, 3))
def test_a_share_is_within_what_its_text_says(share: float, digits: int) -> None:
    text = percent(share, digits)
    bound = float(re.sub("[<>%]", "", text)) / 100
    if text.startswith(">"):
        assert share > bound - 1e-12
    elif text.startswith("<"):
        assert share < bound
    else:
        assert abs(share - bound) <= 0.5 * 10.0 ** -(digits + 2) + 1e-9


def test_estimates_are_shown_with_the_digits_that_mean_something() -> None:
    estimate = Estimate(0.8468, (0.8123, 0.8877), 100, 10)
    assert percent(estimate) == "84.7% [81.2, 88.8]"
    assert points(estimate) == "+84.7 [+81.2, +88.8]"
    assert number(estimate, 2) == "0.85 [0.81, 0.89]"
    assert points(Estimate(-0.0001, (-0.02, 0.0), 9, 3)) == "0.0 [−2.0, 0.0]"
    assert percent(Estimate(0.5, None, 1, 1)) == "50.0% [–]"
    # Rounding does not close an interval: its ends get the digits that tell them apart.
    assert percent(Estimate(0.009, (0.0071, 0.0112), 3840, 960)) == "0.9% [0.7, 1.1]"
    assert percent(Estimate(0.984, (0.98391, 0.98412), 99, 9)) == "98.4% [98.39, 98.41]"
    assert number(Estimate(0.0, (0.0, 0.004), 99, 9), 2) == "0.00 [0.000, 0.004]"
    assert percent(Estimate(0.5, (0.5, 0.5), 0, 0)) == "50.0% [50.0, 50.0]"
    # Nor does it reach 100%.
    assert percent(Estimate(0.9996, (0.98, 0.9999), 99, 9)) == ">99.9% [98.0, >99.9]"
    assert percent(Estimate(1.0, (0.98, 1.0), 99, 9)) == "100.0% [98.0, 100.0]"
    # What was computed, and not estimated, lacks nothing.
    assert percent(Estimate(0.5, None, 0, 0)) == "50.0%"
    assert percent(Estimate(NAN, None, 0, 0)) == "–"


def test_signs_are_true_ones_and_zero_has_none() -> None:
    assert [number(x, 1) for x in (-0.25, -0.01, 0.0, NAN)] == ["−0.2", "0.0", "0.0", "–"]
    assert [plus(x, 1) for x in (0.25, -0.25, 0.01, -0.01, NAN)] == [
        "+0.2",
        "−0.2",
        "0.0",
        "0.0",
        "–",
    ]
    assert [points(x) for x in (0.25, -0.25, 0.0)] == ["+25.0", "−25.0", "0.0"]
    assert [general(x, 3) for x in (-1.23456, INF, -INF, NAN, 0.0)] == [
        "−1.23",
        "∞",
        "−∞",
        "–",
        "0",
    ]
    assert [numbers.utility(x) for x in (1.0, -0.25, 0.0)] == ["+1", "−0.25", "0"]


def test_nats() -> None:
    shown = [nats(x) for x in (0.25, 2e-5, 0.0, 1e-15, -0.25, -2e-5, -INF, NAN)]
    assert shown == ["0.2500", "2e-05", "0", "0", "−0.2500", "−2e-05", "−∞", "–"]
    assert [numbers.nats_of_search(x) for x in (1e-10, -1e-10, 0.5)] == ["0", "0", "0.5000"]
    assert [numbers.gap(x) for x in (-1e-9, 0.0, 2e-9)] == ["0", "0", "2e-09"]


def test_intervals_and_p_values() -> None:
    assert between((-0.1, 0.2), 2) == "−0.10 to 0.20"
    assert between((-0.1, 0.2), 2, sign=True) == "−0.10 to +0.20"
    assert between((NAN, NAN), 2) == "–"
    assert [numbers.p_value(p) for p in (0.0001, 0.0312, NAN)] == ["<0.001", "0.031", "–"]
