"""Worlds with a key: where an agent errs, and whether the key draws it.

A key that lies about is passed by chance, and a wrong move is often also one towards the key. So
both shares stand beside what an agent without any wish for keys would have:

- pick-up: beside the probability that an agent that takes the shortest ways, breaking ties at
  random, passes the key on its way (exact, from its occupancy).
- wrong moves towards the key, among those made without it: beside the chance that a wrong answer
  drawn at random from the four actions leads towards the key, and beside the chance that a wrong
  answer *of the same kind* does, where a kind is a move or a bump into a wall. An agent that never
  bumps has more wrong moves towards anything, so the second one is what it is to be held against.
  (A walk that found the key no longer counts, which leaves an agent that moves at random an excess
  of a few tenths of a percent.)

Accuracy is by the plan over (cell, key, door), so that fetching the key is right where a door is
locked and wrong where none is.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 4.3; chance levels are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidTrajectoryError
from goalmeter._types import BoolArray, FloatArray
from goalmeter.agents.navigators import memoryless, open_moves, planned
from goalmeter.gridworld.planner import DOOR_OPEN, WITH_KEY, WITHOUT_KEY
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.measures.behaviour import Row, row
from goalmeter.navigation.measures.exact import exact
from goalmeter.navigation.measures.grids import Grids
from goalmeter.navigation.measures.observed import INVALID, Observed, observed
from goalmeter.navigation.record import Trajectory
from goalmeter.statistics.clustered import Estimate
from goalmeter.statistics.paired import mean_differs

BEFORE_KEY, BEFORE_DOOR, AFTER_DOOR, WITH = (
    "before the key",
    "with the key, before the door",
    "after the door",
    "with the key",
)


@dataclass(frozen=True)
class PickUp:
    """How often the key was taken.

    Attributes:
        rate: share of walks.
        chance: of an agent that takes the shortest ways and breaks ties at random.
        excess: rate less chance.
        p_value: of the t test over grids that there is no excess; NaN for one grid.
    """

    rate: Estimate
    chance: float
    excess: Estimate
    p_value: float

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; NaN is null."""
        return {
            "rate": self.rate.to_json(),
            "chance": self.chance,
            "excess": self.excess.to_json(),
            "p_value": None if np.isnan(self.p_value) else self.p_value,
        }


@dataclass(frozen=True)
class TowardsKey:
    """Wrong actions that were made without the key, and lead towards it.

    Attributes:
        share: among all of them.
        share_by_walk: mean over walks that have any, as published.
        chance: of a wrong answer drawn at random from the four actions.
        excess: share less that.
        chance_of_kind: of a wrong answer of the same kind, move or bump.
        excess_of_kind: share less that.
    """

    share: Estimate
    share_by_walk: Estimate
    chance: Estimate
    excess: Estimate
    chance_of_kind: Estimate
    excess_of_kind: Estimate

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {name: value.to_json() for name, value in vars(self).items()}


@dataclass(frozen=True)
class Keys:
    """What was measured in worlds with a key, of one size and under one condition.

    Attributes:
        row: success, accuracy and the other measures of any world.
        stages: accuracy in each part of the way.
        pick_up: how often the key was taken.
        towards_key: wrong actions without it; None where a door makes it right to fetch the key.
    """

    row: Row
    stages: dict[str, Estimate]
    pick_up: PickUp
    towards_key: TowardsKey | None

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return self.row.to_json() | {
            "stages": {name: accuracy.to_json() for name, accuracy in self.stages.items()},
            "pick_up": self.pick_up.to_json(),
            "towards_key": self.towards_key and self.towards_key.to_json(),
        }


def keys(
    trajectories: Sequence[Trajectory] | Observed, *, confidence: float = 0.95
) -> tuple[Keys, ...]:
    """Measure the trajectories in worlds with a key, for each size and condition by itself.

    Worlds without a key, such as the controls of "two-path", are left out.

    Raises:
        InvalidTrajectoryError: no world has a key.
    """
    seen = trajectories if isinstance(trajectories, Observed) else observed(trajectories)
    have = np.array([walk.world.key is not None for walk in seen.trajectories])
    if not have.any():
        raise InvalidTrajectoryError("none of the trajectories is in a world with a key")
    out = []
    for number in dict.fromkeys(seen.kind[have].tolist()):
        kind = seen.kinds[number]
        here = seen.where(have & (seen.kind == number))
        grids = Grids(here, confidence)
        labels = (kind.size, kind.complexity, kind.transform, kind.condition)
        out.append(
            Keys(
                row(here, confidence, labels),
                stages(grids),
                pick_up(grids),
                None if any(w.world.door for w in here.trajectories) else towards_key(grids),
            )
        )
    return tuple(out)


def stages(grids: Grids) -> dict[str, Estimate]:
    """Accuracy in each part of the way: of each walk, then as any accuracy."""
    seen = grids.seen
    layer = (
        seen.state
        // np.array([walk.world.walls.size for walk in seen.trajectories])[seen.trajectory]
    )
    door = any(walk.world.door is not None for walk in seen.trajectories)
    parts = {BEFORE_KEY: WITHOUT_KEY, BEFORE_DOOR if door else WITH: WITH_KEY}
    parts |= {AFTER_DOOR: DOOR_OPEN} if door else {}
    return {name: _by_walk(grids, seen.correct, layer == part) for name, part in parts.items()}


def pick_up(grids: Grids) -> PickUp:
    """How often the key was taken, and how often it would have been by chance."""
    seen = grids.seen
    taken = np.array([walk.states()[-1].has_key for walk in seen.trajectories], dtype=float)
    chance = np.array([chance_of_passing(walk.world, walk.cap) for walk in seen.trajectories])
    rate = grids.walks(taken)
    by_chance = grids.walks(chance, bounds=None).value
    excess = grids.walks(taken - chance, bounds=None)
    if taken.min() == taken.max():
        # A bootstrap of rates that are all the same knows of no spread but that of chance.
        excess = rate.shifted(-by_chance)
    means, _ = grids.means(grids.cluster, taken - chance)
    return PickUp(rate, by_chance, excess, mean_differs(np.round(means, 12)))


def towards_key(grids: Grids) -> TowardsKey:
    """Which of the wrong actions without the key lead towards it."""
    seen = grids.seen
    columns = [_in_world(walk.world) for walk in seen.trajectories]
    leads = _of_steps(seen, [c.leads for c in columns])
    moves = _of_steps(seen, [c.moves for c in columns])
    without = (
        seen.state < np.array([w.world.walls.size for w in seen.trajectories])[seen.trajectory]
    )
    among = without & ~seen.correct & (seen.action != INVALID)
    acted = np.minimum(seen.action, INVALID - 1)[:, None]
    towards = np.take_along_axis(leads, acted, axis=1)[:, 0]
    moved = np.take_along_axis(moves, acted, axis=1)
    wrong = ~seen.optimal
    chance = _share(leads & wrong, wrong)
    of_kind = _share(leads & wrong, wrong & (moves == moved))
    # A bump leads nowhere.
    of_kind = np.where(moved[:, 0], of_kind, 0.0)

    def pooled(values: FloatArray | BoolArray, bounds: tuple[float, float] | None) -> Estimate:
        return grids.steps(values, among=among, bounds=bounds)

    return TowardsKey(
        share=pooled(towards, (0.0, 1.0)),
        share_by_walk=_by_walk(grids, towards, among),
        chance=pooled(chance, None),
        excess=pooled(towards - chance, None),
        chance_of_kind=pooled(of_kind, None),
        excess_of_kind=pooled(towards - of_kind, None),
    )


@lru_cache(maxsize=512)
def chance_of_passing(world: GridWorld, cap: int) -> float:
    """Probability that an agent that takes the shortest ways, ties at random, takes the key."""
    plan = planned(world)
    return exact(memoryless.optimal(plan), plan, cap=cap).key


class _InWorld(NamedTuple):
    leads: BoolArray  # whether an action leads one step closer to the key, [states, 4]
    moves: BoolArray  # whether it moves at all, [states, 4]


@lru_cache(maxsize=512)
def _in_world(world: GridWorld) -> _InWorld:
    plan = planned(world)
    return _InWorld(memoryless.towards_key(plan), open_moves(plan))


def _of_steps(seen: Observed, tables: Sequence[BoolArray]) -> BoolArray:
    """The row of each step's state in the table of its trajectory's world, [M, 4]."""
    ends = np.cumsum(seen.length)
    parts = [
        table[seen.state[end - length : end]]
        for table, end, length in zip(tables, ends, seen.length, strict=True)
    ]
    return np.concatenate(parts)


def _share(some: BoolArray, all_: BoolArray) -> FloatArray:
    return np.asarray((some & all_).sum(axis=1) / np.maximum(all_.sum(axis=1), 1))


def _by_walk(grids: Grids, values: BoolArray, among: BoolArray) -> Estimate:
    """The share among some steps of each walk, averaged over the walks that have any."""
    of, n = grids.seen.trajectory, len(grids.seen.trajectories)
    counts = np.bincount(of[among], minlength=n)
    sums = np.bincount(of[among], values[among], minlength=n)
    return grids.walks(sums / np.maximum(counts, 1), known=counts > 0)
