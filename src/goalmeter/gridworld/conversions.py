"""Convert a grid world to a tabular MDP and to text for language models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from inspect import Signature, signature
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.gridworld.planner import State, plan
from goalmeter.gridworld.world import (
    ACTIONS,
    AGENT,
    DOOR,
    EMPTY,
    GOAL,
    KEY,
    NEUTRAL,
    WALL,
    Cell,
    GridWorld,
)
from goalmeter.tabular.mdp import TabularMDP

GOAL_UTILITY, KEY_UTILITY, NEUTRAL_UTILITY = "goal", "key", "neutral"


@dataclass(frozen=True, eq=False)
class TabularWorld:
    """MDP of a grid world over its reachable states; the goal is absorbing."""

    world: GridWorld
    mdp: TabularMDP  # S states, 4 deterministic actions, reward in each state
    states: tuple[State, ...]  # state of each index, the start first

    def index(self, state: State) -> int:
        """Return the index of a state; raises ValueError if it is not reachable."""
        return self.states.index(state)


def tabular_world(
    world: GridWorld,
    *,
    horizon: int | None = None,
    utility: str | Mapping[Cell, float] = GOAL_UTILITY,
    discount: float = 1.0,
) -> TabularWorld:
    """Return the MDP of a grid world.

    The utility is "goal": 1 at each step in the goal; "key" or "neutral": 1 at each step with the
    key or the neutral object; or a number for each cell, 0 by default. `horizon` and `discount` are
    those of `TabularMDP`.
    """
    planned = plan(world)
    successors = planned.plans.successors[0]
    # Maps of reachable states from the planner's number to the index, and back.
    index, order = np.full(len(successors), -1), [planned.number(planned.start)]
    index[order[0]] = 0
    for number in order:  # the list grows during the loop
        for after in successors[number].tolist():
            if index[after] < 0:
                index[after] = len(order)
                order.append(after)
    layers = [divmod(number, world.walls.size) for number in order]
    states = [State(Cell(*divmod(place, world.shape[1])), layer) for layer, place in layers]
    next_state = index[successors[order]][..., None]
    mdp = TabularMDP(
        (next_state, np.ones(next_state.shape)),
        _reward(world, states, utility),
        horizon=horizon,
        initial=0,
        discount=discount,
    )
    return TabularWorld(world, mdp, tuple(states))


def mdp_maker(make: Callable[..., Any]) -> Callable[..., TabularMDP]:
    """Return the function of the MDP of a generated grid world: `tabular_world` after `make`."""
    own, (_, *of_mdp) = (signature(each).parameters.values() for each in (make, tabular_world))

    def world(**arguments: Any) -> TabularMDP:
        options = {p.name: arguments.pop(p.name) for p in of_mdp if p.name in arguments}
        made = make(**arguments)
        return tabular_world(getattr(made, "world", made), **options).mdp

    parameters = [*(p.replace(kind=p.KEYWORD_ONLY) for p in own), *of_mdp]
    world.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return world


def _reward(
    world: GridWorld, states: list[State], utility: str | Mapping[Cell, float]
) -> FloatArray:
    if isinstance(utility, Mapping):
        values = {Cell(*cell): float(value) for cell, value in utility.items()}
        if closed := values.keys() - set(world.open_cells):
            row, column = min(closed)
            raise InvalidParameterError(
                f"the utility has row {row}, column {column}, expected open cells only"
            )
        return np.array([values.get(state.cell, 0.0) for state in states])
    if utility == GOAL_UTILITY:
        return np.array([float(state.cell == world.goal) for state in states])
    if utility not in (KEY_UTILITY, NEUTRAL_UTILITY):
        raise InvalidParameterError(
            f"utility is {utility!r}, expected {GOAL_UTILITY!r}, {KEY_UTILITY!r}, "
            f"{NEUTRAL_UTILITY!r} or a number for each cell"
        )
    if getattr(world, utility) is None:
        raise InvalidParameterError(
            f"utility is {utility!r}, but this world has no such object; choose another"
        )
    return np.array([float(state.has_key) for state in states])


# Source: the paper's appendix on prompts; the layout follows its code.
MEANINGS = {
    AGENT: "agent",
    WALL: "wall",
    GOAL: "goal",
    EMPTY: "empty",
    DOOR: "locked door",
    KEY: "key",
    NEUTRAL: "an object without a use",
}


def symbols_at(world: GridWorld, state: State) -> list[list[str]]:
    """Return one character per cell in a state; the agent hides the object in its cell."""
    symbols = world.symbols()
    taken, opened = world.thing if state.has_key else None, world.door if state.door_open else None
    for place in (world.start, taken, opened):
        if place is not None:
            symbols[place.row][place.column] = EMPTY
    symbols[state.cell.row][state.cell.column] = AGENT
    return symbols


def rendered(world: GridWorld, state: State | None = None) -> str:
    """Return the grid as text in a state, by default at the start.

    >>> print(rendered(GridWorld.from_text(["#####", "#A_G#", "#####"])))
      0 1 2 3 4
    0 # # # # #
    1 # A _ G #
    2 # # # # #
    """
    cells = symbols_at(world, State(world.start) if state is None else state)
    rows, columns = world.shape
    width = len(str(max(rows, columns))) + 1
    header = " " * width + "".join(str(c).ljust(width) for c in range(columns))
    lines = [
        str(r).ljust(width) + "".join(symbol.ljust(width) for symbol in row)
        for r, row in enumerate(cells)
    ]
    return "\n".join(line.rstrip() for line in (header, *lines))


def compact(world: GridWorld, state: State | None = None) -> str:
    """Return the world as text: open cells with their moves, objects, and the agent.

    Moves of the agent change the last two lines only, so a server can cache the others. A closed
    door counts as open to an agent with the key.
    """
    at = State(world.start) if state is None else state
    rows, columns = world.shape
    taken = at.has_key
    places = {
        "Goal": world.goal,
        "Key": None if taken else world.key,
        "Object": None if taken else world.neutral,
        "Door": None if at.door_open else world.door,
    }
    return "\n".join(
        [
            f"Rows: {rows}",
            f"Columns: {columns}",
            f"Open: {_open_words(world, None if taken else world.door)}",
            *(f"{name}: {at.row},{at.column}" for name, at in places.items() if at is not None),
            f"Agent: {at.cell.row},{at.cell.column}",
            f"Key carried: {'yes' if taken and world.key is not None else 'no'}",
        ]
    )


@lru_cache(maxsize=1024)
def _open_words(world: GridWorld, closed: Cell | None) -> str:
    """Return the open cells in row-major order, except `closed`, each with its moves."""
    free = dict.fromkeys(cell for cell in world.open_cells if cell != closed)
    return " ".join(
        f"{cell.row},{cell.column} "
        + ways_in_letters(act for act in range(len(ACTIONS)) if cell.moved(act) in free)
        for cell in free
    )


def ways_in_letters(actions: Iterable[int]) -> str:
    """Return the initials of moves, or "-" if there are none."""
    return "".join(ACTIONS[action][0] for action in actions) or "-"
