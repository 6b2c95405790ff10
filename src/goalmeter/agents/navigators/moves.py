"""What every navigator asks of a world: its plan, and which moves lead somewhere."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from goalmeter._types import BoolArray
from goalmeter.gridworld.planner import LAYERS, Plan, layers_of, plan
from goalmeter.gridworld.world import GridWorld


# As many as the largest suite of the paper has worlds, 1,500: each is asked for when its tasks are
# made, walked through and measured.
@lru_cache(maxsize=2048)
def planned(world: GridWorld) -> Plan:
    """The plan of a world; those that were asked for lately are remembered."""
    return plan(world)


def open_moves(plan: Plan) -> BoolArray:
    """Whether an action changes the state, [states, 4]; a locked door without its key is a wall."""
    successors = plan.plans.successors[plan.index]
    return np.asarray(successors != np.arange(len(successors))[:, None])


def existing(plan: Plan) -> BoolArray:
    """Whether a number is that of a state which the world has, [states]."""
    layers = np.arange(LAYERS) < layers_of(plan.world)
    return np.asarray((layers[:, None] & ~plan.world.walls.reshape(1, -1)).reshape(-1))
