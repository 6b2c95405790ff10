"""Drawings: the usual shapes, arrows that end at borders, nothing on top of anything else."""

from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise
from math import hypot
from typing import Any

import numpy as np
import pytest
from causal.written_networks import shipped
from hypothesis import given
from hypothesis import strategies as st
from report.drawn import texts

from goalmeter._errors import InvalidParameterError
from goalmeter.causal import CausalBayesianNetwork
from goalmeter.report.diagram import Kind, Shape, routes, svg_text, text_form
from goalmeter.report.diagram_layout import layered, spread, with_few_crossings
from goalmeter.report.page import Figure

SVG = "{http://www.w3.org/2000/svg}"
MOUSE: list[tuple[str, Kind]] = [
    *(("S", "chance"), ("D", "decision"), ("T", "chance"), ("U", "utility"))
]
MOUSE_ARROWS = [("S", "D"), ("S", "T"), ("D", "T"), ("T", "U")]
# Figure 2 of the paper: two steps, of which only the smell is observed.
SMELL: list[tuple[str, Kind]] = [
    (x, {"S": "chance", "O": "chance", "D": "decision", "U": "utility"}[x[0]])  # type: ignore[misc]
    for x in ("S1", "O1", "D1", "S2", "O2", "D2", "S3", "U3")
]
SMELL_ARROWS = [
    ("S1", "O1"),
    ("O1", "D1"),
    ("S1", "S2"),
    ("D1", "S2"),
    ("S2", "O2"),
    ("O2", "D2"),
    ("S2", "S3"),
    ("D2", "S3"),
    ("S3", "U3"),
]


@st.composite
def diagrams(draw: st.DrawFn) -> tuple[list[tuple[str, Kind]], list[tuple[str, str]]]:
    names = draw(st.lists(st.text(min_size=1, max_size=20), max_size=9, unique=True))
    kinds: list[Any] = [draw(st.sampled_from(["chance", "decision", "utility"])) for _ in names]
    pairs = list(combinations(names, 2))
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return list(zip(names, kinds, strict=True)), edges


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def shapes_in(svg: str) -> dict[str, tuple[str, tuple[float, float, float, float]]]:
    """Tag and box (left, top, right, bottom) of each node's outline, by its name."""
    out = {}
    for group in parsed(svg).iter(f"{SVG}g"):
        title = group.find(f"{SVG}title")
        if title is None or title.text is None:
            continue
        outline = list(group)[1]
        at = outline.attrib
        if outline.tag == f"{SVG}rect":
            x, y, w, h = (float(at[key]) for key in ("x", "y", "width", "height"))
            box = (x, y, x + w, y + h)
        elif outline.tag == f"{SVG}ellipse":
            cx, cy, rx, ry = (float(at[key]) for key in ("cx", "cy", "rx", "ry"))
            box = (cx - rx, cy - ry, cx + rx, cy + ry)
        else:
            numbers = [float(n) for n in re.findall(r"-?[\d.]+", at["points"])]
            box = (min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2]))
        out[title.text.rpartition(" (")[0]] = outline.tag.removeprefix(SVG), box
    return out


# --- The picture ----------------------------------------------------------------------------------
def test_shapes_are_those_of_the_field() -> None:
    svg = svg_text(MOUSE, MOUSE_ARROWS)
    assert {x: tag for x, (tag, _) in shapes_in(svg).items()} == {
        "S": "ellipse",
        "D": "rect",
        "T": "ellipse",
        "U": "polygon",
    }
    # Short names stand in a circle and in a square.
    for x in "SD":
        _, (left, top, right, bottom) = shapes_in(svg)[x]
        assert right - left == bottom - top
    # What is known at the decision is dashed, nothing else.
    lines = [p for p in parsed(svg).iter(f"{SVG}path") if "stroke" in p.attrib]
    dashed = ["stroke-dasharray" in line.attrib for line in lines]
    assert dashed == [True, False, False, False]


def test_observed_nodes_are_grey_and_targets_have_a_double_border() -> None:
    plain, marked = (
        svg_text(MOUSE, MOUSE_ARROWS, observed=o, targets=t) for o, t in (((), ()), ("S", "T"))
    )
    assert plain.count("<ellipse") == 2 and marked.count("<ellipse") == 3
    assert plain.count("#dde2e7") == 0 and marked.count("#dde2e7") == 1


def test_a_figure_of_the_report_takes_it() -> None:
    svg = svg_text(MOUSE, MOUSE_ARROWS, name="the-mouse", title='S & "D" < T')
    assert Figure(svg=svg, alt="", caption="").name == "the-mouse"
    ids = set(re.findall(r'\bid="([^"]+)"', svg))
    assert ids and all(i.startswith("the-mouse-") for i in ids)
    root = parsed(svg)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"] in ids
    title = root.find(f"{SVG}title")
    assert title is not None and title.text == 'S & "D" < T'
    head = svg[: svg.index(">")]
    assert "viewBox" in head and "max-width" in head and " width=" not in head
    assert not re.search(r"<script|href|url\(|<style|on\w+=", svg)


def test_what_it_shows_is_said_where_no_title_is_given() -> None:
    title = parsed(svg_text(MOUSE, MOUSE_ARROWS)).find(f"{SVG}title")
    assert title is not None and title.text == (
        "Diagram: decisions D; utilities U; chance variables S, T; "
        "arrows S to D, S to T, D to T, T to U"
    )


def test_text_is_escaped_and_long_names_are_cut() -> None:
    name = "<script>&\"'" + "x" * 100 + "\0\x1b"
    svg = svg_text([(name, "chance")], [])
    assert texts(svg) == [name[:31] + "…"]
    titles = [t.text for t in parsed(svg).iter(f"{SVG}title")]
    assert titles[1] == name[:-2] + "\\x00\\x1b (chance)"


@given(diagrams(), st.sampled_from(["right", "down", None]))
def test_no_two_shapes_touch_and_all_lies_in_the_picture(
    diagram: tuple[list[tuple[str, Kind]], list[tuple[str, str]]], direction: Any
) -> None:
    svg = svg_text(*diagram, direction=direction)
    assert svg == svg_text(*diagram, direction=direction)
    left, top, width, height = map(float, parsed(svg).attrib["viewBox"].split())
    boxes = [box for _, box in shapes_in(svg).values()]
    assert len(boxes) <= len(diagram[0])  # names that differ in control characters only read alike
    for box in boxes:
        assert left <= box[0] and top <= box[1]
        assert box[2] <= left + width + 0.1 and box[3] <= top + height + 0.1
    for a, b in combinations(boxes, 2):
        assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]


def examples() -> list[tuple[list[tuple[str, Kind]], list[tuple[str, str]]]]:
    out = [(MOUSE, MOUSE_ARROWS), (SMELL, SMELL_ARROWS)]
    for name in ("asia", "alarm", "insurance"):
        network = CausalBayesianNetwork.from_bif(shipped(name))
        nodes: list[tuple[str, Kind]] = [(x, "chance") for x in network.variables]
        out.append((nodes, network.edges()))
    return out


@pytest.mark.parametrize("direction", ["right", "down"])
def test_arrows_run_from_border_to_border_and_round_the_others(direction: Any) -> None:
    for nodes, edges in examples():
        kinds = dict(nodes)
        sizes = {x: (60.0 + 4 * len(x), 44.0) for x in kinds}
        layout = layered(sizes, edges, direction)
        flow = 0 if direction == "right" else 1
        shapes = {
            x: Shape(kind, layout.centres[x], (sizes[x][0] / 2, sizes[x][1] / 2))
            for x, kind in kinds.items()
        }
        curves = routes(shapes, edges, layout)
        assert set(curves) == set(edges)
        for (a, b), curve in curves.items():
            assert layout.centres[a][flow] < layout.centres[b][flow]
            for x, end in ((a, curve[0][0]), (b, curve[-1][-1])):
                # A hair outside the border but not inside it.
                assert shapes[x].near(end, 0.01) and not shapes[x].near(end, -0.01)
            for p, q in pairwise(curve):
                assert p[-1] == q[0]
            points = [
                tuple(np.polynomial.polynomial.polyval(t, _power(piece)))
                for piece in curve
                for t in np.linspace(0, 1, 40)
            ]
            for x, shape in shapes.items():
                if x not in (a, b):
                    assert not any(shape.near(p, 4.0) for p in points), (a, b, x)


def _power(piece: Any) -> Any:
    """The coefficients of a cubic Bézier piece in powers of t, [4, 2]."""
    p, q, r, s = (np.array(point) for point in piece)
    return np.array([p, 3 * (q - p), 3 * (p - 2 * q + r), s - p + 3 * (q - r)])


def test_heads_touch_the_border_they_point_at() -> None:
    svg = svg_text(MOUSE, MOUSE_ARROWS, direction="right")
    heads = [p.attrib["d"] for p in parsed(svg).iter(f"{SVG}path") if "fill" in p.attrib]
    tips = [tuple(map(float, re.findall(r"-?[\d.]+", d)[:2])) for d in heads]
    boxes = shapes_in(svg)
    for (_, b), (x, y) in zip(MOUSE_ARROWS, tips, strict=True):
        tag, (left, top, right, bottom) = boxes[b]
        u = abs(x - (left + right) / 2) / ((right - left) / 2)
        v = abs(y - (top + bottom) / 2) / ((bottom - top) / 2)
        reach = {"ellipse": hypot(u, v), "rect": max(u, v), "polygon": u + v}[tag]
        assert reach == pytest.approx(1.0, abs=0.02)


def test_the_time_of_a_large_network_is_short() -> None:
    network = CausalBayesianNetwork.from_bif(shipped("munin1"))  # 186 nodes, 273 arrows
    start = time.perf_counter()
    svg_text([(x, "chance") for x in network.variables], network.edges())
    assert time.perf_counter() - start < 5.0


def test_nothing_and_one_thing_can_be_drawn() -> None:
    assert parsed(svg_text([], [])).attrib["viewBox"] == "-6 -6 12 12"
    assert set(shapes_in(svg_text([("X", "decision")], []))) == {"X"}


# --- The layout -----------------------------------------------------------------------------------
def test_layers_keep_arrows_short() -> None:
    # E is a cause of D only: it stands right before D, not in the first layer.
    edges = [("A", "B"), ("B", "C"), ("C", "D"), ("E", "D")]
    layout = layered(dict.fromkeys("ABCDE", (10.0, 10.0)), edges, "right")
    assert [layout.layer[x] for x in "ABCDE"] == [0, 1, 2, 3, 2]
    assert not any(layout.bends.values())


def test_parts_that_are_not_joined_lie_beside_each_other() -> None:
    edges = [("A", "B"), ("C", "D")]
    layout = layered(dict.fromkeys("ABCDE", (10.0, 10.0)), edges, "right")
    heights = {x: y for x, (_, y) in layout.centres.items()}
    assert heights["A"] == heights["B"] < heights["C"] == heights["D"] < heights["E"]


def test_crossings_that_can_be_avoided_are() -> None:
    # 0-5, 1-4, 2-3 cross three times as given and not at all turned around.
    rows = with_few_crossings(
        [[0, 1, 2], [3, 4, 5]], [[], [], [], [2], [1], [0]], [[5], [4], [3], [], [], []]
    )
    places = {i: p for row in rows for p, i in enumerate(row)}
    assert (places[0], places[1], places[2]) == (places[5], places[4], places[3])


@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(0.1, 10), st.floats(0, 20)), min_size=1))
def test_places_are_apart_and_no_others_are_nearer(rows: list[tuple[float, float, float]]) -> None:
    wanted, weights, gaps = map(np.array, zip(*rows, strict=True))
    steps = np.cumsum(gaps) - gaps[0]
    apart = np.array(spread(wanted, weights, steps))
    assert np.all(np.diff(apart - steps) >= -1e-9)

    def cost(places: Any) -> float:
        return float(weights @ (places - wanted) ** 2)

    # Moves that keep places apart: whole blocks to either side, blocks being what touches.
    for k in range(len(apart)):
        for shift in (-1e-3, 1e-3):
            moved = apart.copy()
            moved[k:] += shift
            if np.all(np.diff(moved - steps) >= -1e-9):
                assert cost(moved) >= cost(apart) - 1e-6


# --- In a terminal --------------------------------------------------------------------------------
def test_the_text_form_lists_causes_first() -> None:
    side = ["left", "right"]
    text = text_form(
        [*reversed(MOUSE)], MOUSE_ARROWS, {"S": side, "D": side, "T": ["cheese", "none"]}
    )
    assert text.splitlines() == [
        "(S)  {left, right}",
        "[D]  {left, right}   ← S",
        "(T)  {cheese, none}  ← S, D",
        "<U>                  ← T",
    ]
    assert text_form([], [], {}) == ""


def test_long_domains_are_cut_in_text() -> None:
    text = text_form([("X", "chance")], [], {"X": range(100)})
    assert text == "(X)  {0, 1, 2, 3, 4, 5, 6, 7 and 92 more}"


# --- Errors ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("nodes", "edges", "options", "message"),
    [
        ([("A", "circle")], [], {}, "node 'A' is of kind 'circle', expected one of chance, decis"),
        ([("A", "chance")] * 2, [], {}, "node 'A' is given 2 times, expected each one once"),
        ([("Age", "chance")], [("Age", "Agee")], {}, "did you mean 'Age'?"),
        (MOUSE, [("S", "D")] * 2, {}, "the arrow from 'S' to 'D' is given 2 times"),
        (MOUSE, [("S", "D"), ("D", "S")], {}, "the arrows form a cycle (S -> D -> S)"),
        (MOUSE, [("S", "S")], {}, "the arrows form a cycle (S -> S)"),
        (MOUSE, [], {"observed": ["s"]}, "observed node 's' does not exist"),
        (MOUSE, [], {"targets": ["X"]}, "target 'X' does not exist"),
        (MOUSE, [], {"name": 'a"b'}, "expected letters, digits and hyphens"),
    ],
)
def test_what_is_wrong_is_named(nodes: Any, edges: Any, options: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        svg_text(nodes, edges, **options)
    assert message in str(caught.value)


def test_a_domain_of_no_node_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="node with a domain: 'X' does not exist"):
        text_form(MOUSE, [], {"X": [1]})
