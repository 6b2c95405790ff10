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

# Python guarantees equal draws on all machines for `Random(seed).random()` only; NumPy has none.

T = TypeVar("T")


class Draws:
    """Stream of random choices, with a seed of words and numbers."""

    def __init__(self, *seed: int | str) -> None:
        self._random = Random(":".join(str(part) for part in seed)).random

    def below(self, n: int) -> int:
        """Draw an integer in 0 .. n-1."""
        return int(self._random() * n)

    def choice(self, items: Sequence[T]) -> T:
        """Draw one of the items."""
        return items[self.below(len(items))]

    def weighted(self, probabilities: Sequence[float]) -> int:
        """Draw an index with the given probabilities."""
        left = self._random()
        last = 0
        for place, probability in enumerate(probabilities):
            if probability > 0:
                if left < probability:
                    return place
                left -= probability
                last = place
        return last  # the probabilities add up to less than 1 by rounding

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Shuffle items in place (Fisher-Yates)."""
        for last in range(len(items) - 1, 0, -1):
            chosen = self.below(last + 1)
            items[last], items[chosen] = items[chosen], items[last]


def distances_from(walls: BoolArray, sources: ArrayLike) -> IntArray:
    """Return the steps from each source to all cells, [sources, rows, columns]; -1 if no path."""
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
        # The border is wall, so cells beyond the grid are not needed.
        spread = np.zeros_like(front)
        spread[:, 1:] |= front[:, :-1]
        spread[:, :-1] |= front[:, 1:]
        spread[:, :, 1:] |= front[:, :, :-1]
        spread[:, :, :-1] |= front[:, :, 1:]
        front = spread & open_ & (steps < 0)
    return steps


# --- Mazes ----------------------------------------------------------------------------------------
# A randomised depth-first search carves a perfect maze on the cells with odd row and column; then a
# share 1 - complexity (rounded down) of the remaining inner walls is opened at random.
#
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents", section 3, and its code. Differences: the seed alone determines the grid; start and goal
# are always connected (an opened pillar can be isolated); they may be drawn by distance or detour.

MAX_ATTEMPTS = 1000  # number of grids to draw for one seed before an error
MOST_SIZE = 51  # pairs of cells of a larger grid take gigabytes


@dataclass(frozen=True)
class Maze:
    """Generated maze."""

    world: GridWorld  # walls, start and goal
    size: int
    complexity: float
    seed: int
    distance: int  # steps of the shortest path from start to goal
    detour: int  # distance less the Manhattan distance
    attempts: int  # number of grids drawn until the bounds were met


def maze(
    size: int,
    complexity: float,
    seed: int,
    *,
    distance: tuple[int, int] | None = None,
    detour: tuple[int, int] | None = None,
) -> Maze:
    """Generate a maze with a start and a goal, uniform over connected pairs of cells.

    It has `size` rows and columns (odd, 5 to 51) and a share `complexity` of inner walls: 1 is a
    perfect maze, 0 an empty room. A seed determines the grid on every machine and in every version.
    `distance` is the (minimum, maximum) length of the shortest path, `detour` that of its excess
    over the Manhattan distance.
    """
    given = (("distance", distance), ("detour", detour))
    bounds = {name: ends for name, ends in given if ends is not None}
    if size < 5 or size > MOST_SIZE or size % 2 == 0:
        raise InvalidParameterError(
            f"size is {shown(size)}, expected an odd number from 5 to {MOST_SIZE}; larger grids "
            f"take gigabytes of memory"
        )
    if not 0 <= complexity <= 1:
        raise InvalidParameterError(
            f"complexity is {shown(complexity)}, expected a share in [0, 1]"
        )
    for name, (low, high) in bounds.items():
        if not low <= high:
            raise InvalidParameterError(f"{name} is {low} to {high}, expected the minimum first")
    draws = Draws("maze", size, repr(float(complexity)), seed)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        walls = carved(size, complexity, draws)
        pair = _pair(walls, draws, bounds)
        if pair is not None:
            start, goal, length = pair
            manhattan = abs(start.row - goal.row) + abs(start.column - goal.column)
            world = GridWorld(walls, start, goal)
            return Maze(world, size, float(complexity), seed, length, length - manhattan, attempt)
    required = " and ".join(f"{name} {low} to {high}" for name, (low, high) in bounds.items())
    raise InvalidParameterError(
        f"none of {MAX_ATTEMPTS} mazes of size {size} and complexity {complexity:g} has a start "
        f"and a goal with {required}; choose wider bounds or larger grids"
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
    inner = [Cell(r, c) for r in range(1, size - 1) for c in range(1, size - 1) if walls[r, c]]
    draws.shuffle(inner)
    # Floating-point rounding follows the published generator: 9 of 50 walls at 0.8, not 10.
    for cell in inner[: floor((1 - complexity) * len(inner))]:
        walls[cell] = False
    return walls


def _pair(
    walls: BoolArray, draws: Draws, bounds: Mapping[str, tuple[int, int]]
) -> tuple[Cell, Cell, int] | None:
    """Draw start and goal uniformly from all valid pairs; return them and their distance."""
    cells = np.argwhere(~walls)
    lengths = distances_from(walls, cells)[:, cells[:, 0], cells[:, 1]]
    manhattan = np.abs(cells[:, None] - cells[None]).sum(axis=2)
    values = {"distance": lengths, "detour": lengths - manhattan}
    valid = lengths > 0  # -1 is unreachable, 0 the cell itself
    for name, (low, high) in bounds.items():
        valid &= (values[name] >= low) & (values[name] <= high)
    pairs = np.argwhere(valid)
    if not len(pairs):
        return None
    first, second = pairs[draws.below(len(pairs))]
    start, goal = (Cell(int(cells[i, 0]), int(cells[i, 1])) for i in (first, second))
    return start, goal, int(lengths[first, second])


# --- Key worlds -----------------------------------------------------------------------------------
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents", section 4.3 (KeyDoorEnv, KeyNoDoorEnv, 2PathKeyEnv), and the rules in its code.

ROOM = 3  # cells along the side of a room
_MOST_ROOMS = 12  # 49 x 49 cells; pairs of cells of a larger grid take gigabytes
SIZE_OF_TWO_PATHS = 11
LAYOUTS = ("horizontal", "vertical", "diamond")


@dataclass(frozen=True)
class TwoPaths:
    """World with two paths of equal length and a key on one of them."""

    world: GridWorld
    control: GridWorld  # the same world without the key
    layout: str  # "horizontal", "vertical" or "diamond"
    separation: int  # cells between the shared line and each path
    key_route: frozenset[Cell]  # cells of the path with the key only
    other_route: frozenset[Cell]  # cells of the other path only


def key_door(seed: int, *, rooms: int = 2) -> GridWorld:
    """Generate rooms joined by doorways, one of them locked, with its key on the agent's side.

    Rooms of 3 x 3 cells are joined along a random spanning tree (Kruskal's algorithm on shuffled
    neighbours) by one doorway each. Agent and goal are in different rooms, one of the doorways
    between them is locked, and the key is reachable without it. `rooms`, from 2 to 12 along each
    side, makes 9 x 9, 13 x 13 ... cells. A seed determines the world on every machine.
    """
    if not 2 <= rooms <= _MOST_ROOMS:
        raise InvalidParameterError(
            f"rooms is {shown(rooms)}, expected 2 to {_MOST_ROOMS} along each side"
        )
    draws = Draws("key-door", rooms, seed)
    walls, doorways = _rooms(rooms, draws)
    inside = [Cell(int(r), int(c)) for r, c in np.argwhere(~walls)]
    inside = [cell for cell in inside if cell not in doorways]
    start = draws.choice(inside)
    goal = draws.choice([cell for cell in inside if _room(cell) != _room(start)])
    # Paths in a tree are unique, so at least one doorway separates start and goal.
    door = draws.choice([d for d in doorways if not _reaches(walls, start, d)[goal]])
    near = _reaches(walls, start, door)
    key = draws.choice([cell for cell in inside if near[cell] and cell != start])
    return GridWorld(walls, start, goal, key, door)


def key_no_door(seed: int, *, rooms: int = 2) -> GridWorld:
    """Generate the world of `key_door` without its door: the key opens nothing."""
    return key_door(seed, rooms=rooms).with_(door=None)


def two_paths(seed: int) -> TwoPaths:
    """Generate two paths of equal length on an 11 x 11 grid, with a key on one of them.

    The seed determines layout, separation of the paths, and side and cell of the key.
    """
    draws = Draws("two-paths", seed)
    layout = draws.choice(LAYOUTS)
    separation = draws.choice((2, 3))
    middle, last = SIZE_OF_TWO_PATHS // 2, SIZE_OF_TWO_PATHS - 2
    upper = _upper_path(separation, stepped=layout == "diamond")
    lower = {Cell(2 * middle - row, column) for row, column in upper}
    trunk = upper & lower
    start, goal = Cell(middle, 1), Cell(middle, last)
    sides = [upper - trunk, lower - trunk]
    draws.shuffle(sides)
    # Sorting makes the choice reproducible, since sets have no order.
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


def _upper_path(separation: int, *, stepped: bool) -> set[Cell]:
    """Return the upper of the two paths from left to right, including shared cells."""
    middle, last = SIZE_OF_TWO_PATHS // 2, SIZE_OF_TWO_PATHS - 2

    def lift(column: int) -> int:
        """Return the height of the path above the middle in a column."""
        if column in (1, last):
            return 0
        return min(column - 1, last - column, separation) if stepped else separation

    cells = {Cell(middle, 1), Cell(middle, last)}
    for column in range(2, last):
        # The column starts at the height of its neighbour on the side of the nearer end.
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
    # Kruskal's algorithm: another doorway between rooms of one group would close a cycle.
    group = {room: room for room in np.ndindex(rooms, rooms)}
    doorways = []
    for room, other in neighbours:
        if group[room] == group[other]:
            continue
        old, new = group[other], group[room]
        group = {each: new if g == old else g for each, g in group.items()}
        offset = 1 + draws.below(ROOM)
        if room[0] == other[0]:
            doorway = Cell(pitch * room[0] + offset, pitch * other[1])
        else:
            doorway = Cell(pitch * other[0], pitch * room[1] + offset)
        walls[doorway] = False
        doorways.append(doorway)
    return walls, doorways


def _room(cell: Cell) -> tuple[int, int]:
    return cell.row // (ROOM + 1), cell.column // (ROOM + 1)


def _reaches(walls: BoolArray, start: Cell, door: Cell) -> BoolArray:
    """Return a mask of the cells that can be reached with a door closed."""
    shut = walls.copy()
    shut[door] = True
    return np.asarray(distances_from(shut, [start])[0] >= 0)
