from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from report.drawn import texts

from goalmeter import GoalmeterError
from goalmeter.report.charts import Panel, heat_map, short

NAN = float("nan")


def draw(*panels: Panel, rows: tuple[str, ...] = ("a", "b"), **changes: object) -> str:
    options = {"columns": ("x", "y", "z"), "label": "reward per step", "limit": 1.0}
    return heat_map("m", panels, rows=rows, **{**options, **changes})  # type: ignore[arg-type]


def test_every_cell_has_its_number_and_every_row_its_mean() -> None:
    values = [[0.5, -0.25, 1], [0, -0.97, NAN]]
    shown = Counter(texts(draw(Panel(title="p", values=values))))
    # Means: (0.5 - 0.25 + 1) / 3 = 0.4167, and -0.97 / 2 = -0.485 of the two that are there.
    for number in (".50", "−.25", "−.97", ".42", "−.48"):
        assert shown[number] == 1, (number, shown)
    # A cell and the colour bar; NaN has no text.
    assert shown["1"] == 2 and shown["0"] == 2 and "nan" not in shown


def test_names_and_titles_are_shown_once_and_rows_in_each_panel() -> None:
    values = np.zeros((2, 3))
    panels = (Panel(title="first", values=values), Panel(title="second", values=values))
    shown = Counter(texts(draw(*panels)))
    for once in ("x", "y", "z", "first", "second", "mean of the row", "reward per step"):
        assert shown[once] == 1, once
    assert shown["a"] == shown["b"] == 2


def colours(svg: str) -> list[str]:
    """The fill of every cell, in the order of the drawing: cells by rows, then the means."""
    return re.findall(r'<path d="[^"]*" clip-path="[^"]*" style="fill: (#[0-9a-f]{6}); stroke', svg)


def test_the_scale_is_pale_at_zero_and_ends_at_the_limit() -> None:
    svg = draw(Panel(title="p", values=[[0, 2, -2], [2, 5, -5]]), limit=2.0)
    zero, high, low, *beyond = colours(svg)[:6]
    assert min(int(zero[i : i + 2], 16) for i in (1, 3, 5)) > 0xF0
    # What is beyond the limit looks as its end; signs look different.
    assert beyond == [high, high, low] and high != low


def test_a_scale_without_a_sign_starts_at_zero() -> None:
    panel = Panel(title="p", values=[[0.0, 0.5, 1.0], [1.0, 1.0, 1.0]])
    assert "−1" in texts(draw(panel)) and "−1" not in texts(draw(panel, signed=False))


def test_a_scale_may_begin_above_zero() -> None:
    panel = Panel(title="p", values=[[0.5, 0.2, 1.0], [0.75, 1.0, NAN]])
    svg = draw(panel, signed=False, least=0.5)
    # What is below the beginning looks as the beginning does.
    at_least, below, high = colours(svg)[:3]
    assert at_least == below != high and "0" not in texts(svg)


def test_means_can_be_left_out() -> None:
    panel = Panel(title="p", values=[[0.5, 0.25, 1.0], [0.0, 1.0, 0.0]])
    with_means, without = texts(draw(panel)), texts(draw(panel, means=False))
    assert "mean of the row" in with_means and "mean of the row" not in without
    assert ".58" in with_means and ".58" not in without and ".25" in without


def test_a_hatched_cell_is_hatched() -> None:
    plain = draw(Panel(title="p", values=np.zeros((2, 3))))
    marked = draw(Panel(title="p", values=np.zeros((2, 3)), hatched=frozenset({(1, 2)})))
    assert "<pattern" not in plain and marked.count("<pattern") == 1


def test_names_are_text_whatever_they_hold() -> None:
    rows = ("a$\\frac$b", "<script>&")
    shown = texts(draw(Panel(title="$x", values=np.zeros((2, 3))), rows=rows))
    assert {*rows, "$x"} <= set(shown)
    assert short("x" * 40) == "x" * 14 + "…" + "x" * 15
    assert short("a\x1b[31m\nb") == "a\\x1b[31m b"


def test_numbers_that_round_to_nothing_and_to_one() -> None:
    shown = texts(draw(Panel(title="p", values=[[0.001, -0.004, 0.999], [-1, -0.1, 0.1]])))
    assert ".00" not in shown and "−.00" not in shown
    assert {"0", "1", "−1", "−.10", ".10"} <= set(shown)


def test_the_same_bytes_each_time_and_a_least_width() -> None:
    panel = Panel(title="p", values=np.eye(2, 3), hatched=frozenset({(0, 0)}))
    assert draw(panel) == draw(panel)
    assert re.match(r'<svg [^>]*style="min-width: \d+px; max-width: \d+px"', draw(panel))


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (16, 30)])
def test_from_one_cell_to_many(rows: int, columns: int) -> None:
    values = np.full((rows, columns), 0.25)
    names = tuple(f"environment {i}" for i in range(columns))
    agents = tuple(f"agent {i}" for i in range(rows))
    svg = draw(Panel(title="p", values=values), rows=agents, columns=names)
    shown = Counter(texts(svg))
    assert shown[".25"] == rows * columns + rows  # and the means
    assert all(shown[name] == 1 for name in (*names, *agents))


def test_a_panel_of_another_shape_is_refused() -> None:
    message = re.escape("panel 'p' has shape (2, 2), expected (2, 3)")
    with pytest.raises(GoalmeterError, match=message):
        draw(Panel(title="p", values=np.zeros((2, 2))))
