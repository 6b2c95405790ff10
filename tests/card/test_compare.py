"""Differences between cards, worked by hand, and their verdicts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from card.example_cards import MEG, card, row, run, with_row, write

from goalmeter import GoalmeterError
from goalmeter.card.compare import RowDifference, compare_cards
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
    done = run(monkeypatch, capsys, "compare", first, second, "--margin", "meg=wide")
    assert done.status == 2 and "the margin of meg is 'wide'" in done.err
