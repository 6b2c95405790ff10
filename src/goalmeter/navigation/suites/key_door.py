"""The suite "key-door": rooms with a locked door between the agent and the goal, and its key.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 4.3 (KeyDoorEnv), 100 worlds and 30 steps.
"""

from __future__ import annotations

from functools import partial

from goalmeter.gridworld.key_worlds import key_door
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.suites.key_worlds import PAPER_STEPS, ROOMS_OF_SIZE, key_scale, key_worlds
from goalmeter.navigation.suites.record import KEY_REFERENCES, KeyUse, Suite


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
    paper_cap=PAPER_STEPS,
    prompt="keys/1",
    effort="medium",
    references=KEY_REFERENCES,
)
