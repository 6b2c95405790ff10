"""What an agent without memory does, computed from its policy instead of sampled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, BoolArray, FloatArray
from goalmeter.agents.navigators import memoryless
from goalmeter.gridworld.planner import LAYERS, Plan


@dataclass(frozen=True)
class Exact:
    """Exact values of a policy in one world.

    Attributes:
        accuracy: probability of an optimal action, averaged over every state that an agent can be
            in which is put without the key on any open cell (not the goal, the key or the door),
            and from which there is a way to the goal. In a maze these are the open cells: the
            protocol of asking for an action in every cell.
        accuracy_detour: the same over detour states, where the compass may err; NaN without any.
        states: how many there are.
        detours: how many of them are detour states.
        success: probability of being at the goal within the cap.
        key: probability of having the key, or the neutral object, by then; NaN without one.
    """

    accuracy: float
    accuracy_detour: float
    states: int
    detours: int
    success: float
    key: float


def exact(policy: ArrayLike, plan: Plan, *, cap: int) -> Exact:
    """The exact values of a policy.

    Args:
        policy: [states, 4] by the planner's numbers of states, as `Memoryless.policy` gives it.
        plan: of the world.
        cap: steps after which a walk is ended.

    Example: a compass in a maze without walls.
        >>> from goalmeter.agents.navigators import navigator
        >>> from goalmeter.gridworld import maze, plan
        >>> room = plan(maze(7, 0, seed=1).world)
        >>> found = exact(navigator("greedy").policy(room), room, cap=room.distance)
        >>> found.accuracy, found.success
        (1.0, 1.0)
    """
    rows = np.asarray(policy, dtype=float)
    inside = every_state(plan)
    if rows.shape != (len(inside), 4):
        raise InvalidParameterError(
            f"policy has shape {rows.shape}, expected [states, 4], here {(len(inside), 4)}"
        )
    if not (np.allclose(rows[inside].sum(axis=1), 1) and (rows[inside] >= 0).all()):
        raise InvalidParameterError("a row of the policy is no distribution over the four actions")
    optimal = plan.plans.optimal[plan.index]
    right = (rows * optimal).sum(axis=1)
    compass = (memoryless.greedy(plan) * optimal).sum(axis=1)
    detour = inside & (compass < 1 - 1e-9)
    end = after(rows, plan, cap).reshape(LAYERS, *plan.world.shape)
    return Exact(
        accuracy=float(right[inside].mean()),
        accuracy_detour=float(right[detour].mean()) if detour.any() else float("nan"),
        states=int(inside.sum()),
        detours=int(detour.sum()),
        success=float(end[:, plan.world.goal.row, plan.world.goal.column].sum()),
        key=float("nan") if plan.world.thing is None else float(end[1:].sum()),
    )


def after(policy: FloatArray, plan: Plan, steps: int) -> FloatArray:
    """Where an agent is after some steps from the start, as a distribution, [states]."""
    successors = plan.plans.successors[plan.index]
    mass: FloatArray = np.zeros(len(successors))
    mass[plan.number(plan.start)] = 1.0
    # The goal leads to itself, so who has arrived stays there.
    for _ in range(steps):
        moved = (mass[:, None] * policy).reshape(-1)
        mass = np.bincount(successors.reshape(-1), moved).astype(float)
    return mass


def every_state(plan: Plan) -> BoolArray:
    """Whether a state is one of those that accuracy is averaged over, [states]; see `Exact`."""
    world = plan.world
    successors, distances = plan.plans.successors[plan.index], plan.plans.distances[plan.index]
    put = ~world.walls
    for place in (world.goal, world.thing, world.door):
        if place is not None:
            put[place] = False
    seen = np.zeros(len(successors), dtype=bool)
    front = np.flatnonzero(put)  # the first layer is the one without the key
    while front.size:
        seen[front] = True
        front = np.unique(successors[front])
        front = front[~seen[front]]
    return np.asarray(seen & (distances > 0))
