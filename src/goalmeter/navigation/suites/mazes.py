"""Mazes by size and complexity, in strata and frames: the worlds of "maze" and "isometries"."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import product

from goalmeter.gridworld.maze import maze
from goalmeter.gridworld.transforms import TRANSFORMS
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.suites.held_out import drawn_grids
from goalmeter.navigation.suites.options import Bounds, SuiteOptions
from goalmeter.navigation.suites.record import LabelledWorld

PAPER_SIZES = (7, 9, 11, 13, 15)
PAPER_COMPLEXITIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SMALL_SIZES = (7, 9)
SMALL_COMPLEXITIES = (0.0, 0.5, 1.0)

Stratum = tuple[Bounds | None, Bounds | None]


def mazes(options: SuiteOptions) -> Iterator[LabelledWorld]:
    """Each maze in each stratum, as it was generated and in each of the changed frames."""
    strata = list(product(options.distances or (None,), options.detours or (None,)))
    frames = {name: TRANSFORMS[name] for name in options.transforms or ()}
    for size, complexity in product(options.sizes or (), options.complexities or ()):
        listed = [
            (index, stratum, seed, world)
            for stratum in strata
            for index, seed, world in drawn_grids(
                partial(_maze, size, complexity, stratum), options, list(frames.values())
            )
        ]
        # Strata of a grid stand side by side, as they did before any grid was held out.
        for index, (distance, detour), seed, world in sorted(listed, key=lambda row: row[0]):
            bounds = {"distance": distance, "detour": detour}
            condition = {name: list(ends) for name, ends in bounds.items() if ends is not None}
            # Duplicates among the frames are left for the caller to refuse.
            for transform in (None, *(options.transforms or ())):
                turned = world if transform is None else frames[transform](world)
                yield LabelledWorld(size, complexity, index, seed, transform, condition, turned)


def _maze(size: int, complexity: float, stratum: Stratum, seed: int) -> GridWorld:
    distance, detour = (None if ends is None else (ends[0], ends[1]) for ends in stratum)
    return _world(size, complexity, seed, distance, detour)


@lru_cache(maxsize=512)
def _world(
    size: int, complexity: float, seed: int, distance: Bounds | None, detour: Bounds | None
) -> GridWorld:
    """A maze; the same ones are walked through by one agent after the other."""
    return maze(size, complexity, seed, distance=distance, detour=detour).world
