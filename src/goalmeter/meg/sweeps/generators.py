"""Worlds by name: functions of plain arguments, which give the same world in any process."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from goalmeter.gridworld import GridWorld, key_door, key_no_door, maze, tabular_world, two_paths
from goalmeter.gridworld.tabular_world import GOAL
from goalmeter.tabular import TabularMDP, cliff_world


def gymnasium(id: str, **options: Any) -> TabularMDP:  # as Gymnasium calls it
    """The MDP of a Gymnasium environment; `options` are those of `TabularMDP.from_gymnasium`."""
    return TabularMDP.from_gymnasium(id, **options)


def maze_world(
    size: int,
    complexity: float = 1.0,
    seed: int = 0,
    *,
    horizon: int | None = None,
    discount: float = 1.0,
) -> TabularMDP:
    """The MDP of `gridworld.maze`, which pays 1 in the goal."""
    return _mdp(maze(size, complexity, seed).world, horizon, discount, GOAL)


def key_door_world(
    seed: int,
    *,
    rooms: int = 2,
    horizon: int | None = None,
    discount: float = 1.0,
    utility: str = GOAL,
) -> TabularMDP:
    """The MDP of `gridworld.key_door`; `utility` is "goal" or "key"."""
    return _mdp(key_door(seed, rooms=rooms), horizon, discount, utility)


def key_no_door_world(
    seed: int,
    *,
    rooms: int = 2,
    horizon: int | None = None,
    discount: float = 1.0,
    utility: str = GOAL,
) -> TabularMDP:
    """The MDP of `gridworld.key_no_door`; `utility` is "goal" or "key"."""
    return _mdp(key_no_door(seed, rooms=rooms), horizon, discount, utility)


def two_paths_world(
    seed: int, *, horizon: int | None = None, discount: float = 1.0, utility: str = GOAL
) -> TabularMDP:
    """The MDP of `gridworld.two_paths`, with its key; `utility` is "goal" or "key"."""
    return _mdp(two_paths(seed).world, horizon, discount, utility)


def _mdp(world: GridWorld, horizon: int | None, discount: float, utility: str) -> TabularMDP:
    return tabular_world(world, horizon=horizon, utility=utility, discount=discount).mdp


GENERATORS: dict[str, Callable[..., TabularMDP]] = {
    "cliff_world": cliff_world,
    "maze": maze_world,
    "key_door": key_door_world,
    "key_no_door": key_no_door_world,
    "two_paths": two_paths_world,
    "gymnasium": gymnasium,
}


def generator_names() -> Collection[str]:
    """The names of worlds that are made, in the order in which they are shown."""
    return GENERATORS.keys()
