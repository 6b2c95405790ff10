"""Drawings: the usual shapes, arrows from border to border, no overlaps."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from causal.written_networks import shipped
from hypothesis import given, settings
from hypothesis import strategies as st

from goalmeter._errors import InvalidParameterError
from goalmeter.causal import CausalBayesianNetwork
from goalmeter.report.diagram import Kind, Shape, arranged, svg_text, text_form
from goalmeter.report.page import Figure

from .drawn import texts

SVG = "{http://www.w3.org/2000/svg}"
MOUSE: list[tuple[str, Kind]] = [
    *(("S", "chance"), ("D", "decision"), ("T", "chance"), ("U", "utility"))
]
MOUSE_ARROWS = [("S", "D"), ("S", "T"), ("D", "T"), ("T", "U")]


@st.composite
def diagrams(draw: st.DrawFn) -> tuple[list[tuple[str, Kind]], list[tuple[str, str]]]:
    names = draw(st.lists(st.text(min_size=1, max_size=20), max_size=9, unique=True))
    kinds: list[Any] = [draw(st.sampled_from(["chance", "decision", "utility"])) for _ in names]
    pairs = list(combinations(names, 2))
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return list(zip(names, kinds, strict=True)), edges


def test_shapes_and_marks_are_those_of_the_field() -> None:
    root = ET.fromstring(svg_text(MOUSE, MOUSE_ARROWS, observed=["S"], targets=["T"]))
    groups = [g for g in root.iter(f"{SVG}g") if g.find(f"{SVG}title") is not None]
    outlines = {g[0].text: [x.tag.removeprefix(SVG) for x in g[1:]] for g in groups}
    assert outlines == {
        "S (chance)": ["ellipse", "text"],
        "D (decision)": ["rect", "text"],
        "T (chance)": ["ellipse", "ellipse", "text"],
        "U (utility)": ["polygon", "text"],
    }
    assert [g[1].attrib["fill"] == "#dde2e7" for g in groups] == [True, False, False, False]
    # Only the information available to the decision is dashed.
    lines = [p for p in root.iter(f"{SVG}path") if "stroke" in p.attrib]
    assert ["stroke-dasharray" in line.attrib for line in lines] == [True, False, False, False]
    assert root.findtext(f"{SVG}title") == (
        "Diagram: decisions D; utilities U; chance variables S, T; "
        "arrows S to D, S to T, D to T, T to U"
    )


def test_a_drawing_is_a_figure_of_a_report() -> None:
    svg = svg_text(MOUSE, MOUSE_ARROWS, name="the-mouse", title='S & "D" < T')
    assert Figure(svg=svg, alt="", caption="").name == "the-mouse"
    ids = set(re.findall(r'\bid="([^"]+)"', svg))
    assert ids and all(i.startswith("the-mouse-") for i in ids)
    root = ET.fromstring(svg)
    assert root.attrib["role"] == "img" and root.attrib["aria-labelledby"] in ids
    assert root.findtext(f"{SVG}title") == 'S & "D" < T'
    assert not re.search(r"<script|href|url\(|<style|on\w+=", svg)


def test_text_is_escaped_and_long_names_are_cut() -> None:
    name = "<script>&\"'" + "x" * 100 + "\0\x1b"
    svg = svg_text([(name, "chance")], [])
    assert texts(svg) == [name[:31] + "…"]
    titles = [t.text for t in ET.fromstring(svg).iter(f"{SVG}title")]
    assert titles[1] == name[:-2] + "\\x00\\x1b (chance)"
    assert ET.fromstring(svg_text([], [])).attrib["viewBox"] == "-6 -6 12 12"
    with pytest.raises(InvalidParameterError, match="expected letters, digits and hyphens"):
        svg_text(MOUSE, MOUSE_ARROWS, name='a"b')


def reach(shape: Shape, points: Any) -> Any:
    """Distances of points from the centre, in multiples of that of the border."""
    u, v = (abs(np.array(points) - shape.centre) / shape.half).T
    return {"chance": np.hypot(u, v), "decision": np.maximum(u, v), "utility": u + v}[shape.kind]


def check_arrangement(nodes: list[tuple[str, Kind]], edges: list[tuple[str, str]]) -> None:
    """Shapes lie apart within the picture; arrows run from border to border, past the others."""
    sizes = {x: (60.0 + 4 * len(x), 44.0) for x, _ in nodes}
    picture = arranged(dict(nodes), sizes, edges)
    assert set(picture.shapes) == set(sizes) and set(picture.curves) == set(edges)
    boxes = [(x - w, y - h, x + w, y + h) for _, (x, y), (w, h) in picture.shapes.values()]
    for left, top, right, bottom in boxes:
        assert left >= -0.1 and top >= -0.1
        assert right <= picture.width + 0.1 and bottom <= picture.height + 0.1
    for a, b in combinations(boxes, 2):
        assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]
    t = np.linspace(0, 1, 40)[:, None]
    weights = np.hstack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3])
    for (a, b), curve in picture.curves.items():
        assert reach(picture.shapes[a], [curve[0][0]]) == pytest.approx(1)
        assert reach(picture.shapes[b], [curve[-1][-1]]) == pytest.approx(1)
        assert all(p[-1] == q[0] for p, q in pairwise(curve))
        points = np.vstack([weights @ np.array(piece) for piece in curve])
        for x in set(picture.shapes) - {a, b}:
            assert (reach(picture.shapes[x], points) > 1).all(), (a, b, x)


@settings(max_examples=10, deadline=None)
@given(diagrams())
def test_random_diagrams_have_no_overlaps(
    diagram: tuple[list[tuple[str, Kind]], list[tuple[str, str]]],
) -> None:
    check_arrangement(*diagram)
    assert svg_text(*diagram) == svg_text(*diagram)


@pytest.mark.parametrize("name", ["asia", "alarm"])
def test_published_networks_have_no_overlaps(name: str) -> None:
    network = CausalBayesianNetwork.from_bif(shipped(name))
    check_arrangement([(x, "chance") for x in network.variables], network.edges())


def test_graphviz_is_used_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A program that answers as `dot -Tplain` does: inches, from the lower left corner.
    program = tmp_path / "dot"
    answer = (
        "graph 1 2 3\nnode n0 1 2.5 1 0.5 n0 solid ellipse black lightgrey\n"
        "node n1 1 0.5 1 0.5 n1 solid box black lightgrey\n"
        "edge n0 n1 4 1 2.25 1 1.75 1 1.25 1 0.75 solid black\nstop"
    )
    program.write_text(f"#!/bin/sh\ncat > {tmp_path}/asked\ncat <<END\n{answer}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    picture = arranged(
        {"A": "chance", "B": "decision"}, {"A": (72.0, 36.0), "B": (72.0, 36.0)}, [("A", "B")]
    )
    assert "n0 -> n1" in (tmp_path / "asked").read_text()
    assert (picture.width, picture.height) == (144, 216)
    assert picture.shapes["A"].centre == (72, 36) and picture.shapes["B"].centre == (72, 180)
    assert picture.curves["A", "B"] == [((72, 54), (72, 90), (72, 126), (72, 162))]


def test_the_text_form_lists_causes_first() -> None:
    side = ["left", "right"]
    domains = {"S": range(100), "D": side, "T": ["cheese", "none"]}
    assert text_form([*reversed(MOUSE)], MOUSE_ARROWS, domains).splitlines() == [
        "(S)  {0, 1, 2, 3, 4, 5, 6, 7 and 92 more}",
        "[D]  {left, right}                         ← S",
        "(T)  {cheese, none}                        ← S, D",
        "<U>                                        ← T",
    ]
    assert text_form([], [], {}) == ""
