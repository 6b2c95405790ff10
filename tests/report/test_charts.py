"""Pictures: what is written in them, where things are, and the same bytes each time."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest

from goalmeter import GoalmeterError
from goalmeter.report.canvas import (
    BLUE,
    DARK,
    GREEN,
    INK,
    MUTED,
    PAPER,
    VERMILION,
    as_variables,
    contrast,
    in_the_dark,
    styles,
    text_on,
)
from goalmeter.report.charts import (
    LEVELS,
    PALETTES,
    Curve,
    CurveAxes,
    DotPanel,
    Dots,
    Marked,
    Marks,
    Move,
    Panel,
    belief_map,
    colour_map,
    curve_chart,
    dot_chart,
    grid_map,
    heat_map,
    panels_of,
    short,
    walk_map,
)
from goalmeter.statistics.clusters import Estimate

from .drawn import texts

NAN = math.nan


# --- All ------------------------------------------------------------------------------------------
def dots(label: str, *values: float, half: float = 0.1) -> Dots:
    return Dots(label=label, values=values, intervals=[(v - half, v + half) for v in values])


WALLS = np.array([[c in "#" for c in row] for row in ("#####", "#___#", "#####")])
KINDS: dict[str, Callable[[str], str]] = {
    "heat": lambda name: heat_map(
        name,
        [Panel(title="p$_x", values=np.eye(2, 3), hatched=frozenset({(0, 0)}))],
        rows=("a$\\frac$b", "<script>&"),
        columns=("x", "y", "z"),
        label="l",
        scale=(-1, 1),
    ),
    "dots": lambda name: dot_chart(
        name, ["a$1$", "<b>"], [DotPanel(x_label="x", series=(dots("s", 0, 1),), joined=True)]
    ),
    "curves": lambda name: curve_chart(
        name,
        [Curve(label="a", x=[1, 2, 3], y=[1, 2, 1], error=[0.1] * 3, marker="o")],
        CurveAxes(x_label="x", y_label="y", levels=[(2, "max")]),
    ),
    "grid": lambda name: grid_map(name, [[0, 1]], label="l", palette="utility"),
    "walk": lambda name: walk_map(name, WALLS, {(1, 1): "S"}, [Move((1, 1), (1, 2), good=True)]),
    "belief": lambda name: belief_map(name, [[0.0, 0.5]], Marked(), label="p"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_are_the_same_each_time_scale_and_bear_their_name_in_every_id(kind: str) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    svg = KINDS[kind]("one")
    assert svg == KINDS[kind]("one") and dict(matplotlib.rcParams) == before
    ids = set(re.findall(r'\bid="([^"]+)"', svg))
    assert ids and all(i.startswith("one-") for i in ids)
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg)) <= ids
    head = svg[: svg.index(">")]
    assert "viewBox" in head and re.search(r"min-width: \d+px; max-width: \d+px", head)
    assert " width=" not in head and "<script" not in svg and "<b>" not in svg


# --- Colours --------------------------------------------------------------------------------------
def levels(palette: str) -> list[str]:
    from matplotlib.colors import to_hex

    colours = colour_map(palette)
    return [to_hex(colours(level)) for level in range(LEVELS)]


@pytest.mark.parametrize("palette", [*PALETTES.values(), "Oranges"])
def test_numbers_in_cells_can_be_read_and_order_is_kept_in_both_schemes(palette: str) -> None:
    # WCAG 2.1: (1 + 0.05) / (0 + 0.05) = 21; of #777777 on white 4.48, as their tools say.
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#ffffff", "#777777") == pytest.approx(4.48, abs=0.005)
    for colour in levels(palette):
        text = text_on(colour)
        assert contrast(text, colour) >= 3.6, colour
        assert contrast(in_the_dark(text), in_the_dark(colour)) >= 3.6, colour
    if palette != PALETTES["signed"]:
        away = [contrast(in_the_dark(colour), DARK[PAPER]) for colour in levels(palette)]
        assert all(low <= high + 0.01 for low, high in pairwise(away))
        assert away[0] < 1.25 and away[-1] > 6


def test_colours_become_variables_that_the_page_declares() -> None:
    svg = '<path style="fill: #0072B2; stroke: none" stroke="#1f2933"/><text>fill #1f2933</text>'
    assert as_variables(svg) == (
        '<path style="fill: var(--c0072b2); stroke: none" '
        'stroke="var(--c1f2933)"/><text>fill #1f2933</text>'
    )
    assert styles([svg, svg]) == (
        "--c0072b2: #0072b2; --c1f2933: #1f2933;",
        f"--c0072b2: {DARK['#0072b2']}; --c1f2933: {DARK[INK]};",
    )
    style = files("goalmeter.report").joinpath("style.css").read_text(encoding="utf-8")
    light, dark = (re.findall(rf"--{name}: (#\w+);", style) for name in ("ink", "paper"))
    assert [*light, *dark] == [INK, DARK[INK], PAPER, DARK[PAPER]]


# --- Heat map -------------------------------------------------------------------------------------
def heat(*panels: Panel, **changes: object) -> str:
    options = {"rows": ("a", "b"), "columns": ("x", "y", "z"), "label": "reward", "scale": (-1, 1)}
    return heat_map("m", panels, **options | changes)  # type: ignore[arg-type]


def fills(svg: str) -> list[str]:
    """The fill of every cell, in the order of the drawing: cells by rows, then the means."""
    return re.findall(r'<path d="[^"]*" clip-path="[^"]*" style="fill: (#[0-9a-f]{6}); stroke', svg)


def test_every_cell_has_its_number_and_every_row_its_mean() -> None:
    values = [[0.5, -0.25, 0.999], [0, -0.97, NAN]]
    shown = Counter(texts(heat(Panel(title="p", values=values), Panel(title="q", values=values))))
    # Means: (0.5 - 0.25 + 0.999) / 3 = 0.4163, and -0.97 / 2 = -0.485 of the two that are there.
    for number in (".50", "−.25", "−.97", ".42", "−.48"):
        assert shown[number] == 2, (number, shown)
    assert "nan" not in shown and shown["a"] == shown["b"] == 2
    for once in ("x", "y", "z", "p", "q", "mean of the row", "reward"):
        assert shown[once] == 1, once
    without = texts(heat(Panel(title="p", values=values), means=False))
    assert "mean of the row" not in without and ".42" not in without
    with pytest.raises(GoalmeterError, match=re.escape("has shape (2, 2), expected (2, 3)")):
        heat(Panel(title="p", values=np.zeros((2, 2))))


def test_the_scale_is_pale_at_zero_and_ends_at_the_limit() -> None:
    svg = heat(Panel(title="p", values=[[0, 2, -2], [2, 5, -5]]), scale=(-2, 2))
    zero, high, low, *beyond = fills(svg)[:6]
    assert min(int(zero[i : i + 2], 16) for i in (1, 3, 5)) > 0xF0
    # What is beyond the limit looks as its end; signs look different.
    assert beyond == [high, high, low] and high != low
    # A scale may begin above zero; what is below looks as the beginning does.
    panel = Panel(title="p", values=[[0.5, 0.2, 1.0], [0.75, 1.0, NAN]])
    svg = heat(panel, scale=(0.5, 1))
    at_least, below, high = fills(svg)[:3]
    assert at_least == below != high and "0" not in texts(svg) and "−1" not in texts(svg)


def test_a_panel_by_the_names_of_rows_and_columns() -> None:
    cells = [("p", "a", "1", 0.4), ("p", "a", "1", 0.6), ("e", "a", "1", NAN)]
    (panel,) = panels_of(cells, ["a", "b"], ["1", "2"], [("p", "b", "2")])
    assert np.array_equal(panel.values, [[0.5, NAN], [NAN, NAN]], equal_nan=True)
    assert panel.hatched == {(1, 1)}
    svg = heat_map("m", [panel], rows=["a", "b"], columns=["1", "2"], label="l", scale=(-1, 1))
    assert svg.count("<pattern") == 1
    assert short("x" * 40) == "x" * 14 + "…" + "x" * 15
    assert short("a\x1b[31m\nb") == "a\\x1b[31m b"


# --- Dots and bars --------------------------------------------------------------------------------
def places(svg: str) -> list[list[tuple[float, float]]]:
    """Where the markers of each series are: [series][line]."""
    groups = re.findall(r'<g clip-path="[^"]*">\s*((?:<use [^>]*/>\s*)+)</g>', svg)
    # Caps come first, two groups a series, and then the markers, one.
    markers = groups[2 * len(groups) // 3 :]
    return [
        [(float(x), float(y)) for x, y in re.findall(r' x="([\d.]+)" y="([\d.]+)"', group)]
        for group in markers
    ]


def test_lines_series_and_panels_are_named() -> None:
    panels = [
        DotPanel(x_label="measure", title="left", series=(dots("one", 0, 1), dots("two", 1, 0))),
        DotPanel(x_label="difference", series=(dots("two", 1, -1),), band=(-0.5, 0.5)),
    ]
    svg = dot_chart("d", ["a long name of an agent, with key", "b"], panels)
    shown = texts(svg)
    assert {"a long name of an agent, with key", "b", "left", "measure", "difference"} <= set(shown)
    # The legend has a series once, though two panels have it.
    assert shown.count("one") == shown.count("two") == 1 and "opacity: 0.35" in svg


def test_values_go_right_lines_go_down_and_what_is_missing_is_left_out() -> None:
    estimates = [Estimate(0.0, (-0.1, 0.1), 9, 3), None, Estimate(1.0, None, 9, 3)]
    series = Dots.of("s", estimates, scale=2)
    svg = dot_chart("d", ["a", "b", "c"], [DotPanel(x_label="x", series=(series,))])
    (((x0, y0), (x1, y1)),) = places(svg)
    assert x0 < x1 and y0 < y1 and series.intervals[0] == (-0.2, 0.2)

    def heights(joined: bool) -> tuple[float, float]:
        panel = DotPanel(x_label="x", series=(dots("s", 0, 1), dots("t", 1, 2)), joined=joined)
        first, second = places(dot_chart("d", ["a", "b"], [panel]))
        return first[0][1], second[0][1]

    first, second = heights(joined=True)
    assert first == second
    first, second = heights(joined=False)
    assert first < second


# --- Curves ---------------------------------------------------------------------------------------
def curves(**changes: object) -> str:
    lines = [
        Curve(label="ours", x=[1, 2, 3], y=[-1, 0.5, 1], low=[-1, 0, 1], high=[0, 1, 1]),
        Curve(label="", x=[1, 2, 3], y=[0, 0, 0], thin=True),
    ]
    options = {"x_label": "turn", "y_label": "reward", "levels": [(0.5, "most")]} | changes
    return curve_chart("c", lines, CurveAxes(**options))  # type: ignore[arg-type]


def test_axes_curves_levels_and_ticks() -> None:
    shown = texts(curves(size=(4.6, 6.0)))
    assert {"turn", "reward", "ours", "most", "−1.00"} <= set(shown)
    assert not any("nolegend" in word or word == "" for word in shown)
    assert {"−4", "4"} <= set(texts(curves(limits=(-4.0, 4.0))))
    named = texts(curves(ticks=[1, 3], tick_names=["prompt", "answer"]))
    assert {"prompt", "answer"} <= set(named) and "3" not in named
    estimates = [Estimate(0.5, (0.4, 0.6), 9, 3), None, Estimate(0.7, (0.6, 0.8), 9, 3)]
    curve = Curve.of("a", [1, 2, 3], estimates)
    assert np.array_equal(curve.y, [0.5, NAN, 0.7], equal_nan=True) and curve.low is not None
    svg = curve_chart("c", [curve], CurveAxes(x_label="x", y_label="y", log=True))
    assert svg.count("PolyCollection") == 1 and curves(levels=()).count("most") == 0


# --- Maps -----------------------------------------------------------------------------------------
def test_a_map_shows_every_number_and_mark() -> None:
    marks = Marks({0: "S", 3: "G"}, frozenset({1}))
    svg = grid_map("m", [[0, 0.25], [12.345, 0.001]], label="l", palette="visits", marks=marks)
    assert {"S", "G", "0", ".25", "12.3", "~0", "l"} <= set(texts(svg))
    assert {"−10", "10"} <= set(texts(grid_map("m", [[-10, 10]], label="l", palette="signed")))
    assert grid_map("m", np.zeros((1, 2)), label="l", palette="signed", log=True)


def test_a_walk_has_its_steps_and_wrong_moves_look_different() -> None:
    moves = [
        Move((1, 1), (1, 2), good=True),
        Move((1, 2), (1, 2), good=False),  # a bump
        Move((1, 2), (1, 2), good=False, made=False),  # an answer that was no action
        Move((1, 2), (1, 1), good=False),
    ]
    shown = texts(walk_map("w", WALLS, {(1, 1): "S", (1, 3): "G"}, moves))
    assert {"S", "G", "1", "2,3…"} <= set(shown)  # three steps in one cell, two of them named
    drawn = [walk_map("w", WALLS, {}, [move]) for move in moves]
    assert [VERMILION in svg for svg in drawn] == [False, True, True, True]
    assert "stroke-dasharray" not in drawn[0] and "stroke-dasharray" in drawn[3]


SHARES = [[1.0, 1.0, 1.0], [1.0, 0.03, 0.62], [NAN, 0.97, 1.0]]
RIGHT, LEFT = (0, 1), (0, -1)


def test_moves_and_marks_of_a_belief_look_as_they_are_judged() -> None:
    def drawn(**marks: object) -> str:
        return belief_map("b", SHARES, Marked(**marks), label="p")  # type: ignore[arg-type]

    def moved(taken: tuple[int, int] | None) -> str:
        return drawn(grid=["###", "#A_"], moves=[RIGHT], taken=taken)

    assert VERMILION in moved(LEFT) and VERMILION not in moved(RIGHT)
    # The triangle of the right move is there whatever was done; the arrow adds to it.
    assert 0 < moved(None).count(BLUE) == moved(LEFT).count(BLUE) < moved(RIGHT).count(BLUE)
    place = frozenset({(1, 2)})
    assert GREEN in drawn(framed=place) and "dasharray" not in drawn(framed=place)
    dotted = drawn(dotted=place)
    assert MUTED in dotted and "dasharray" in dotted and GREEN not in dotted
    assert VERMILION in drawn(crossed=place) and VERMILION not in drawn()
