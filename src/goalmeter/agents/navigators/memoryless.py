"""Agents whose move depends on the state alone: a policy, written out as a table.

Policies are [states, 4] over the planner's numbers of states. The row of each state that the world
has is a distribution; where nothing can be done (at the goal, in a closed cell) it is uniform.
Rows of numbers that stand for no state are 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from goalmeter._types import BoolArray, FloatArray
from goalmeter.agents.navigators.protocol import Decision, Probabilities
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.paths import distances_from
from goalmeter.gridworld.planner import (
    LAYERS,
    Plan,
    State,
    existing,
    layers_of,
    open_moves,
    planned,
)
from goalmeter.gridworld.world import Cell, GridWorld

PolicyOf = Callable[[Plan], FloatArray]


@dataclass(frozen=True)
class Memoryless:
    """A navigator without memory.

    Attributes:
        name: as on the command line.
        policy_of: its policy in a world, from the world's plan.
    """

    name: str
    policy_of: PolicyOf

    def policy(self, plan: Plan) -> FloatArray:
        """What it does everywhere, [states, 4] by the planner's numbers of states."""
        return self.policy_of(plan)

    def begin(self, world: GridWorld, draws: Draws) -> MemorylessWalk:
        """Set out in a world."""
        return MemorylessWalk(planned(world), _rows(self, world), draws)


@dataclass(frozen=True)
class MemorylessWalk:
    """A walk whose moves are drawn from a policy."""

    plan: Plan
    rows: tuple[Probabilities, ...]
    draws: Draws

    def act(self, state: State) -> Decision:
        """A move drawn from the policy."""
        row = self.rows[self.plan.number(state)]
        return Decision(self.draws.weighted(row), row)


def optimal(plan: Plan) -> FloatArray:
    """Uniform over the actions that lead one step closer."""
    return _uniform(plan, _optimal(plan), open_moves(plan))


def random(plan: Plan) -> FloatArray:
    """Uniform over the moves into open cells."""
    return _uniform(plan, open_moves(plan))


def epsilon_optimal(plan: Plan, epsilon: float) -> FloatArray:
    """With probability epsilon a random move into an open cell, else an optimal one."""
    return (1 - epsilon) * optimal(plan) + epsilon * random(plan)


def greedy(plan: Plan) -> FloatArray:
    """By the compass: a move into an open cell nearer to the goal as the crow flies, else any.

    Each of them is equally likely. There is no look beyond the neighbours.
    """
    moves = open_moves(plan)
    straight = _straight(plan)
    nearer = moves & (straight[plan.plans.successors[plan.index]] < straight[:, None])
    return _uniform(plan, nearer, moves)


def boltzmann(plan: Plan, beta: float) -> FloatArray:
    """Softmax of -beta times the steps that an action costs beyond the best one.

    All four actions have their share, also those that run into a wall, which cost a step. An action
    after which the goal is out of reach has none.
    """
    gaps = plan.plans.gaps[plan.index]
    reachable = gaps >= 0
    exponent = np.where(reachable, -beta * gaps, -np.inf)
    # Less the greatest, so that no exponential overflows.
    exponent -= np.where(reachable.any(axis=1), exponent.max(axis=1), 0.0)[:, None]
    weights = np.where(reachable, np.exp(exponent), 0.0)
    return _uniform(plan, weights, open_moves(plan))


def key_seeker(plan: Plan) -> FloatArray:
    """The shortest way to the key as long as it is not had, then the shortest to the goal.

    A neutral object is no key, and is not fetched.
    """
    return _uniform(plan, _towards(plan, plan.world.key), _optimal(plan), open_moves(plan))


def towards_thing(plan: Plan) -> BoolArray:
    """Whether an action leads one step closer to the key or the neutral object, [states, 4].

    False once it was picked up, in worlds without one, and where it is out of reach: a locked door
    is a wall, and so is the goal, since the walk ends there.
    """
    return _towards(plan, plan.world.thing)


def _towards(plan: Plan, place: Cell | None) -> BoolArray:
    world = plan.world
    out = np.zeros((LAYERS * world.walls.size, 4), dtype=bool)
    if place is None:
        return out
    walls = world.walls.copy()
    walls[world.goal] = True
    if world.door is not None:
        walls[world.door] = True
    steps = distances_from(walls, [place])[0].reshape(-1)
    without = slice(0, world.walls.size)
    to = plan.plans.successors[plan.index][without] % world.walls.size
    out[without] = (steps[:, None] > 0) & (steps[to] == steps[:, None] - 1)
    return out


def _optimal(plan: Plan) -> BoolArray:
    return np.asarray(plan.plans.optimal[plan.index])


def _straight(plan: Plan) -> FloatArray:
    """Manhattan distance of each state to the goal, walls or not."""
    rows, columns = np.indices(plan.world.shape)
    goal = plan.world.goal
    distance = np.abs(rows - goal.row) + np.abs(columns - goal.column)
    return np.tile(distance.reshape(-1), LAYERS).astype(float)


def _uniform(plan: Plan, *choices: FloatArray | BoolArray) -> FloatArray:
    """In proportion to the first weights that a state has; uniform if it has none."""
    out = np.full((len(choices[0]), 4), 0.25)
    for weights in reversed(choices):
        total = weights.sum(axis=1, keepdims=True)
        np.divide(weights, total, out=out, where=total > 0)
    out[~existing(plan)] = 0.0
    return out


@lru_cache(maxsize=512)
def _rows(navigator: Memoryless, world: GridWorld) -> tuple[Probabilities, ...]:
    states = layers_of(world) * world.walls.size  # what comes after are no states of this world
    return tuple(map(tuple, navigator.policy(planned(world))[:states].tolist()))
