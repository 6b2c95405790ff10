"""Draw networks and influence diagrams as SVG and as text.

Decisions are squares, utilities diamonds, chance variables circles (Howard and Matheson 1984);
arrows into a decision are dashed (Everitt et al. 2021). Graphviz places the nodes where it is
installed; otherwise they are in layers (Sugiyama et al. 1981). Equal graphs give equal pictures.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from graphlib import TopologicalSorter
from itertools import pairwise
from math import dist, hypot, sqrt
from statistics import fmean
from typing import Any, Literal, NamedTuple
from unicodedata import combining, east_asian_width

from goalmeter._errors import InvalidParameterError
from goalmeter._names import listed
from goalmeter.report.canvas import BLUE, INK, LEAST_TEXT, PAPER
from goalmeter.report.tables import aligned, escaped

Kind = Literal["chance", "decision", "utility"]
Point = tuple[float, float]
Edge = tuple[str, str]
Piece = tuple[Point, Point, Point, Point]  # a cubic Bézier curve
# A variable, or the bend of an arrow in a layer that it crosses.
Node = str | tuple[str, str, int]

# Border and fill of a kind of node, its mark in a text, and its shape for Graphviz.
_LOOKS: dict[Kind, tuple[str, str, str, str]] = {
    "chance": (INK, PAPER, "({})", "ellipse"),
    "decision": (BLUE, "#e3f0f8", "[{}]", "box"),
    "utility": ("#b34a00", "#fdeee2", "<{}>", "diamond"),
}
_FONT, _MARGIN = 13.0, 6.0
# Longer names are cut in the picture; the tooltip shows the whole name.
_LONGEST = 32
_HEAD, _HEAD_HALF = 8.5, 3.4
_INCH = 72.0
# Pixels: between neighbours, between layers, the width of a bend, and above and below a shape.
_BETWEEN, _GAP, _BEND, _ROOM = 20.0, 46.0, 12.0, 10.0
_SWEEPS = 40


# --- Text -----------------------------------------------------------------------------------------
def text_form(
    nodes: Sequence[tuple[str, Kind]],
    edges: Sequence[Edge],
    domains: Mapping[str, Sequence[object]],
) -> str:
    """Write a line for each node: [decision], <utility> or (chance), states and parents."""
    kinds = dict(nodes)
    parents = {x: [a for a, b in edges if b == x] for x in kinds}
    rows = []
    for x in TopologicalSorter(parents).static_order():
        states = f"{{{listed(domains[x])}}}" if x in domains else ""
        causes = f"← {', '.join(parents[x])}" if parents[x] else ""
        rows.append((_LOOKS[kinds[x]][2].format(x), states, causes))
    return "\n".join(aligned(rows))


# --- Picture --------------------------------------------------------------------------------------
def svg_text(
    nodes: Sequence[tuple[str, Kind]],
    edges: Sequence[Edge],
    *,
    observed: Collection[str] = (),
    targets: Collection[str] = (),
    title: str = "",
    name: str = "diagram",
) -> str:
    """Draw a diagram as an <svg> element; observed nodes are grey, targets have a double border."""
    # `name` is the prefix of all ids, unique on the page.
    if not re.fullmatch(r"[A-Za-z0-9-]+", name):
        raise InvalidParameterError(
            f"the name of the picture is {name!r}, expected letters, digits and hyphens"
        )
    kinds = dict(nodes)
    labels = {x: x if len(x) <= _LONGEST else x[: _LONGEST - 1] + "…" for x in kinds}
    # The inner line of a double border takes room on both sides.
    sizes = {
        x: _size(kind, sum(map(_em, labels[x])) * _FONT + 6.0 * (x in targets))
        for x, kind in kinds.items()
    }
    picture = arranged(kinds, sizes, edges)
    body = [_arrow(curve, kinds[b]) for (_, b), curve in picture.curves.items()]
    for x, shape in picture.shapes.items():
        border, ground, *_ = _LOOKS[shape.kind]
        outlines = _outline(shape, fill="#dde2e7" if x in observed else ground, stroke=border)
        if x in targets:
            outlines += _outline(shape, 3.0, stroke=border, stroke_width="1")
        place = {"x": shape.centre[0], "y": shape.centre[1] + 0.35 * _FONT}
        label = _tag("text", escaped(labels[x]), **place, text_anchor="middle", fill=INK)
        body.append(_tag("g", _tag("title", f"{escaped(x)} ({shape.kind})") + outlines + label))
    width, height = picture.width + 2 * _MARGIN, picture.height + 2 * _MARGIN
    if not title:
        words = {"decision": "decisions", "utility": "utilities", "chance": "chance variables"}
        parts = {word: [x for x in kinds if kinds[x] == kind] for kind, word in words.items()}
        parts["arrows"] = [f"{a} to {b}" for a, b in edges]
        texts = [f"{word} {listed(names)}" for word, names in parts.items() if names]
        title = "Diagram: " + "; ".join(texts + ["no arrows"] * (not edges))
    title = _tag("title", escaped(title), id=f"{name}-title")
    font: dict[str, Any] = {"font_family": "DejaVu Sans, Verdana, sans-serif", "font_size": _FONT}
    lines = {"fill": "none", "stroke_width": 1.3, "stroke_linecap": "round"}
    drawn = _tag("g", "\n" + "\n".join(body) + "\n", id=f"{name}-figure_1", **font | lines)
    return _tag(
        "svg",
        f"\n{title}\n{drawn}\n",
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        aria_labelledby=f"{name}-title",
        viewBox=" ".join(map(_n, (-_MARGIN, -_MARGIN, width, height))),
        style=f"min-width: {_n(width * LEAST_TEXT / _FONT)}px; max-width: {_n(width)}px",
    )


def _tag(element: str, content: str = "", **attributes: str | float) -> str:
    """An element of SVG; lengths to a tenth of a pixel."""
    values = {key: x if isinstance(x, str) else _n(x) for key, x in attributes.items()}
    head = element + "".join(f' {k.replace("_", "-")}="{x}"' for k, x in values.items())
    return f"<{head}>{content}</{element}>" if content else f"<{head}/>"


def _em(c: str) -> float:
    """Upper bound of a character's width: that of DejaVu Sans, which is wider than other fonts."""
    if combining(c):
        return 0.0
    if east_asian_width(c) in "WF" or c in "mwMW@%—…":
        return 1.05
    if c in "iIjl.,:;'|!()[] ":
        return 0.4
    return 0.78 if c.isupper() or c in "<>=+~_&#" else 0.65


def _size(kind: Kind, text: float) -> Point:
    """Width and height of a shape around a text of this width."""
    if kind == "decision":
        return max(38.0, text + 18.0), 38.0
    # Half a line of text above its middle, an ellipse or a diamond is narrower than in its middle.
    if kind == "utility":
        return max(58.0, (text + 8.0) / (1 - _FONT / 52.0)), 52.0
    return max(40.0, (text + 8.0) / sqrt(1 - (_FONT / 40.0) ** 2)), 40.0


class Shape(NamedTuple):
    """The outline of a node: an ellipse (chance), a rectangle (decision), a diamond (utility)."""

    kind: Kind
    centre: Point
    half: Point


def _outline(shape: Shape, inset: float = 0.0, **style: str) -> str:
    (cx, cy), (rx, ry) = shape.centre, shape.half
    if shape.kind == "utility":
        # The sides of a diamond stay parallel when both halves shrink by the same share.
        share = 1 - inset * hypot(rx, ry) / (rx * ry)
        rx, ry = rx * share, ry * share
        corners = [(cx, cy - ry), (cx + rx, cy), (cx, cy + ry), (cx - rx, cy)]
        return _tag("polygon", points=" ".join(map(_p, corners)), **style)
    rx, ry = rx - inset, ry - inset
    if shape.kind == "decision":
        return _tag("rect", x=cx - rx, y=cy - ry, width=2 * rx, height=2 * ry, **style)
    return _tag("ellipse", cx=cx, cy=cy, rx=rx, ry=ry, **style)


def _arrow(curve: Sequence[Piece], into: Kind) -> str:
    """A curve with a head whose tip touches the border of the shape it leads to."""
    *pieces, (p, q, r, tip) = curve
    length = dist(r, tip) or 1.0
    dx, dy = (tip[0] - r[0]) / length, (tip[1] - r[1]) / length
    # The line ends inside the head; otherwise its end would blunt the tip.
    end = tip[0] - 0.7 * _HEAD * dx, tip[1] - 0.7 * _HEAD * dy
    back = tip[0] - _HEAD * dx, tip[1] - _HEAD * dy
    left = back[0] - _HEAD_HALF * dy, back[1] + _HEAD_HALF * dx
    right = back[0] + _HEAD_HALF * dy, back[1] - _HEAD_HALF * dx
    turns = [f"C{_p(b)} {_p(c)} {_p(d)}" for _, b, c, d in [*pieces, (p, q, r, end)]]
    dashed = {"stroke_dasharray": "5 4"} if into == "decision" else {}
    line = _tag("path", d=f"M{_p(curve[0][0])}{''.join(turns)}", stroke=INK, **dashed)
    return line + _tag("path", d=f"M{_p(tip)}L{_p(left)}L{_p(right)}Z", fill=INK)


def _p(point: Point) -> str:
    return f"{_n(point[0])},{_n(point[1])}"


def _n(x: float) -> str:
    """A length to a tenth of a pixel; never "-0"."""
    return f"{round(x, 1) + 0.0:g}"


# --- Layout ---------------------------------------------------------------------------------------
class Picture(NamedTuple):
    """Shapes and arrows, border to border, in pixels from the upper left corner."""

    shapes: dict[str, Shape]
    curves: dict[Edge, list[Piece]]
    width: float
    height: float


def arranged(
    kinds: Mapping[str, Kind], sizes: Mapping[str, Point], edges: Sequence[Edge]
) -> Picture:
    """Arrange nodes of these sizes (width, height) and the arrows between them."""
    if not kinds:
        return Picture({}, {}, 0.0, 0.0)
    return _by_dot(kinds, sizes, edges) or _in_layers(kinds, sizes, edges)


def _by_dot(
    kinds: Mapping[str, Kind], sizes: Mapping[str, Point], edges: Sequence[Edge]
) -> Picture | None:
    """The arrangement by Graphviz, or None where it is not installed or fails."""
    names = list(kinds)
    lines = [
        f'n{i} [label="" fixedsize=true shape={_LOOKS[kinds[x]][3]} '
        f"width={sizes[x][0] / _INCH} height={sizes[x][1] / _INCH}]"
        for i, x in enumerate(names)
    ]
    lines += [f"n{names.index(a)} -> n{names.index(b)} [arrowhead=none]" for a, b in edges]
    graph, dot = "\n".join(["digraph {", *lines, "}\n"]), ["dot", "-Tplain"]
    try:
        answer = subprocess.run(
            dot, input=graph, capture_output=True, text=True, timeout=60, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    (_, _, *ends), *rows = (line.split() for line in answer.splitlines())
    width, height = (_INCH * float(end) for end in ends)

    def points(words: Sequence[str]) -> list[Point]:
        flat = [_INCH * float(word) for word in words]
        return [(x, height - y) for x, y in zip(flat[::2], flat[1::2], strict=True)]

    picture = Picture({}, {}, width, height)
    for kind, *words in rows:
        if kind == "node":
            x = names[int(words[0][1:])]
            half = sizes[x][0] / 2, sizes[x][1] / 2
            picture.shapes[x] = Shape(kinds[x], points(words[1:3])[0], half)
        elif kind == "edge":
            a, b = (names[int(word[1:])] for word in words[:2])
            on = points(words[3 : 3 + 2 * int(words[2])])
            pieces = [(on[k], on[k + 1], on[k + 2], on[k + 3]) for k in range(0, len(on) - 1, 3)]
            picture.curves[a, b] = pieces
    return picture


def _in_layers(
    kinds: Mapping[str, Kind], sizes: Mapping[str, Point], edges: Sequence[Edge]
) -> Picture:
    """The arrangement in layers below each other; arrows lead downwards."""
    parents = {x: [a for a, b in edges if b == x] for x in kinds}
    children = {x: [b for a, b in edges if a == x] for x in kinds}
    order = list(TopologicalSorter(parents).static_order())
    layer: dict[Node, int] = dict.fromkeys(kinds, 0)
    for name in order:
        layer[name] = max((layer[parent] + 1 for parent in parents[name]), default=0)
    for name in reversed(order):
        # A node with more arrows out than in moves towards its effects.
        if len(children[name]) > len(parents[name]):
            layer[name] = min(layer[child] for child in children[name]) - 1
    breadth: dict[Node, float] = {x: size[0] for x, size in sizes.items()}
    chains: dict[Edge, list[Node]] = {}
    for a, b in edges:
        bends: dict[Node, int] = {(a, b, k): k for k in range(layer[a] + 1, layer[b])}
        layer |= bends
        breadth |= dict.fromkeys(bends, _BEND)
        chains[a, b] = [a, *bends, b]
    across = _spaced(layer, breadth, list(chains.values()))
    depth = max(height for _, height in sizes.values()) + 2 * _ROOM
    top = {x: number * (depth + _GAP) for x, number in layer.items()}
    shapes = {
        x: Shape(kind, (across[x], top[x] + depth / 2), (sizes[x][0] / 2, sizes[x][1] / 2))
        for x, kind in kinds.items()
    }
    curves = {}
    for (a, b), chain in chains.items():
        # Straight within each layer, where there may be shapes, and turning between layers.
        pieces: list[Piece] = []
        at = across[a], shapes[a].centre[1] + shapes[a].half[1]
        for x, y in pairwise(chain):
            leave, enter = (across[x], top[x] + depth), (across[y], top[y])
            pieces += [_turn(at, leave), _turn(leave, enter)]
            at = enter
        pieces.append(_turn(at, (across[b], shapes[b].centre[1] - shapes[b].half[1])))
        curves[a, b] = pieces
    width = max(across[x] + breadth[x] / 2 for x in across)
    return Picture(shapes, curves, width, max(top.values()) + depth)


def _spaced(
    layer: Mapping[Node, int], breadth: Mapping[Node, float], chains: Sequence[Sequence[Node]]
) -> dict[Node, float]:
    """Positions across, each node near the mean of its neighbours, so that few arrows cross."""
    rows = [[x for x in layer if layer[x] == k] for k in range(1 + max(layer.values()))]
    linked: dict[Node, list[Node]] = {x: [] for x in layer}
    for x, y in (pair for chain in chains for pair in pairwise(chain)):
        linked[x].append(y)
        linked[y].append(x)
    at = dict.fromkeys(layer, 0.0)
    for turn in range(_SWEEPS):
        for row in rows if turn % 2 == 0 else reversed(rows):
            wanted = {x: fmean(at[y] for y in linked[x]) if linked[x] else at[x] for x in row}
            row.sort(key=wanted.__getitem__)
            # From the left, none nearer to the one before than it may be; then all of them back by
            # what they were pushed to the right on average.
            placed = [wanted[row[0]]]
            for left, x in pairwise(row):
                gap = (breadth[left] + breadth[x]) / 2 + _BETWEEN
                placed.append(max(wanted[x], placed[-1] + gap))
            back = fmean(placed) - fmean(wanted.values())
            at |= {x: place - back for x, place in zip(row, placed, strict=True)}
    lowest = min(at[x] - breadth[x] / 2 for x in at)
    return {x: place - lowest for x, place in at.items()}


def _turn(start: Point, end: Point) -> Piece:
    """A curve that leaves and arrives upright; a straight line where one is below the other."""
    middle = (start[1] + end[1]) / 2
    return start, (start[0], middle), (end[0], middle), end
