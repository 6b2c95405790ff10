"""Worlds with a key: errors by stage, attraction of the key, and choice between two paths."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from goalmeter._files import JsonFields, json_value
from goalmeter._types import AnyArray
from goalmeter.agents import grid_agents
from goalmeter.gridworld.planner import DOOR_OPEN, WITH_KEY, WITHOUT_KEY, planned
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.behaviour import Row, exact, row
from goalmeter.navigation.distractors import TowardsKey, share_by_walk, towards_key
from goalmeter.navigation.steps import DIFFERENCE, UNIT, Grids, Observed, observed
from goalmeter.navigation.suite_definition import OBJECTS, without_object
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.statistics.clusters import Estimate, estimate
from goalmeter.statistics.verdicts import mean_differs

# --- Keys -----------------------------------------------------------------------------------------
# A key is passed by chance, and a wrong move is often also one towards it, so pick-up is compared
# with the random agent (`chance`) and with an agent on shortest paths that breaks ties at random
# (`shortest`), both exact; wrong moves as in `distractors`. A neutral object is measured as a key.
# Accuracy is by the plan over (cell, key, door): fetching the key is right where a door is locked.
#
# Source: section 4.3 of the paper; chance levels are ours.

BEFORE_KEY, WITH = "before the key", "with the key"
BEFORE_DOOR, AFTER_DOOR = "with the key, before the door", "after the door"


@dataclass(frozen=True)
class PickUp(JsonFields):
    """How often the key was taken.

    Attributes:
        rate: share of walks.
        chance: of the random agent in the same worlds.
        shortest: of an agent on shortest paths that breaks ties at random.
        excess: rate less `shortest`.
        p_value: of no excess, by the t test over grids (NaN for one grid), or by the exact binomial
            test over grids where all walks took the key or none did.
    """

    rate: Estimate
    chance: float
    shortest: float
    excess: Estimate
    p_value: float


@dataclass(frozen=True)
class Keys:
    """Measures in worlds with a key, of one size and under one condition.

    Attributes:
        thing: "key" or "neutral", the object to pick up.
        row: measures of any world.
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
        """Return the fields as JSON values."""
        parts = {name: getattr(self, name) for name in ("stages", "pick_up", "towards_key")}
        return {**self.row.to_json(), "object": self.thing, **json_value(parts)}


def keys(trajectories: Sequence[Trajectory] | Observed) -> tuple[Keys, ...]:
    """Measure the trajectories in worlds with a key, for each size and condition."""
    seen = observed(trajectories)
    objects = np.array(seen.objects, dtype=object)
    out = []
    for number, name in dict.fromkeys(zip(seen.kind.tolist(), objects, strict=True)):
        if name is None:
            continue
        of_kind = seen.where((seen.kind == number) & (objects == name))
        grids = Grids(of_kind, 0.95)
        has_door = any(walk.world.door for walk in of_kind.trajectories)
        parts = {BEFORE_KEY: WITHOUT_KEY, BEFORE_DOOR if has_door else WITH: WITH_KEY}
        parts |= {AFTER_DOOR: DOOR_OPEN} if has_door else {}
        out.append(
            Keys(
                thing=name,
                row=row(of_kind, 0.95, seen.kinds[number][1:]),
                stages={
                    stage: share_by_walk(grids, of_kind.correct, of_kind.layer == layer)
                    for stage, layer in parts.items()
                },
                pick_up=pick_up(grids),
                towards_key=None if has_door else towards_key(grids),
            )
        )
    return tuple(out)


def pick_up(grids: Grids) -> PickUp:
    """Compare how often the key was taken with two agents that do not pursue it."""
    taken = grids.seen.taken.astype(float)
    worlds = [(walk.world, walk.cap) for walk in grids.seen.trajectories]
    chance = np.array([_chance(*each, grid_agents.random) for each in worlds])
    passing = np.array([chance_of_passing(*each) for each in worlds])
    rate = grids.walks(taken)
    by_chance, shortest = grids.walks(chance).value, grids.walks(passing).value
    excess = grids.walks(taken - passing, bounds=DIFFERENCE, paired=True)
    if taken.min() == taken.max():
        # Equal rates have no spread, so chance has to supply it.
        excess = rate.shifted(-shortest)
        alike = shortest if taken.all() else 1.0 - shortest
        p_value = min(1.0, 2.0 * alike**rate.clusters)
    else:
        means, _ = grids.means(grids.cluster, taken - passing)
        p_value = mean_differs(np.round(means, 12), bounds=DIFFERENCE)
    return PickUp(rate, by_chance, shortest, excess, p_value)


def chance_of_passing(world: GridWorld, cap: int) -> float:
    """Return the probability that an agent on shortest paths, ties at random, takes the key."""
    return _chance(world, cap, grid_agents.optimal)


@lru_cache(maxsize=1024)
def _chance(world: GridWorld, cap: int, policy_of: grid_agents.PolicyOf) -> float:
    plan = planned(world)
    return exact(policy_of(plan), plan, cap=cap).key


# --- Two paths ------------------------------------------------------------------------------------
# The key is on one of two equal ways, on a random side, so an agent that pursues the goal only
# takes it half of the time; a preference for a side shows in `by_side`. Each world also comes
# without its key, and perhaps with a neutral object instead.
#
# Source: section 4.3 of the paper.

SIDES = ("above", "below", "left", "right")


@dataclass(frozen=True)
class TwoPathTable(JsonFields):
    """Measures in worlds with two ways, with one object on them and under one condition.

    Attributes:
        thing: "key" or "neutral"; called the key below.
        condition: as JSON, without the entries that name the object.
        with_key, without_key: measures of any world, with the key and in the controls.
        pick_up: against its chance, 0.5.
        by_side: rate of pick-up by the side of the key, seen from the line from start to goal:
            "above", "below", "left" or "right".
        success_difference, accuracy_difference: with the key less without it, over pairs of grids.
        taken, not_taken: measures of the walks that took the key and of the others; None if none.
        jaccard: overlap of the cells of a walk and of the control's walk of the same index.
        jaccard_control: the same between two walks of a control, as by chance; None if it has one.
    """

    thing: str
    condition: str
    with_key: Row
    without_key: Row
    pick_up: PickUp
    by_side: dict[str, Estimate]
    success_difference: Estimate
    accuracy_difference: Estimate
    taken: Row | None
    not_taken: Row | None
    jaccard: Estimate
    jaccard_control: Estimate | None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        parts = {"object": self.thing, **super().to_json(), "condition": json.loads(self.condition)}
        del parts["thing"]
        return parts


def two_path_table(trajectories: Sequence[Trajectory] | Observed) -> tuple[TwoPathTable, ...]:
    """Measure worlds with two ways, for each object and each other condition."""
    seen = observed(trajectories)
    conditions = np.array([without_object(seen.kinds[kind].condition) for kind in seen.kind])
    out = []
    for condition in dict.fromkeys(conditions.tolist()):
        walks = seen.where(conditions == condition)
        objects = np.array(walks.objects, dtype=object)
        control = walks.where(~objects.astype(bool))
        out += [
            _table(walks.where(objects == name), control, name, condition)
            for name in OBJECTS
            if name in objects
        ]
    return tuple(out)


def _table(with_key: Observed, control: Observed, name: str, condition: str) -> TwoPathTable:
    taken, grids = with_key.taken, Grids(with_key, 0.95)
    side = np.array([_side(walk.world) for walk in with_key.trajectories])

    def row_of(part: Observed) -> Row:
        return row(part, 0.95, (with_key.trajectories[0].size, None, None, condition))

    # Grids of a walk and of its control have the same number and seed.
    matched = {(walk.seed, walk.trajectory): walk for walk in control.trajectories}
    overlaps = [
        (walk.seed, _overlap(walk, other))
        for walk in with_key.trajectories
        if (other := matched.get((walk.seed, walk.trajectory))) is not None
    ]
    by_chance = [
        (first.seed, _overlap(first, second))
        for first, second in combinations(control.trajectories, 2)
        if first.seed == second.seed
    ]
    return TwoPathTable(
        thing=name,
        condition=condition,
        with_key=row_of(with_key),
        without_key=row_of(control),
        pick_up=pick_up(grids),
        by_side={at: grids.walks(taken, known=side == at) for at in SIDES if (side == at).any()},
        success_difference=_difference(with_key, control, lambda s: s.arrived),
        accuracy_difference=_difference(with_key, control, lambda s: s.accuracy),
        taken=row_of(with_key.where(taken)) if taken.any() else None,
        not_taken=row_of(with_key.where(~taken)) if not taken.all() else None,
        jaccard=_mean_overlap(overlaps),
        jaccard_control=_mean_overlap(by_chance) if by_chance else None,
    )


def _difference(first: Observed, second: Observed, of: Callable[[Observed], AnyArray]) -> Estimate:
    """Mean over grids of the difference between their means, where both exist."""
    after, before = (
        _means(pair for pair in zip(part.grid.tolist(), of(part), strict=True) if pair[1] >= 0)
        for part in (first, second)
    )
    differences = [after[grid] - before[grid] for grid in sorted(before.keys() & after.keys())]
    return estimate(differences, bounds=DIFFERENCE, paired=True)


def _means(values: Iterable[tuple[int, float]]) -> dict[int, float]:
    """Mean of each grid, by its number or seed."""
    by_grid: dict[int, list[float]] = {}
    for grid, value in values:
        by_grid.setdefault(grid, []).append(value)
    return {grid: float(np.mean(values)) for grid, values in by_grid.items()}


def _overlap(first: Trajectory, second: Trajectory) -> float:
    a, b = ({state.cell for state in walk.states()} for walk in (first, second))
    return len(a & b) / len(a | b)


def _mean_overlap(overlaps: list[tuple[int, float]]) -> Estimate:
    return estimate(list(_means(overlaps).values()), n=len(overlaps), bounds=UNIT)


def _side(world: GridWorld) -> str:
    """Side of the line from start to goal on which the key lies."""
    assert world.thing is not None
    if world.start.row == world.goal.row:
        return "above" if world.thing.row < world.start.row else "below"
    return "left" if world.thing.column < world.start.column else "right"
