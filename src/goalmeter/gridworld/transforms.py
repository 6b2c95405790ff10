"""The same task in another frame: reflection, rotation, transposition; and start for goal.

The first three are isometries: distances, detours and the sets of optimal actions stay as they are,
once the actions are relabelled. Exchanging start and goal keeps the length of the shortest path and
nothing else: which cells have several optimal actions changes, so a difference in accuracy
need not be the agent's.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 4.2, which counts all four as transforms of equal difficulty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from goalmeter.gridworld.world import MOVES, Cell, GridWorld

Placed = Callable[[Cell, tuple[int, int]], Cell]


# Actions are numbered by direction, so in another frame the same move has another number.
@dataclass(frozen=True)
class Transform:
    """A change of frame.

    Attributes:
        name: as on the command line and in tables.
        actions: what each action of the original is called in the transformed world.
        isometry: whether everything but the labels of the actions stays as it is.
    """

    name: str
    actions: tuple[int, int, int, int]
    isometry: bool
    _placed: Placed

    def cell(self, cell: Cell, shape: tuple[int, int]) -> Cell:
        """Where a cell of a world of some shape goes."""
        return self._placed(cell, shape)

    def action(self, action: int) -> int:
        """The action of the transformed world that does what this one does in the original."""
        return self.actions[action]

    def original_action(self, action: int) -> int:
        """The action of the original that does what this one does in the transformed world."""
        return self.actions.index(action)

    def __call__(self, world: GridWorld) -> GridWorld:
        """The world in the new frame."""
        if not self.isometry:
            # A swap moves no cell, so it has no walls to place anew.
            return world.with_(start=world.goal, goal=world.start)
        shape = world.shape
        corner = self.cell(Cell(shape[0] - 1, shape[1] - 1), shape)
        origin = self.cell(Cell(0, 0), shape)
        walls = np.zeros((abs(corner.row - origin.row) + 1, abs(corner.column - origin.column) + 1))
        for row, column in np.ndindex(*shape):
            walls[self.cell(Cell(row, column), shape)] = world.walls[row, column]
        start, goal, key, door, neutral = (
            None if place is None else self.cell(place, shape)
            for place in (world.start, world.goal, world.key, world.door, world.neutral)
        )
        assert start is not None and goal is not None
        return GridWorld(walls, start, goal, key, door, neutral)


def _isometry(name: str, placed: Placed) -> Transform:
    """An isometry; its actions follow from where it sends neighbours."""
    # The middle of a 3 x 3 grid has a neighbour on every side, whatever the frame.
    middle, shape = Cell(1, 1), (3, 3)
    at = placed(middle, shape)
    sent = [placed(middle.moved(a), shape) for a in range(len(MOVES))]
    left, right, up, down = (MOVES.index((to.row - at.row, to.column - at.column)) for to in sent)
    return Transform(name, (left, right, up, down), True, placed)


REFLECT = _isometry("reflect", lambda cell, shape: Cell(cell.row, shape[1] - 1 - cell.column))
# A quarter turn counter-clockwise: the right-hand column becomes the top row.
ROTATE = _isometry("rotate", lambda cell, shape: Cell(shape[1] - 1 - cell.column, cell.row))
TRANSPOSE = _isometry("transpose", lambda cell, shape: Cell(cell.column, cell.row))
SWAP = Transform("swap", (0, 1, 2, 3), False, lambda cell, shape: cell)

# The four frames in which a grid is shown anew, by name; all but "swap" are isometries.
TRANSFORMS: dict[str, Transform] = {t.name: t for t in (REFLECT, ROTATE, TRANSPOSE, SWAP)}
