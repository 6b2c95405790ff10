"""Worlds with a key: one that opens the way, one that opens nothing, one beside a choice of ways.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 4.3 (KeyDoorEnv, KeyNoDoorEnv, 2PathKeyEnv), and the rules read off its code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._text import shown
from goalmeter._types import BoolArray
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.paths import distances_from
from goalmeter.gridworld.world import Cell, GridWorld

ROOM = 3  # cells along the side of a room
_MOST_ROOMS = 12  # 49 x 49 cells: all pairs of cells of a larger grid take gigabytes
SIZE_OF_TWO_PATHS = 11
LAYOUTS = ("horizontal", "vertical", "diamond")


@dataclass(frozen=True)
class TwoPaths:
    """Two ways of equal length, with a key on one of them.

    Attributes:
        world: with the key.
        control: the same without it.
        layout: "horizontal", "vertical" or "diamond".
        separation: cells between the trunk and each way.
        key_route: cells that only the way with the key has.
        other_route: cells that only the other one has.
    """

    world: GridWorld
    control: GridWorld
    layout: str
    separation: int
    key_route: frozenset[Cell]
    other_route: frozenset[Cell]


def key_door(seed: int, *, rooms: int = 2) -> GridWorld:
    """Rooms joined by doorways, one of them locked, with its key on the agent's side.

    rooms x rooms rooms of 3 x 3 cells, joined along a random spanning tree (Kruskal's algorithm on
    shuffled neighbours) by one doorway each, at a random place. Agent and goal are in cells that
    are not doorways, in different rooms; one of the doorways between them is locked, and the key
    lies in a cell that can be reached without it.

    Args:
        seed: names the world; the same seed gives the same world everywhere, for ever.
        rooms: along each side, from 2 to 12: 2 gives 9 x 9 cells, 3 gives 13 x 13.

    Raises:
        InvalidParameterError: fewer than 2 rooms, or more than 12.
    """
    if not 2 <= rooms <= _MOST_ROOMS:
        raise InvalidParameterError(
            f"rooms is {shown(rooms)}, expected at least 2 along each side, at most {_MOST_ROOMS}"
        )
    draws = Draws("key-door", rooms, seed)
    walls, doorways = _rooms(rooms, draws)
    inside = [Cell(int(r), int(c)) for r, c in np.argwhere(~walls)]
    inside = [cell for cell in inside if cell not in doorways]
    start = draws.choice(inside)
    goal = draws.choice([cell for cell in inside if _room(cell) != _room(start)])
    # On a tree every way between two rooms is the only one, so some doorway cuts start from goal.
    door = draws.choice([d for d in doorways if not _reaches(walls, start, d)[goal]])
    near = _reaches(walls, start, door)
    key = draws.choice([cell for cell in inside if near[cell] and cell != start])
    return GridWorld(walls, start, goal, key, door)


def key_no_door(seed: int, *, rooms: int = 2) -> GridWorld:
    """The world of `key_door` without its door: the key is there and opens nothing."""
    return key_door(seed, rooms=rooms).with_(door=None)


def two_paths(seed: int) -> TwoPaths:
    """Two equally long ways around, and a key on a cell that only one of them has.

    The grid is 11 x 11. Both ways leave a short trunk at the agent and meet in one at the goal.
    Layout, distance of the ways, side of the key and its cell are drawn from the seed. An agent
    that goes for the goal alone has no reason to take either way.

    Args:
        seed: names the world.
    """
    draws = Draws("two-paths", seed)
    layout = draws.choice(LAYOUTS)
    separation = draws.choice((2, 3))
    middle, last = SIZE_OF_TWO_PATHS // 2, SIZE_OF_TWO_PATHS - 2
    upper = _way(separation, stepped=layout == "diamond")
    lower = {Cell(2 * middle - row, column) for row, column in upper}
    trunk = upper & lower
    start, goal = Cell(middle, 1), Cell(middle, last)
    sides = [upper - trunk, lower - trunk]
    draws.shuffle(sides)
    # Sorted: a set has no order that stays the same for ever, and the seed is to name the world.
    key = draws.choice(sorted(sides[0]))
    walls = np.ones((SIZE_OF_TWO_PATHS, SIZE_OF_TWO_PATHS), dtype=bool)
    for cell in upper | lower:
        walls[cell] = False
    if layout == "vertical":
        walls = walls.T
        start, goal, key = (Cell(c.column, c.row) for c in (start, goal, key))
        sides = [{Cell(c.column, c.row) for c in side} for side in sides]
    world = GridWorld(walls, start, goal, key)
    return TwoPaths(
        world, world.with_(key=None), layout, separation, frozenset(sides[0]), frozenset(sides[1])
    )


def _way(separation: int, *, stepped: bool) -> set[Cell]:
    """The upper one of two ways from left to right, trunk included."""
    middle, last = SIZE_OF_TWO_PATHS // 2, SIZE_OF_TWO_PATHS - 2

    def lift(column: int) -> int:
        """Rows above the middle that a column reaches."""
        if column in (1, last):
            return 0
        return min(column - 1, last - column, separation) if stepped else separation

    cells = {Cell(middle, 1), Cell(middle, last)}
    for column in range(2, last):
        # From where the neighbour on the side of the nearer end has led to.
        from_ = lift(column - 1 if column <= middle else column + 1)
        cells |= {Cell(middle - up, column) for up in range(from_, lift(column) + 1)}
    return cells


def _rooms(rooms: int, draws: Draws) -> tuple[BoolArray, list[Cell]]:
    pitch = ROOM + 1  # a room and the wall behind it
    size = pitch * rooms + 1
    walls = np.ones((size, size), dtype=bool)
    for row in range(size):
        for column in range(size):
            walls[row, column] = row % pitch == 0 or column % pitch == 0
    neighbours = [
        ((r, c), (r + down, c + right))
        for r in range(rooms)
        for c in range(rooms)
        for down, right in ((0, 1), (1, 0))
        if r + down < rooms and c + right < rooms
    ]
    draws.shuffle(neighbours)
    # Kruskal: rooms of one group are joined already, and a further doorway would make a circle.
    group = {(r, c): (r, c) for r in range(rooms) for c in range(rooms)}
    doorways = []
    for room, beside in neighbours:
        if group[room] == group[beside]:
            continue
        merged, kept = group[beside], group[room]
        group = {each: kept if g == merged else g for each, g in group.items()}
        along = 1 + draws.below(ROOM)
        if room[0] == beside[0]:
            doorway = Cell(pitch * room[0] + along, pitch * beside[1])
        else:
            doorway = Cell(pitch * beside[0], pitch * room[1] + along)
        walls[doorway] = False
        doorways.append(doorway)
    return walls, doorways


def _room(cell: Cell) -> tuple[int, int]:
    return cell.row // (ROOM + 1), cell.column // (ROOM + 1)


def _reaches(walls: BoolArray, start: Cell, door: Cell) -> BoolArray:
    """The cells that can be reached with a door shut."""
    shut = walls.copy()
    shut[door] = True
    return np.asarray(distances_from(shut, [start])[0] >= 0)
