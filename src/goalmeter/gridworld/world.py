"""Grid worlds as data: cells, objects, reflections and rotations, and held-out grids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, BoolArray

# --- World ----------------------------------------------------------------------------------------

# Names and moves (row, column) of the actions, in the paper's order.
ACTIONS = ("LEFT", "RIGHT", "UP", "DOWN")
MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0))

# Symbols of a text drawing; the agent is at the start.
AGENT, WALL, GOAL, EMPTY, DOOR, KEY, NEUTRAL = "A", "#", "G", "_", "D", "K", "N"

_PLACES = ("start", "goal", "key", "door", "neutral")
# Minimum number of each symbol in a drawing, in the same order; the maximum is 1.
_LEAST = {AGENT: 1, GOAL: 1, KEY: 0, DOOR: 0, NEUTRAL: 0}


class Cell(NamedTuple):
    """Position in a grid; row 0 is the top, column 0 the left."""

    row: int
    column: int

    def moved(self, action: int) -> Cell:
        """Return the neighbouring cell in the direction of an action."""
        row, column = MOVES[action]
        return Cell(self.row + row, self.column + column)


@dataclass(frozen=True, eq=False)
class GridWorld:
    """A grid world with its start; validated once, immutable, compared by content.

    An action moves the agent by one cell; a move into a wall, or into the door without the key, has
    no effect. Entering the cell of the key or the neutral object picks it up. The door disappears
    once an agent with the key is next to it. The episode ends at the goal.
    """

    walls: BoolArray  # mask of walls, [rows, columns]; the border must be wall
    start: Cell
    goal: Cell
    key: Cell | None = None
    door: Cell | None = None  # requires a key
    neutral: Cell | None = None  # useless object; excludes key and door

    def __init__(
        self,
        walls: ArrayLike,
        start: tuple[int, int],
        goal: tuple[int, int],
        key: tuple[int, int] | None = None,
        door: tuple[int, int] | None = None,
        neutral: tuple[int, int] | None = None,
    ) -> None:
        grid = np.array(walls, dtype=bool)
        grid.setflags(write=False)
        object.__setattr__(self, "walls", grid)
        for name, place in zip(_PLACES, (start, goal, key, door, neutral), strict=True):
            cell = None if place is None else Cell(int(place[0]), int(place[1]))
            object.__setattr__(self, name, cell)
        self._check()

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns, including the border."""
        rows, columns = self.walls.shape
        return rows, columns

    @property
    def size(self) -> int:
        """Number of rows; the size of a square world in the paper."""
        return self.shape[0]

    @property
    def open_cells(self) -> tuple[Cell, ...]:
        """Cells without a wall, in row-major order."""
        return tuple(Cell(int(r), int(c)) for r, c in zip(*np.nonzero(~self.walls), strict=True))

    @property
    def thing(self) -> Cell | None:
        """Cell of the key or the neutral object; None without either."""
        return self.neutral if self.key is None else self.key

    def with_(self, **changes: tuple[int, int] | None) -> GridWorld:
        """Return a copy with another start, goal, key, door or neutral object; None removes it."""
        return GridWorld(self.walls, **({name: getattr(self, name) for name in _PLACES} | changes))

    def symbols(self) -> list[list[str]]:
        """Return one character per cell, as in `str`."""
        symbols = [[WALL if wall else EMPTY for wall in row] for row in self.walls]
        for name, symbol in zip(_PLACES, _LEAST, strict=True):
            place = getattr(self, name)
            if place is not None:
                symbols[place.row][place.column] = symbol
        return symbols

    def __str__(self) -> str:
        return "\n".join("".join(row) for row in self.symbols())

    def __repr__(self) -> str:
        return f"GridWorld.from_text({str(self).splitlines()!r})"

    @classmethod
    def from_text(cls, lines: str | Iterable[str]) -> GridWorld:
        """Parse a grid from its text drawing; blanks between characters are ignored."""
        listed = lines.splitlines() if isinstance(lines, str) else list(lines)
        rows = [row for row in ("".join(line.split()) for line in listed) if row]
        if not rows or len({len(row) for row in rows}) != 1:
            raise InvalidParameterError(
                f"the drawing of a grid has rows of {sorted({len(r) for r in rows})} cells, "
                f"expected rows of one length"
            )
        grid = np.array([list(row) for row in rows])
        for r, c in np.argwhere(~np.isin(grid, [*_LEAST, WALL, EMPTY])):
            raise InvalidParameterError(
                f"the drawing of a grid has {rows[r][c]!r} at row {r}, column {c}, expected one of "
                f"A G K D N # _"
            )
        places: dict[str, Any] = {}
        for name, (symbol, least) in zip(_PLACES, _LEAST.items(), strict=True):
            cells = np.argwhere(grid == symbol).tolist()
            if not least <= len(cells) <= 1:
                raise InvalidParameterError(
                    f"the drawing of a grid has {len(cells)} cells {symbol}, expected "
                    f"{'one' if least else 'at most one'}"
                )
            places[name] = cells[0] if cells else None
        return cls(grid == WALL, **places)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GridWorld):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[object, ...]:
        return self.shape, self.walls.tobytes(), *(getattr(self, name) for name in _PLACES)

    def _check(self) -> None:
        walls = self.walls
        if walls.ndim != 2 or min(walls.shape) < 3:
            raise InvalidParameterError(
                f"walls have shape {walls.shape}, expected [rows, columns], at least 3 of each"
            )
        inner = walls.copy()
        inner[1:-1, 1:-1] = True
        for r, c in np.argwhere(~inner):
            raise InvalidParameterError(
                f"row {r}, column {c} is open, expected walls along the border of a grid"
            )
        rows, columns = walls.shape
        seen: dict[Cell, str] = {}
        for name in _PLACES:
            place: Cell | None = getattr(self, name)
            if place is None:
                continue
            outside = not (0 <= place.row < rows and 0 <= place.column < columns)
            if outside or walls[place] or place in seen:
                reason = f"where the {seen.get(place, 'wall')} is"
                raise InvalidParameterError(
                    f"{name} is at row {place.row}, column {place.column}, "
                    f"{f'outside the {rows} x {columns} grid' if outside else reason}"
                )
            seen[place] = name
        if self.neutral is not None and (self.key is not None or self.door is not None):
            raise InvalidParameterError(
                "there is a neutral object and a key or a door, expected one object to pick up; "
                "remove one of them"
            )
        if self.door is not None and self.key is None:
            raise InvalidParameterError("there is a door but no key; add a key")


# --- Transforms -----------------------------------------------------------------------------------
# The first three are isometries: they preserve distances and, with relabelled actions, optimal
# actions. Exchanging start and goal preserves only the length of the shortest path.

CellMap = Callable[[Cell, tuple[int, int]], Cell]


@dataclass(frozen=True)
class Transform:
    """Change of frame."""

    name: str  # name on the command line and in tables
    actions: tuple[int, ...]  # action of the transformed world for each original action
    isometry: bool  # whether only the labels of actions change
    _map: CellMap

    def cell(self, cell: Cell, shape: tuple[int, int]) -> Cell:
        """Return the new position of a cell of a world with some shape."""
        return self._map(cell, shape)

    def action(self, action: int) -> int:
        """Return the action of the transformed world that corresponds to an original action."""
        return self.actions[action]

    def __call__(self, world: GridWorld) -> GridWorld:
        """Return the world in the new frame."""
        if not self.isometry:
            return world.with_(start=world.goal, goal=world.start)
        shape = world.shape
        moved_to = {at: self.cell(Cell(*at), shape) for at in np.ndindex(*shape)}
        walls = np.zeros(np.max(list(moved_to.values()), axis=0) + 1)
        for at, to in moved_to.items():
            walls[to] = world.walls[at]
        places = {name: getattr(world, name) for name in _PLACES}
        moved = {name: self.cell(at, shape) for name, at in places.items() if at is not None}
        return GridWorld(walls, **moved)


def _isometry(name: str, map_cell: CellMap) -> Transform:
    """Return an isometry, with its actions derived from the positions of neighbours."""
    # The middle of a 3 x 3 grid has a neighbour on every side in every frame.
    middle, shape = Cell(1, 1), (3, 3)
    at = map_cell(middle, shape)
    neighbours = [map_cell(middle.moved(a), shape) for a in range(len(MOVES))]
    actions = tuple(MOVES.index((to.row - at.row, to.column - at.column)) for to in neighbours)
    return Transform(name, actions, True, map_cell)


REFLECT = _isometry("reflect", lambda cell, shape: Cell(cell.row, shape[1] - 1 - cell.column))
# A quarter turn counter-clockwise: the right-hand column becomes the top row.
ROTATE = _isometry("rotate", lambda cell, shape: Cell(shape[1] - 1 - cell.column, cell.row))
TRANSPOSE = _isometry("transpose", lambda cell, shape: Cell(cell.column, cell.row))
SWAP = Transform("swap", (0, 1, 2, 3), False, lambda cell, shape: cell)

# Changes of frame by name; all but "swap" are isometries.
TRANSFORMS: dict[str, Transform] = {t.name: t for t in (REFLECT, ROTATE, TRANSPOSE, SWAP)}


# --- Held-out grids -------------------------------------------------------------------------------
# Two seeds can draw the same maze, so grids are held out by content: walls and goal, up to
# rotations and reflections, regardless of key, door and start. Empty rooms and mazes of size 5 have
# too few contents, so their content includes the start.

HELD_OUT_ONE_IN = 4
_FEW_CONTENTS_SIZE = 5  # maximum size of grids whose content includes the start


def content(world: GridWorld) -> str:
    """Return the SHA-256 of a grid's content, the first of its eight frames in byte order."""
    places = [world.goal, world.start] if has_few_contents(world) else [world.goal]
    return sha256(min(frames(world.walls, places))).hexdigest()


def held_out(world: GridWorld) -> bool:
    """Return whether a grid is held out from the training of organisms; one in four is."""
    return int(content(world)[:8], 16) % HELD_OUT_ONE_IN == 0


def has_few_contents(world: GridWorld) -> bool:
    """Return whether the content includes the start, since there are few contents."""
    return max(world.shape) <= _FEW_CONTENTS_SIZE or not world.walls[1:-1, 1:-1].any()


def frames(walls: BoolArray, places: list[Cell]) -> list[bytes]:
    """Return a map in its eight frames: shape, walls and numbers of the places, as bytes."""
    numbers = np.arange(walls.size).reshape(walls.shape)
    marked = [int(numbers[place]) for place in places]
    frames = []
    for plane, labels in ((walls, numbers), (walls.T, numbers.T)):
        for turns in range(4):
            turned, moved = np.rot90(plane, turns), np.rot90(labels, turns).ravel().tolist()
            header = [*turned.shape, *(moved.index(number) for number in marked)]
            frames.append(np.array(header, dtype="<i4").tobytes() + turned.tobytes())
    return frames
