"""An order of the nodes in each layer of a graph, so that few links cross.

Each node moves to the mean place of its neighbours, layer by layer, forwards and backwards in
turn; the order with the fewest crossings is kept. Then neighbours in a layer are exchanged as long
as that helps.

Source: Sugiyama, Tagawa and Toda (1981); Gansner, Koutsofios, North and Vo (1993), section 3.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import pairwise

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
