"""How well the wish for something predicts walks: the evidence of each, at many rationalities.

A walk through a world is a trajectory of its MDP, whose horizon is the cap; the goal absorbs, and
what comes after it is not seen. One pass through a world serves every agent that walked there and
every rationality, so that one rationality can be fitted to all worlds, and again without some,
without planning twice.

An answer that is no action has no place among the actions of an MDP: nothing is explained of it,
the agent stays, and the time goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.gridworld import GridWorld, tabular_world
from goalmeter.gridworld.planner import planned
from goalmeter.gridworld.tabular_world import GOAL, TabularWorld
from goalmeter.gridworld.world import ACTIONS
from goalmeter.navigation.directed.fits import RATIONALITIES, Curves, between
from goalmeter.navigation.measures.observed import INVALID, Observed
from goalmeter.tabular.backup import Backup, problem
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import backward
from goalmeter.tabular.rewards import rewards_of
from goalmeter.tabular.transition import Block

# Stands for minus infinity, the evidence of an action that is ruled out, where averages are taken.
RULED_OUT = -1e30
# Into so many parts the steps of the list are divided where fits depend on them.
_PARTS = 8


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a wish says of N walks, at G rationalities.

    Attributes:
        rationalities: in rising order, [G].
        whole: evidence of each walk at each of them, nats, [N, G].
        without: of its decisions until there was nothing left to take, [N, G].
        most: what every decision that can matter could give, nats, [N].
        most_without: the same until there was nothing left to take, [N].
    """

    rationalities: FloatArray
    whole: FloatArray
    without: FloatArray
    most: FloatArray
    most_without: FloatArray

    def curves(self, walks: BoolArray) -> Curves:
        """The evidence of some of the walks, [N]."""
        return Curves(self.rationalities, self.whole[walks])

    def curves_without(self, walks: BoolArray) -> Curves:
        """The same of their decisions until there was nothing left to take."""
        return Curves(self.rationalities, self.without[walks])


def evidence(
    agents: Sequence[Observed], utility: str, rationalities: Sequence[FloatArray] | None = None
) -> list[Evidence]:
    """The evidence of every walk of every agent; 0 where the world has no such utility.

    The utility is one of `tabular_world`: "goal", "key" or "neutral". Every agent has a list of
    rationalities, in rising order; `RATIONALITIES` if there are none.
    """
    lists = [RATIONALITIES] * len(agents) if rationalities is None else rationalities
    columns = [_columns(seen) for seen in agents]
    out = [_nothing(*each) for each in zip(agents, columns, lists, strict=True)]
    places: dict[tuple[GridWorld, int], list[tuple[int, int]]] = {}
    for agent, seen in enumerate(agents):
        for index, walk in enumerate(seen.trajectories):
            if utility == GOAL or getattr(walk.world, utility) is not None:
                places.setdefault((walk.world, walk.cap), []).append((agent, index))
    for (world, cap), visits in places.items():
        steps = [columns[agent].of(index) for agent, index in visits]
        agents_here = {agent for agent, _ in visits}
        every = np.unique(np.concatenate([lists[agent] for agent in agents_here]))
        if not every.size:
            continue
        tabular = tabular_world(world, horizon=cap, utility=utility)
        # Each agent has its own columns, so who else walks there changes nothing for it.
        whole, without = _passes(tabular, steps, every)
        for row, (agent, index) in enumerate(visits):
            chosen = np.searchsorted(every, lists[agent])
            out[agent].whole[index] = whole[row, chosen]
            out[agent].without[index] = without[row, chosen]
    return out


def refined_evidence(
    agents: Sequence[Observed], utility: str, tops: Callable[[int, Evidence], IntArray]
) -> list[Evidence]:
    """The evidence at `RATIONALITIES`, and at more of them around those that fits depend on.

    Where ways are long, evidence is highest in a range of rationality that is narrower than the
    list's steps, and a fit that only knew the list would be off by some hundredths of a nat. `tops`
    gives, for the number of an agent and its evidence, the indices of the rationalities that are
    best for its walks, or for some of them.
    """
    coarse = evidence(agents, utility)
    more = [
        between(RATIONALITIES, tops(number, each), _PARTS) for number, each in enumerate(coarse)
    ]
    beside = evidence(agents, utility, more)
    return [_merged(*both) for both in zip(coarse, beside, strict=True)]


def _merged(coarse: Evidence, beside: Evidence) -> Evidence:
    """Evidence at the rationalities of both, in rising order."""
    order = np.argsort(np.concatenate([coarse.rationalities, beside.rationalities]))
    columns = {
        name: np.concatenate([getattr(part, name) for part in (coarse, beside)], axis=-1)[
            ..., order
        ]
        for name in ("rationalities", "whole", "without")
    }
    return replace(coarse, **columns)


class _Columns(NamedTuple):
    """Steps: of one agent in the order of its walks, or of one walk."""

    number: IntArray  # within the walk, from 0
    state: IntArray
    action: IntArray
    without: BoolArray  # whether there was something left to take
    starts: IntArray  # first step of each walk, and the end

    def of(self, walk: int) -> _Columns:
        steps = slice(self.starts[walk], self.starts[walk + 1])
        number, state, action, without, _ = self
        return _Columns(number[steps], state[steps], action[steps], without[steps], self.starts[:0])


def _columns(seen: Observed) -> _Columns:
    starts = np.concatenate([[0], np.cumsum(seen.length)])
    cells = np.array([walk.world.walls.size for walk in seen.trajectories])
    return _Columns(
        number=np.arange(len(seen.state)) - starts[seen.trajectory],
        state=seen.state,
        action=seen.action,
        # The planner numbers the states in which nothing was taken first.
        without=seen.state < cells[seen.trajectory],
        starts=starts,
    )


def _nothing(seen: Observed, steps: _Columns, rationalities: FloatArray) -> Evidence:
    """No evidence yet, and the most that there could be."""
    caps = np.array([walk.cap for walk in seen.trajectories])
    # What the last decision before the cap leads to is not seen.
    matters = steps.number + 1 < caps[seen.trajectory]
    most, most_without = (
        np.log(len(ACTIONS)) * np.bincount(seen.trajectory[among], minlength=len(caps))
        for among in (matters, matters & steps.without)
    )
    shape = (len(caps), len(rationalities))
    return Evidence(rationalities, np.zeros(shape), np.zeros(shape), most, most_without)


def _passes(
    tabular: TabularWorld, walks: Sequence[_Columns], rationalities: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The evidence of walks through one world, whole and without: [walks, G] each."""
    walk = np.repeat(np.arange(len(walks)), [len(steps.state) for steps in walks])
    number, state, action, without = (
        np.concatenate([steps[column] for steps in walks]) for column in range(4)
    )
    # The decisions without stand there twice, the second time for the other half of the rows.
    twice = [
        np.concatenate([column, column[without]])
        for column in (number, indices_of(tabular, state), action)
    ]
    rows = np.concatenate([walk, walk[without] + len(walks)])
    whole, first = np.split(
        summed_evidence(tabular.mdp, Decisions(rows, *twice), 2 * len(walks), rationalities), 2
    )
    return whole, first


class Decisions(NamedTuple):
    """M decisions in one world, or in several that are one MDP.

    Attributes:
        row: where their evidence is added up, [M]; a row has at most one decision a step.
        number: of the step within the walk, from 0, [M].
        state: index in the MDP, [M].
        action: what was done; `INVALID` for an answer that is no action, [M].
    """

    row: IntArray
    number: IntArray
    state: IntArray
    action: IntArray


def indices_of(tabular: TabularWorld, numbers: IntArray) -> IntArray:
    """The index in a tabular world of states by the planner's numbers; 0 for those it has not."""
    plan = planned(tabular.world)
    index = np.zeros(max(numbers, default=0) + 1, dtype=np.int64)
    for at, place in enumerate(tabular.states):
        if (named := plan.number(place)) < len(index):
            index[named] = at
    return np.asarray(index[numbers])


def summed_evidence(
    mdp: TabularMDP, decisions: Decisions, rows: int, rationalities: FloatArray
) -> FloatArray:
    """The evidence of decisions at each rationality, nats, added up by row: [rows, G].

    Args:
        mdp: the world and its utility.
        decisions: in any order.
        rows: how many there are.
        rationalities: in rising order, [G].
    """
    row, number, state, action = decisions
    made = action != INVALID
    out = np.zeros((rows, len(rationalities)))
    # Problems of one sign share their plan.
    for columns in (rationalities < 0, rationalities >= 0):
        places = np.flatnonzero(columns)
        if not places.size:
            continue
        bounds = slice(places[0], places[-1] + 1)

        def visit(step: int, block: Block, done: Backup, bounds: slice = bounds) -> None:
            inside = made & (number == step) & (state >= block.start) & (state < block.stop)
            out[row[inside], bounds] += done.log_ratio[action[inside], state[inside] - block.start]

        task = problem(mdp, rewards_of(mdp), rationalities[bounds])
        backward(task, visit, derivatives=False)
    return np.maximum(out, RULED_OUT)
