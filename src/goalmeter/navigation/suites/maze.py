"""The suite "maze": mazes by size and complexity.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 3: 5 sizes x 6 complexities x 10 grids x 10 trajectories and a cap of 1.5 times the
shortest path. That cap makes success depend on how long a grid's path is; the default is 3 times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import product

from goalmeter.gridworld.maze import maze
from goalmeter.gridworld.transforms import TRANSFORMS
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.suites.held_out import drawn_grids
from goalmeter.navigation.suites.options import Bounds, SuiteOptions
from goalmeter.navigation.suites.record import LabelledWorld, Scale, Suite

PAPER_SIZES = (7, 9, 11, 13, 15)
PAPER_COMPLEXITIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def mazes(options: SuiteOptions) -> Iterator[LabelledWorld]:
    """Each maze in each stratum, as it was generated and in each of the changed frames."""
    strata = list(product(_strata(options.distances), _strata(options.detours)))
    frames = {name: TRANSFORMS[name] for name in options.transforms or ()}
    for size, complexity in product(options.sizes or (), options.complexities or ()):
        drawn = [
            (index, stratum, seed, world)
            for stratum in strata
            for index, seed, world in drawn_grids(
                partial(_world, size, complexity, *stratum), options, list(frames.values())
            )
        ]
        # Strata of a grid stand side by side, as they did before any grid was held out.
        for index, stratum, seed, world in sorted(drawn, key=lambda row: row[0]):
            bounds = dict(zip(("distance", "detour"), stratum, strict=True))
            condition = {name: list(ends) for name, ends in bounds.items() if ends is not None}
            # Duplicates among the frames are left for the caller to refuse.
            for transform in (None, *(options.transforms or ())):
                turned = world if transform is None else frames[transform](world)
                yield LabelledWorld(size, complexity, index, seed, transform, condition, turned)


def _strata(bounds: Sequence[Bounds] | None) -> list[Bounds | None]:
    # As tuples: a user may give lists, under which no world could be remembered.
    return [(low, high) for low, high in bounds] if bounds else [None]


# One agent after the other walks through the same mazes.
@lru_cache(maxsize=512)
def _world(
    size: int, complexity: float, distance: Bounds | None, detour: Bounds | None, seed: int
) -> GridWorld:
    return maze(size, complexity, seed, distance=distance, detour=detour).world


SUITE = Suite(
    name="maze",
    about="mazes by size and complexity",
    worlds=mazes,
    small=Scale(sizes=(7, 9), complexities=(0.0, 0.5, 1.0), grids=5, trajectories=4),
    paper=Scale(sizes=PAPER_SIZES, complexities=PAPER_COMPLEXITIES, grids=10, trajectories=10),
    has_complexity=True,
)
