"""A world as a language model reads it: one symbol a cell, with row and column numbers.

Source: the paper on language model agents, appendix on prompts, and the layout read off its code:
a head of column numbers, each row led by its number, every cell padded to one width.
"""

from __future__ import annotations

from goalmeter.gridworld.planner import DOOR_OPEN, WITHOUT_KEY, State
from goalmeter.gridworld.world import AGENT, DOOR, EMPTY, GOAL, KEY, WALL, GridWorld

MEANINGS = {
    AGENT: "agent",
    WALL: "wall",
    GOAL: "goal",
    EMPTY: "empty",
    DOOR: "locked door",
    KEY: "key",
}


def symbols_at(world: GridWorld, state: State) -> list[list[str]]:
    """One character a cell, with the agent where it is, hiding what it stands on.

    A key that was taken and a door that is open are gone.
    """
    out = world.symbols()
    out[world.start.row][world.start.column] = EMPTY
    if world.key is not None and state.layer != WITHOUT_KEY:
        out[world.key.row][world.key.column] = EMPTY
    if world.door is not None and state.layer == DOOR_OPEN:
        out[world.door.row][world.door.column] = EMPTY
    out[state.cell.row][state.cell.column] = AGENT
    return out


def rendered(world: GridWorld, state: State | None = None) -> str:
    """The grid as text; at its start if no state is given.

    Example: a room of three cells.
        >>> print(rendered(GridWorld.from_text(["#####", "#A_G#", "#####"])))
          0 1 2 3 4
        0 # # # # #
        1 # A _ G #
        2 # # # # #
    """
    cells = symbols_at(world, State(world.start) if state is None else state)
    rows, columns = world.shape
    width = len(str(max(rows, columns))) + 1
    head = " " * width + "".join(str(c).ljust(width) for c in range(columns))
    lines = [
        str(r).ljust(width) + "".join(symbol.ljust(width) for symbol in row)
        for r, row in enumerate(cells)
    ]
    return "\n".join(line.rstrip() for line in (head, *lines))


def legend(world: GridWorld) -> dict[str, str]:
    """What the symbols of a world mean; key and door only where there are such."""
    absent = {KEY} if world.key is None else set()
    absent |= {DOOR} if world.door is None else set()
    return {symbol: meaning for symbol, meaning in MEANINGS.items() if symbol not in absent}
