"""Lay out an acyclic graph in layers with few crossings."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

# --- Crossings ------------------------------------------------------------------------------------
# Each node moves to the mean place of its neighbours, layer by layer, forwards and backwards in
# turn; the order with the fewest crossings is kept. Then neighbours in a layer are exchanged as
# long as that helps.
#
# Source: Sugiyama, Tagawa and Toda (1981); Gansner, Koutsofios, North and Vo (1993), section 3.

# Links of each node into a neighbouring layer.
Links = Sequence[Sequence[int]]

_SWEEPS = 16
# Larger graphs are not made finer by exchanging neighbours.
_FINE = 1500


def with_few_crossings(
    rows: Sequence[Sequence[int]], before: Links, behind: Links
) -> list[list[int]]:
    """The layers, each in another order.

    Args:
        rows: the nodes of each layer.
        before: neighbours of each node in the layer before its own.
        behind: neighbours of each node in the layer behind its own.
    """
    now = [list(row) for row in rows]
    best, fewest = [list(row) for row in now], _crossings(now, behind)
    for sweep in range(_SWEEPS):
        forwards = sweep % 2 == 0
        for k in range(1, len(now)) if forwards else reversed(range(len(now) - 1)):
            fixed = now[k - 1 if forwards else k + 1]
            # Of nodes with the same mean, the order is kept or turned around: one gets out of
            # orders that the other is stuck in.
            if sweep % 4 >= 2:
                now[k].reverse()
            _sort_by_neighbours(now[k], fixed, before if forwards else behind)
        crossings = _crossings(now, behind)
        if crossings < fewest:
            best, fewest = [list(row) for row in now], crossings
    # Every round compares all neighbours again, which is too slow for large graphs.
    if sum(map(len, best)) <= _FINE:
        _exchange(best, before, behind)
    return best


def _sort_by_neighbours(row: list[int], fixed: Sequence[int], links: Links) -> None:
    """Sort a layer by the mean place of each node's neighbours in the one beside it."""
    place = {j: float(p) for p, j in enumerate(fixed)}
    # Nodes without neighbours keep their share of the way, however long the other layer is.
    scale = len(fixed) / max(len(row), 1)
    row.sort(
        key={
            i: sum(place[j] for j in links[i]) / len(links[i]) if links[i] else p * scale
            for p, i in enumerate(row)
        }.__getitem__
    )


def _crossings(rows: Sequence[Sequence[int]], behind: Links) -> int:
    total = 0
    for upper, lower in pairwise(rows):
        place = {j: p for p, j in enumerate(lower)}
        seen: list[int] = []
        for i in upper:
            ends = sorted(place[j] for j in behind[i])
            total += sum(len(seen) - bisect_left(seen, p + 1) for p in ends)
            for p in ends:
                insort(seen, p)
    return total


def _exchange(rows: list[list[int]], before: Links, behind: Links) -> None:
    """Exchange neighbours in a layer as long as that saves crossings."""
    for _ in range(8):
        better = False
        for k, row in enumerate(rows):
            near = [
                {j: p for p, j in enumerate(rows[beside])} if 0 <= beside < len(rows) else {}
                for beside in (k - 1, k + 1)
            ]
            ends = {
                i: [
                    sorted(place[j] for j in links[i])
                    for links, place in zip((before, behind), near, strict=True)
                ]
                for i in row
            }
            for p in range(len(row) - 1):
                a, b = ends[row[p]], ends[row[p + 1]]
                now = sum(_inversions(x, y) for x, y in zip(a, b, strict=True))
                then = sum(_inversions(y, x) for x, y in zip(a, b, strict=True))
                if then < now:
                    row[p], row[p + 1] = row[p + 1], row[p]
                    better = True
        if not better:
            break


def _inversions(left: Sequence[int], right: Sequence[int]) -> int:
    """How many pairs cross when `left` stands before `right`; both are sorted."""
    return sum(bisect_left(right, p) for p in left)


# --- Layout ---------------------------------------------------------------------------------------
# Four steps: nodes are put in layers, so that arrows are as short as they can be; arrows that pass
# over a layer get a bend there; an order with few crossings is found for each layer (`crossings`);
# then places that keep this order, leave room, and make arrows short and straight. Nothing is
# random: equal graphs get equal places.
#
# Inside, `along` is the direction of the arrows and `across` the other one.
#
# Source: Sugiyama, Tagawa and Toda (1981); Gansner, Koutsofios, North and Vo (1993), sections 2 and
# 3, with a linear programme for their network simplex. The last step takes squares where they take
# absolute values, and solves layer by layer, each by isotonic regression.

Point = tuple[float, float]
Direction = Literal["right", "down"]

# Pixels: between the borders of neighbours, between layers, and the room that a bend takes.
_BETWEEN, _GAP, _BEND = 20.0, 40.0, 12.0
# A gap that steep arrows cross is wider by this share of the longest way that they go across it.
_STEEP, _MOST_STEEP = 0.22, 70.0
_RELAXATIONS = 40


class Band(NamedTuple):
    """Where a layer lies along the arrows."""

    start: float
    end: float


class Layout(NamedTuple):
    """Places in pixels, from the upper left corner.

    Attributes:
        centres: of the nodes.
        layer: of each node.
        bends: of each arrow that passes over layers, one in each.
        bands: of the layers, along the arrows.
        width: of everything.
        height: of everything.
        direction: of the arrows.
    """

    centres: dict[str, Point]
    layer: dict[str, int]
    bends: dict[tuple[str, str], list[Point]]
    bands: list[Band]
    width: float
    height: float
    direction: Direction


def layered(
    sizes: Mapping[str, Point], edges: Sequence[tuple[str, str]], direction: Direction
) -> Layout:
    """Places for the nodes of a graph.

    Args:
        sizes: (width, height) of each node, in pixels.
        edges: (from, to), each once, without cycles.
        direction: in which the arrows run.
    """
    names = list(sizes)
    number = {name: i for i, name in enumerate(names)}
    turned = direction == "down"
    breadth = [sizes[name][0 if turned else 1] for name in names]
    depth = [sizes[name][1 if turned else 0] for name in names]
    graph = _Graph(len(names), [(number[a], number[b]) for a, b in edges])
    across = _stacked(graph, breadth)
    lowest = min(x - b / 2 for x, b in zip(across, graph.breadths(breadth), strict=True))
    across = [x - lowest for x in across]
    bands = _bands(graph, depth, across)
    middle = [(band.start + band.end) / 2 for band in bands]

    def point(i: int) -> Point:
        return (
            (across[i], middle[graph.layer[i]]) if turned else (middle[graph.layer[i]], across[i])
        )

    far = max(x + b / 2 for x, b in zip(across, graph.breadths(breadth), strict=True))
    end = bands[-1].end
    return Layout(
        centres={name: point(i) for i, name in enumerate(names)},
        layer={name: graph.layer[i] for i, name in enumerate(names)},
        bends={
            edge: [point(i) for i in chain[1:-1]]
            for edge, chain in zip(edges, graph.chains, strict=True)
        },
        bands=bands,
        width=far if turned else end,
        height=end if turned else far,
        direction=direction,
    )


class _Graph:
    """Nodes 0 … n−1, then the bends; every link goes from one layer to the next."""

    def __init__(self, n: int, edges: Sequence[tuple[int, int]]) -> None:
        self.n = n
        self.layer = _layers(n, edges)
        self.chains: list[list[int]] = []
        for a, b in edges:
            between = range(self.layer[a] + 1, self.layer[b])
            bends = range(len(self.layer), len(self.layer) + len(between))
            self.layer += between
            self.chains.append([a, *bends, b])
        self.before: list[list[int]] = [[] for _ in self.layer]
        self.behind: list[list[int]] = [[] for _ in self.layer]
        for chain in self.chains:
            for i, j in pairwise(chain):
                self.behind[i].append(j)
                self.before[j].append(i)
        self.parts = self._parts()

    def breadths(self, breadth: Sequence[float]) -> list[float]:
        return [*breadth, *[_BEND] * (len(self.layer) - self.n)]

    def _parts(self) -> list[list[int]]:
        """Connected parts in the order of their first nodes; nodes without arrows are the last.

        Each part is moved to the first layer.
        """
        seen = [False] * len(self.layer)
        parts: list[list[int]] = []
        alone: list[int] = []
        for root in range(self.n):
            if seen[root]:
                continue
            seen[root] = True
            part = [root]
            for i in part:
                for j in (*self.before[i], *self.behind[i]):
                    if not seen[j]:
                        seen[j] = True
                        part.append(j)
            if len(part) == 1:
                alone += part
                continue
            # The programme places layers only relative to each other, and each part by itself.
            first = min(self.layer[i] for i in part)
            for i in part:
                self.layer[i] -= first
            parts.append(part)
        # Side by side in the layers that there are, in a square where there are none.
        n_layers = max([round(len(alone) ** 0.5), *(self.layer[i] + 1 for p in parts for i in p)])
        for place, i in enumerate(alone):
            self.layer[i] = place % n_layers
        return [*parts, alone] if alone else parts


def _layers(n: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each node: arrows lead to later layers and pass over as few as possible."""
    if not edges:
        return [0] * n
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    ends = np.array(edges)
    rows = np.repeat(np.arange(len(ends)), 2)
    signs = np.tile([1.0, -1.0], len(ends))
    # Totally unimodular, so the vertex that the simplex method ends in is whole numbers.
    solution = linprog(
        np.bincount(ends[:, 1], minlength=n) - np.bincount(ends[:, 0], minlength=n),
        A_ub=coo_array((signs, (rows, ends.ravel())), shape=(len(ends), n)).tocsr(),
        b_ub=-np.ones(len(ends)),
        method="highs-ds",
    )
    assert solution.x is not None, "the graph has a cycle"
    return [round(x) for x in solution.x]


def _stacked(graph: _Graph, breadth: Sequence[float]) -> list[float]:
    """Places across of all nodes and bends; connected parts lie beside each other."""
    across = [0.0] * len(graph.layer)
    sizes = graph.breadths(breadth)
    start = 0.0
    for part in graph.parts:
        rows: list[list[int]] = [[] for _ in range(1 + max(graph.layer[i] for i in part))]
        for i in part:
            rows[graph.layer[i]].append(i)
        rows = with_few_crossings(rows, graph.before, graph.behind)
        places = _places(graph, rows, sizes)
        lowest = min(places[i] - sizes[i] / 2 for i in part)
        for i in part:
            across[i] = places[i] - lowest + start
        start = max(across[i] + sizes[i] / 2 for i in part) + 1.5 * _BETWEEN
    return across


# --- Places ---------------------------------------------------------------------------------------
def _places(
    graph: _Graph, rows: Sequence[Sequence[int]], sizes: Sequence[float]
) -> dict[int, float]:
    """Places across that keep the order and draw linked nodes together."""
    at: dict[int, float] = {}
    steps = []
    for row in rows:
        apart = [0.0]
        for i, j in pairwise(row):
            both_bend = i >= graph.n and j >= graph.n
            room = _BETWEEN / 2 if both_bend else _BETWEEN
            apart.append(apart[-1] + (sizes[i] + sizes[j]) / 2 + room)
        steps.append(apart)
        at.update((i, x - apart[-1] / 2) for i, x in zip(row, apart, strict=True))

    def pull(i: int, j: int) -> float:
        # Long arrows should be straight, and short ones may be slanted.
        return (1.0, 3.0, 8.0)[(i >= graph.n) + (j >= graph.n)]

    # Forwards and backwards in turn, so that neither end decides alone.
    for turn in range(_RELAXATIONS):
        order = range(len(rows)) if turn % 2 == 0 else reversed(range(len(rows)))
        for k in order:
            wanted, weights = [], []
            for i in rows[k]:
                links = [(pull(i, j), at[j]) for j in (*graph.before[i], *graph.behind[i])]
                weight = sum(w for w, _ in links)
                wanted.append(sum(w * x for w, x in links) / weight if links else at[i])
                weights.append(weight or 1e-3)
            at.update(zip(rows[k], spread(wanted, weights, steps[k]), strict=True))
    return at


def spread(
    wanted: Sequence[float], weights: Sequence[float], steps: Sequence[float]
) -> list[float]:
    """The places nearest to those wanted (least squares) that are at least `steps` apart.

    Less the steps, places must not decrease: isotonic regression, by pooling neighbours.
    """
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for x, weight, step in zip(wanted, weights, steps, strict=True):
        mean, total, members = x - step, weight, 1
        while pools and pools[-1][0] >= mean:
            last, weight, n = pools.pop()
            mean = (mean * total + last * weight) / (total + weight)
            total, members = total + weight, members + n
        pools.append((mean, total, members))
    means = [mean for mean, _, members in pools for _ in range(members)]
    return [mean + step for mean, step in zip(means, steps, strict=True)]


def _bands(graph: _Graph, depth: Sequence[float], across: Sequence[float]) -> list[Band]:
    """Layers one behind the other, further apart where arrows are steep."""
    deepest = [0.0] * (max(graph.layer) + 1)
    for i in range(graph.n):
        deepest[graph.layer[i]] = max(deepest[graph.layer[i]], depth[i])
    steepest = [0.0] * len(deepest)
    for chain in graph.chains:
        for i, j in pairwise(chain):
            k = graph.layer[i]
            steepest[k] = max(steepest[k], abs(across[i] - across[j]))
    bands = []
    start = 0.0
    for deep, steep in zip(deepest, steepest, strict=True):
        bands.append(Band(start, start + deep))
        start += deep + _GAP + min(_STEEP * steep, _MOST_STEEP)
    return bands
