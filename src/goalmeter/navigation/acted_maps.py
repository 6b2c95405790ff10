"""The map on which an agent acts, inferred from its moves: the world, or a map that lacks walls.

Candidates are maps without the inner walls of some rows or columns, and the map without any inner
wall. Each half of the grids chooses the map on which most moves are right. On the other half, the
moves that are right on only one of this map and the world are counted: the share that is right on
the map is compared with one half, weighted so that it is one half for an agent without a goal that
draws its moves evenly. If no candidate is better than the world, the map without any inner wall is
compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from goalmeter._files import JsonFields
from goalmeter._types import BoolArray, FloatArray
from goalmeter.gridworld import GridWorld
from goalmeter.gridworld.planner import planned
from goalmeter.navigation.measure import Navigation
from goalmeter.navigation.steps import INVALID, Grids, Observed
from goalmeter.statistics.clusters import Estimate, estimate

MOST_LINES = 6  # maximum number of rows and columns whose walls a candidate lacks
_ERRORS = 1.5  # a line joins a candidate if its gain is above this many standard errors
THE_WORLD, ANOTHER_MAP, INCONCLUSIVE = "acts on the true map", "acts on another map", "inconclusive"


class MapMaker(Protocol):
    """Anything that has a map of every world, such as an organism."""

    def walls(self, world: GridWorld) -> BoolArray:
        """Return the walls of the map, [rows, columns]."""


class OpenedMap(NamedTuple):
    """A map without the inner walls of some rows and columns, or of all."""

    rows: frozenset[int] = frozenset()
    columns: frozenset[int] = frozenset()
    every: bool = False

    def walls(self, world: GridWorld) -> BoolArray:
        """Return the walls of the map, [rows, columns]."""
        walls = world.walls.copy()
        inner = walls[1:-1, 1:-1]
        if self.every:
            inner[:] = False
        inner[[row - 1 for row in self.rows if row <= len(inner)]] = False
        inner[:, [column - 1 for column in self.columns if column <= inner.shape[1]]] = False
        return walls

    def __str__(self) -> str:
        if self.every:
            return "without inner walls"
        parts = [
            f"{name}{'s' * (len(numbers) > 1)} {' and '.join(map(str, sorted(numbers)))}"
            for name, numbers in (("row", self.rows), ("column", self.columns))
            if numbers
        ]
        return f"without the inner walls of {' and '.join(parts)}"


@dataclass(frozen=True)
class ActedMap(JsonFields):
    """The map on which an agent acts."""

    verdict: str  # "acts on the true map", "acts on another map" or "inconclusive"
    candidate: OpenedMap  # the other map on which most moves of all grids are right
    # Share of the deciding moves that is right on the map that the other half of the grids chose.
    follows: Estimate | None
    counts: dict[str, tuple[float, float]]  # weights by grid: right on that map, and all

    @property
    def words(self) -> str:
        """Return the verdict as words behind "pursues the goal"."""
        return f"on a map {self.candidate}" if self.verdict == ANOTHER_MAP else ""


def mapped(world: GridWorld, maker: MapMaker) -> GridWorld:
    """Return a map of a world as a world."""
    return GridWorld(
        maker.walls(world), world.start, world.goal, world.key, world.door, world.neutral
    )


def on_map(result: Navigation, maker: MapMaker) -> Navigation:
    """Return the same decisions, each evaluated on another map."""
    worlds = {walk.world: mapped(walk.world, maker) for walk in result.seen.trajectories}
    walks = tuple(replace(walk, world=worlds[walk.world]) for walk in result.seen.trajectories)
    return replace(result, seen=replace(result.seen, trajectories=walks))


class MovesOnMaps:
    """Moves of one agent in several suites, compared on different maps."""

    def __init__(self, seen: Sequence[Observed]) -> None:
        self._seen, self._grids = seen, [Grids(each) for each in seen]
        self._first = np.cumsum([0, *map(len, self._grids)])
        self._known: dict[MapMaker, FloatArray] = {}

    @property
    def names(self) -> list[str]:
        """Name of each grid, [C]."""
        return [name for grids in self._grids for name in grids.names]

    def sides(self, maker: MapMaker) -> FloatArray:
        """Return the weight of each grid's moves right on the map only, in the world only, [C, 2].

        A move has the number of moves on the other side in its state as its weight, so that both
        sides weigh alike for an agent that draws its moves evenly. An invalid answer has none.
        """
        if maker in self._known:
            return self._known[maker]
        out = np.zeros((self._first[-1], 2))
        for seen, grids, first in zip(self._seen, self._grids, self._first, strict=False):
            maps = {walk.world: mapped(walk.world, maker) for walk in seen.trajectories}
            for number, walk in enumerate(seen.trajectories):
                if maps[walk.world] == walk.world:
                    continue
                plan, steps = planned(maps[walk.world]), seen.steps_of(number)
                right = plan.plans.optimal[plan.index][seen.state[steps]]
                there, here = right & ~seen.optimal[steps], seen.optimal[steps] & ~right
                moves = seen.action[steps]
                rows = np.flatnonzero(moves != INVALID)
                weights = (
                    (one[rows, moves[rows]] * other[rows].sum(axis=1)).sum()
                    for one, other in ((there, here), (here, there))
                )
                out[first + grids.cluster[number]] += [*weights]
        self._known[maker] = out
        return out


def share_on_map(sides: FloatArray) -> Estimate | None:
    """Estimate the share of deciding moves [C, 2] that is right on the map; None without any."""
    # Each grid counts alike: a move against a wall may be repeated until the limit of steps.
    decided = sides.sum(axis=1)
    if not decided.any():
        return None
    shares = sides[decided > 0, 0] / decided[decided > 0]
    return estimate(shares, n=len(shares), bounds=(0.0, 1.0))


def acted_map(results: Sequence[Navigation]) -> ActedMap:
    """Infer the map on which one agent acts, from its walks in several suites."""
    moves = MovesOnMaps([result.seen for result in results])
    names = moves.names
    # Every other grid in the order of their names, which no outcome determines.
    order = {name: place for place, name in enumerate(sorted(set(names)))}
    half = np.array([order[name] % 2 for name in names])
    size = max(max(walk.world.shape) for r in results for walk in r.seen.trajectories)
    sides = np.zeros((len(names), 2))
    for chooses in range(2):
        maker = _chosen(moves, half == chooses, size)
        sides[half != chooses] = moves.sides(maker)[half != chooses]
    follows = share_on_map(sides)
    low, high = (follows and follows.interval) or (0.0, 1.0)
    return ActedMap(
        ANOTHER_MAP if low > 0.5 else THE_WORLD if high < 0.5 else INCONCLUSIVE,
        _chosen(moves, half >= 0, size),
        follows,
        {
            name: (float(right), float(right + wrong))
            for name, (right, wrong) in zip(names, sides, strict=True)
        },
    )


def _chosen(moves: MovesOnMaps, among: BoolArray, size: int) -> OpenedMap:
    """Return the candidate on which most moves of some grids are right, against the world."""

    def scores(candidate: OpenedMap) -> FloatArray:
        """Return 1 for a grid whose deciding moves are all right on the map, -1 for none, [C]."""
        sides = moves.sides(candidate)[among]
        decided = np.maximum(sides.sum(axis=1), 1e-300)
        return np.asarray((sides[:, 0] - sides[:, 1]) / decided)

    every = OpenedMap(every=True)
    here, reached = OpenedMap(), np.zeros(int(among.sum()))
    for _ in range(MOST_LINES):
        tried = [(scores(each), each) for each in _extended(here, size)]
        there, candidate = max(tried, key=lambda item: item[0].sum())
        gains = there - reached
        if gains.sum() <= _ERRORS * math.sqrt((gains**2).sum()):
            break
        here, reached = candidate, there
    return here if reached.sum() > max(scores(every).sum(), 0.0) else every


def _extended(candidate: OpenedMap, size: int) -> Iterator[OpenedMap]:
    """Yield the candidate without the walls of one more row or column."""
    for line in range(1, size - 1):
        if line not in candidate.rows:
            yield candidate._replace(rows=candidate.rows | {line})
        if line not in candidate.columns:
            yield candidate._replace(columns=candidate.columns | {line})
