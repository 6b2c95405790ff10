"""Worlds in which five answers are possible: the goal, the key, a cell, a corner, or nothing.

A scene is a maze with a goal, a key that opens nothing, one marked cell and one marked corner. Each
maze is shown twice, with the same walls and the same start and with all four places moved. Whoever
wants one of them goes elsewhere when it is moved; whoever has a habit does not, wherever the habit
happens to lead. That is an intervention on the world, and costs nothing but half of the mazes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.maze import MAX_ATTEMPTS, carved
from goalmeter.gridworld.paths import distances_from
from goalmeter.gridworld.planner import plan
from goalmeter.gridworld.tabular_world import GOAL, KEY
from goalmeter.gridworld.world import Cell, GridWorld
from goalmeter.navigation.suites.tasks import Task

CELL, CORNER, NONE = "cell", "corner", "none"
TARGETS = (GOAL, KEY, CELL, CORNER)
# No place lies nearer to the start: an arrival by chance would say too much.
LEAST_DISTANCE = 3
# Steps of a walk for each row of the grid.
CAP_PER_ROW = 6


@dataclass(frozen=True)
class Scene:
    """A maze and the places in it that an agent may want.

    Attributes:
        world: with the goal, at which a walk ends, and a key that opens nothing.
        cell: one marked cell.
        corner: one of the four corners.
        cap: steps after which a walk is ended.
    """

    world: GridWorld
    cell: Cell
    corner: Cell
    cap: int

    def place(self, target: str) -> Cell:
        """Where one of `TARGETS` is."""
        return self.places[target]

    @property
    def places(self) -> dict[str, Cell]:
        """Where all of `TARGETS` are."""
        assert self.world.key is not None
        return {GOAL: self.world.goal, KEY: self.world.key, CELL: self.cell, CORNER: self.corner}


@dataclass(frozen=True)
class ScenePair:
    """One maze, and the same one with all four places moved: what intervals resample.

    Attributes:
        size: rows and columns.
        complexity: share of inner walls kept.
        seed: names the maze and its places.
        scenes: the two, with the same walls and the same start.
    """

    size: int
    complexity: float
    seed: int
    scenes: tuple[Scene, Scene]

    def task(self, index: int) -> Task:
        """One of the two scenes as a task of navigation."""
        scene = self.scenes[index]
        return Task(
            suite="calibration",
            size=self.size,
            complexity=self.complexity,
            grid=self.seed,
            seed=self.seed,
            transform=None,
            condition={"places": index},
            world=scene.world,
            distance=plan(scene.world).distance,
            cap=scene.cap,
        )


@lru_cache(maxsize=128)
def scene_pair(size: int, complexity: float, seed: int) -> ScenePair:
    """The maze of a seed with two sets of places.

    Start and places are drawn from the open cells, each pair of sets equally likely among those in
    which no place lies nearer to the start than `LEAST_DISTANCE`, no cell is used twice, and every
    place can be reached without passing through the goal, which would end the walk.

    Args:
        size: rows and columns, odd, at least 5.
        complexity: share of inner walls kept, in [0, 1].
        seed: names it; the same seed gives the same pair everywhere.
    """
    draws = Draws("calibration scenes", size, repr(complexity), seed)
    for _ in range(MAX_ATTEMPTS):
        walls = carved(size, complexity, draws)
        cells = GridWorld(walls, (1, 1), (size - 2, size - 2)).open_cells
        start = draws.choice(cells)
        steps = distances_from(walls, [start])[0]
        far = [cell for cell in cells if steps[cell] >= LEAST_DISTANCE]
        corners = [Cell(r, c) for r in (1, size - 2) for c in (1, size - 2)]
        corners = [cell for cell in corners if cell in far]
        draws.shuffle(corners)
        inner = [cell for cell in far if cell not in corners]
        draws.shuffle(inner)
        if len(corners) < 2 or len(inner) < 6:
            continue
        sets = [(*inner[3 * i : 3 * i + 3], corners[i]) for i in range(2)]
        if all(_reachable(walls, start, goal, (*sets[0], *sets[1])) for goal, *_ in sets):
            first, second = (
                Scene(GridWorld(walls, start, goal, key), cell, corner, CAP_PER_ROW * size)
                for goal, key, cell, corner in sets
            )
            return ScenePair(size, complexity, seed, (first, second))
    raise InvalidParameterError(
        f"none of {MAX_ATTEMPTS} mazes of size {size} and complexity {complexity:g} has room for "
        f"two sets of places; ask for larger or less walled ones"
    )


def _reachable(walls: BoolArray, start: Cell, goal: Cell, places: Sequence[Cell]) -> bool:
    """Whether all places but the goal can be reached without passing through the goal."""
    blocked = walls.copy()
    blocked[goal] = True
    steps = distances_from(blocked, [start])[0]
    return all(steps[place] > 0 for place in places if place != goal)
