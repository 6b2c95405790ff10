"""The suite "key-no-door": the worlds of "key-door" without their door, so the key is of no use.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 4.3 (KeyNoDoorEnv).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from goalmeter.gridworld.key_worlds import key_no_door
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.suites import key_door
from goalmeter.navigation.suites.key_door import ROOMS_OF_SIZE, key_worlds
from goalmeter.navigation.suites.record import KeyUse


def _world(size: int, seed: int) -> GridWorld:
    return key_no_door(seed, rooms=ROOMS_OF_SIZE[size])


SUITE = replace(
    key_door.SUITE,
    name="key-no-door",
    about="the same worlds without their door",
    worlds=partial(key_worlds, with_key=_world),
    key=KeyUse.OPENS_NOTHING,
)
