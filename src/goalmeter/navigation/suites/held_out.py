"""Which grids a run has: those of the next seeds, or the next ones that no lesson had.

Grids are named by their seed. Changing frames, prompts or conditions never changes a grid. Held-out
grids are the exception: of the grids that follow the run's seed those are taken whose content no
recipe of an organism teaches, so each size and complexity has seeds of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld.contents import held_out as is_held_out
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.suites.options import SuiteOptions

# Seeds that are looked at for each held-out grid that is wanted: one content in four is held out,
# and of the rarest kind (rooms of size 5 with both frames of an exchange held out) one in twenty.
_SEEDS_A_GRID = 200


def drawn_grids(
    world_of: Callable[[int], GridWorld],
    options: SuiteOptions,
    frames: Sequence[Callable[[GridWorld], GridWorld]] = (),
) -> Iterator[tuple[int, int, GridWorld]]:
    """The index, seed and world of each grid; with `options.held_out` the next ones held out.

    One in a frame that is no isometry has another content, so it has to be held out as well.
    Raises InvalidParameterError if too few of the next seeds give such a grid.
    """
    seeds = options.seeds
    if not options.held_out:
        for index, seed in seeds:
            yield index, seed, world_of(seed)
        return
    number, (_, first) = 0, seeds[0]
    for seed in range(first, first + _SEEDS_A_GRID * len(seeds)):
        world = world_of(seed)
        if is_held_out(world) and all(is_held_out(frame(world)) for frame in frames):
            yield seeds[number][0], seed, world
            number += 1
            if number == len(seeds):
                return
    raise InvalidParameterError(
        f"only {number} of the {_SEEDS_A_GRID * len(seeds)} grids from seed {first} on are held "
        f"out in every frame, expected {len(seeds)}; ask for fewer grids or transforms"
    )
