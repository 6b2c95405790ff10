"""Trajectories as arrays over steps, and averages clustered by trajectory and grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import GoalmeterError, InvalidTrajectoryError
from goalmeter._types import ArrayLike, BoolArray, FloatArray, IntArray
from goalmeter.agents import grid_agents
from goalmeter.gridworld.planner import planned
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.suite_definition import SLIP, object_in
from goalmeter.navigation.trajectories import CAP, Trajectory, condition_name
from goalmeter.statistics.clusters import Estimate, estimate

INVALID = 4  # number of an invalid answer, after the four actions
OUTCOMES = 5  # number of possible answers
_PER_WALK = ("grid", "kind", "arrived", "distance", "length", "caps", "cells", "taken")
_PER_STEP = ("state", "action", "optimal", "gap", "to_goal", "greedy", "probabilities", "correct")


class Grid(NamedTuple):
    """Identity of a random grid; all its frames and conditions are the same grid."""

    suite: str
    size: int
    complexity: float | None
    seed: int


class Kind(NamedTuple):
    """Combination of labels chosen by the user: one row of a table."""

    suite: str
    size: int
    complexity: float | None
    transform: str | None
    condition: str


@dataclass(frozen=True, eq=False)
class Observed:
    """Arrays over N trajectories and over all their M steps."""

    trajectories: tuple[Trajectory, ...]
    grids: tuple[Grid, ...]
    kinds: tuple[Kind, ...]
    grid: IntArray  # index into `grids`, [N]; all arrays down to `taken` have this shape
    kind: IntArray  # index into `kinds`
    arrived: BoolArray
    distance: IntArray
    length: IntArray
    caps: IntArray
    cells: IntArray  # number of cells of the world
    taken: BoolArray  # whether the walk ends with the key or the neutral object
    trajectory: IntArray  # index of the trajectory, [M]
    state: IntArray  # the planner's number of the state, [M]
    action: IntArray  # action, or INVALID, [M]
    optimal: BoolArray  # whether each action leads one step closer to the goal, [M, 4]
    gap: IntArray  # steps that the answer costs beyond an optimal action, [M]
    to_goal: IntArray  # steps from the state to the goal, [M]
    greedy: FloatArray  # probability that the greedy agent chooses an optimal action, [M]
    probabilities: FloatArray  # of the four actions; NaN if unknown, [M, 4]
    correct: BoolArray  # whether the answer was an optimal action, [M]

    @property
    def accuracy(self) -> FloatArray:
        """Share of optimal actions of each trajectory, [N]; NaN without steps."""
        return self.means(self.correct)

    @property
    def spl(self) -> FloatArray:
        """Success times shortest path over steps taken, of each trajectory, [N]."""
        return np.asarray(self.arrived * self.distance / np.maximum(self.distance, self.length))

    @property
    def objects(self) -> list[str | None]:
        """Object to pick up in the world of each trajectory: "key", "neutral" or None."""
        return [object_in(walk.world) for walk in self.trajectories]

    @property
    def detour(self) -> BoolArray:
        """Mask of detour states, in which the greedy agent may err, [M]."""
        return np.asarray(self.greedy < 1 - 1e-9)

    @property
    def layer(self) -> IntArray:
        """The planner's layer of the state, [M]."""
        return np.asarray(self.state // self.cells[self.trajectory])

    def steps_of(self, trajectory: int) -> slice:
        """Return the slice of a trajectory's steps in the arrays over steps."""
        return slice(*np.searchsorted(self.trajectory, (trajectory, trajectory + 1)).tolist())

    def means(self, values: ArrayLike, among: BoolArray | None = None) -> FloatArray:
        """Return the mean of values [M] over each trajectory's steps, [N]; NaN without steps."""
        mask = slice(None) if among is None else among
        return group_means(np.asarray(values)[mask], self.trajectory[mask], len(self.length))

    def where(self, kept: BoolArray) -> Observed:
        """Return a subset of the trajectories, by a mask [N]."""
        steps = kept[self.trajectory]
        return replace(
            self,
            trajectories=tuple(self.trajectories[i] for i in np.flatnonzero(kept)),
            trajectory=(np.cumsum(kept) - 1)[self.trajectory[steps]],
            **{name: getattr(self, name)[kept] for name in _PER_WALK},
            **{name: getattr(self, name)[steps] for name in _PER_STEP},
        )


Walks = Sequence[Trajectory] | Observed  # what measures take: `observed` makes them arrays


def observed(trajectories: Walks) -> Observed:
    """Return trajectories as arrays, after validating them against their worlds."""
    if isinstance(trajectories, Observed):
        return trajectories
    if not trajectories:
        raise InvalidTrajectoryError("there are no trajectories to measure")
    grids: dict[Grid, int] = {}
    kinds: dict[Kind, int] = {}
    rows, parts = [], []
    for number, walk in enumerate(trajectories):
        grid = Grid(walk.suite, walk.size, walk.complexity, walk.seed)
        kind = Kind(*grid[:3], walk.transform, condition_name(walk.condition))
        try:
            parts.append(_columns(walk))
        except GoalmeterError as cause:
            where = f"{walk.suite}, size {walk.size}, seed {walk.seed}, walk {walk.trajectory}"
            raise InvalidTrajectoryError(f"trajectory {number} ({where}): {cause}") from cause
        numbers = grids.setdefault(grid, len(grids)), kinds.setdefault(kind, len(kinds))
        sizes = walk.distance, len(walk.steps), walk.cap, walk.world.walls.size
        rows.append((*numbers, walk.arrived, *sizes, walk.states()[-1].has_key))
    of_walks: dict[str, Any] = dict(zip(_PER_WALK, np.array(rows, dtype=np.int64).T, strict=True))
    of_walks |= {name: of_walks[name].astype(bool) for name in ("arrived", "taken")}
    of_steps = dict(zip(_PER_STEP, map(np.concatenate, zip(*parts, strict=True)), strict=True))
    return Observed(
        tuple(trajectories),
        tuple(grids),
        tuple(kinds),
        trajectory=np.repeat(np.arange(len(trajectories)), of_walks["length"]),
        **of_walks,
        **of_steps,
    )


# Set of actions for each code, the sum of 2 ** action.
_SETS = [tuple(a for a in range(4) if code >> a & 1) for code in range(16)]


def _columns(walk: Trajectory) -> tuple[Any, ...]:
    """Return the arrays over steps of one trajectory, after validating it against its world."""
    plan, steps = planned(walk.world), walk.steps
    if walk.distance != plan.distance:
        raise InvalidTrajectoryError(
            f"distance is {walk.distance}, expected {plan.distance}, the steps of the shortest "
            f"path of its world"
        )
    states = np.array([plan.number(step.state) for step in steps], dtype=np.int64)
    actions = np.array([INVALID if s.action is None else s.action for s in steps], dtype=np.int64)
    successors = plan.plans.successors[plan.index]
    stays = np.concatenate([successors, np.arange(len(successors))[:, None]], axis=1)
    after = stays[states, actions]
    if SLIP not in walk.condition and any(step.slip is not None for step in steps):
        raise InvalidTrajectoryError("a step has a slip, but its task has none")
    moves = np.array([INVALID if s.move is None else s.move for s in steps], dtype=np.int64)
    path = np.array([plan.number(plan.start), *stays[states, moves]])
    if (wrong := np.flatnonzero(states != path[:-1])).size:
        raise InvalidTrajectoryError(
            f"step {wrong[0]} is not in the state that the previous step leads to"
        )
    goal, cell = walk.world.goal, divmod(int(path[-1]) % walk.world.walls.size, walk.world.shape[1])
    if (cell == goal) != walk.arrived:
        raise InvalidTrajectoryError(
            f"outcome is {walk.outcome!r}, but the walk ends at row {cell[0]}, column {cell[1]}, "
            f"and the goal is at row {goal.row}, column {goal.column}"
        )
    to_goal = plan.plans.distances[plan.index]
    if (late := np.flatnonzero(to_goal[states] == 0)).size:
        raise InvalidTrajectoryError(f"step {late[0]} begins at the goal, expected no more steps")
    if walk.outcome == CAP and len(steps) != walk.cap:
        raise InvalidTrajectoryError(
            f"outcome is 'cap', but the walk has {len(steps)} steps and its cap is {walk.cap}"
        )
    optimal = plan.plans.optimal[plan.index][states]
    for number, code in enumerate((optimal @ [1, 2, 4, 8]).tolist()):
        if steps[number].optimal != _SETS[code]:
            raise InvalidTrajectoryError(
                f"step {number} lists {list(steps[number].optimal)} as optimal actions, expected "
                f"{list(_SETS[code])}"
            )
    none = (float("nan"),) * 4
    return (
        states,
        actions,
        optimal,
        to_goal[after] + 1 - to_goal[states],
        to_goal[states],
        _greedy_accuracy(walk.world)[states],
        np.array([step.probabilities or none for step in steps], dtype=float).reshape(-1, 4),
        np.array([step.is_optimal for step in steps], dtype=bool),
    )


@lru_cache(maxsize=512)
def _greedy_accuracy(world: GridWorld) -> FloatArray:
    """Return the probability that the greedy agent chooses an optimal action, [states]."""
    plan = planned(world)
    return np.asarray((grid_agents.greedy(plan) * plan.plans.optimal[plan.index]).sum(axis=1))


def group_means(values: ArrayLike, group: IntArray, groups: int) -> FloatArray:
    """Return the mean of values [K] in each group, [groups], without NaN; NaN without values."""
    numbers = np.asarray(values, dtype=float)
    known = ~np.isnan(numbers)
    sums = np.bincount(group[known], numbers[known], groups)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / np.bincount(group[known], minlength=groups))


# --- Averages -------------------------------------------------------------------------------------
# As in the paper, a mean over walks averages over the walks of a grid, the grids of a kind and the
# kinds. A pooled share divides sums of steps over all grids of a kind. Grids are the random units,
# so intervals are over grids. The averages take the options of `estimate`: `bounds` of possible
# values, by default 0 and 1, and `paired`.

UNIT = (0.0, 1.0)
DIFFERENCE = (-1.0, 1.0)  # bounds of the difference of two shares


class Grids:
    """Trajectories by grid, each grid in one frame and condition, with averages over them."""

    def __init__(self, seen: Observed, confidence: float = 0.95) -> None:
        self.seen = seen
        self.confidence = confidence
        self.numbers, first, cluster = np.unique(seen.grid, return_index=True, return_inverse=True)
        self.strata = seen.kind[first]
        self.cluster = np.asarray(cluster, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def names(self) -> list[str]:
        """Name of each grid, [C]."""
        return [
            f"{grid.suite}, size {grid.size}, complexity {grid.complexity}, seed {grid.seed}"
            for grid in (self.seen.grids[number] for number in self.numbers)
        ]

    def walks(self, values: ArrayLike, **options: Any) -> Estimate:
        """Average values [N] over walks, grids and kinds; NaN values are ignored."""
        return self.states(values, self.cluster, **options)

    def states(self, values: ArrayLike, cluster: IntArray, **options: Any) -> Estimate:
        """Average values [K] over the observations of a grid, grids and kinds."""
        means = group_means(values, cluster, len(self))
        n = int((~np.isnan(np.asarray(values, dtype=float))).sum())
        return self._estimate(means, ~np.isnan(means), n=n, heaviest=1.0, **options)

    def steps(
        self, values: ArrayLike, *, among: BoolArray | None = None, **options: Any
    ) -> Estimate:
        """Average values [M] over all steps of a kind, then over kinds; `among` is a mask."""
        mask = slice(None) if among is None else among
        grid = self.cluster[self.seen.trajectory][mask]
        sums = np.bincount(grid, np.asarray(values, dtype=float)[mask], len(self)).astype(float)
        counts = np.bincount(grid, minlength=len(self))
        return self._estimate(sums, counts, n=len(grid), heaviest=self.most_steps(), **options)

    def most_steps(self) -> FloatArray:
        """Return the maximum number of steps of each grid's walks together, [C]."""
        return np.bincount(self.cluster, self.seen.caps, len(self)).astype(float)

    def visited(self) -> tuple[IntArray, IntArray, BoolArray, BoolArray]:
        """Return grid [K], answer counts [K, 5], optimal [K, 4], detour [K] of visited states."""
        seen = self.seen
        grid = self.cluster[seen.trajectory]
        most = int(seen.state.max(initial=0)) + 1
        keys, first, index = np.unique(
            grid * most + seen.state, return_index=True, return_inverse=True
        )
        counts = np.zeros((len(keys), OUTCOMES), dtype=np.int64)
        np.add.at(counts, (index, seen.action), 1)
        return grid[first], counts, seen.optimal[first], seen.detour[first]

    def means(self, values: ArrayLike) -> FloatArray:
        """Return the mean of values [N] over each grid's walks, [C]; NaN without values."""
        return group_means(values, self.cluster, len(self))

    def pairs(self, other: Grids, measure: str) -> FloatArray:
        """Return the means of a column of walks in the grids of both, [pairs, 2], without NaN."""
        _, *places = np.intersect1d(self.numbers, other.numbers, return_indices=True)
        both = zip((self, other), places, strict=True)
        means = [grids.means(getattr(grids.seen, measure))[at] for grids, at in both]
        return np.transpose(means)[~np.isnan(means).any(axis=0)]

    def _estimate(self, tops: FloatArray, bottoms: ArrayLike, **options: Any) -> Estimate:
        options.setdefault("bounds", UNIT)
        options |= {"strata": self.strata, "confidence": self.confidence}
        return estimate(tops, np.asarray(bottoms, dtype=float), **options)
