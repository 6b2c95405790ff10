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
from goalmeter.report import Figure, Marks, Section, grid_map, number, percent
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
    """Simplest utility that explains `SHARE` of what any could, scaled to 0 .. 1 over states.

    Attributes:
        cells: of each cell without the key, or with it where the cell is entered only so.
        key: value of having the key; NaN without one.
        share: of the nats that any utility explains.
    """

    cells: Mapping[Cell, float]
    key: float
    share: float


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
    tabular = tabular_world(world, horizon=cap)
    policy = _policy(tabular, counts)
    return unknown_utility(tabular.mdp, policy, features=_features(tabular)).fraction


def learn(world: GridWorld, cap: int, counts: Counts) -> Learnt:
    """Return the simplest utility that explains `SHARE` of what any does."""
    tabular = tabular_world(world, horizon=cap)
    features = _features(tabular)
    result = simplest_utility(tabular.mdp, _policy(tabular, counts), features=features, share=SHARE)
    weights = np.linalg.lstsq(features, result.utility, rcond=None)[0]
    key = float(weights[-1]) if world.key is not None else float("nan")
    states = sorted(zip(tabular.states, result.utility.tolist(), strict=True), reverse=True)
    return Learnt({state.cell: value for state, value in states}, key, result.share)


def fits(worlds: Sequence[Mapping[str, Any]], simplest: bool) -> list[float]:
    """Return for each world the value of the key, or the share explained; a trial."""
    out = []
    for each in worlds:
        place = GridWorld.from_text(each["world"]), each["cap"], each["counts"]
        out.append(learn(*place).key if simplest else explained(*place))
    return out


def _features(tabular: TabularWorld) -> FloatArray:
    """One column for each cell, and one for having the key: [S, D]."""
    cells = sorted({state.cell for state in tabular.states})
    out = [
        [float(state.cell == cell) for cell in cells]
        + [float(state.has_key)] * (tabular.world.key is not None)
        for state in tabular.states
    ]
    return np.array(out)


def _policy(tabular: TabularWorld, counts: Counts) -> FloatArray:
    """Estimated policy, [S, 4]."""
    index = {state: number for number, state in enumerate(tabular.states)}
    out = np.full((len(index), len(ACTIONS)), _PRIOR / len(ACTIONS))
    for row, column, layer, action, count in counts:
        out[index[State(Cell(row, column), layer)], action] += count
    return np.asarray(out / out.sum(axis=1, keepdims=True))


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
    """A learnt utility and the share that it explains.

    Attributes:
        drawn: the utility and whose it is.
        share: of the most that could be explained of the agent's answers in this world.
        shortest: the same of an agent that takes shortest ways there; NaN if it did not walk.
        aimless: the same of an agent that moves at random; NaN if it did not walk.
    """

    drawn: Drawn
    share: float
    shortest: float
    aimless: float

    def to_json(self) -> dict[str, Any]:
        """Return the utility and the shares as JSON values."""
        drawn = self.drawn
        return {
            "world": str(drawn.world).splitlines(),
            "cells": [[*cell, value] for cell, value in drawn.learnt.cells.items()],
            "key": drawn.learnt.key,
            "agent": drawn.agent,
            "suite": drawn.suite,
            "explained": self.share,
            "explained_of_shortest_ways": self.shortest,
            "explained_of_random_moves": self.aimless,
            "faint": self.faint,
        }

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
            utility,
            share(utility.agent, utility.suite, utility.world, utility.learnt),
            beside("optimal", utility.suite, utility.world),
            beside("random", utility.suite, utility.world),
        )
        for utility in drawn
    ]


def learnt_section(utilities: Sequence[ExplainedUtility]) -> Section:
    """Return the section with learnt utilities as maps on one scale and a table of shares."""
    rows = [vars(u) | {"colour": "grey" if u.faint else "in colour"} for u in utilities]
    table = say.table("learnt", rows, half=percent(FAINT, 0))
    maps = tuple(map(utility_map, utilities))
    return say.section("learnt_maps", table, maps, share=percent(SHARE, 0))


def utility_map(utility: ExplainedUtility) -> Figure:
    """Draw the utility of each cell with start, goal and key; grey if it explains little."""
    drawn, world = utility.drawn, utility.drawn.world
    values = np.zeros(world.shape)
    unreached = ~world.walls
    for cell, value in drawn.learnt.cells.items():
        # Tiny numbers below 0 are rounding.
        values[cell] = max(round(value, 6), 0.0)
        unreached[cell] = False
    columns = world.shape[1]
    places = {"S": world.start, "G": world.goal, "K": world.key}
    marks = Marks(
        letters={p.row * columns + p.column: name for name, p in places.items() if p is not None},
        walls=frozenset(np.flatnonzero(world.walls | unreached).tolist()),
        beside=None if math.isnan(drawn.learnt.key) else ("having K", drawn.learnt.key),
    )
    share, aimless, shortest = (
        percent(each, 0) for each in (utility.share, utility.aimless, utility.shortest)
    )
    caption = (
        f"{drawn.agent}, {drawn.suite}: explains {share} of the maximum (the same fit, of random "
        f"moves {aimless}, of shortest ways {shortest})"
    )
    key = drawn.learnt.key
    if utility.faint:
        caption += ", too little for any statement."
    elif math.isnan(key):
        caption += "."
    else:
        caption += f". Having the key is worth {number(key, 2)} everywhere."
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
