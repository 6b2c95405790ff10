"""Agents in groups that compare and beside their reality checks, and what they are called."""

from __future__ import annotations

from dataclasses import replace

import pytest

from goalmeter.pages import reflection as reflection_page
from goalmeter.pages import reflection_tables
from goalmeter.pages.reflection_tables import (
    LOWERS,
    RAISES,
    SAME,
    UNTOLD,
    groups,
    in_words,
    labels,
    pairs,
    verdict,
)
from goalmeter.reflection import Reflection, measure
from goalmeter.statistics.verdicts import TOO_FEW

from .made import AFTER, BEFORE, GAINS, made


def test_a_pair_is_compared_by_seed_and_environment() -> None:
    ((pair,), notes) = pairs([AFTER, BEFORE])
    assert notes == [] and (pair.label, pair.checked_label) == ("x", "rc(x)")
    # A: +4 and 0; B: 0 and -2; so (4 - 2) / 40 on average.
    assert pair.comparison.difference == pytest.approx(0.05)
    assert pair.verdict == RAISES
    assert pair.told() == (["A"], ["B"])
    assert pair.by_environment()["A"] == pytest.approx([gain / 20 for gain in GAINS])
    (group,) = groups([BEFORE, AFTER])
    row = [cell.text for cell in reflection_tables.pairs_table([pair], group).cells[0]]
    # 2.776 standard errors either way, each the root of a half over 40 and the root of 5.
    assert row == ["x", "raises", "+0.2500", "+0.3000", "+0.0500", "0.0079", "0.028 to 0.072"]
    gains = [cell.text for cell in reflection_tables.gains_table([pair], group).cells[0]]
    assert gains == ["x", "1 of 2", "A +0.20", "1 of 2", "B −0.10"]


def test_the_same_gain_at_five_seeds_does_not_say_what_a_sixth_one_has() -> None:
    """An agent that draws nothing gains the same everywhere; so may one that was lucky."""
    after = made("rc(x)", {"A": [(s + 4, s) for s in range(5)], "B": [(3, 1)] * 5})
    ((pair,), _) = pairs([BEFORE, after])
    assert pair.comparison.stderr == pytest.approx(0)
    low, high = pair.comparison.interval
    # Five of five: 0.025 ** (1 / 5) of the way from -2, or from 2, to 0.05.
    left = 0.025 ** (1 / 5)
    assert (low, high) == pytest.approx((2.05 * left - 2, 2 - 1.95 * left))
    assert pair.verdict == UNTOLD


def test_what_luck_can_do_is_not_told() -> None:
    order = (1, 0, 2, 4, 3)
    after = made("rc(x)", {"A": [(s, s) for s in order], "B": [(3, 3)] * 5})
    ((pair,), _) = pairs([BEFORE, after])
    assert pair.verdict == UNTOLD and pair.told() == ([], [])


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ((0.1, 0.2), RAISES),
        ((-0.2, -0.1), LOWERS),
        ((-0.1, 0.2), UNTOLD),
        ((0.0, 0.2), UNTOLD),
        ((0.0, 0.0), SAME),
        ((float("nan"), float("nan")), TOO_FEW),
    ],
)
def test_a_verdict_is_that_of_the_interval(interval: tuple[float, float], expected: str) -> None:
    assert verdict(interval) == expected


def test_a_reality_check_of_a_reality_check_is_paired_with_it() -> None:
    compared, _ = pairs([BEFORE, AFTER, replace(AFTER, agent="rc(rc(x))")])
    assert [(pair.label, pair.checked_label) for pair in compared] == [
        ("x", "rc(x)"),
        ("rc(x)", "rc(rc(x))"),
    ]


def test_labels_tell_agents_apart() -> None:
    assert labels([BEFORE, AFTER]) == ["x", "rc(x)"]
    assert labels([BEFORE, BEFORE]) == ["x (1)", "x (2)"]
    assert labels([BEFORE, replace(BEFORE, steps=20)]) == ["x, 10 steps", "x, 20 steps"]
    unnegated = replace(BEFORE, readings={"opposite_reading": "unnegated"})
    assert labels([BEFORE, unnegated]) == ["x", "x, opposite reading unnegated"]
    files = [replace(BEFORE, agent=name) for name in ("a/b c/me.py:f", "rc(a/b c/me.py:f)")]
    assert labels(files) == ["me.py:f", "rc(me.py:f)"]


def test_headings_say_what_differs_and_no_more() -> None:
    longer = replace(BEFORE, steps=20)
    assert [group.title for group in groups([BEFORE, longer])] == ["10 steps", "20 steps"]
    counted = replace(BEFORE, readings={"step_counting": "actions"})
    assert [group.title for group in groups([BEFORE, counted])] == [
        "as published",
        "step counting actions",
    ]


def test_groups_that_read_alike_have_numbers() -> None:
    def of(names: str) -> Reflection:
        return made("x", {name: [(0, 0)] * 5 for name in names})

    assert [group.title for group in groups([of("ABCD"), of("EFGH")])] == [
        "4 environments and their opposites, 1",
        "4 environments and their opposites, 2",
    ]


def test_what_was_played_in_words() -> None:
    assert in_words(measure("random", 20, 1)) == "the battery of 25 and their opposites, 20 steps"
    one_way = ["opposite(IgnoreRewards)", "DejaVu"]
    alone = measure("random", 1, 1, environments=one_way)
    assert in_words(alone) == "DejaVu with its opposite and opposite(IgnoreRewards), 1 step"
    many = measure("random", 1, 1, environments=[*one_way, "Repeater", "AfterImages"])
    assert in_words(many) == "4 environments, 1 of them in one way only, 1 step"
    (table, *_) = reflection_page.short_tables([alone])
    assert "blindly" not in table.meaning and "opposites of some only" in table.meaning
