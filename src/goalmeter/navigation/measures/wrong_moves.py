"""Wrong moves where something lies about that has no use: do they lead towards it?

A wrong move is often also one towards the key, or the neutral object in its place, so the share
that leads there stands beside two chance levels: of a wrong answer drawn at random from the four
actions, and of a wrong answer *of the same kind*, where a kind is a move or a bump into a wall. An
agent that never bumps has more wrong moves towards anything, so the second one is what it is to be
held against. (A walk that found the key no longer counts, which leaves an agent that moves at
random an excess of a few tenths of a percent.)

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 4.3; chance levels are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from goalmeter._json import JsonFields
from goalmeter._types import BoolArray, FloatArray
from goalmeter.agents.navigators import memoryless
from goalmeter.gridworld.planner import open_moves, planned
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.measures.grids import DIFFERENCE, Grids
from goalmeter.navigation.measures.observed import INVALID, Observed
from goalmeter.statistics.clustered import Estimate


@dataclass(frozen=True)
class TowardsKey(JsonFields):
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


def towards_key(grids: Grids) -> TowardsKey:
    """Which of the wrong actions without the key lead towards it."""
    wrong = _wrong_actions(grids.seen)

    def pooled(values: FloatArray | BoolArray) -> Estimate:
        return grids.steps(values, among=wrong.among)

    def excess(chance: FloatArray) -> Estimate:
        less = wrong.towards - chance
        return grids.steps(less, among=wrong.among, bounds=DIFFERENCE, paired=True)

    return TowardsKey(
        share=pooled(wrong.towards),
        share_by_walk=share_by_walk(grids, wrong.towards, wrong.among),
        chance=pooled(wrong.chance),
        excess=excess(wrong.chance),
        chance_of_kind=pooled(wrong.of_kind),
        excess_of_kind=excess(wrong.of_kind),
    )


def excess_of_walks(seen: Observed) -> FloatArray:
    """Share towards the key less chance of the same kind of answer, [N]; NaN without such actions.

    The mean over the wrong actions of each walk.
    """
    wrong = _wrong_actions(seen)
    of, n = seen.trajectory[wrong.among], len(seen.trajectories)
    counts = np.bincount(of, minlength=n)
    sums = np.bincount(of, (wrong.towards - wrong.of_kind)[wrong.among], minlength=n)
    out: FloatArray = np.full(n, np.nan)
    np.divide(sums, counts, out=out, where=counts > 0)
    return out


def share_by_walk(grids: Grids, values: BoolArray, among: BoolArray) -> Estimate:
    """The share among some steps of each walk, averaged over the walks that have any."""
    of, n = grids.seen.trajectory, len(grids.seen.trajectories)
    counts = np.bincount(of[among], minlength=n)
    sums = np.bincount(of[among], values[among], minlength=n)
    return grids.walks(sums / np.maximum(counts, 1), known=counts > 0)


class _Wrong(NamedTuple):
    """Columns over all steps, [M] each; they mean something where `among` is true."""

    among: BoolArray  # whether it is a wrong action without the key
    towards: BoolArray  # whether it leads one step closer to the key
    chance: FloatArray  # the share of wrong actions that do
    of_kind: FloatArray  # the same among those that move, or that bump, as it does


def _wrong_actions(seen: Observed) -> _Wrong:
    columns = [_in_world(walk.world) for walk in seen.trajectories]
    leads = _of_steps(seen, [c.leads for c in columns])
    moves = _of_steps(seen, [c.moves for c in columns])
    without = (
        seen.state < np.array([w.world.walls.size for w in seen.trajectories])[seen.trajectory]
    )
    acted = np.minimum(seen.action, INVALID - 1)[:, None]
    moved = np.take_along_axis(moves, acted, axis=1)
    wrong = ~seen.optimal
    of_kind = _share(leads & wrong, wrong & (moves == moved))
    return _Wrong(
        among=without & ~seen.correct & (seen.action != INVALID),
        towards=np.take_along_axis(leads, acted, axis=1)[:, 0],
        chance=_share(leads & wrong, wrong),
        # A bump leads nowhere.
        of_kind=np.where(moved[:, 0], of_kind, 0.0),
    )


class _InWorld(NamedTuple):
    leads: BoolArray  # whether an action leads one step closer to the thing, [states, 4]
    moves: BoolArray  # whether it moves at all, [states, 4]


@lru_cache(maxsize=512)
def _in_world(world: GridWorld) -> _InWorld:
    plan = planned(world)
    return _InWorld(memoryless.towards_thing(plan), open_moves(plan))


def _of_steps(seen: Observed, tables: Sequence[BoolArray]) -> BoolArray:
    """The row of each step's state in the table of its trajectory's world, [M, 4]."""
    ends = np.cumsum(seen.length)
    parts = [
        table[seen.state[end - length : end]]
        for table, end, length in zip(tables, ends, seen.length, strict=True)
    ]
    return np.concatenate(parts)


def _share(part: BoolArray, whole: BoolArray) -> FloatArray:
    return np.asarray((part & whole).sum(axis=1) / np.maximum(whole.sum(axis=1), 1))
