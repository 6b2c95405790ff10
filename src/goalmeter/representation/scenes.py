"""Represent world states as grids of classes, and split them by grid.

Worlds of several shapes share one frame with the rows and columns of the largest; cells outside a
world are labelled `OUTSIDE` and are never counted. A table of positions predicts most cells of a
maze as well as any probe; only cells whose class differs between grids are informative.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 5, for the classes; it scores probes on all cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray, IntArray
from goalmeter.agents.grid_agents import greedy
from goalmeter.gridworld import world as symbols
from goalmeter.gridworld.conversions import symbols_at
from goalmeter.gridworld.planner import State, layers_of, planned
from goalmeter.gridworld.world import ACTIONS, GridWorld
from goalmeter.statistics.clusters import Estimate, estimate

# Classes of cells in the order of the last axis of posteriors.
CLASSES = ("wall", "empty", "agent", "goal", "key", "door", "neutral")
WALL, EMPTY, AGENT, GOAL, KEY, DOOR, NEUTRAL = range(len(CLASSES))
OUTSIDE = -1
_CLASS_OF = {getattr(symbols, name.upper()): label for label, name in enumerate(CLASSES)}
_content = lru_cache(maxsize=4096)(symbols.content)

Shape = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Scenes:
    """N states with their worlds and actions."""

    worlds: tuple[GridWorld, ...]  # worlds, [N]
    states: tuple[State, ...]  # cell of the agent and layer, [N]
    actions: tuple[int | None, ...]  # 0 to 3; None for an answer that could not be parsed, [N]
    grids: IntArray  # number of the grid by content, [N]; splits never separate equal ones

    def __post_init__(self) -> None:
        if not self.worlds:
            raise InvalidParameterError("there are no scenes, expected at least one")
        rows = zip(self.worlds, self.states, self.actions, self.grids, strict=True)
        for number, (world, ((row, column), layer), action, _) in enumerate(rows):
            inside = 0 <= row < world.shape[0] and 0 <= column < world.shape[1]
            exists = inside and not world.walls[row, column] and 0 <= layer < layers_of(world)
            if not exists or action not in (None, *range(len(ACTIONS))):
                raise InvalidParameterError(
                    f"scene {number} has row {row}, column {column}, layer {layer} and action "
                    f"{action!r}; expected an open cell and a layer of its world, and an action 0 "
                    f"to 3, or None for an answer that could not be parsed"
                )

    @classmethod
    def of(
        cls, worlds: Sequence[GridWorld], states: Sequence[State], actions: Sequence[int | None]
    ) -> Scenes:
        """Return scenes whose grids are numbered by content, in the order of appearance."""
        # Seeds do not identify a grid: two seeds can draw the same one or its mirror image.
        numbers: dict[str, int] = {}
        grids = [numbers.setdefault(_content(world), len(numbers)) for world in worlds]
        return cls(tuple(worlds), tuple(states), tuple(actions), np.array(grids, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.worlds)

    @cached_property
    def shapes(self) -> IntArray:
        """Rows and columns of each world, [N, 2]."""
        return np.array([world.shape for world in self.worlds], dtype=np.int64)

    @cached_property
    def labels(self) -> IntArray:
        """Class of every cell in the frame of the largest world, [N, rows, columns]."""
        out = np.full((len(self), *self.shapes.max(axis=0)), OUTSIDE)
        for number, (world, state) in enumerate(zip(self.worlds, self.states, strict=True)):
            out[number, : world.shape[0], : world.shape[1]] = _labels(world, state)
        return out

    @cached_property
    def optimal(self) -> BoolArray:
        """Whether each action leads one step closer to the goal, [N, 4]."""
        plans = [(planned(w), state) for w, state in zip(self.worlds, self.states, strict=True)]
        return np.array([p.plans.optimal[p.index, p.number(s)] for p, s in plans], dtype=bool)

    @cached_property
    def compass(self) -> BoolArray:
        """Whether the greedy agent may choose each action, [N, 4]."""
        pairs = zip(self.worlds, self.states, strict=True)
        return np.array([_compass(w)[planned(w).number(s)] for w, s in pairs], dtype=bool)

    @property
    def detour(self) -> BoolArray:
        """Whether the greedy agent may choose an action that is not optimal, [N]."""
        return np.asarray((self.compass & ~self.optimal).any(axis=1))

    def where(self, chosen: IntArray | BoolArray) -> Scenes:
        """Return a subset by numbers or by a mask, [N]; grids keep their numbers."""
        places = np.arange(len(self))[chosen]
        columns: tuple[Any, ...] = (self.worlds, self.states, self.actions)
        worlds, states, actions = (tuple(column[i] for i in places) for column in columns)
        return Scenes(worlds, states, actions, self.grids[places])


def link_cells(shape: Shape) -> BoolArray:
    """Return the inner cells of a maze that can join two rooms: exactly one coordinate is odd."""
    rows, columns = np.indices(shape)
    inner = (rows > 0) & (rows < shape[0] - 1) & (columns > 0) & (columns < shape[1] - 1)
    return np.asarray(inner & (rows % 2 != columns % 2))


def uncertain_cells(scenes: Scenes, *, least: float = 0.05) -> dict[Shape, BoolArray]:
    """Return the cells that are walls in some grids and open in others, [rows, columns] by shape.

    The share of grids with a wall and the share without one are both at least `least`; each grid
    counts once. Pass the training scenes of a probe.
    """
    votes: dict[Shape, dict[int, list[BoolArray]]] = {}
    for world, grid in zip(scenes.worlds, scenes.grids.tolist(), strict=True):
        votes.setdefault(world.shape, {}).setdefault(grid, []).append(world.walls)
    out = {}
    for shape, of_grids in votes.items():
        share = np.mean([np.mean(walls, axis=0) for walls in of_grids.values()], axis=0)
        out[shape] = np.asarray((share >= least) & (share <= 1.0 - least))
    return out


def cells_in(scenes: Scenes, by_shape: Mapping[Shape, BoolArray]) -> BoolArray:
    """Return masks given by shape in the frame of the scenes, [N, rows, columns]."""
    out = np.zeros(scenes.labels.shape, dtype=bool)
    for number, world in enumerate(scenes.worlds):
        if world.shape in by_shape:
            out[number, : world.shape[0], : world.shape[1]] = by_shape[world.shape]
    return out


def mean_over_grids(
    values: ArrayLike,
    grids: ArrayLike,
    among: BoolArray | None = None,
    *,
    bounds: tuple[float, float] | None = (0.0, 1.0),
    paired: bool = False,
) -> Estimate:
    """Return the mean of N values (all or those in `among`) with an interval clustered by grid."""
    cluster = np.unique(np.asarray(grids), return_inverse=True)[1]
    counts = np.bincount(cluster)
    chosen = np.ones(len(cluster), dtype=bool) if among is None else among
    return estimate(
        np.bincount(cluster[chosen], np.asarray(values, dtype=float)[chosen], len(counts)),
        np.bincount(cluster[chosen], minlength=len(counts)),
        # Up to all values of a grid can be counted.
        heaviest=None if bounds is None else counts.max(initial=0),
        n=int(chosen.sum()),
        bounds=(-1.0, 1.0) if paired else bounds,  # paired values are differences of shares
        paired=paired,
    )


@lru_cache(maxsize=4096)
def _labels(world: GridWorld, state: State) -> IntArray:
    rows = [[_CLASS_OF[symbol] for symbol in row] for row in symbols_at(world, state)]
    return np.array(rows, dtype=np.int64)


@lru_cache(maxsize=2048)
def _compass(world: GridWorld) -> BoolArray:
    return np.asarray(greedy(planned(world)) > 0)


# --- Splits ---------------------------------------------------------------------------------------
# Scenes of one grid share their walls, so a split by rows would score a probe on memorised grids;
# the published split by paths leaks in this way.
class Split(NamedTuple):
    """Numbers of training, validation and test scenes, in ascending order."""

    train: IntArray
    validation: IntArray
    test: IntArray


def split(scenes: Scenes, *, validation: float = 0.15, test: float = 0.25, seed: int = 0) -> Split:
    """Split scenes by grid, stratified by shape."""
    parts = []
    for grids in _shuffled_grids(scenes, seed, least=3):
        scored = max(1, min(round(test * len(grids)), len(grids) - 2))
        parts.append((grids[:scored], _share(grids[scored:], validation * len(grids))))
    return _by_grid(scenes, parts)


def folds(scenes: Scenes, parts: int, *, validation: float = 0.15, seed: int = 0) -> list[Split]:
    """Return splits for cross-validation; each scene is a test scene in exactly one of them."""
    shuffled = _shuffled_grids(scenes, seed, least=max(parts, 3 if parts > 2 else 4))
    out = []
    for part in range(parts):
        of_shapes = []
        for grids in shuffled:
            others = [grid for place, grid in enumerate(grids) if place % parts != part]
            of_shapes.append((grids[part::parts], _share(others, validation * len(others))))
        out.append(_by_grid(scenes, of_shapes))
    return out


def _share(grids: list[int], count: float) -> list[int]:
    """Return the first `count` grids, rounded to at least one and not all."""
    return grids[: max(1, min(round(count), len(grids) - 1))]


def _by_grid(scenes: Scenes, parts: Sequence[tuple[list[int], list[int]]]) -> Split:
    """Return a split from the test and validation grids of each shape."""
    is_test, is_validation = (
        np.isin(scenes.grids, list(chain(*grids))) for grids in zip(*parts, strict=True)
    )
    masks = (~is_test & ~is_validation, is_validation, is_test)
    return Split(*map(np.flatnonzero, masks))


def _shuffled_grids(scenes: Scenes, seed: int, least: int) -> list[list[int]]:
    """Return the grids of each shape in random order; a shape and its transpose count as one."""
    shapes = np.sort(scenes.shapes, axis=1)
    rng = np.random.default_rng(seed)
    out = []
    for shape in np.unique(shapes, axis=0):
        grids = np.unique(scenes.grids[(shapes == shape).all(axis=1)])
        if len(grids) < least:
            raise InvalidParameterError(
                f"a shape has {len(grids)} grids, expected at least {least} for training, "
                f"validation and test; choose fewer parts or use more grids"
            )
        out.append(rng.permutation(grids).tolist())
    return out
