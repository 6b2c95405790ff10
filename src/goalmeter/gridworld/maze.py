"""Mazes between a perfect maze and an empty room, from one seed.

A maze of size n (odd) is carved on the cells with odd row and column: a randomised depth-first
search opens the wall between a cell and a neighbour that was not visited yet, until all are
joined by exactly one path. Of the remaining inner walls the share 1 - c, rounded down, is then
opened at random: complexity c is the share of the maze's walls that is kept, 1 a perfect maze,
0 an empty room.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 3, and the rules read off its code. Differences from it: the seed alone names the
grid; start and goal are always connected (an opened pillar can be an isolated cell, where the
published generator may put them); they may be drawn by distance or detour.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._text import shown
from goalmeter._types import BoolArray
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.paths import distances_from
from goalmeter.gridworld.world import MOVES, Cell, GridWorld

# Grids that are drawn for one seed before the request counts as impossible.
MAX_ATTEMPTS = 1000
# Start and goal are drawn from all pairs of cells: of a larger grid, they take gigabytes.
MOST_SIZE = 51


@dataclass(frozen=True)
class Maze:
    """A generated world and how it came about.

    Attributes:
        world: walls, start and goal.
        size: rows and columns.
        complexity: share of the maze's inner walls that is kept.
        seed: names the world, together with size, complexity and what was asked of it.
        distance: steps on the shortest path from start to goal.
        detour: distance less the Manhattan distance; even, and 0 where a compass is enough.
        attempts: grids that were drawn, the last one included; the others had no such pair.
    """

    world: GridWorld
    size: int
    complexity: float
    seed: int
    distance: int
    detour: int
    attempts: int


def maze(
    size: int,
    complexity: float,
    seed: int,
    *,
    distance: tuple[int, int] | None = None,
    detour: tuple[int, int] | None = None,
) -> Maze:
    """A maze with a start and a goal.

    Without further wishes goal and start are two different open cells, each pair equally likely
    that a path connects.

    Args:
        size: rows and columns, odd, from 5 to 51.
        complexity: share of inner walls kept, in [0, 1].
        seed: names the grid; the same seed gives the same grid everywhere, for ever.
        distance: least and greatest length of the shortest path.
        detour: least and greatest difference between it and the Manhattan distance.

    Raises:
        InvalidParameterError: an even or small size, a complexity outside [0, 1], bounds in the
            wrong order, or no grid of this kind has such a pair.

    Example: the same seed, the same grid.
        >>> print(maze(7, 1.0, seed=0).world)
        #######
        #A__G_#
        #_###_#
        #_#_#_#
        #_#_#_#
        #_#___#
        #######
    """
    _check(size, complexity, distance, detour)
    draws = Draws("maze", size, repr(float(complexity)), seed)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        walls = carved(size, complexity, draws)
        pair = _pair(walls, draws, distance, detour)
        if pair is not None:
            start, goal, length = pair
            straight = abs(start.row - goal.row) + abs(start.column - goal.column)
            world = GridWorld(walls, start, goal)
            return Maze(world, size, float(complexity), seed, length, length - straight, attempt)
    wishes = [
        f"{name} {low} to {high}"
        for name, bounds in (("distance", distance), ("detour", detour))
        if bounds is not None
        for low, high in [bounds]
    ]
    raise InvalidParameterError(
        f"none of {MAX_ATTEMPTS} mazes of size {size} and complexity {complexity:g} has a start "
        f"and a goal with {' and '.join(wishes)}; ask for less, or for larger grids"
    )


def carved(size: int, complexity: float, draws: Draws) -> BoolArray:
    """The walls of a maze, [size, size]."""
    walls = np.ones((size, size), dtype=bool)
    lattice = range(1, size, 2)
    at = Cell(draws.choice(lattice), draws.choice(lattice))
    walls[at] = False
    path = [at]
    while path:
        at = path[-1]
        ways = [
            (Cell(at.row + r, at.column + c), Cell(at.row + 2 * r, at.column + 2 * c))
            for r, c in MOVES
        ]
        ways = [
            (between, to)
            for between, to in ways
            if 0 < to.row < size and 0 < to.column < size and walls[to]
        ]
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
    walls: BoolArray, draws: Draws, distance: tuple[int, int] | None, detour: tuple[int, int] | None
) -> tuple[Cell, Cell, int] | None:
    """A start, a goal and the steps between them, uniform over all pairs that will do."""
    cells = np.argwhere(~walls)
    lengths = distances_from(walls, cells)[:, cells[:, 0], cells[:, 1]]
    straight = np.abs(cells[:, None] - cells[None]).sum(axis=2)
    good = lengths > 0  # -1 is out of reach, 0 the cell itself
    for values, bounds in ((lengths, distance), (lengths - straight, detour)):
        if bounds is not None:
            good &= (values >= bounds[0]) & (values <= bounds[1])
    pairs = np.argwhere(good)
    if not len(pairs):
        return None
    first, second = pairs[draws.below(len(pairs))]
    start, goal = (Cell(int(cells[i, 0]), int(cells[i, 1])) for i in (first, second))
    return start, goal, int(lengths[first, second])


def _check(
    size: int, complexity: float, distance: tuple[int, int] | None, detour: tuple[int, int] | None
) -> None:
    if size < 5 or size % 2 == 0:
        raise InvalidParameterError(f"size is {shown(size)}, expected an odd number, at least 5")
    if size > MOST_SIZE:
        raise InvalidParameterError(
            f"size is {shown(size)}, expected at most {MOST_SIZE}: all pairs of cells of a larger "
            f"grid take gigabytes"
        )
    if not 0 <= complexity <= 1:
        raise InvalidParameterError(
            f"complexity is {shown(complexity)}, expected a share in [0, 1]"
        )
    for name, bounds in (("distance", distance), ("detour", detour)):
        if bounds is not None and not bounds[0] <= bounds[1]:
            raise InvalidParameterError(
                f"{name} is {bounds[0]} to {bounds[1]}, expected the least first"
            )
