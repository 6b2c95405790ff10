"""The grid worlds that the tests make in Gymnasium, and walks through them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from goalmeter import _gymnasium_ids as gymnasium_ids
from goalmeter.gridworld.generators import key_door, key_no_door, maze, two_paths
from goalmeter.gridworld.world import GridWorld

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("minigrid")
gymnasium_ids.register()

CORRIDOR = ["########", "#AK_D_G#", "########"]
OPTIONS: dict[str, dict[str, Any]] = {
    "GridWorld": {"world": CORRIDOR},
    "Maze": {"size": 7},
    "KeyDoor": {},
    "KeyNoDoor": {},
    "TwoPathKey": {},
}
WORLDS = {
    **{f"maze {c} {s}": maze(7, c, s).world for c in (0, 0.8) for s in range(2)},
    **{f"key door {s}": key_door(s) for s in range(4)},
    "key door, 9 rooms": key_door(5, rooms=3),
    "key no door": key_no_door(3),
    "two paths": two_paths(1).world,
    "neutral": key_no_door(3).with_(key=None, neutral=key_no_door(3).key),
    "corridor": GridWorld.from_text(CORRIDOR),
    "wide": GridWorld.from_text(["#########", "#_K_D__G#", "#A#######", "#########"]),
    "out of reach": GridWorld.from_text(["#######", "#A_#_G#", "#######"]),
}


def made(name: str, **options: Any) -> Any:
    return gymnasium.make(f"goalmeter/{name}-v0", **OPTIONS[name] | options)


def walk(env: Any, seed: int, steps: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Random actions and what came of them, until the episode is over."""
    draw = np.random.default_rng(seed)
    for action in draw.integers(4, size=steps):
        out = env.step(action)
        yield int(action), out
        if out[2] or out[3]:
            return
