"""A world read back from the prompt that shows it, so that an agent can answer as a model would."""

from __future__ import annotations

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld.planner import WITH_KEY, WITHOUT_KEY, State
from goalmeter.gridworld.world import (
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

# What lies where, as `gridworld.text.compact` says it.
_THINGS = {"Goal": GOAL, "Key": KEY, "Object": NEUTRAL, "Door": DOOR, "Agent": AGENT}


def read_back(prompt: str) -> tuple[GridWorld, State]:
    r"""The world in a prompt, and where the agent is in it.

    The last grid counts: those before it are examples. The world starts where the agent is now. A
    key or a neutral object that was picked up is not in the grid any more; if there is a door, the
    key must have been taken, and its old place, which nothing depends on, is any empty cell.

    Args:
        prompt: as `gridworld.text.rendered` writes grids, with text around it, or as `compact`
            does.

    Example: a corridor.
        >>> from goalmeter.gridworld.text import rendered
        >>> world = GridWorld.from_text(["#####", "#A_G#", "#####"])
        >>> read_back(f"Go!\n{rendered(world)}") == (world, State(Cell(1, 1)))
        True
    """
    lines = prompt.splitlines()
    cells = _listed(lines) or _last_grid(lines)
    shown = {symbol for row in cells for symbol in row}
    layer = WITHOUT_KEY
    if DOOR in shown and KEY not in shown:
        layer = WITH_KEY
        empty = [(r, c) for r, row in enumerate(cells) for c, s in enumerate(row) if s == EMPTY]
        if not empty:
            raise InvalidParameterError("the grid has a door, and no cell where its key could be")
        row, column = empty[0]
        cells[row][column] = KEY
    world = GridWorld.from_text("".join(row) for row in cells)
    return world, State(Cell(*world.start), layer)


def _listed(lines: list[str]) -> list[list[str]] | None:
    """The symbols of a grid whose open cells are listed; None if the text lists none."""
    entries = dict(line.split(": ", 1) for line in lines if ": " in line)
    if "Open" not in entries:
        return None
    try:
        cells = [[WALL] * int(entries["Columns"]) for _ in range(int(entries["Rows"]))]
        for place in entries["Open"].split()[::2]:
            row, column = map(int, place.split(","))
            cells[row][column] = EMPTY
        for name, symbol in _THINGS.items():
            if name in entries:
                row, column = map(int, entries[name].split(","))
                cells[row][column] = symbol
    except (KeyError, ValueError, IndexError) as cause:
        raise InvalidParameterError(
            f"the prompt lists the cells of no grid ({type(cause).__name__}: {cause})"
        ) from cause
    return cells


def _last_grid(lines: list[str]) -> list[list[str]]:
    """The symbols of the last grid of a text: a line of column numbers and the rows below it."""
    for head in reversed(range(len(lines))):
        columns = lines[head].split()
        if len(columns) < 3 or columns != [str(c) for c in range(len(columns))]:
            continue
        rows: list[list[str]] = []
        for line in lines[head + 1 :]:
            number, *symbols = line.split() or [""]
            if number != str(len(rows)) or len(symbols) != len(columns):
                break
            rows.append(symbols)
        if rows:
            return rows
    raise InvalidParameterError(
        "the prompt shows no grid; expected a line of column numbers, and rows that begin with "
        "their own number"
    )
