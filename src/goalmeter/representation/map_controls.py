"""Maps that know nothing of what the agent believed: what a decoded map has to be better than.

- empty room: the true agent and goal, no walls. Its shortest ways are right nearly everywhere, so a
  decoded map that explains no more shows that agent and goal were read, not walls.
- another map: the map decoded in another grid, agent and goal included.
- another map's walls: the same walls around the agent and the goal that were decoded here. What a
  decoded map explains beyond it is due to its own walls.
- greedy: no map at all, the moves that lead nearer as the crow flies.
"""

from __future__ import annotations

import numpy as np

from goalmeter._types import BoolArray
from goalmeter.gridworld.world import GridWorld
from goalmeter.representation.decoded import DecodedMaps, Maps
from goalmeter.representation.probes.controls import exchanged
from goalmeter.representation.scenes import Scenes

EMPTY_ROOM, ANOTHER, ANOTHER_WALLS = "empty room", "another map", "another map's walls"
GREEDY = "greedy"


def map_controls(maps: DecodedMaps, scenes: Scenes, *, seed: int) -> dict[str, Maps]:
    """The controls that are maps, by name.

    Args:
        maps: what was decoded.
        scenes: of them.
        seed: of which grid lends which its map.
    """
    donors = exchanged(scenes, seed=seed)
    # Where nothing was decoded here there is no place for borrowed walls either.
    borrowed = [
        None if world is None else _with_walls(world, maps.walls[donor])
        for world, donor in zip(maps.worlds, donors.tolist(), strict=True)
    ]
    return {
        EMPTY_ROOM: Maps.of(empty_rooms(scenes)),
        ANOTHER: Maps(tuple(maps.worlds[i] for i in donors), maps.optimal[donors]),
        ANOTHER_WALLS: Maps.of(borrowed),
    }


def empty_rooms(scenes: Scenes) -> list[GridWorld]:
    """The true places of agent and goal in a room without walls, keys and doors."""
    out = []
    for world, state in zip(scenes.worlds, scenes.states, strict=True):
        walls = np.ones(world.shape, dtype=bool)
        walls[1:-1, 1:-1] = False
        out.append(GridWorld(walls, state.cell, world.goal))
    return out


def _with_walls(world: GridWorld, walls: BoolArray) -> GridWorld:
    """A map with other walls, open where its objects are."""
    rows, columns = world.shape
    # Donors have the same shape, in a frame that may be larger.
    drawn = walls[:rows, :columns].copy()
    objects = (world.start, world.goal, world.key, world.door, world.neutral)
    for cell in objects:
        if cell is not None:
            drawn[cell] = False
    return GridWorld(drawn, *objects)
