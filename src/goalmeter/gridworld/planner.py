"""Shortest plans in the space of (cell, has the key, door open), for many worlds at once.

A world with a key has up to three layers of cells: without the key, with the key and the door still
shut, and with the door open; without a door there is no third one, without a key only the first. A
neutral object has the layers of a key without a door. Distances are steps to the goal; an action is
optimal if it leads one step closer.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", sections 3 and 4.3; its own evaluation plans over cells alone, which is wrong where a door
stands between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray, IntArray
from goalmeter.gridworld.world import MOVES, Cell, GridWorld

WITHOUT_KEY, WITH_KEY, DOOR_OPEN = 0, 1, 2
LAYERS = 3
UNREACHABLE = -1  # the distance where the goal is out of reach


class State(NamedTuple):
    """Where the agent is, and in which layer: WITHOUT_KEY, WITH_KEY or DOOR_OPEN."""

    cell: Cell
    layer: int = WITHOUT_KEY

    @property
    def has_key(self) -> bool:
        """Whether the key, or the neutral object, was picked up."""
        return self.layer != WITHOUT_KEY

    @property
    def door_open(self) -> bool:
        """Whether the door is gone."""
        return self.layer == DOOR_OPEN


@dataclass(frozen=True, eq=False)
class Plans:
    """The shortest plans of some worlds of one shape.

    States are numbered (layer * rows + row) * columns + column.
    """

    worlds: tuple[GridWorld, ...]
    successors: IntArray  # state after each action, [worlds, states, 4]; the goal leads to itself
    # Steps to the goal, [worlds, states]; -1 where it is out of reach, in walls, and in states that
    # a world does not have.
    distances: IntArray

    @cached_property
    def optimal(self) -> BoolArray:
        """Whether an action leads one step closer, [worlds, states, 4]; never at the goal."""
        return np.asarray((self.distances[..., None] > 0) & (self.gaps == 0))

    @cached_property
    def gaps(self) -> IntArray:
        """Steps that an action costs beyond the best one, [worlds, states, 4]; -1 without a way."""
        after = np.take_along_axis(
            self.distances, self.successors.reshape(len(self.worlds), -1), axis=1
        ).reshape(self.successors.shape)
        gaps = after + 1 - self.distances[..., None]
        return np.where((after < 0) | (self.distances[..., None] < 0), UNREACHABLE, gaps)

    def plan(self, index: int) -> Plan:
        """The plan of one of the worlds."""
        return Plan(self.worlds[index], self, index)


@dataclass(frozen=True, eq=False)
class Plan:
    """The shortest ways in one world."""

    world: GridWorld
    plans: Plans
    index: int

    @property
    def start(self) -> State:
        """Where the agent begins."""
        return State(self.world.start)

    @property
    def distance(self) -> int:
        """Steps from the start to the goal; -1 if it cannot be reached."""
        return self.distance_from(self.start)

    def distance_from(self, state: State) -> int:
        """Steps to the goal; -1 if it cannot be reached."""
        return int(self.plans.distances[self.index, self.number(state)])

    def step(self, state: State, action: int) -> State:
        """The state after an action."""
        if not 0 <= action < len(MOVES):
            raise InvalidParameterError(f"action is {action!r}, expected 0 to {len(MOVES) - 1}")
        number = int(self.plans.successors[self.index, self.number(state), action])
        rows, columns = self.world.shape
        layer, place = divmod(number, rows * columns)
        return State(Cell(*divmod(place, columns)), layer)

    def optimal_actions(self, state: State) -> tuple[int, ...]:
        """The actions that lead one step closer; none at the goal or where it is out of reach."""
        row = self.plans.optimal[self.index, self.number(state)]
        return tuple(int(a) for a in np.flatnonzero(row))

    def gap(self, state: State, action: int) -> int:
        """Steps that an action costs beyond the best one: 0, 1 or 2, or -1 if there is no way."""
        return int(self.plans.gaps[self.index, self.number(state), action])

    def number(self, state: State) -> int:
        """The number of a state, as in `Plans`."""
        rows, columns = self.world.shape
        (row, column), layer = state
        inside = 0 <= row < rows and 0 <= column < columns and 0 <= layer < LAYERS
        if not inside or self.world.walls[row, column] or layer >= layers_of(self.world):
            raise InvalidParameterError(
                f"row {row}, column {column}, layer {layer} is no state of this world; expected "
                f"an open cell and a layer below {layers_of(self.world)}"
            )
        return (layer * rows + row) * columns + column


def plan(world: GridWorld) -> Plan:
    """The shortest ways in one world."""
    return plans([world]).plan(0)


def plans(worlds: Sequence[GridWorld]) -> Plans:
    """The shortest ways in some worlds of one shape."""
    shapes = {world.shape for world in worlds}
    if len(shapes) != 1:
        raise InvalidParameterError(
            f"got worlds of shapes {sorted(shapes)}, expected one shape; plan for each by itself"
        )
    successors = np.stack([_successors(world) for world in worlds])
    goals = np.stack([_at_goal(world) for world in worlds])
    return Plans(tuple(worlds), successors, _distances(successors, goals))


@lru_cache(maxsize=2048)  # the largest suite of the paper has 1,500 worlds
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


def layers_of(world: GridWorld) -> int:
    """How many layers a world has."""
    return 1 + (world.thing is not None) + (world.door is not None)


def _successors(world: GridWorld) -> IntArray:
    """[states, 4]; walls and layers that the world does not have lead to themselves."""
    rows, columns = world.shape
    cells = rows * columns
    place = np.arange(cells).reshape(rows, columns)
    after = np.arange(LAYERS * cells)[:, None].repeat(len(MOVES), axis=1)
    for layer in range(layers_of(world)):
        blocked = world.walls.copy()
        if world.door is not None and layer != DOOR_OPEN:
            blocked[world.door] = True
        for action, (down, right) in enumerate(MOVES):
            # The border is wall, so what a roll carries around the edge is blocked.
            to = np.roll(place, (-down, -right), axis=(0, 1))
            to = np.where(blocked.reshape(-1)[to], place, to)
            after[layer * cells : (layer + 1) * cells, action] = (layer * cells + to).reshape(-1)
        walls = layer * cells + place[world.walls]
        after[walls] = walls[:, None]
    if world.thing is not None:
        # Entering its cell picks it up, which leads one layer further.
        lies = place[world.thing]
        after[:cells] = np.where(after[:cells] == lies, cells + lies, after[:cells])
    if world.door is not None:
        beside = np.zeros((rows, columns), dtype=bool)
        for action in range(len(MOVES)):
            beside[world.door.moved(action)] = True
        # Standing beside the door with the key opens it, also where the key is found there.
        arrives = (after // cells == WITH_KEY) & beside.reshape(-1)[after % cells]
        after = np.where(arrives, after + cells, after)
    for layer in range(layers_of(world)):
        goal = layer * cells + place[world.goal]
        after[goal] = goal
    return after


def _at_goal(world: GridWorld) -> BoolArray:
    at_goal = np.zeros((LAYERS, *world.shape), dtype=bool)
    at_goal[: layers_of(world), world.goal.row, world.goal.column] = True
    return at_goal.reshape(-1)


def _distances(successors: IntArray, goals: BoolArray) -> IntArray:
    """Steps to a goal: the states one step further out, until there are none."""
    flat = successors.reshape(len(successors), -1)
    distances = np.where(goals, 0, UNREACHABLE)
    step = 0
    while True:
        step += 1
        reached = np.take_along_axis(distances, flat, axis=1).reshape(successors.shape) == step - 1
        new = reached.any(axis=2) & (distances < 0)
        if not new.any():
            return distances
        distances[new] = step
