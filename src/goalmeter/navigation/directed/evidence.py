"""How well the wish for something predicts walks: the evidence of each, at many rationalities.

A walk through a world is a trajectory of its MDP, whose horizon is the cap; the goal absorbs, and
what comes after it is not seen. One pass through a world serves every agent that walked there and
every rationality, so that one rationality can be fitted to all worlds, and again without some,
without planning twice.

An answer that is no action has no place among the actions of an MDP: nothing is explained of it,
the agent stays, and the time goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.agents.navigators import planned
from goalmeter.gridworld import GridWorld, tabular_world
from goalmeter.gridworld.tabular_world import GOAL, TabularWorld
from goalmeter.gridworld.world import ACTIONS
from goalmeter.navigation.measures.observed import INVALID, Observed
from goalmeter.tabular.backup import Backup, problem
from goalmeter.tabular.planning import backward
from goalmeter.tabular.rewards import rewards_of
from goalmeter.tabular.transition import Block

# Utilities are 0 or 1 at a step. At the least of these sizes the evidence of a walk is nothing, at
# the greatest a wrong step comes up once in 10¹³.
SIZES = np.geomspace(0.002, 30.0, 101)
RATIONALITIES = np.concatenate([[-np.inf], -SIZES[::-1], [0.0], SIZES, [np.inf]])
# Stands for minus infinity, the evidence of an action that is ruled out, where averages are taken.
RULED_OUT = -1e30


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was said of N walks.

    Attributes:
        whole: evidence of each walk at each of `RATIONALITIES`, nats, [N, G].
        without: of its decisions until there was nothing left to take, [N, G].
        most: what every decision that can matter could give, nats, [N].
        most_without: the same until there was nothing left to take, [N].
    """

    whole: FloatArray
    without: FloatArray
    most: FloatArray
    most_without: FloatArray


def evidence(agents: Sequence[Observed], utility: str) -> list[Evidence]:
    """The evidence of every walk of every agent; 0 where the world has no such utility.

    Args:
        agents: the walks of each.
        utility: of `tabular_world`: "goal", "key" or "neutral".
    """
    columns = [_columns(seen) for seen in agents]
    out = [_nothing(seen, own) for seen, own in zip(agents, columns, strict=True)]
    places: dict[tuple[GridWorld, int], list[tuple[int, int]]] = {}
    for agent, seen in enumerate(agents):
        for index, walk in enumerate(seen.trajectories):
            if utility == GOAL or getattr(walk.world, utility) is not None:
                places.setdefault((walk.world, walk.cap), []).append((agent, index))
    for (world, cap), here in places.items():
        tabular = tabular_world(world, horizon=cap, utility=utility)
        steps = [columns[agent].of(index) for agent, index in here]
        whole, without = _passes(tabular, steps)
        for (agent, index), one, other in zip(here, whole, without, strict=True):
            out[agent].whole[index], out[agent].without[index] = one, other
    return out


class _Columns(NamedTuple):
    """Steps: of one agent in the order of its walks, or of one walk."""

    number: IntArray  # within the walk, from 0
    state: IntArray
    action: IntArray
    without: BoolArray  # whether there was something left to take
    starts: IntArray  # first step of each walk, and the end

    def of(self, walk: int) -> _Columns:
        here = slice(self.starts[walk], self.starts[walk + 1])
        number, state, action, without, _ = self
        return _Columns(number[here], state[here], action[here], without[here], self.starts[:0])


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


def _nothing(seen: Observed, steps: _Columns) -> Evidence:
    """No evidence yet, and the most that there could be."""
    caps = np.array([walk.cap for walk in seen.trajectories])
    # What the last decision before the cap leads to is not seen.
    matters = steps.number + 1 < caps[seen.trajectory]
    most, most_without = (
        np.log(len(ACTIONS)) * np.bincount(seen.trajectory[among], minlength=len(caps))
        for among in (matters, matters & steps.without)
    )
    shape = (len(caps), len(RATIONALITIES))
    return Evidence(np.zeros(shape), np.zeros(shape), most, most_without)


def _passes(tabular: TabularWorld, walks: Sequence[_Columns]) -> tuple[FloatArray, FloatArray]:
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
        summed_evidence(tabular, Decisions(rows, *twice), 2 * len(walks), RATIONALITIES), 2
    )
    return whole, first


class Decisions(NamedTuple):
    """M decisions in one world.

    Attributes:
        row: where their evidence is added up, [M]; a row has at most one decision a step.
        number: of the step within the walk, from 0, [M].
        state: index in the tabular world, [M].
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
    tabular: TabularWorld, decisions: Decisions, rows: int, rationalities: FloatArray
) -> FloatArray:
    """The evidence of decisions at each rationality, nats, added up by row: [rows, G].

    Args:
        tabular: the world and its utility.
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

        task = problem(tabular.mdp, rewards_of(tabular.mdp), rationalities[bounds])
        backward(task, visit, derivatives=False)
    return np.maximum(out, RULED_OUT)
