"""Draw networks and influence diagrams as SVG and as text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from html import escape
from itertools import pairwise
from math import atan2, cos, hypot, sin, sqrt, tau
from typing import Literal, NamedTuple, get_args
from unicodedata import combining, east_asian_width

from goalmeter._errors import InvalidParameterError, visible
from goalmeter._names import listed, unknown_name
from goalmeter.report.diagram_layout import Direction, Layout, Point, layered, spread

# --- Routes ---------------------------------------------------------------------------------------
# A curve is a list of cubic Bézier pieces. Three are tried for an arrow, and the first that keeps
# clear of all other shapes is taken: a straight line; a smooth line through the arrow's bends; a
# line that runs along the arrows' direction through each layer and turns between layers, where no
# shape is.

Kind = Literal["chance", "decision", "utility"]
Piece = tuple[Point, Point, Point, Point]
Edge = tuple[str, str]

# Pixels between an arrow and the shapes that it passes.
_CLEAR = 7.0
# A long arrow is straight only if that takes it no further from where its bends have room.
_NEAR_BENDS = 45.0
# Arrows that meet at one side of a shape end this far apart at most.
_PORTS = 11.0
# Radians between arrows that meet at a shape, and for all of them together.
_FAN, _MOST_FAN = 0.3, 3.0


class Shape(NamedTuple):
    """The outline of a node: an ellipse (chance), a rectangle (decision), a diamond (utility)."""

    kind: Kind
    centre: Point
    half: Point

    def border(self, towards: Point) -> Point:
        """Where the ray from the centre towards a point leaves the shape."""
        dx, dy = towards[0] - self.centre[0], towards[1] - self.centre[1]
        u, v = abs(dx) / self.half[0], abs(dy) / self.half[1]
        reach: float = {"chance": hypot(u, v), "decision": max(u, v), "utility": u + v}[self.kind]
        return (self.centre[0] + dx / reach, self.centre[1] + dy / reach) if reach else self.centre

    def depth(self, share: float) -> float:
        """How far the shape reaches, as a share of its half size, `share` beside its middle."""
        s = min(abs(share), 1.0)
        return {"chance": sqrt(1 - s * s), "decision": 1.0, "utility": 1 - s}[self.kind]

    def meets(self, box: tuple[float, float, float, float]) -> bool:
        """Whether the shape's own box and another one (left, top, right, bottom) overlap."""
        (x, y), (rx, ry) = self.centre, self.half
        return box[0] < x + rx and x - rx < box[2] and box[1] < y + ry and y - ry < box[3]

    def near(self, point: Point, clearance: float) -> bool:
        """Whether a point lies in the shape or too close to it."""
        u = abs(point[0] - self.centre[0]) / (self.half[0] + clearance)
        v = abs(point[1] - self.centre[1]) / (self.half[1] + clearance)
        reach = {"chance": u * u + v * v, "decision": max(u, v), "utility": u + v}
        return reach[self.kind] < 1


def routes(
    shapes: Mapping[str, Shape], edges: Sequence[tuple[str, str]], layout: Layout
) -> dict[Edge, list[Piece]]:
    """A curve for each arrow, from border to border."""
    ports = _ports(edges, layout)
    by_layer: dict[int, list[str]] = {}
    for name in shapes:
        by_layer.setdefault(layout.layer[name], []).append(name)

    def is_clear(edge: Edge, curve: Sequence[Piece]) -> bool:
        passed = range(layout.layer[edge[0]], layout.layer[edge[1]] + 1)
        # A curve lies within the box of its control points.
        xs, ys = zip(*(p for piece in curve for p in piece), strict=True)
        box = min(xs) - _CLEAR, min(ys) - _CLEAR, max(xs) + _CLEAR, max(ys) + _CLEAR
        names = (x for k in passed for x in by_layer.get(k, ()) if x not in edge)
        obstacles = [shapes[x] for x in names if shapes[x].meets(box)]
        return not any(shape.near(p, _CLEAR) for p in _samples(curve) for shape in obstacles)

    stops: dict[Edge, list[Point]] = {}
    out: dict[Edge, list[Piece]] = {}
    for edge in edges:
        a, b = shapes[edge[0]], shapes[edge[1]]
        for points in _candidates(a, b, layout.bends[edge]):
            curve = _through([a.border(points[1]), *points[1:-1], b.border(points[-2])])
            if is_clear(edge, curve):
                stops[edge], out[edge] = points, curve
                break
        else:
            out[edge] = _stepped(a, b, edge, layout, ports)
    # Only now, since how arrows meet at a shape depends on which curves were taken.
    for edge, points in _fanned(shapes, stops).items():
        curve = _through(points)
        if is_clear(edge, curve):
            out[edge] = curve
    return out


def _candidates(a: Shape, b: Shape, bends: Sequence[Point]) -> Iterator[list[Point]]:
    """Points to draw an arrow through, from centre to centre; the best looking first."""
    if all(_distance(p, a.centre, b.centre) <= _NEAR_BENDS for p in bends):
        yield [a.centre, b.centre]
    if bends:
        yield [a.centre, *bends, b.centre]


def _fanned(
    shapes: Mapping[str, Shape], stops: Mapping[Edge, Sequence[Point]]
) -> dict[Edge, list[Point]]:
    """The same arrows from border to border, those that meet at a shape a little apart."""
    angles: dict[str, list[tuple[float, Edge, int]]] = {name: [] for name in shapes}
    for edge, points in stops.items():
        for end, towards in ((0, points[1]), (-1, points[-2])):
            dx, dy = _minus(towards, shapes[edge[end]].centre)
            angles[edge[end]].append((atan2(dy, dx), edge, end))
    out = {edge: list(points) for edge, points in stops.items()}
    for name, ends in angles.items():
        if not ends:
            continue
        shape = shapes[name]
        # Cut open where there is most room, so that neighbours stay neighbours.
        ends.sort()
        gaps = [(b[0] - a[0]) % tau for a, b in zip(ends, [*ends[1:], ends[0]], strict=True)]
        cut = gaps.index(max(gaps)) + 1 if len(ends) > 1 else 0
        turned = [*ends[cut:], *((t + tau, edge, end) for t, edge, end in ends[:cut])]
        step = min(_FAN, _MOST_FAN / len(ends))
        wanted = [t for t, _, _ in turned]
        apart = spread(wanted, [1.0] * len(wanted), [k * step for k in range(len(wanted))])
        for t, (_, edge, end) in zip(apart, turned, strict=True):
            out[edge][end] = shape.border((shape.centre[0] + cos(t), shape.centre[1] + sin(t)))
    return out


def _through(points: Sequence[Point]) -> list[Piece]:
    return [_line(points[0], points[1])] if len(points) == 2 else _smooth(points)


def _line(start: Point, end: Point) -> Piece:
    return start, _between(start, end, 1 / 3), _between(start, end, 2 / 3), end


def _smooth(points: Sequence[Point]) -> list[Piece]:
    """A curve through points whose direction at each is that from the one before to the next."""
    slopes = [
        _minus(points[min(k + 1, len(points) - 1)], points[max(k - 1, 0)])
        for k in range(len(points))
    ]
    pieces = []
    for k, (p, q) in enumerate(pairwise(points)):
        reach = hypot(*_minus(q, p)) / 3
        pieces.append((p, _shift(p, slopes[k], reach), _shift(q, slopes[k + 1], -reach), q))
    return pieces


def _stepped(
    a: Shape, b: Shape, edge: Edge, layout: Layout, ports: Mapping[tuple[Edge, str], float]
) -> list[Piece]:
    """A curve that is straight within layers and turns between them."""
    turned = layout.direction == "down"

    def point(along: float, across: float) -> Point:
        return (across, along) if turned else (along, across)

    flow, side = (1, 0) if turned else (0, 1)
    out, into = ports[edge, "out"], ports[edge, "in"]
    first, last = layout.layer[edge[0]], layout.layer[edge[1]]
    rows = [a.centre[side] + out, *(p[side] for p in layout.bends[edge]), b.centre[side] + into]
    at = point(a.centre[flow] + a.half[flow] * a.depth(out / a.half[side]), rows[0])
    goal = point(b.centre[flow] - b.half[flow] * b.depth(into / b.half[side]), rows[-1])
    pieces: list[Piece] = []
    for k, (near, far) in zip(range(first, last), pairwise(rows), strict=True):
        turn, back = layout.bands[k].end, layout.bands[k + 1].start
        middle = (turn + back) / 2
        pieces.append(_line(at, point(turn, near)))
        at = point(back, far)
        pieces.append((point(turn, near), point(middle, near), point(middle, far), at))
    return [*pieces, _line(at, goal)]


def _ports(edges: Sequence[tuple[str, str]], layout: Layout) -> dict[tuple[Edge, str], float]:
    """How far beside the middle of a node each arrow leaves and enters it."""
    side = 0 if layout.direction == "down" else 1
    meeting: dict[tuple[str, str], list[tuple[float, Edge]]] = {}
    for edge in edges:
        a, b = edge
        stops = [layout.centres[a], *layout.bends[edge], layout.centres[b]]
        meeting.setdefault((a, "out"), []).append((stops[1][side], edge))
        meeting.setdefault((b, "in"), []).append((stops[-2][side], edge))
    ports = {}
    for (_, end), arrows in meeting.items():
        step = min(_PORTS, 26.0 / len(arrows))
        for k, (_, edge) in enumerate(sorted(arrows)):
            ports[edge, end] = (k - (len(arrows) - 1) / 2) * step
    return ports


def _samples(curve: Sequence[Piece]) -> Iterator[Point]:
    for p, q, r, s in curve:
        # Every 6 pixels or so, which no shape slips through.
        n = max(2, int((hypot(*_minus(q, p)) + hypot(*_minus(r, q)) + hypot(*_minus(s, r))) / 6))
        for k in range(n + 1):
            t = k / n
            u, v, w, x = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
            yield (
                u * p[0] + v * q[0] + w * r[0] + x * s[0],
                u * p[1] + v * q[1] + w * r[1] + x * s[1],
            )


def _distance(p: Point, start: Point, end: Point) -> float:
    """From a point to the line through two others."""
    (ux, uy), (vx, vy) = _minus(end, start), _minus(p, start)
    length = hypot(ux, uy)
    return abs(ux * vy - uy * vx) / length if length else hypot(vx, vy)


def _minus(p: Point, q: Point) -> Point:
    return p[0] - q[0], p[1] - q[1]


def _between(p: Point, q: Point, share: float) -> Point:
    return p[0] + (q[0] - p[0]) * share, p[1] + (q[1] - p[1]) * share


def _shift(p: Point, direction: Point, distance: float) -> Point:
    length = hypot(*direction) or 1.0
    return p[0] + direction[0] / length * distance, p[1] + direction[1] / length * distance


# --- Drawing --------------------------------------------------------------------------------------
# Decisions are squares, utilities are diamonds, chance variables are round, and arrows into a
# decision (what is known when it is made) are dashed. The picture is one SVG element without
# scripts, fonts or links. Text stays text; colours can be told apart on white and in grey, and no
# meaning rests on them alone.
#
# Source: Howard and Matheson (1984) for the shapes; Everitt et al. (2021) for the dashed arrows.

_INK, _BLUE, _VERMILION, _GREY = "#1f2933", "#0072b2", "#b34a00", "#dde2e7"
_STROKE: dict[Kind, str] = {"chance": _INK, "decision": _BLUE, "utility": _VERMILION}
_FILL: dict[Kind, str] = {"chance": "#ffffff", "decision": "#e3f0f8", "utility": "#fdeee2"}
_FONT = 13.0
_LEAST_TEXT = 9.0  # pixels: in a narrower place the picture scrolls, or nobody could read it
_MARGIN = 6.0
# Longer names are cut in the picture; pointing at them shows the whole.
_LONGEST = 32
# Width over height that looks best on a page, and the width from which on a page shrinks text.
_ASPECT, _PAGE = 1.7, 960.0
_HEAD, _HEAD_HALF = 8.5, 3.4
_MARKS: dict[Kind, str] = {"chance": "({})", "decision": "[{}]", "utility": "<{}>"}


def svg_text(
    nodes: Sequence[tuple[str, Kind]],
    edges: Sequence[tuple[str, str]],
    *,
    observed: Collection[str] = (),
    targets: Collection[str] = (),
    title: str = "",
    name: str = "diagram",
    direction: Direction | None = None,
) -> str:
    """A picture of a diagram, as an <svg> element to be put into a page or a notebook.

    Args:
        nodes: (name, "chance", "decision" or "utility"), in the order in which to list them.
        edges: (from, to).
        observed: nodes on a grey ground, as is usual for what is observed or set.
        targets: nodes with a double border.
        title: what the picture shows, for those who cannot see it; made from the nodes if empty.
        name: unique on the page; letters, digits and hyphens. All ids begin with it.
        direction: of the arrows; whichever fits a page better if it is None.
    """
    kinds = _checked(nodes, edges)
    if not re.fullmatch(r"[A-Za-z0-9-]+", name):
        raise InvalidParameterError(
            f"the name of the picture is {name!r}, expected letters, digits and hyphens"
        )
    for role, group in (("observed node", observed), ("target", targets)):
        for x in group:
            if x not in kinds:
                raise unknown_name(x, list(kinds), role)
    labels = {x: x if len(x) <= _LONGEST else x[: _LONGEST - 1] + "…" for x in kinds}
    sizes = {
        # The inner line of a double border takes room on both sides.
        x: _size(kind, _text_width(labels[x]) + (6.0 if x in targets else 0.0))
        for x, kind in kinds.items()
    }
    layout = _fitting(sizes, edges, direction)
    shapes = {
        x: Shape(kind, layout.centres[x], (sizes[x][0] / 2, sizes[x][1] / 2))
        for x, kind in kinds.items()
    }
    body = [_arrow(curve, kinds[b]) for (_, b), curve in routes(shapes, edges, layout).items()]
    for x, shape in shapes.items():
        fill = _GREY if x in observed else _FILL[shape.kind]
        body.append(_node(x, labels[x], shape, fill, double=x in targets))
    left, top = -_MARGIN, -_MARGIN
    width, height = layout.width + 2 * _MARGIN, layout.height + 2 * _MARGIN
    shown = title or _in_words(kinds, edges)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="{name}-title" '
        f'viewBox="{_n(left)} {_n(top)} {_n(width)} {_n(height)}" '
        f'style="min-width: {_n(width * _LEAST_TEXT / _FONT)}px; max-width: {_n(width)}px">\n'
        f'<title id="{name}-title">{_escaped(shown)}</title>\n'
        f'<g id="{name}-figure_1" font-family="DejaVu Sans, Verdana, sans-serif" '
        f'font-size="{_n(_FONT)}" fill="none" stroke-width="1.3" stroke-linecap="round">\n'
        + "\n".join(body)
        + "\n</g>\n</svg>"
    )


def text_form(
    nodes: Sequence[tuple[str, Kind]],
    edges: Sequence[tuple[str, str]],
    domains: Mapping[str, Sequence[object]],
) -> str:
    """A diagram in text: a line for each node, causes before effects.

    A name stands in brackets that show its kind: [decision], <utility>, (chance). Its states
    follow, and behind the arrow its parents.

    Args:
        nodes: (name, kind).
        edges: (from, to); a node's parents are listed in this order.
        domains: the states of nodes; a node that is left out, such as a utility, shows none.

    Example:
        >>> nodes = [("S", "chance"), ("D", "decision"), ("U", "utility")]
        >>> side = ["left", "right"]
        >>> print(text_form(nodes, [("S", "D"), ("S", "U"), ("D", "U")], {"S": side, "D": side}))
        (S)  {left, right}
        [D]  {left, right}  ← S
        <U>                 ← S, D
    """
    kinds = _checked(nodes, edges)
    for x in domains:
        if x not in kinds:
            raise unknown_name(x, list(kinds), "node with a domain:")
    above = _parents(kinds, edges)
    rows = []
    for x in TopologicalSorter(above).static_order():
        states = f"{{{listed(domains[x])}}}" if x in domains else ""
        parents = f"← {', '.join(above[x])}" if above[x] else ""
        rows.append((_MARKS[kinds[x]].format(x), states, parents))
    widths = [max(len(row[column]) for row in rows) for column in range(2)] if rows else []
    return "\n".join(
        f"{mark:<{widths[0]}}  {states:<{widths[1]}}  {parents}".rstrip()
        for mark, states, parents in rows
    )


def _checked(
    nodes: Sequence[tuple[str, Kind]], edges: Sequence[tuple[str, str]]
) -> dict[str, Kind]:
    """The kind of each node, when everything fits."""
    kinds = dict(nodes)
    for x, n in Counter(x for x, _ in nodes).items():
        if n > 1:
            raise InvalidParameterError(f"node {x!r} is given {n} times, expected each one once")
    for x, kind in nodes:
        if kind not in get_args(Kind):
            raise InvalidParameterError(
                f"node {x!r} is of kind {kind!r}, expected one of {', '.join(get_args(Kind))}"
            )
    # Before cycles, since a cycle is looked for among known nodes.
    for edge in edges:
        for x in edge:
            if x not in kinds:
                raise unknown_name(x, list(kinds), "end of an arrow:")
    for (a, b), n in Counter(edges).items():
        if n > 1:
            raise InvalidParameterError(
                f"the arrow from {a!r} to {b!r} is given {n} times, expected each one once"
            )
    try:
        TopologicalSorter(_parents(kinds, edges)).prepare()
    except CycleError as error:
        raise InvalidParameterError(
            f"the arrows form a cycle ({' -> '.join(reversed(error.args[1]))}), expected none"
        ) from None
    return kinds


def _parents(kinds: Iterable[str], edges: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    parents: dict[str, list[str]] = {x: [] for x in kinds}
    for a, b in edges:
        parents[b].append(a)
    return parents


def _fitting(
    sizes: Mapping[str, Point], edges: Sequence[tuple[str, str]], direction: Direction | None
) -> Layout:
    """The layout in the direction asked for, or the one whose shape suits a page better."""
    if not sizes:
        return Layout({}, {}, {}, [], 0.0, 0.0, "right")
    if direction is not None:
        return layered(sizes, edges, direction)
    # Both are drawn: how wide a layout gets cannot be told from the graph.
    both = [layered(sizes, edges, way) for way in get_args(Direction)]

    def misfit(layout: Layout) -> float:
        aspect = layout.width / layout.height / _ASPECT
        return max(aspect, 1 / aspect) * max(1.0, layout.width / _PAGE) ** 2

    return min(both, key=misfit)


def _in_words(kinds: Mapping[str, Kind], edges: Sequence[tuple[str, str]]) -> str:
    """A title for a picture that was given none."""
    groups = [
        f"{word} {listed(x for x, kind in kinds.items() if kind == wanted)}"
        for wanted, word in (
            ("decision", "decisions"),
            ("utility", "utilities"),
            ("chance", "chance variables"),
        )
        if wanted in kinds.values()
    ]
    arrows = listed(f"{a} to {b}" for a, b in edges)
    return "Diagram: " + "; ".join([*groups, f"arrows {arrows}" if edges else "no arrows"])


# --- Shapes ---------------------------------------------------------------------------------------
def _text_width(text: str) -> float:
    """Pixels that a text takes at most: the widths of DejaVu Sans, which is wider than others."""
    em = 0.0
    for c in text:
        if combining(c):
            continue
        if east_asian_width(c) in "WF":
            em += 1.05
        elif c in "iIjl.,:;'|!()[] ":
            em += 0.4
        elif c in "mwMW@%—…":
            em += 1.0
        elif c.isupper() or c in "<>=+~_&#":
            em += 0.78
        else:
            em += 0.65
    return em * _FONT


def _size(kind: Kind, text: float) -> Point:
    """Width and height of a shape that a text fits into."""
    if kind == "decision":
        return max(38.0, text + 18.0), 38.0
    # Half a line of text high up, an ellipse or a diamond is narrower than in its middle.
    high = 0.5 * _FONT
    if kind == "utility":
        height = 52.0
        return max(58.0, (text + 8.0) / (1 - 2 * high / height)), height
    height = 40.0
    return max(height, (text + 8.0) / (1 - (2 * high / height) ** 2) ** 0.5), height


def _node(x: str, label: str, shape: Shape, fill: str, *, double: bool) -> str:
    stroke = f'stroke="{_STROKE[shape.kind]}"'
    outlines = [_outline(shape, 0.0, f'fill="{fill}" {stroke}')]
    if double:
        outlines.append(_outline(shape, 3.0, f'{stroke} stroke-width="1"'))
    cx, cy = shape.centre
    return (
        f"<g><title>{_escaped(x)} ({shape.kind})</title>{''.join(outlines)}"
        f'<text x="{_n(cx)}" y="{_n(cy + 0.35 * _FONT)}" text-anchor="middle" '
        f'fill="{_INK}">{_escaped(label)}</text></g>'
    )


def _outline(shape: Shape, inset: float, style: str) -> str:
    (cx, cy), (rx, ry) = shape.centre, shape.half
    if shape.kind == "utility":
        # The sides of a diamond stay parallel when both halves shrink by the same share.
        keep = 1 - inset * hypot(rx, ry) / (rx * ry)
        rx, ry = rx * keep, ry * keep
        corners = [(cx, cy - ry), (cx + rx, cy), (cx, cy + ry), (cx - rx, cy)]
        return f'<polygon points="{" ".join(map(_p, corners))}" {style}/>'
    rx, ry = rx - inset, ry - inset
    if shape.kind == "decision":
        place = f'x="{_n(cx - rx)}" y="{_n(cy - ry)}"'
        return f'<rect {place} width="{_n(2 * rx)}" height="{_n(2 * ry)}" {style}/>'
    return f'<ellipse cx="{_n(cx)}" cy="{_n(cy)}" rx="{_n(rx)}" ry="{_n(ry)}" {style}/>'


def _arrow(curve: Sequence[Piece], into: Kind) -> str:
    """A curve with a head whose tip touches the border of the shape it leads to."""
    *pieces, (p, q, r, tip) = curve
    dx, dy = tip[0] - r[0], tip[1] - r[1]
    length = hypot(dx, dy) or 1.0
    dx, dy = dx / length, dy / length
    foot = tip[0] - _HEAD * dx, tip[1] - _HEAD * dy
    # The line ends inside the head, or its end would blunt the tip.
    stop = tip[0] - 0.7 * _HEAD * dx, tip[1] - 0.7 * _HEAD * dy
    path = [f"M{_p(curve[0][0])}"]
    path += [f"C{_p(b)} {_p(c)} {_p(d)}" for _, b, c, d in [*pieces, (p, q, r, stop)]]
    dashed = ' stroke-dasharray="5 4"' if into == "decision" else ""
    wing = _HEAD_HALF
    head = [
        tip,
        (foot[0] - wing * dy, foot[1] + wing * dx),
        (foot[0] + wing * dy, foot[1] - wing * dx),
    ]
    return (
        f'<path d="{"".join(path)}" stroke="{_INK}"{dashed}/>'
        f'<path d="M{_p(head[0])}L{_p(head[1])}L{_p(head[2])}Z" fill="{_INK}"/>'
    )


def _escaped(text: str) -> str:
    """Text for XML, which has no way to hold control characters: they are spelled out."""
    return escape(visible(text, lines=True))


def _p(point: Point) -> str:
    return f"{_n(point[0])},{_n(point[1])}"


def _n(x: float) -> str:
    """A length to a tenth of a pixel; never "-0"."""
    return f"{round(x, 1) + 0.0:g}"
