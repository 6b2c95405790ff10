"""What a grid contains, up to its frame, in the most literal form: eight pictures as text.

Independent of the package: a grid is a set of open cells with some named ones among them.
"""

from __future__ import annotations

from collections.abc import Iterable

Place = tuple[int, int]


def frames(side: int, cells: Iterable[Place]) -> list[list[Place]]:
    """Cells of a square grid after each rotation and reflection, each in the order they came in."""
    listed = list(cells)
    last = side - 1
    return [
        listed,
        [(row, last - column) for row, column in listed],
        [(last - row, column) for row, column in listed],
        [(last - row, last - column) for row, column in listed],
        [(column, row) for row, column in listed],
        [(column, last - row) for row, column in listed],
        [(last - column, row) for row, column in listed],
        [(last - column, last - row) for row, column in listed],
    ]


def content(side: int, opened: Iterable[Place], *named: Place) -> tuple[object, ...]:
    """The least of the eight frames; equal for two grids exactly if one is the other turned."""
    opened = sorted(opened)
    return min(
        (tuple(sorted(moved[: len(opened)])), *moved[len(opened) :])
        for moved in frames(side, [*opened, *named])
    )
