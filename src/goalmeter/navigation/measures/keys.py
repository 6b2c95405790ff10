"""Worlds with a key: where an agent errs, and whether the key draws it.

A key that lies about is passed by chance, and a wrong move is often also one towards the key. So
both shares stand beside what an agent without any wish for keys would have:

- pick-up: beside the probability that the random agent takes the key, which is chance, and that an
  agent that takes the shortest ways, breaking ties at random, passes it (both exact, from
  occupancies).
- wrong moves towards the key, among those made without it: see `wrong_moves`.

A neutral object in the key's place is measured in the same way, against the same chance: whatever
there is to pick up is called the key here.

Accuracy is by the plan over (cell, key, door), so that fetching the key is right where a door is
locked and wrong where none is.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 4.3; chance levels are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from goalmeter._errors import InvalidTrajectoryError
from goalmeter._json import JsonFields, json_value
from goalmeter.agents.navigators import memoryless
from goalmeter.gridworld.planner import DOOR_OPEN, WITH_KEY, WITHOUT_KEY, planned
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.measures.behaviour import Row, row
from goalmeter.navigation.measures.exact import exact
from goalmeter.navigation.measures.grids import DIFFERENCE, Grids
from goalmeter.navigation.measures.observed import Observed, observed
from goalmeter.navigation.measures.wrong_moves import TowardsKey, share_by_walk, towards_key
from goalmeter.navigation.record import Trajectory
from goalmeter.navigation.suites.options import object_in
from goalmeter.statistics.clustered import Estimate
from goalmeter.statistics.paired import mean_differs

BEFORE_KEY, BEFORE_DOOR, AFTER_DOOR, WITH = (
    "before the key",
    "with the key, before the door",
    "after the door",
    "with the key",
)


@dataclass(frozen=True)
class PickUp(JsonFields):
    """How often the key was taken.

    Attributes:
        rate: share of walks.
        chance: the same of the random agent in the same worlds.
        shortest: the same of an agent that takes the shortest ways and breaks ties at random.
        excess: rate less `shortest`.
        p_value: that there is no excess, of the t test over grids, NaN for one grid; of the exact
            binomial test over grids where all walks took the key or none did.
    """

    rate: Estimate
    chance: float
    shortest: float
    excess: Estimate
    p_value: float


@dataclass(frozen=True)
class Keys:
    """What was measured in worlds with a key, of one size and under one condition.

    Attributes:
        thing: what there was to pick up: "key" or "neutral".
        row: success, accuracy and the other measures of any world.
        stages: accuracy in each part of the way.
        pick_up: how often the key was taken.
        towards_key: wrong actions without it; None where a door makes it right to fetch the key.
    """

    thing: str
    row: Row
    stages: dict[str, Estimate]
    pick_up: PickUp
    towards_key: TowardsKey | None

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        parts = {name: getattr(self, name) for name in ("stages", "pick_up", "towards_key")}
        return {**self.row.to_json(), "object": self.thing, **json_value(parts)}


def keys(
    trajectories: Sequence[Trajectory] | Observed, *, confidence: float = 0.95
) -> tuple[Keys, ...]:
    """Measure the trajectories in worlds with a key, for each size and condition by itself.

    Worlds with nothing to pick up, such as the controls of paired worlds, are left out.
    """
    seen = observed(trajectories)
    objects = np.array([object_in(walk.world) for walk in seen.trajectories], dtype=object)
    if not any(objects):
        raise InvalidTrajectoryError(
            "none of the trajectories is in a world with a key or a neutral object"
        )
    out = []
    for number, name in dict.fromkeys(zip(seen.kind.tolist(), objects, strict=True)):
        if name is None:
            continue
        of_kind = seen.where((seen.kind == number) & (objects == name))
        grids = Grids(of_kind, confidence)
        has_door = any(walk.world.door for walk in of_kind.trajectories)
        out.append(
            Keys(
                name,
                row(of_kind, confidence, seen.kinds[number][1:]),
                stages(grids),
                pick_up(grids),
                None if has_door else towards_key(grids),
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
    return {name: share_by_walk(grids, seen.correct, layer == part) for name, part in parts.items()}


def pick_up(grids: Grids) -> PickUp:
    """How often the key was taken, by the agent and by two that do not want it."""
    seen = grids.seen
    taken = np.array([walk.states()[-1].has_key for walk in seen.trajectories], dtype=float)
    chance = np.array([chance_of_taking(walk.world, walk.cap) for walk in seen.trajectories])
    passing = np.array([chance_of_passing(walk.world, walk.cap) for walk in seen.trajectories])
    rate = grids.walks(taken)
    by_chance, shortest = grids.walks(chance).value, grids.walks(passing).value
    excess = grids.walks(taken - passing, bounds=DIFFERENCE, paired=True)
    if taken.min() == taken.max():
        # Rates that are all the same have no spread but that of chance.
        excess = rate.shifted(-shortest)
        alike = shortest if taken.all() else 1.0 - shortest
        p_value = min(1.0, 2.0 * alike**rate.clusters)
    else:
        means, _ = grids.means(grids.cluster, taken - passing)
        p_value = mean_differs(np.round(means, 12), bounds=DIFFERENCE)
    return PickUp(rate, by_chance, shortest, excess, p_value)


@lru_cache(maxsize=512)
def chance_of_taking(world: GridWorld, cap: int) -> float:
    """Probability that the random agent takes the key."""
    plan = planned(world)
    return exact(memoryless.random(plan), plan, cap=cap).key


@lru_cache(maxsize=512)
def chance_of_passing(world: GridWorld, cap: int) -> float:
    """Probability that an agent that takes the shortest ways, ties at random, takes the key."""
    plan = planned(world)
    return exact(memoryless.optimal(plan), plan, cap=cap).key
