"""What intervals carry: every claim at its edge, and none where an interval is missing."""

from __future__ import annotations

import math

import pytest

from goalmeter.pages.representation import claims
from goalmeter.pages.representation.claims import ABOVE, BELOW, OPEN
from goalmeter.statistics.clusters import Estimate

from . import made, made_rows
from .made_rows import NOTHING, share


def between(low: float, high: float) -> Estimate:
    return Estimate((low + high) / 2, (low, high), 50, 20)


ALONE = Estimate(0.9, None, 5, 1)


@pytest.mark.parametrize(
    ("ours", "others", "expected"),
    [
        (between(0.6, 0.7), [between(0.4, 0.59), between(0.1, 0.2)], ABOVE),
        (between(0.6, 0.7), [between(0.4, 0.6)], OPEN),  # they touch
        (between(0.6, 0.7), [between(0.1, 0.2), between(0.5, 0.65)], OPEN),
        (between(0.6, 0.7), [between(0.1, 0.2), between(0.71, 0.8)], BELOW),
        # One control that nothing is known of is enough for not being above every control.
        (between(0.6, 0.7), [between(0.1, 0.2), NOTHING], OPEN),
        (between(0.6, 0.7), [between(0.1, 0.2), None], OPEN),
        (between(0.6, 0.7), [between(0.1, 0.2), Estimate(0.1, None, 5, 1)], OPEN),
        (between(0.6, 0.7), [], OPEN),
        (ALONE, [between(0.1, 0.2)], OPEN),
        (NOTHING, [between(0.1, 0.2)], OPEN),
        (None, [between(0.1, 0.2)], OPEN),
        (Estimate(0.6, (math.nan, math.nan), 5, 5), [between(0.1, 0.2)], OPEN),
    ],
)
def test_beside_controls(
    ours: Estimate | None, others: list[Estimate | None], expected: str
) -> None:
    assert claims.compare(ours, others) == expected


@pytest.mark.parametrize(
    ("difference", "expected"),
    [
        (between(0.1, 0.2), ABOVE),
        (between(0.0, 0.2), OPEN),
        (between(-0.1, 0.2), OPEN),
        (between(-0.2, -0.1), BELOW),
        (ALONE, OPEN),
        (NOTHING, OPEN),
        (None, OPEN),
    ],
)
def test_the_sign_of_a_difference(difference: Estimate | None, expected: str) -> None:
    assert claims.sign(difference) == expected


def test_the_signs_of_several_differences() -> None:
    up, open_, down = between(0.1, 0.2), between(-0.1, 0.2), between(-0.2, -0.1)
    assert claims.signs({"a": up, "b": up}) == ABOVE
    assert claims.signs({"a": up, "b": open_}) == OPEN
    assert claims.signs({"a": up, "b": open_, "c": down}) == BELOW
    assert claims.signs({}) == OPEN


@pytest.mark.parametrize(
    ("verdict", "flips", "unneeded", "null", "expected"),
    [
        ("used", share(0.9), share(0.02), share(0.02), "used"),
        # A verdict that its intervals do not carry is not repeated.
        ("used", share(0.1), share(0.1), share(0.02), "cannot be told"),
        ("used", share(0.3), share(0.02), share(0.28), "cannot be told"),
        ("used", ALONE, share(0.02), None, "cannot be told"),
        ("not used", share(0.1), share(0.02), share(0.02), "not used"),
        ("not used", share(0.22), share(0.02), share(0.02), "cannot be told"),  # reaches 27%
        ("not used", NOTHING, share(0.02), None, "cannot be told"),
        ("cannot be told", share(0.9), share(0.02), share(0.02), "cannot be told"),
        ("", share(0.9), share(0.02), share(0.02), "cannot be told"),
    ],
)
def test_use_is_claimed_where_the_verdict_and_the_intervals_agree(
    verdict: str, flips: Estimate, unneeded: Estimate, null: Estimate | None, expected: str
) -> None:
    row = made_rows.used_row(flips, chosen=True, unneeded_flips=unneeded, null_flips=null)
    assert claims.use_of(made.result(verdict=verdict, use=(row,))) == expected


def test_the_best_of_what_is_known() -> None:
    assert claims.best({"a": share(0.2), "b": NOTHING, "c": None, "d": share(0.4)}) == (
        "d",
        share(0.4),
    )
    assert claims.best({"b": NOTHING}) is None
