"""Grid worlds as Gymnasium environments, drawn by MiniGrid.

    env = gymnasium.make("goalmeter/Maze-v0", size=9, complexity=0.8, seed=0)

`_gymnasium_ids` has the ids and makes them known; importing this module does so too, as in
`gymnasium.make("goalmeter.gridworld.gymnasium_worlds:goalmeter/Maze-v0")`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Unpack

from goalmeter._gymnasium_ids import register
from goalmeter.gridworld.key_worlds import key_door, key_no_door, two_paths
from goalmeter.gridworld.maze import maze
from goalmeter.gridworld.world import GridWorld
from goalmeter.gridworld.world_env import Options, WorldEnv


class GridWorldEnv(WorldEnv):
    """`goalmeter/GridWorld-v0`: any grid world.

    Args:
        world: the world, or its picture as `GridWorld.from_text` reads it.
        options: those of `WorldEnv`.
    """

    def __init__(
        self, *, world: GridWorld | str | Iterable[str], **options: Unpack[Options]
    ) -> None:
        known = world if isinstance(world, GridWorld) else GridWorld.from_text(world)
        super().__init__(known, **options)


class MazeEnv(WorldEnv):
    """`goalmeter/Maze-v0`: a maze, see `gridworld.maze`.

    Args:
        size: rows and columns, odd, at least 5.
        complexity: share of the maze's walls that is kept.
        seed: names the grid; None draws one at each reset.
        distance: least and greatest length of the shortest path.
        detour: least and greatest difference between it and the Manhattan distance.
        options: those of `WorldEnv`.
    """

    def __init__(
        self,
        *,
        size: int = 9,
        complexity: float = 0.8,
        seed: int | None = None,
        distance: tuple[int, int] | None = None,
        detour: tuple[int, int] | None = None,
        **options: Unpack[Options],
    ) -> None:
        draw = partial(_maze, size, complexity, distance=distance, detour=detour)
        super().__init__(draw if seed is None else draw(seed), **options)


class KeyDoorEnv(WorldEnv):
    """`goalmeter/KeyDoor-v0`: rooms with a locked door between, see `gridworld.key_door`.

    Args:
        rooms: along each side.
        seed: names the grid; None draws one at each reset.
        options: those of `WorldEnv`.
    """

    _world = staticmethod(key_door)

    def __init__(
        self, *, rooms: int = 2, seed: int | None = None, **options: Unpack[Options]
    ) -> None:
        draw = partial(self._world, rooms=rooms)
        super().__init__(draw if seed is None else draw(seed), **options)


class KeyNoDoorEnv(KeyDoorEnv):
    """`goalmeter/KeyNoDoor-v0`: the same rooms, and a key that opens nothing."""

    _world = staticmethod(key_no_door)


class TwoPathKeyEnv(WorldEnv):
    """`goalmeter/TwoPathKey-v0`: two equal ways, a key on one of them, see `gridworld.two_paths`.

    Args:
        key: False gives the control, the same grid without the key.
        seed: names the grid; None draws one at each reset.
        options: those of `WorldEnv`.
    """

    def __init__(
        self, *, key: bool = True, seed: int | None = None, **options: Unpack[Options]
    ) -> None:
        draw = partial(_two_paths, key)
        super().__init__(draw if seed is None else draw(seed), **options)


def _maze(size: int, complexity: float, seed: int, **wishes: Any) -> GridWorld:
    return maze(size, complexity, seed, **wishes).world


def _two_paths(key: bool, seed: int) -> GridWorld:
    paths = two_paths(seed)
    return paths.world if key else paths.control


register()
