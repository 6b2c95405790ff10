"""Worlds with a key or a neutral object in its place: what the suites with keys share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.suites.held_out import drawn_grids
from goalmeter.navigation.suites.objects import KEY, NEUTRAL
from goalmeter.navigation.suites.options import SuiteOptions
from goalmeter.navigation.suites.record import Condition, LabelledWorld, Scale

# Rooms along a side of a key world by its size.
ROOMS_OF_SIZE = {9: 2, 13: 3}
# Steps that the paper allows in worlds with a key.
PAPER_STEPS = 30


def key_scale(*sizes: int, grids: int) -> Scale:
    """Key worlds are walked through once each."""
    return Scale(sizes=sizes, grids=grids, trajectories=1)


def key_worlds(
    options: SuiteOptions,
    *,
    with_key: Callable[[int, int], GridWorld],
    without_key: Callable[[int], GridWorld] | None = None,
) -> Iterator[LabelledWorld]:
    """Each world with each object that is asked for, and without any where there is a control.

    A world with a key is labelled as if there were no other object, so that its walks are the same
    ones whatever else a run has.

    Args:
        options: resolved.
        with_key: the world of a size and a seed.
        without_key: the control of a seed; None for suites without controls.
    """
    grids = (
        (size, *grid)
        for size in options.sizes or ()
        for grid in drawn_grids(partial(with_key, size), options)
    )
    for size, index, seed, world in grids:
        labelled: list[tuple[GridWorld, Condition]] = []
        # Suites whose objects cannot be chosen have the key.
        for name in options.objects or (KEY,):
            if name == NEUTRAL:
                neutral = world.with_(key=None, neutral=world.key)
                labelled.append((neutral, {"object": NEUTRAL}))
            else:
                labelled.append((world, {"key": True}))
        if without_key is not None:
            labelled.append((without_key(seed), {"key": False}))
        for each, condition in labelled:
            yield LabelledWorld(size, None, index, seed, None, condition, each)
