"""Cells of a state that a shortest way needs, and cells that no shortest way needs.

Whether a model acts on what it reads of a cell can be told where the cell matters: if it were a
wall, all first moves of shortest ways would be other ones. Where it lies on no shortest way,
nothing should change; this is the null that every intervention has to be seen against. The same
holds of walls: some would be a shorter way if they were open, others would lead nowhere.

Only uncertain cells tell: those that are open in some grids and walls in others. The rooms of our
mazes, cells whose row and column are odd, are open in every grid, and the mouse does not look them
up: of 31 needed cells of either kind, masking the cell's words flipped 61% of moves, and of 35
uncertain ones 97%.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from goalmeter.agents.navigators import planned
from goalmeter.gridworld.planner import Plan, State, plans
from goalmeter.gridworld.world import Cell, GridWorld


@dataclass(frozen=True)
class TargetCell:
    """A cell of a state that is to be changed: an open one into a wall, or a wall into an open one.

    Attributes:
        cell: which.
        needed: whether every first move of a shortest way would be another one if it were changed.
            Otherwise it lies on no shortest way, before and after.
        optimal: first moves of shortest ways.
        changed: first moves of shortest ways if it were changed; those of a cell that is not needed
            are the same.
    """

    cell: Cell
    needed: bool
    optimal: tuple[int, ...]
    changed: tuple[int, ...]


@lru_cache(maxsize=4096)
def target_cells(world: GridWorld, state: State) -> tuple[TargetCell, ...]:
    """The cells of a state that tell whether they are used, from the top left.

    Left out are the agent's own cell and those of things, cells without which there is no way, and
    cells that lie on some shortest ways while others begin with the same move.
    """
    known = planned(world)
    optimal = known.optimal_actions(state)
    distance = known.distance_from(state)
    cells = []
    for cell, closed in _plans_with(world, wall=True).items():
        if cell == state.cell:
            continue
        changed = closed.optimal_actions(state)
        if not changed:
            continue
        if not set(changed) & set(optimal):
            cells.append(TargetCell(cell, True, optimal, changed))
        elif closed.distance_from(state) == distance and not _on_a_shortest_way(known, state, cell):
            cells.append(TargetCell(cell, False, optimal, optimal))
    return tuple(cells)


@lru_cache(maxsize=4096)
def target_walls(world: GridWorld, state: State) -> tuple[TargetCell, ...]:
    """The inner walls of a state that tell whether they are used, from the top left.

    Needed are those that would be part of every shortest way if they were open, all of which would
    begin with other moves. Left out are walls that would be on some shortest ways only, or on ways
    that begin with the same move, and the outer wall.
    """
    known = planned(world)
    optimal = known.optimal_actions(state)
    walls = []
    for cell, opened in _plans_with(world, wall=False).items():
        changed = opened.optimal_actions(state)
        if not set(changed) & set(optimal):
            walls.append(TargetCell(cell, True, optimal, changed))
        elif not _on_a_shortest_way(opened, state, cell):
            walls.append(TargetCell(cell, False, optimal, optimal))
    return tuple(walls)


# Decisions are drawn from all states of a world, one world after the other.
@lru_cache(maxsize=64)
def _plans_with(world: GridWorld, *, wall: bool) -> dict[Cell, Plan]:
    """The plan of a world in which one cell is a wall, or open, by that cell from the top left.

    It is an open cell that is made a wall, where nothing is and nobody starts; or an inner wall
    that is opened.
    """
    if wall:
        places = {world.goal, world.key, world.door, world.neutral, world.start}
        cells = [cell for cell in world.open_cells if cell not in places]
    else:
        inner = np.argwhere(world.walls[1:-1, 1:-1]) + 1
        cells = [Cell(row, column) for row, column in inner.tolist()]
    changed = []
    for cell in cells:
        walls = world.walls.copy()
        walls[cell] = wall
        changed.append(replace(world, walls=walls))
    if not changed:
        return {}
    together = plans(changed)
    return {cell: together.plan(index) for index, cell in enumerate(cells)}


def _on_a_shortest_way(known: Plan, state: State, cell: Cell) -> bool:
    """Whether some shortest way passes through a cell, in any layer."""
    seen, border = {state}, [state]
    while border:
        at = border.pop()
        if at.cell == cell:
            return True
        for action in known.optimal_actions(at):
            after = known.step(at, action)
            if after not in seen:
                seen.add(after)
                border.append(after)
    return False
