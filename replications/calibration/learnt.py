"""Utilities that are learnt from an agent's walks through one world, and their pictures."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from goalmeter.gridworld import ACTIONS, Cell, GridWorld, State, TabularWorld, tabular_world
from goalmeter.meg import simplest_utility, unknown_utility
from goalmeter.navigation import Trajectory
from goalmeter.report import Figure, Marks, Section, grid_map, percent
from replications.kinds import FloatArray
from replications.prose import Texts

say = Texts("calibration")

# --- Fits -----------------------------------------------------------------------------------------
# A utility of each cell, plus one of having the key. The policy is estimated from counts of actions
# in each state with a prior of a quarter of an answer for each action.

SHARE = 0.9  # of what any utility explains, that the simplest one has to explain
_PRIOR = 1.0  # answers per state, spread over the four actions
Counts = Sequence[Sequence[int]]  # rows of row, column, layer, action, count


@dataclass(frozen=True)
class Learnt:
    """Simplest utility that explains `SHARE` of what any could, scaled to 0 .. 1 over states."""

    cells: Mapping[Cell, float]  # without the key, or with it where a cell is entered only so
    key: float  # value of having the key; NaN without one
    share: float  # of the nats that any utility explains


def answers(walks: Iterable[Trajectory]) -> list[list[int]]:
    """Count actions by state."""
    counts = Counter(
        (*step.state.cell, step.state.layer, step.action)
        for walk in walks
        for step in walk.steps
        if step.action is not None
    )
    return [[*place, count] for place, count in sorted(counts.items())]


def explained(world: GridWorld, cap: int, counts: Counts) -> float:
    """Return the MEG of the utility that explains most, as a share of its maximum."""
    tabular, policy, features = _problem(world, cap, counts)
    return unknown_utility(tabular.mdp, policy, features=features).fraction


def learn(world: GridWorld, cap: int, counts: Counts) -> Learnt:
    """Return the simplest utility that explains `SHARE` of what any does."""
    tabular, policy, features = _problem(world, cap, counts)
    result = simplest_utility(tabular.mdp, policy, features=features, share=SHARE)
    weights = np.linalg.lstsq(features, result.utility, rcond=None)[0]
    key = float(weights[-1]) if world.key is not None else math.nan
    states = sorted(zip(tabular.states, result.utility.tolist(), strict=True), reverse=True)
    return Learnt({state.cell: value for state, value in states}, key, result.share)


def fits(worlds: Sequence[Mapping[str, Any]], simplest: bool) -> list[float]:
    """Return for each world the value of the key, or the share explained; a trial."""
    places = [(GridWorld.from_text(each["world"]), each["cap"], each["counts"]) for each in worlds]
    return [learn(*place).key if simplest else explained(*place) for place in places]


def _problem(
    world: GridWorld, cap: int, counts: Counts
) -> tuple[TabularWorld, FloatArray, FloatArray]:
    """The world, the policy estimated from answers, [S, 4], and features of utilities, [S, D]."""
    tabular = tabular_world(world, horizon=cap)
    cells = sorted({state.cell for state in tabular.states})
    # One column for each cell, and one for having the key.
    features = [
        [float(state.cell == cell) for cell in cells]
        + [float(state.has_key)] * (world.key is not None)
        for state in tabular.states
    ]
    index = {state: number for number, state in enumerate(tabular.states)}
    policy = np.full((len(index), len(ACTIONS)), _PRIOR / len(ACTIONS))
    for row, column, layer, action, count in counts:
        policy[index[State(Cell(row, column), layer)], action] += count
    policy = np.asarray(policy / policy.sum(axis=1, keepdims=True))
    return tabular, policy, np.array(features)


# --- Pictures -------------------------------------------------------------------------------------
# What explains less than this of the way from random moves to shortest ways, through the same world
# as often, is drawn in grey. The maximum itself is no yardstick: from a few answers a policy is
# known so badly that even of an agent without fault less than half of it is explained; nor is 0,
# since a fit with a number for each cell explains something of any walk.
FAINT = 0.5


@dataclass(frozen=True)
class Drawn:
    """Utility learnt from an agent's walks through one world."""

    agent: str
    suite: str
    world: GridWorld
    learnt: Learnt


@dataclass(frozen=True)
class ExplainedUtility:
    """A learnt utility and the share that it explains of the most that could be, in this world."""

    drawn: Drawn
    share: float
    shortest: float  # the same of an agent that takes shortest ways there; NaN if it did not walk
    aimless: float  # the same of an agent that moves at random

    def to_json(self) -> dict[str, Any]:
        """Return the utility and the shares as JSON values."""
        cells = [[*cell, value] for cell, value in self.drawn.learnt.cells.items()]
        world = str(self.drawn.world).splitlines()
        return {"world": world, "cells": cells} | say.record("learnt_record", of=self)

    @property
    def faint(self) -> bool:
        """Whether the utility explains too little for any statement."""
        # Without agents to compare with, which are NaN, nothing is enough.
        return not self.share >= self.aimless + FAINT * (self.shortest - self.aimless)


def explain(
    drawn: Sequence[Drawn], walks: Mapping[str, Mapping[str, Sequence[Trajectory]]]
) -> list[ExplainedUtility]:
    """Compute the share that each learnt utility explains; walks are by suite and agent."""

    def share(agent: str, suite: str, world: GridWorld, learnt: Learnt | None = None) -> float:
        there = [walk for walk in walks[suite].get(agent, ()) if walk.world == world]
        if not there:
            return math.nan
        asked = world, there[0].cap, answers(there)
        return (learnt or learn(*asked)).share * explained(*asked)

    beside = cache(share)
    return [
        ExplainedUtility(
            each,
            share(each.agent, each.suite, each.world, each.learnt),
            beside("optimal", each.suite, each.world),
            beside("random", each.suite, each.world),
        )
        for each in drawn
    ]


def learnt_section(utilities: Sequence[ExplainedUtility]) -> Section:
    """Return the section with learnt utilities as maps on one scale and a table of shares."""
    rows = [vars(u) | {"colour": "grey" if u.faint else "in colour"} for u in utilities]
    table = say.table("learnt", rows, half=percent(FAINT, 0))
    maps = tuple(map(utility_map, utilities))
    return say.section("learnt_maps", table, maps, share=percent(SHARE, 0))


def utility_map(utility: ExplainedUtility) -> Figure:
    """Draw the utility of each cell with start, goal and key; grey if it explains little."""
    drawn, world, key = utility.drawn, utility.drawn.world, utility.drawn.learnt.key
    values = np.zeros(world.shape)
    unreached = ~world.walls
    for cell, value in drawn.learnt.cells.items():
        # Tiny numbers below 0 are rounding.
        values[cell] = max(round(value, 6), 0.0)
        unreached[cell] = False
    places = {"S": world.start, "G": world.goal, "K": world.key}
    marks = Marks(
        letters={p.row * world.shape[1] + p.column: n for n, p in places.items() if p is not None},
        walls=frozenset(np.flatnonzero(world.walls | unreached).tolist()),
        beside=None if math.isnan(key) else ("having K", key),
    )
    ends = "map_faint" if utility.faint else "map" if math.isnan(key) else "map_key"
    caption = say.line("map", of=utility) + say.line(f"{ends}_end", key=key)
    svg = grid_map(
        # Names of pictures are ids on the page, and agents may be named anything.
        re.sub(r"[^a-z0-9]+", "-", f"learnt-{drawn.agent}-{drawn.suite}".lower()),
        values,
        label="utility" + ", explains little" * utility.faint,
        palette="faint" if utility.faint else "utility",
        marks=marks,
        limit=1.0,
    )
    return Figure(svg=svg, alt=f"Learnt utility of each cell. {caption}", caption=caption)
