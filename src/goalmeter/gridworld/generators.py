"""Generate mazes and key worlds from a seed."""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from math import floor
from random import Random
from typing import Any, TypeVar

import numpy as np

from goalmeter._errors import InvalidParameterError, shown
from goalmeter._types import ArrayLike, BoolArray, IntArray
from goalmeter.gridworld.world import MOVES, Cell, GridWorld

# Python guarantees the same draws on any machine for `Random(seed).random()` only, NumPy for none.

T = TypeVar("T")


class Draws:
    """A stream of random choices, named by words and numbers."""

    def __init__(self, *seed: int | str) -> None:
        self._random = Random(":".join(str(part) for part in seed)).random

    def below(self, n: int) -> int:
        """Return an integer in 0 .. n-1."""
        return int(self._random() * n)

    def choice(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return items[self.below(len(items))]

    def weighted(self, probabilities: Sequence[float]) -> int:
        """Return an index, drawn with the given probabilities."""
        left = self._random()
        last = 0
        for place, probability in enumerate(probabilities):
            if probability > 0:
                if left < probability:
                    return place
                left -= probability
                last = place
        return last  # rounding has left a remainder

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Shuffle in place (Fisher and Yates)."""
        for last in range(len(items) - 1, 0, -1):
            chosen = self.below(last + 1)
            items[last], items[chosen] = items[chosen], items[last]


def distances_from(walls: BoolArray, sources: ArrayLike) -> IntArray:
    """Return the steps from each source to every cell, [sources, rows, columns]; -1 if none."""
    places = np.asarray(sources).reshape(-1, 2)
    n = len(places)
    open_ = ~walls
    steps = np.full((n, *walls.shape), -1, dtype=np.int64)
    front = np.zeros((n, *walls.shape), dtype=bool)
    front[np.arange(n), places[:, 0], places[:, 1]] = True
    front &= open_
    step = 0  # breadth-first search from all sources at once
    while front.any():
        steps[front] = step
        step += 1
        # The border is wall, so a shift by one never wraps around.
        spread = np.zeros_like(front)
        spread[:, 1:] |= front[:, :-1]
        spread[:, :-1] |= front[:, 1:]
        spread[:, :, 1:] |= front[:, :, :-1]
        spread[:, :, :-1] |= front[:, :, 1:]
        front = spread & open_ & (steps < 0)
    return steps


# --- Mazes ----------------------------------------------------------------------------------------
# A randomised depth-first search carves a perfect maze on the cells with odd row and column; of the
# remaining inner walls the share 1 - complexity, rounded down, is then opened at random.
#
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents", section 3, and its code. Differences: the seed alone names the grid; start and goal are
# always connected (an opened pillar can be isolated); they may be drawn by distance or detour.

MAX_ATTEMPTS = 1000  # grids drawn for one seed before the request counts as impossible
MOST_SIZE = 51  # all pairs of cells of a larger grid take gigabytes


@dataclass(frozen=True)
class Maze:
    """A generated maze."""

    world: GridWorld  # walls, start and goal
    size: int
    complexity: float
    seed: int
    distance: int  # steps on the shortest path from start to goal
    detour: int  # distance less the Manhattan distance
    attempts: int  # number of grids drawn until one had such a start and goal


def maze(
    size: int,
    complexity: float,
    seed: int,
    *,
    distance: tuple[int, int] | None = None,
    detour: tuple[int, int] | None = None,
) -> Maze:
    """Generate a maze with a start and a goal, uniform over connected pairs of cells.

    It has `size` rows and columns, odd, from 5 to 51, and the share `complexity` of inner walls: 1
    is a perfect maze, 0 an empty room. The same seed gives the same grid on every machine and
    version. `distance` holds the least and greatest length of the shortest path, `detour` of its
    difference to the Manhattan distance.
    """
    bounds = (("distance", distance), ("detour", detour))
    wishes = {name: ends for name, ends in bounds if ends is not None}
    if size < 5 or size > MOST_SIZE or size % 2 == 0:
        raise InvalidParameterError(
            f"size is {shown(size)}, expected an odd number from 5 to {MOST_SIZE}: all pairs of "
            f"cells of a larger grid take gigabytes"
        )
    if not 0 <= complexity <= 1:
        raise InvalidParameterError(
            f"complexity is {shown(complexity)}, expected a share in [0, 1]"
        )
    for name, (low, high) in wishes.items():
        if not low <= high:
            raise InvalidParameterError(f"{name} is {low} to {high}, expected the least first")
    draws = Draws("maze", size, repr(float(complexity)), seed)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        walls = carved(size, complexity, draws)
        pair = _pair(walls, draws, wishes)
        if pair is not None:
            start, goal, length = pair
            straight = abs(start.row - goal.row) + abs(start.column - goal.column)
            world = GridWorld(walls, start, goal)
            return Maze(world, size, float(complexity), seed, length, length - straight, attempt)
    asked = " and ".join(f"{name} {low} to {high}" for name, (low, high) in wishes.items())
    raise InvalidParameterError(
        f"none of {MAX_ATTEMPTS} mazes of size {size} and complexity {complexity:g} has a start "
        f"and a goal with {asked}; ask for less, or for larger grids"
    )


def carved(size: int, complexity: float, draws: Draws) -> BoolArray:
    """Return the walls of a maze, [size, size]."""
    walls = np.ones((size, size), dtype=bool)
    lattice = range(1, size, 2)
    at = Cell(draws.choice(lattice), draws.choice(lattice))
    walls[at] = False
    path = [at]
    while path:
        at = path[-1]
        moves = [(at.moved(action), at.moved(action).moved(action)) for action in range(len(MOVES))]
        ways = [(between, to) for between, to in moves if min(to) > 0 and max(to) < size]
        ways = [(between, to) for between, to in ways if walls[to]]
        if not ways:
            path.pop()
            continue
        between, to = draws.choice(ways)
        walls[between] = walls[to] = False
        path.append(to)
    kept = [Cell(r, c) for r in range(1, size - 1) for c in range(1, size - 1) if walls[r, c]]
    draws.shuffle(kept)
    # In floating point, as the published generator has it: 9 of 50 walls at 0.8, not 10.
    for cell in kept[: floor((1 - complexity) * len(kept))]:
        walls[cell] = False
    return walls


def _pair(
    walls: BoolArray, draws: Draws, wishes: Mapping[str, tuple[int, int]]
) -> tuple[Cell, Cell, int] | None:
    """A start, a goal and the steps between them, uniform over all valid pairs."""
    cells = np.argwhere(~walls)
    lengths = distances_from(walls, cells)[:, cells[:, 0], cells[:, 1]]
    straight = np.abs(cells[:, None] - cells[None]).sum(axis=2)
    values = {"distance": lengths, "detour": lengths - straight}
    good = lengths > 0  # -1 is out of reach, 0 the cell itself
    for name, (low, high) in wishes.items():
        good &= (values[name] >= low) & (values[name] <= high)
    pairs = np.argwhere(good)
    if not len(pairs):
        return None
    first, second = pairs[draws.below(len(pairs))]
    start, goal = (Cell(int(cells[i, 0]), int(cells[i, 1])) for i in (first, second))
    return start, goal, int(lengths[first, second])


# --- Key worlds -----------------------------------------------------------------------------------
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents", section 4.3 (KeyDoorEnv, KeyNoDoorEnv, 2PathKeyEnv), and the rules read off its code.

ROOM = 3  # cells along the side of a room
_MOST_ROOMS = 12  # 49 x 49 cells: all pairs of cells of a larger grid take gigabytes
SIZE_OF_TWO_PATHS = 11
LAYOUTS = ("horizontal", "vertical", "diamond")


@dataclass(frozen=True)
class TwoPaths:
    """Two ways of equal length, with a key on one of them."""

    world: GridWorld
    control: GridWorld  # without the key
    layout: str  # "horizontal", "vertical" or "diamond"
    separation: int  # cells between the trunk and each way
    key_route: frozenset[Cell]  # cells of only the way with the key
    other_route: frozenset[Cell]  # cells of only the other way


def key_door(seed: int, *, rooms: int = 2) -> GridWorld:
    """Generate rooms joined by doorways, one of them locked, with its key on the agent's side.

    Rooms of 3 x 3 cells are joined along a random spanning tree (Kruskal's algorithm on shuffled
    neighbours) by one doorway each. Agent and goal are in different rooms, one of the doorways
    between them is locked, and the key can be reached without it. From 2 to 12 rooms along each
    side give 9 x 9, 13 x 13 ... cells; the same seed gives the same world on every machine.
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
    """Generate the world of `key_door` without its door: the key opens nothing."""
    return key_door(seed, rooms=rooms).with_(door=None)


def two_paths(seed: int) -> TwoPaths:
    """Generate two ways of equal length on an 11 x 11 grid, with a key on one of them.

    Layout, distance of the ways, side and cell of the key are drawn from the seed.
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
    # Sorted, since the order of a set is not reproducible.
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
    is_line = np.arange(pitch * rooms + 1) % pitch == 0
    walls = is_line[:, None] | is_line
    neighbours = [
        ((r, c), (r + down, c + right))
        for r, c in np.ndindex(rooms, rooms)
        for down, right in ((0, 1), (1, 0))
        if r + down < rooms and c + right < rooms
    ]
    draws.shuffle(neighbours)
    # Kruskal: rooms of one group are joined already, and a further doorway would make a circle.
    group = {room: room for room in np.ndindex(rooms, rooms)}
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
