"""MiniGrid: all that an environment keeps, whatever its kind, but for what is drawn on a screen.

Kinds keep targets, obstacles, rooms, instructions and missions as attributes of their own, and some
of these are the very objects that stand in the grid. So everything is copied at once, which leaves
what was one object one object, and everything is part of the state's name.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable
from enum import Enum
from typing import Any

import numpy as np

from goalmeter.meg.simulator.states.saver import Saver

# Spaces and the picture: no step reads or changes them.
_LEFT_OUT = frozenset(
    {"_np_random_seed", "action_space", "observation_space", "mission_space", "spec"}
    | {"render_mode", "window", "clock", "screen_size", "render_size", "metadata", "reward_range"}
    | {"actions", "highlight", "tile_size", "agent_pov"}
)


def minigrid_saver(bare: Any) -> Saver | None:
    """The saver of a MiniGrid environment; None for others."""
    if not all(hasattr(bare, name) for name in ("grid", "agent_pos", "agent_dir", "carrying")):
        return None

    def kept() -> dict[str, Any]:
        return {name: value for name, value in vars(bare).items() if name not in _LEFT_OUT}

    def copied(held: dict[str, Any]) -> dict[str, Any]:
        # Objects may refer to the environment.
        return copy.deepcopy(held, {id(bare): bare})

    def restore(saved: dict[str, Any]) -> None:
        for name in kept().keys() - saved.keys():
            delattr(bare, name)
        vars(bare).update(copied(saved))

    def key() -> Hashable:
        seen: dict[int, int] = {id(bare): 0, id(bare.np_random): 1}
        held = kept()
        return tuple((name, _content(held[name], seen)) for name in sorted(held))

    return Saver("MiniGrid", lambda _: copied(kept()), restore, key)


def _content(thing: Any, seen: dict[int, int]) -> Hashable:
    """A hashable name of what something holds; `seen` numbers the objects that came before."""
    if thing is None or isinstance(thing, (str, bytes)):
        return thing
    if isinstance(thing, Enum):
        return thing.name
    if isinstance(thing, (bool, int, np.integer)):
        return int(thing)
    if isinstance(thing, (float, np.floating)):
        return float(thing)
    if isinstance(thing, np.ndarray) and thing.dtype != object:
        # Places are tuples at first and arrays later.
        is_place = thing.ndim == 1 and np.issubdtype(thing.dtype, np.integer)
        return tuple(thing.tolist()) if is_place else (thing.tobytes(), thing.shape)
    if isinstance(thing, tuple):
        return tuple(_content(each, seen) for each in thing)
    if callable(thing) and not hasattr(thing, "__dict__"):
        return id(thing)
    # The same object twice is another state than two objects that are alike.
    if id(thing) in seen:
        return ("again", seen[id(thing)])
    seen[id(thing)] = len(seen)
    if isinstance(thing, (list, np.ndarray)):
        return tuple(_content(each, seen) for each in thing)
    if isinstance(thing, dict):
        return tuple((_content(k, seen), _content(v, seen)) for k, v in thing.items())
    if isinstance(thing, (set, frozenset)):
        return tuple(sorted(repr(_content(each, seen)) for each in thing))
    if isinstance(thing, type) or callable(thing):
        return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', id(thing))}"
    held = getattr(thing, "__dict__", None)
    if held is None:
        return repr(thing)
    return type(thing).__name__, tuple((k, _content(v, seen)) for k, v in held.items())
