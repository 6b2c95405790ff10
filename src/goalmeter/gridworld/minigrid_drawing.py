"""A grid world in MiniGrid's objects: as its encoding in integers, as a picture, in a window.

MiniGrid puts the column first, x to the right and y down; a cell (row, column) is its (x, y) =
(column, row).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from goalmeter._errors import require
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import GridWorld

if TYPE_CHECKING:
    from minigrid.core.grid import Grid

_FEATURE = "Drawing a grid world"
KEY_COLOUR, NEUTRAL_COLOUR = "yellow", "blue"
# MiniGrid's directions 0..3 are right, down, left, up; these are those of LEFT, RIGHT, UP, DOWN.
FACING = (2, 0, 3, 1)
FACING_RIGHT = 0


def minigrid_grid(world: GridWorld, state: State) -> Grid:
    """The world's objects in a state; the agent is none of them.

    A neutral object is a ball. What was picked up and a door that is open are gone.
    """
    grids = require("minigrid.core.grid", extra="worlds", feature=_FEATURE)
    objects = require("minigrid.core.world_object", extra="worlds", feature=_FEATURE)
    rows, columns = world.shape
    grid: Grid = grids.Grid(columns, rows)
    for row, column in np.argwhere(world.walls):
        grid.set(int(column), int(row), objects.Wall())
    grid.set(world.goal.column, world.goal.row, objects.Goal())
    if world.key is not None and not state.has_key:
        grid.set(world.key.column, world.key.row, objects.Key(KEY_COLOUR))
    if world.neutral is not None and not state.has_key:
        grid.set(world.neutral.column, world.neutral.row, objects.Ball(NEUTRAL_COLOUR))
    if world.door is not None and not state.door_open:
        locked = objects.Door(KEY_COLOUR, is_locked=True)
        grid.set(world.door.column, world.door.row, locked)
    return grid


def encoded(world: GridWorld, state: State) -> NDArray[np.uint8]:
    """The whole grid as MiniGrid's FullyObsWrapper gives it: object, colour, condition of a cell.

    The agent always faces right, so that the encoding depends on the state alone.

    Returns:
        [columns, rows, 3].
    """
    constants = require("minigrid.core.constants", extra="worlds", feature=_FEATURE)
    encoding: NDArray[np.uint8] = minigrid_grid(world, state).encode()
    agent = constants.OBJECT_TO_IDX["agent"], constants.COLOR_TO_IDX["red"], FACING_RIGHT
    encoding[state.cell.column, state.cell.row] = agent
    return encoding


def picture(
    world: GridWorld, state: State, *, facing: int = FACING_RIGHT, tile_size: int = 32
) -> NDArray[np.uint8]:
    """The world as MiniGrid draws it.

    Args:
        world: any grid world.
        state: where the agent is and whether key and door are still there.
        facing: where the agent's triangle points, in MiniGrid's order: right, down, left, up.
        tile_size: pixels along the side of a cell.

    Returns:
        [rows * tile_size, columns * tile_size, 3], red, green and blue.
    """
    grid = minigrid_grid(world, state)
    at = state.cell.column, state.cell.row
    image: NDArray[np.uint8] = grid.render(tile_size, agent_pos=at, agent_dir=facing)
    return image


class Window:
    """A window on the screen, opened by the first picture.

    MiniGrid's own belongs to its environments and warns about a font that it does not find.

    Args:
        pictures_per_second: `show` waits for the next one's turn.
    """

    def __init__(self, pictures_per_second: int) -> None:
        self._pace = pictures_per_second
        self._screen: Any = None
        self._clock: Any = None

    def show(self, image: NDArray[np.uint8]) -> None:
        """Put a picture [height, width, 3] in the window."""
        pygame = require("pygame", extra="worlds", feature="A window")
        across = image.transpose(1, 0, 2)
        if self._screen is None:
            pygame.display.init()
            pygame.display.set_caption("goalmeter")
            self._screen = pygame.display.set_mode(across.shape[:2])
            self._clock = pygame.time.Clock()
        self._screen.blit(pygame.surfarray.make_surface(across), (0, 0))
        pygame.event.pump()
        self._clock.tick(self._pace)
        pygame.display.flip()

    def close(self) -> None:
        """Close it, if it was opened."""
        if self._screen is not None:
            self._screen = None
            require("pygame", extra="worlds", feature="A window").display.quit()
