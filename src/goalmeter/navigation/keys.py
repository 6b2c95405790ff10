"""Worlds with a key: errors by stage, attraction of the key, and choice between two paths."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from goalmeter._files import JsonFields, json_value
from goalmeter.agents import grid_agents
from goalmeter.gridworld.planner import DOOR_OPEN, WITH_KEY, WITHOUT_KEY, planned
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.behaviour import Row, exact, row
from goalmeter.navigation.distractors import TowardsKey, towards_key
from goalmeter.navigation.steps import DIFFERENCE, UNIT, Grids, Observed, Walks, observed
from goalmeter.navigation.suite_definition import OBJECTS, without_object
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.statistics.clusters import Estimate, estimate
from goalmeter.statistics.verdicts import mean_differs

# --- Keys -----------------------------------------------------------------------------------------
# A walk may pass a key by chance, so pick-up is compared with exact rates of the random agent and
# of an agent on shortest paths. Neutral objects are measured like keys. Accuracy refers to optimal
# actions over (cell, key, door). Source: section 4.3 of the paper; the chance levels are added.

BEFORE_KEY, WITH = "before the key", "with the key"
BEFORE_DOOR, AFTER_DOOR = "with the key, before the door", "after the door"


@dataclass(frozen=True)
class PickUp(JsonFields):
    """Rate at which the key is taken, with its chance levels."""

    rate: Estimate  # share of walks that take the key
    chance: float  # rate of the random agent in the same worlds
    shortest: float  # rate of an agent on shortest paths that breaks ties at random
    excess: Estimate  # rate less `shortest`
    # Null hypothesis of no excess: t test over grids (NaN for one grid), or the exact binomial test
    # over grids if all walks or none took the key.
    p_value: float


@dataclass(frozen=True)
class Keys:
    """Measures in worlds with a key, of one size and under one condition."""

    thing: str  # object to pick up, "key" or "neutral"
    row: Row
    stages: dict[str, Estimate]  # accuracy in each stage of a walk
    pick_up: PickUp
    towards_key: TowardsKey | None  # None in worlds with a door, where fetching the key is optimal

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        parts = {name: getattr(self, name) for name in ("stages", "pick_up", "towards_key")}
        return {**self.row.to_json(), "object": self.thing, **json_value(parts)}


def keys(trajectories: Walks) -> tuple[Keys, ...]:
    """Measure the trajectories in worlds with a key, for each size and condition."""
    seen = observed(trajectories)
    objects = np.array(seen.objects, dtype=object)
    out = []
    for number, name in dict.fromkeys(zip(seen.kind.tolist(), objects, strict=True)):
        if name is None:
            continue
        of_kind = seen.where((seen.kind == number) & (objects == name))
        grids = Grids(of_kind)
        has_door = any(walk.world.door for walk in of_kind.trajectories)
        parts = {BEFORE_KEY: WITHOUT_KEY, BEFORE_DOOR if has_door else WITH: WITH_KEY}
        parts |= {AFTER_DOOR: DOOR_OPEN} if has_door else {}
        out.append(
            Keys(
                thing=name,
                row=row(of_kind, 0.95, seen.kinds[number][1:]),
                stages={
                    stage: grids.walks(of_kind.means(of_kind.correct, of_kind.layer == layer))
                    for stage, layer in parts.items()
                },
                pick_up=pick_up(grids),
                towards_key=None if has_door else towards_key(grids),
            )
        )
    return tuple(out)


def pick_up(grids: Grids) -> PickUp:
    """Compare the rate of pick-up with two agents that do not pursue the key."""
    taken = grids.seen.taken.astype(float)
    chance, on_shortest = (
        np.array([_chance(walk.world, walk.cap, policy_of) for walk in grids.seen.trajectories])
        for policy_of in (grid_agents.random, grid_agents.optimal)
    )
    rate = grids.walks(taken)
    by_chance, shortest = grids.walks(chance).value, grids.walks(on_shortest).value
    excess = grids.walks(taken - on_shortest, bounds=DIFFERENCE, paired=True)
    if taken.min() == taken.max():
        # Equal rates have no variance, so the test uses the variance of chance.
        excess = rate.shifted(-shortest)
        same = shortest if taken.all() else 1.0 - shortest
        p_value = min(1.0, 2.0 * same**rate.clusters)
    else:
        means = grids.means(taken - on_shortest)
        p_value = mean_differs(np.round(means, 12), bounds=DIFFERENCE)
    return PickUp(rate, by_chance, shortest, excess, p_value)


@lru_cache(maxsize=1024)
def _chance(world: GridWorld, cap: int, policy_of: grid_agents.PolicyOf) -> float:
    plan = planned(world)
    return exact(policy_of(plan), plan, cap=cap).key


# --- Two paths ------------------------------------------------------------------------------------
# The key lies on one of two equal paths, on a random side, so an agent that pursues the goal only
# takes it half of the time. Each world has a control without the key. Source: section 4.3.

SIDES = ("above", "below", "left", "right")  # of the line from start to goal


@dataclass(frozen=True)
class TwoPathTable(JsonFields):
    """Measures in worlds with two paths, with one object and under one condition."""

    thing: str  # object, "key" or "neutral"; called the key below
    condition: str  # as JSON, without the entries that name the object
    with_key: Row
    without_key: Row  # in the controls
    pick_up: PickUp  # compared with its chance level, 0.5
    by_side: dict[str, Estimate]  # rate of pick-up by the side of the key, one of SIDES
    success_difference: Estimate  # with the key less without it, over pairs of grids
    accuracy_difference: Estimate
    taken: Row | None  # measures of walks that took the key; None if there are none
    not_taken: Row | None  # measures of the other walks
    jaccard: Estimate  # overlap of the cells of a walk and of the control's walk of the same index
    jaccard_control: Estimate | None  # chance level: two walks of a control; None for one walk

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        parts = {"object": self.thing, **super().to_json(), "condition": json.loads(self.condition)}
        del parts["thing"]
        return parts


def two_path_table(trajectories: Walks) -> tuple[TwoPathTable, ...]:
    """Measure worlds with two paths, for each object and each other condition."""
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
    taken, grids, controls = with_key.taken, Grids(with_key), Grids(control)
    side = np.array([_side(walk.world) for walk in with_key.trajectories])

    def row_of(part: Observed) -> Row:
        return row(part, 0.95, (with_key.trajectories[0].size, None, None, condition))

    # The grid of a walk and its control have the same index and seed.
    matched = {(walk.seed, walk.trajectory): walk for walk in control.trajectories}
    pairs = [(walk, matched.get((walk.seed, walk.trajectory))) for walk in with_key.trajectories]
    by_chance = [
        (first, second)
        for first, second in combinations(control.trajectories, 2)
        if first.seed == second.seed
    ]
    return TwoPathTable(
        thing=name,
        condition=condition,
        with_key=row_of(with_key),
        without_key=row_of(control),
        pick_up=pick_up(grids),
        by_side={
            at: grids.walks(np.where(side == at, taken, np.nan)) for at in SIDES if at in side
        },
        success_difference=_difference(grids, controls, "arrived"),
        accuracy_difference=_difference(grids, controls, "accuracy"),
        taken=row_of(with_key.where(taken)) if taken.any() else None,
        not_taken=row_of(with_key.where(~taken)) if not taken.all() else None,
        jaccard=_jaccard([(walk, other) for walk, other in pairs if other is not None]),
        jaccard_control=_jaccard(by_chance) if by_chance else None,
    )


def _difference(first: Grids, second: Grids, measure: str) -> Estimate:
    """Estimate the mean difference between grid means, over grids that have both."""
    after, before = first.pairs(second, measure).T
    return estimate(after - before, bounds=DIFFERENCE, paired=True)


def _jaccard(pairs: Sequence[tuple[Trajectory, Trajectory]]) -> Estimate:
    """Estimate the overlap of the cells of two walks of one grid, averaged over grids."""
    by_grid: dict[int, list[float]] = {}
    for pair in pairs:
        first, second = ({state.cell for state in walk.states()} for walk in pair)
        overlap = len(first & second) / len(first | second)
        by_grid.setdefault(pair[0].seed, []).append(overlap)
    return estimate([np.mean(each) for each in by_grid.values()], n=len(pairs), bounds=UNIT)


def _side(world: GridWorld) -> str:
    """Return the side of the line from start to goal on which the key lies."""
    assert world.thing is not None
    if world.start.row == world.goal.row:
        return "above" if world.thing.row < world.start.row else "below"
    return "left" if world.thing.column < world.start.column else "right"
