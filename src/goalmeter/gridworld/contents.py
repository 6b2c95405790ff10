"""What a grid contains, whatever its seed and its frame, and which grids are held out from lessons.

Two seeds can draw the same maze, so whether a model was taught a grid is decided by what the grid
contains and not by its seed. The content of a grid is its walls and its goal, up to rotations and
reflections: a mirror image is the same task. Keys, doors and starts are left out on purpose, so
that a grid is held out together with every way to place them.

Some families have too few contents to hold any out: up to isometries there are 3 empty rooms of
size 5 and 15 of size 11, one for each place of the goal, and at most 7 mazes of size 5. There the
content includes the start, so that pairs of a start and a goal are held out. A walk from such a
start can pass through cells whose pair with the goal was taught.
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from goalmeter._types import BoolArray
from goalmeter.gridworld.world import Cell, GridWorld

# One content in so many is held out. Fewer would leave some complexities of size 7, which have 190
# contents, with too few grids to average over; more would take them away from the lessons.
HELD_OUT_ONE_IN = 4
# Grids up to this size are held out by pairs of a start and a goal.
_FEW_CONTENTS_SIZE = 5


def content(world: GridWorld) -> str:
    """A name of what a grid contains: equal for two grids if and only if their contents are.

    Args:
        world: of any size; its start counts only in empty rooms and on size 5.

    Returns:
        64 hexadecimal digits, the SHA-256 of the first of the grid's eight frames in byte order.
    """
    places = [world.goal, world.start] if has_few_contents(world) else [world.goal]
    return sha256(min(frames(world.walls, places))).hexdigest()


def held_out(world: GridWorld) -> bool:
    """Whether a grid is kept from every lesson, for evaluation: one content in four is."""
    return int(content(world)[:8], 16) % HELD_OUT_ONE_IN == 0


def has_few_contents(world: GridWorld) -> bool:
    """Whether walls and goal tell so few grids apart that the start is part of the content."""
    return max(world.shape) <= _FEW_CONTENTS_SIZE or not world.walls[1:-1, 1:-1].any()


def frames(walls: BoolArray, places: list[Cell]) -> list[bytes]:
    """A map in its eight frames: shape, walls and the numbers of some cells, as bytes."""
    numbers = np.arange(walls.size).reshape(walls.shape)
    named = [int(numbers[place]) for place in places]
    # The first frame in byte order names them all, so a mirror image has the same name.
    frames = []
    for plane, labels in ((walls, numbers), (walls.T, numbers.T)):
        for turns in range(4):
            turned, moved = np.rot90(plane, turns), np.rot90(labels, turns).ravel().tolist()
            head = [*turned.shape, *(moved.index(number) for number in named)]
            frames.append(np.array(head, dtype="<i4").tobytes() + turned.tobytes())
    return frames
