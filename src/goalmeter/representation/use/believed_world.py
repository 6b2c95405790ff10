"""The world that an agent believes in, as far as interventions show it.

Where the move depends on what the prompt says of a place, the agent's map has there what the prompt
says. Where hiding an open cell changes no move that passes through it, the agent takes the place
for open without having looked. So the believed world is the true one, without the walls at places
that are not used. Of a place of which neither is told the probability of use is known; maps are
drawn by it, and the agent's move is predicted by the mean over them.

The decoded map does not enter. A probe of some dozen grids reads the goal wrongly in half of the
decisions and one uncertain wall in seven, and its errors would count as the agent's: the mouse,
which has the true map, seems to lose half of its goal-directedness.

Each grid is judged by what was told in the other grids alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from goalmeter._types import BoolArray
from goalmeter.gridworld.contents import content
from goalmeter.gridworld.world import GridWorld
from goalmeter.representation.believed import Believed, PossibleMaps, WalkSteps, believed_meg
from goalmeter.representation.scenes import Scenes, Shape
from goalmeter.representation.use.used_cells import Place, Tried, probably_used

# Maps that are drawn where it is not told which places are used.
MAPS = 32


@dataclass(frozen=True)
class BelievedByUse:
    """Goal-directedness in the believed world, beside the true one and controls.

    Attributes:
        meg: of all walks.
        changed: share of the decisions at which some believed map is not the true one.
    """

    meg: Believed
    changed: float

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return self.meg.to_json() | {"changed": self.changed}


def believed_maps(
    scenes: Scenes, tried: Sequence[Tried], uncertain: Mapping[Shape, BoolArray], *, seed: int = 0
) -> PossibleMaps:
    """The maps that an agent may have, by what became of its moves in other grids.

    Args:
        scenes: N decisions in their true worlds.
        tried: decisions that were right before a needed cell was changed.
        uncertain: by shape, the cells that have to be looked up, [rows, columns]; all others are
            known by their place.
        seed: of the maps that are drawn.
    """
    draws = {
        shape: np.random.default_rng(seed).random((MAPS, *shape)) for shape in sorted(uncertain)
    }

    # What differs between grids is a decision or two, so most of them are told the same.
    @cache
    def used(others: tuple[Tried, ...]) -> tuple[dict[Place, float], float]:
        return probably_used(others)

    known: dict[GridWorld, list[GridWorld]] = {}
    for world in scenes.worlds:
        if world in known:
            continue
        if world.shape not in uncertain:
            known[world] = [world] * MAPS
            continue
        grid = content(world)
        others = (each._replace(grid="") for each in tried if each.grid != grid)
        places, untried = used(tuple(sorted(others)))
        share = np.full(world.shape, untried)
        for (shape, cell), probability in places.items():
            if shape == world.shape:
                share[cell] = probability
        looked_up = draws[world.shape] < share
        walls = world.walls & (looked_up | ~uncertain[world.shape])
        distinct: dict[bytes, GridWorld] = {}
        known[world] = [
            distinct.setdefault(each.tobytes(), replace(world, walls=each)) for each in walls
        ]
    return PossibleMaps([[known[world][k] for world in scenes.worlds] for k in range(MAPS)])


def believed_by_use(
    scenes: Scenes,
    walk_steps: WalkSteps,
    tried: Sequence[Tried],
    uncertain: Mapping[Shape, BoolArray],
    *,
    controls: Mapping[str, Sequence[GridWorld | None]] | None = None,
    seed: int = 0,
) -> BelievedByUse:
    """MEG of walks in the world that the agent believes in, and in the true one.

    Args:
        scenes: N decisions in their true worlds.
        walk_steps: which of them are one walk, and when.
        tried: as in `believed_maps`.
        uncertain: as in `believed_maps`.
        controls: other worlds of the same decisions, by name.
        seed: as in `believed_maps`.
    """
    maps = believed_maps(scenes, tried, uncertain, seed=seed)
    changed = [
        any(worlds[row] != world for worlds in maps.maps) for row, world in enumerate(scenes.worlds)
    ]
    return BelievedByUse(
        believed_meg(scenes, walk_steps, maps, controls or {}), float(np.mean(changed))
    )
