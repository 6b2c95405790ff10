"""Shortest paths over (cell, has the key, door open), for many worlds at once.

States form up to three layers of cells: without the key, with the key and a closed door, and with
the door open. Worlds without a door have no third layer, worlds without a key only the first. A
neutral object has the layers of a key without a door. Distances are steps to the goal; an action is
optimal if it leads one step closer.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", sections 3 and 4.3. The paper's own evaluation plans over cells only, which is wrong in
worlds with a door.
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
UNREACHABLE = -1  # distance of states that cannot reach the goal


class State(NamedTuple):
    """Cell of the agent and layer: WITHOUT_KEY, WITH_KEY or DOOR_OPEN."""

    cell: Cell
    layer: int = WITHOUT_KEY

    @property
    def has_key(self) -> bool:
        """Whether the agent has the key or the neutral object."""
        return self.layer != WITHOUT_KEY

    @property
    def door_open(self) -> bool:
        """Whether the door is open."""
        return self.layer == DOOR_OPEN


@dataclass(frozen=True, eq=False)
class Plans:
    """Shortest paths in worlds of one shape.

    The number of a state is (layer * rows + row) * columns + column.
    """

    worlds: tuple[GridWorld, ...]
    successors: IntArray  # state after each action, [worlds, states, 4]; the goal is absorbing
    # Steps to the goal, [worlds, states]; -1 for states that cannot reach it, walls, and layers
    # that a world does not have.
    distances: IntArray

    @cached_property
    def optimal(self) -> BoolArray:
        """Mask of actions that lead one step closer, [worlds, states, 4]; False at the goal."""
        return np.asarray((self.distances[..., None] > 0) & (self.gaps == 0))

    @cached_property
    def gaps(self) -> IntArray:
        """Steps that an action costs beyond an optimal one, [worlds, states, 4]; -1: no path."""
        after = np.take_along_axis(
            self.distances, self.successors.reshape(len(self.worlds), -1), axis=1
        ).reshape(self.successors.shape)
        gaps = after + 1 - self.distances[..., None]
        return np.where((after < 0) | (self.distances[..., None] < 0), UNREACHABLE, gaps)

    def plan(self, index: int) -> Plan:
        """Return the plan of one of the worlds."""
        return Plan(self.worlds[index], self, index)


@dataclass(frozen=True, eq=False)
class Plan:
    """Shortest paths in one world."""

    world: GridWorld
    plans: Plans
    index: int

    @property
    def start(self) -> State:
        """Initial state of the agent."""
        return State(self.world.start)

    @property
    def distance(self) -> int:
        """Steps from the start to the goal; -1 if it cannot be reached."""
        return self.distance_from(self.start)

    def distance_from(self, state: State) -> int:
        """Return the steps to the goal; -1 if it cannot be reached."""
        return int(self.plans.distances[self.index, self.number(state)])

    def step(self, state: State, action: int) -> State:
        """Return the state after an action."""
        if not 0 <= action < len(MOVES):
            raise InvalidParameterError(f"action is {action!r}, expected 0 to {len(MOVES) - 1}")
        number = int(self.plans.successors[self.index, self.number(state), action])
        rows, columns = self.world.shape
        layer, place = divmod(number, rows * columns)
        return State(Cell(*divmod(place, columns)), layer)

    def optimal_actions(self, state: State) -> tuple[int, ...]:
        """Return the actions that lead one step closer; none at the goal or if unreachable."""
        row = self.plans.optimal[self.index, self.number(state)]
        return tuple(int(a) for a in np.flatnonzero(row))

    def gap(self, state: State, action: int) -> int:
        """Return the steps that an action costs beyond an optimal one: 0 to 2; -1: no path."""
        return int(self.plans.gaps[self.index, self.number(state), action])

    def number(self, state: State) -> int:
        """Return the number of a state, as in `Plans`."""
        rows, columns = self.world.shape
        (row, column), layer = state
        inside = 0 <= row < rows and 0 <= column < columns and 0 <= layer < LAYERS
        if not inside or self.world.walls[row, column] or layer >= layers_of(self.world):
            raise InvalidParameterError(
                f"row {row}, column {column}, layer {layer} is not a state of this world, expected "
                f"an open cell and a layer below {layers_of(self.world)}"
            )
        return (layer * rows + row) * columns + column


def plan(world: GridWorld) -> Plan:
    """Compute the shortest paths in one world."""
    return plans([world]).plan(0)


def plans(worlds: Sequence[GridWorld]) -> Plans:
    """Compute the shortest paths in worlds of one shape."""
    shapes = {world.shape for world in worlds}
    if len(shapes) != 1:
        raise InvalidParameterError(
            f"got worlds of shapes {sorted(shapes)}, expected one shape; plan each separately"
        )
    successors = np.stack([_successors(world) for world in worlds])
    goals = np.stack([_at_goal(world) for world in worlds])
    return Plans(tuple(worlds), successors, _distances(successors, goals))


@lru_cache(maxsize=2048)  # the largest suite of the paper has 1,500 worlds
def planned(world: GridWorld) -> Plan:
    """Return the plan of a world, from a cache of recent plans."""
    return plan(world)


def open_moves(plan: Plan) -> BoolArray:
    """Return a mask of actions that change the state, [states, 4]."""
    successors = plan.plans.successors[plan.index]
    return np.asarray(successors != np.arange(len(successors))[:, None])


def existing(plan: Plan) -> BoolArray:
    """Return a mask of the state numbers that the world has, [states]."""
    layers = np.arange(LAYERS) < layers_of(plan.world)
    return np.asarray((layers[:, None] & ~plan.world.walls.reshape(1, -1)).reshape(-1))


def layers_of(world: GridWorld) -> int:
    """Return the number of layers of a world."""
    return 1 + (world.thing is not None) + (world.door is not None)


def _successors(world: GridWorld) -> IntArray:
    """Return the successors [states, 4]; walls and missing layers lead to themselves."""
    rows, columns = world.shape
    cells = rows * columns
    place = np.arange(cells).reshape(rows, columns)
    after = np.arange(LAYERS * cells)[:, None].repeat(len(MOVES), axis=1)
    for layer in range(layers_of(world)):
        blocked = world.walls.copy()
        if world.door is not None and layer != DOOR_OPEN:
            blocked[world.door] = True
        for action, (down, right) in enumerate(MOVES):
            # The border is wall, so cells that a roll wraps around are blocked.
            to = np.roll(place, (-down, -right), axis=(0, 1))
            to = np.where(blocked.reshape(-1)[to], place, to)
            after[layer * cells : (layer + 1) * cells, action] = (layer * cells + to).reshape(-1)
        walls = layer * cells + place[world.walls]
        after[walls] = walls[:, None]
    if world.thing is not None:
        # Entering the object's cell picks it up, which leads to the next layer.
        thing = place[world.thing]
        after[:cells] = np.where(after[:cells] == thing, cells + thing, after[:cells])
    if world.door is not None:
        next_to_door = np.zeros((rows, columns), dtype=bool)
        for action in range(len(MOVES)):
            next_to_door[world.door.moved(action)] = True
        # With the key, a cell next to the door opens it, even if the key is picked up there.
        opens = (after // cells == WITH_KEY) & next_to_door.reshape(-1)[after % cells]
        after = np.where(opens, after + cells, after)
    for layer in range(layers_of(world)):
        goal = layer * cells + place[world.goal]
        after[goal] = goal
    return after


def _at_goal(world: GridWorld) -> BoolArray:
    at_goal = np.zeros((LAYERS, *world.shape), dtype=bool)
    at_goal[: layers_of(world), world.goal.row, world.goal.column] = True
    return at_goal.reshape(-1)


def _distances(successors: IntArray, goals: BoolArray) -> IntArray:
    """Return the steps to a goal by breadth-first search, [worlds, states]."""
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
