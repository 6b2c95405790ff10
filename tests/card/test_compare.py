"""Differences between cards, worked by hand, and their verdicts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from card.example_cards import MEG, card, row, run, with_row, write
from report.test_page import Page

from goalmeter import GoalmeterError
from goalmeter.card.compare import RowDifference, compare_cards
from goalmeter.card.page import render_comparison
from goalmeter.card.records import BOUND, EXACT, NATS, P_VALUE, CardRow

T_3 = 3.182446305  # 97.5% quantile of Student's t with 3 degrees of freedom


def change(tmp_path: Path, first: CardRow, second: CardRow, **options: Any) -> RowDifference:
    cards = [card("a", [first]), card("b", [second])]
    (found,) = compare_cards(cards, [tmp_path / "a", tmp_path / "b"], **options).differences
    return found


def test_a_difference_is_paired_over_common_worlds(tmp_path: Path) -> None:
    """Common worlds differ by 1/4, 1/4, 1/4 and 2/4: mean 0.3125, standard error 0.0625."""
    first = {"w1": [2, 4], "w2": [3, 4], "w3": [1, 4], "w4": [2, 4], "only a": [4, 4]}
    second = {"w1": [3, 4], "w2": [4, 4], "w3": [2, 4], "w4": [4, 4], "no steps": [0, 0]}
    a = write(tmp_path / "a", card("a", [row("x", 0.6)]), {"x": first})
    b = write(tmp_path / "b", card("b", [row("x", 0.8)]), {"x": second | {"only b": [0, 4]}})
    cards = [card("a", [row("x", 0.6)]), card("b", [row("x", 0.8)])]
    (found,) = compare_cards(cards, [a, b]).differences
    assert found.change is not None and found.change.interval is not None
    assert found.change.value == pytest.approx(0.3125) and found.change.clusters == 4
    low, high = found.change.interval
    assert low == pytest.approx(0.3125 - T_3 * 0.0625) and high == pytest.approx(0.3125 + T_3 / 16)
    assert found.verdict == "higher"
    (mirrored,) = compare_cards(cards[::-1], [b, a]).differences
    assert mirrored.verdict == "lower" and mirrored.change is not None
    assert mirrored.change.interval == pytest.approx((-high, -low))


def test_equal_worlds_are_equivalent_only_if_they_are_many(tmp_path: Path) -> None:
    verdicts = {}
    for count in (3, 100):
        items = {"x": {f"w{n}": [4, 4] for n in range(count)}}
        folders = [write(tmp_path / f"{name}{count}", card(name), items) for name in "ab"]
        cards = [card(name, [row("x", 1.0)]) for name in "ab"]
        verdicts[count] = compare_cards(cards, folders).differences[0].verdict
    assert verdicts == {3: "inconclusive", 100: "equivalent within ±10 points"}


def test_without_common_worlds_intervals_are_independent(tmp_path: Path) -> None:
    first, second = MEG, replace(MEG, value=12.5, lower=8.5, upper=16.5)
    first = replace(first, value=2.5, lower=-0.5, upper=5.5)
    found = change(tmp_path, first, second)
    assert found.change is not None and found.change.clusters == 0
    assert found.change.interval == pytest.approx((5.0, 15.0))  # 3 and 4 in the squares make 5


@pytest.mark.parametrize(
    ("first", "second", "interval"),
    [
        (row("x", 5, lower=4, upper=6, ends=BOUND), row("x", 9, lower=8, upper=10), (2, 6)),
        (row("x", 5, lower=4, upper=6), row("x", 9, ends=EXACT), (3, 5)),
        (row("x", 5, ends=EXACT), row("x", 9, ends=EXACT), (4, 4)),
        (row("x", 5, lower=4), row("x", 9, lower=8, upper=10), None),
    ],
)
def test_bounds_and_exact_values(
    tmp_path: Path, first: CardRow, second: CardRow, interval: tuple[float, float] | None
) -> None:
    found = change(tmp_path, replace(first, unit=NATS), replace(second, unit=NATS))
    assert found.change is not None and found.change.value == 4
    assert found.change.interval == interval
    assert found.verdict == ("higher" if interval else "inconclusive")


@pytest.mark.parametrize(
    ("ends", "margin", "verdict"),
    [
        ((-1, 1), 0.5, "inconclusive"),
        ((-1, 1), 1.0, "equivalent within ±1"),
        ((0.2, 0.4), 0.5, "equivalent within ±0.5"),
        ((0.2, 0.4), None, "higher"),
        ((-0.4, -0.2), None, "lower"),
    ],
)
def test_a_verdict_follows_the_stated_margin(
    tmp_path: Path, ends: tuple[float, float], margin: float | None, verdict: str
) -> None:
    exact = row("x", 0.0, unit=NATS, ends=EXACT, margin=margin)
    second = row("x", sum(ends) / 2, lower=ends[0], upper=ends[1], unit=NATS)
    assert change(tmp_path, exact, second).verdict == verdict
    # An option replaces the margin of the row.
    wide = change(tmp_path, exact, second, margins={"x": 2})
    assert wide.verdict == "equivalent within ±2" and wide.margin == 2


def test_a_share_has_a_default_margin(tmp_path: Path) -> None:
    second = row("x", 0.55, lower=0.45, upper=0.6)
    found = change(tmp_path, row("x", 0.5, ends=EXACT), second)
    assert (found.margin, found.verdict) == (0.1, "equivalent within ±10 points")


@pytest.mark.parametrize(
    "second", [row("x", None), row("x", unit=NATS), row("y"), row("x", 0.1, unit=P_VALUE)]
)
def test_rows_that_cannot_be_compared(tmp_path: Path, second: CardRow) -> None:
    first = replace(second, value=0.2) if second.unit == P_VALUE else row("x")
    made = compare_cards([card("a", [first]), card("b", [second])], [tmp_path, tmp_path])
    assert {each.verdict for each in made.differences} == {"not compared"}
    assert all(each.change is None for each in made.differences)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (row("x", 0.5), row("x", None), "title of x: measured only for a (50.0%)."),
        (row("x", None), row("x", None), "title of x: without a value."),
        (
            row("x", 0.5),
            row("x", 2.0, unit=NATS),
            "title of x: the units differ; a (50.0%), b (2.00).",
        ),
        (
            row("x", 0.2, unit=P_VALUE),
            row("x", 0.1, unit=P_VALUE),
            "title of x: p-values are not compared; a (0.200), b (0.100).",
        ),
    ],
)
def test_the_reason_is_stated_for_rows_that_are_not_compared(
    tmp_path: Path, first: CardRow, second: CardRow, reason: str
) -> None:
    cards = [card("a", [first, row("y")]), card("b", [second, row("y")])]
    made = compare_cards(cards, [tmp_path, tmp_path])
    assert made.not_compared == [reason]
    # They are in no table of differences, but in the notes below it.
    assert [cells[1].text for cells in made.tables[0].cells] == ["y"]
    assert reason in made.tables[0].notes


def test_the_page_has_all_cards_of_a_row_on_one_scale(tmp_path: Path) -> None:
    """The scale reaches from 0 to 1: 0.25 is at 25%, 0.75 at 75%, the baseline at 40%."""
    ends = {"lower": 0.125, "upper": 0.5}
    cards = [
        card("goalmeter/mole", [row("x", 0.25, baselines={"greedy": 0.4}, **ends)]),
        card("moth", [row("x", 0.75, lower=0.5, upper=1.0), row("own", 0.5)], headline="moth: <i>"),
    ]
    made = compare_cards(cards, [tmp_path, tmp_path], margins={"x": 0.2})
    links = {"moth": "a b/card.html"}
    page = render_comparison(made, links=links, provenance=["Made by a test."])
    read = Page(page)
    assert re.findall(r'class="value" style="left: ([\d.]+)%', page) == ["25.0", "75.0"]
    assert re.findall(r'class="mark" style="left: ([\d.]+)%', page) == ["40.0", "40.0"]
    assert 'class="interval " style="left: 12.5%; right: 50.0%"' in page
    assert "mole compared with moth" in page and "moth: &lt;i&gt;" in page
    assert "margin ±20 points · not paired · greedy\u00a040%" in page
    assert "Not compared: 1 measure<" in page and "measured only for moth (50.0%)" in page
    assert ("href", "a%20b/card.html") in read.attributes


def test_arguments_are_checked(tmp_path: Path) -> None:
    two = [card("a"), card("b")]
    with pytest.raises(GoalmeterError, match="only 1 card"):
        compare_cards(two[:1], [tmp_path])
    with pytest.raises(GoalmeterError, match="'mge' does not exist"):
        compare_cards(two, [tmp_path] * 2, margins={"mge": 1})
    with pytest.raises(GoalmeterError, match="the margin of meg is -1"):
        compare_cards(two, [tmp_path] * 2, margins={"meg": -1})


def test_equal_agents_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    made = compare_cards([card(), card()], ["old", "new"])
    assert made.cards == ["mouse (old)", "mouse (new)"]


def test_the_command_writes_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    first = write(tmp_path / "a", card("mouse"))
    second = write(tmp_path / "b", with_row(card("<b>mole"), replace(MEG, value=9.0)))
    done = run(monkeypatch, capsys, "compare", first, second, "--margin", "meg=0.5", "--json")
    assert done.status == 0
    made = json.loads(done.out)
    assert made["cards"] == ["mouse", "<b>mole"] and made["differences"][0]["margin"] == 0.5
    done = run(monkeypatch, capsys, "compare", first, second, "--out", tmp_path / "page")
    assert done.status == 0 and done.out.endswith(f"{tmp_path / 'page' / 'report.html'}\n")
    page = (tmp_path / "page" / "report.html").read_text()
    assert "&lt;b&gt;mole" in page and "<b>mole" not in page and "title of optimal" in page
    assert 'href="../a/card.html"' not in page  # there is no page of a card to lead to
    done = run(monkeypatch, capsys, "compare", first, second, "--margin", "meg=wide")
    assert done.status == 2 and "the margin of meg is 'wide'" in done.err
