"""The map that a simulated agent plans on: the true one, or one that is wrong in a known way."""

from __future__ import annotations

from goalmeter._types import BoolArray
from goalmeter.experiments.calibration.population.scenes import Scene
from goalmeter.experiments.calibration.population.traits import (
    LOST_WALLS,
    PHANTOM_WALLS,
    UNSEEN_ROWS,
    Traits,
)
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.paths import distances_from
from goalmeter.gridworld.world import Cell
from goalmeter.organisms.kinds import organism

LOST = 0.25  # how likely an inner wall is missing from the map
PHANTOM = 0.15  # how likely an open cell is a wall on the map


def believed_walls(traits: Traits, scene: Scene) -> BoolArray:
    """The walls on an agent's map, [rows, columns].

    A map belongs to the agent and to the walls, not to the places in them: in both scenes of a pair
    the agent is wrong about the same cells, save that it never takes a place of the scene for a
    wall. Every place can be reached from the start on every map.
    """
    world = scene.world
    walls = world.walls.copy()
    if traits.belief == UNSEEN_ROWS:
        return organism("mole").walls(world)
    draws = Draws("believed walls", traits.name, walls.tobytes().hex())
    rows, columns = world.shape
    for row in range(1, rows - 1):
        for column in range(1, columns - 1):
            cell = Cell(row, column)
            # Drawn for every cell, so that what is drawn for one does not depend on the others.
            chance = draws.below(1000) / 1000
            if traits.belief == LOST_WALLS and walls[cell] and chance < LOST:
                walls[cell] = False
            if traits.belief == PHANTOM_WALLS and not walls[cell] and chance < PHANTOM:
                _close(walls, cell, scene)
    return walls


def _close(walls: BoolArray, cell: Cell, scene: Scene) -> None:
    """Put a wall into a cell, if every place can still be reached without passing the goal."""
    places = [place for place in scene.places.values() if place != scene.world.goal]
    if cell in (scene.world.start, scene.world.goal, *places):
        return
    walls[cell] = True
    goal_too = walls.copy()
    goal_too[scene.world.goal] = True
    without, through = (distances_from(grid, [scene.world.start])[0] for grid in (goal_too, walls))
    if through[scene.world.goal] < 0 or any(without[place] < 0 for place in places):
        walls[cell] = False
