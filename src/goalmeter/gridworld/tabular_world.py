"""A grid world as a finite MDP, so that every measure of goal-directedness works on it.

States are those of the planner, (cell, has the key, door open), but only the ones that can be
reached from the start; actions are its four moves. The goal absorbs: an agent that has arrived
stays, and nothing that it does there matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray, IntArray
from goalmeter.gridworld.planner import State, plan
from goalmeter.gridworld.world import Cell, GridWorld
from goalmeter.tabular.mdp import TabularMDP

GOAL, KEY, NEUTRAL = "goal", "key", "neutral"


@dataclass(frozen=True, eq=False)
class TabularWorld:
    """The MDP of a grid world, and which state is which.

    Attributes:
        world: what it was made of.
        mdp: S states, 4 actions, deterministic; the reward is collected at each state.
        states: the state of each index, the start first.
    """

    world: GridWorld
    mdp: TabularMDP
    states: tuple[State, ...]

    def index(self, state: State) -> int:
        """The index of a state.

        Raises:
            InvalidParameterError: it cannot be reached from the start.
        """
        try:
            return self.states.index(state)
        except ValueError as cause:
            raise InvalidParameterError(
                f"row {state.cell.row}, column {state.cell.column}, layer {state.layer} cannot be "
                f"reached from the start of this world"
            ) from cause


def tabular_world(
    world: GridWorld,
    *,
    horizon: int | None = None,
    utility: str | Mapping[Cell, float] = GOAL,
    discount: float = 1.0,
) -> TabularWorld:
    """The MDP of a grid world.

    Args:
        world: any grid world.
        horizon: number of decisions; None with a discount below 1 means for ever.
        utility: "goal": 1 in the goal at each step, so that arriving earlier is better. "key": 1
            at each step once the agent has the key; "neutral": the same of the neutral object. Or
            a number for each cell, 0 where none is given.
        discount: of rewards, in (0, 1].

    Raises:
        InvalidParameterError: another word, "key" without a key, "neutral" without such an object,
            or a utility of a cell that is no open cell of the world.
    """
    planned = plan(world)
    index, order = _reached(planned.plans.successors[0], planned.number(planned.start))
    rows, columns = world.shape
    states = []
    for number in order:
        layer, place = divmod(int(number), rows * columns)
        states.append(State(Cell(*divmod(place, columns)), layer))
    next_state = index[planned.plans.successors[0][order]][..., None]
    mdp = TabularMDP(
        (next_state, np.ones(next_state.shape)),
        _reward(world, states, utility),
        horizon=horizon,
        initial=0,
        discount=discount,
    )
    return TabularWorld(world, mdp, tuple(states))


def _reached(successors: IntArray, start: int) -> tuple[IntArray, IntArray]:
    """(planner's number -> index, index -> planner's number) of what the start leads to."""
    index = np.full(len(successors), -1)
    order = [start]
    index[start] = 0
    for number in order:  # grows as it goes
        for after in successors[number]:
            if index[after] < 0:
                index[after] = len(order)
                order.append(int(after))
    return index, np.array(order)


def _reward(
    world: GridWorld, states: list[State], utility: str | Mapping[Cell, float]
) -> FloatArray:
    if isinstance(utility, Mapping):
        open_cells = set(world.open_cells)
        for row, column in utility:
            if (row, column) not in open_cells:
                raise InvalidParameterError(
                    f"the utility of row {row}, column {column} is given, where there is no open "
                    f"cell"
                )
        values = {Cell(*cell): float(value) for cell, value in utility.items()}
        return np.array([values.get(state.cell, 0.0) for state in states])
    if utility == GOAL:
        return np.array([float(state.cell == world.goal) for state in states])
    if utility in (KEY, NEUTRAL):
        if (world.key if utility == KEY else world.neutral) is None:
            lacking = "key" if utility == KEY else "neutral object"
            raise InvalidParameterError(
                f"the utility is {utility!r}, but this world has no {lacking}"
            )
        return np.array([float(state.has_key) for state in states])
    raise InvalidParameterError(
        f"utility is {utility!r}, expected {GOAL!r}, {KEY!r}, {NEUTRAL!r} or a number for each cell"
    )
