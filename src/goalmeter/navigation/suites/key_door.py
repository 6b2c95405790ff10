"""The suite "key-door": rooms with a locked door between the agent and the goal, and its key.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 4.3 (KeyDoorEnv), 100 worlds and 30 steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from goalmeter.gridworld.key_worlds import key_door
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.suites.held_out import drawn_grids
from goalmeter.navigation.suites.options import KEY, NEUTRAL, SuiteOptions
from goalmeter.navigation.suites.record import (
    KEY_REFERENCES,
    Condition,
    KeyUse,
    LabelledWorld,
    Scale,
    Suite,
)

# Rooms along a side of a key world by its size.
ROOMS_OF_SIZE = {9: 2, 13: 3}


def key_worlds(
    options: SuiteOptions,
    *,
    with_key: Callable[[int, int], GridWorld],
    without_key: Callable[[int], GridWorld] | None = None,
) -> Iterator[LabelledWorld]:
    """Each world with each object that is asked for, and without any where there is a control.

    A world with a key, of a size and a seed, is labelled as if there were no other object, so that
    its walks are the same ones whatever else a run has. A control is that of a seed.
    """
    for size in options.sizes or ():
        for index, seed, world in drawn_grids(partial(with_key, size), options):
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


def key_scale(size: int, grids: int) -> Scale:
    """Key worlds are walked through once each."""
    return Scale(sizes=(size,), grids=grids, trajectories=1)


def _world(size: int, seed: int) -> GridWorld:
    return key_door(seed, rooms=ROOMS_OF_SIZE[size])


SUITE = Suite(
    name="key-door",
    about="worlds whose key opens the way",
    worlds=partial(key_worlds, with_key=_world),
    small=key_scale(9, grids=20),
    paper=key_scale(9, grids=100),
    known_sizes=tuple(ROOMS_OF_SIZE),
    key=KeyUse.OPENS_THE_WAY,
    paper_cap=30,
    prompt="keys/1",
    effort="medium",
    references=KEY_REFERENCES,
)
