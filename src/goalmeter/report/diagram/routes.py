"""Curves for arrows: from border to border, straight where nothing is in the way.

A curve is a list of cubic Bézier pieces. Three are tried for an arrow, and the first that keeps
clear of all other shapes is taken: a straight line; a smooth line through the arrow's bends; a
line that runs along the arrows' direction through each layer and turns between layers, where no
shape is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import atan2, cos, hypot, sin, sqrt, tau
from typing import Literal, NamedTuple

from goalmeter.report.diagram.layout import Layout, Point, spread

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
