"""The evidence of decisions that are each made on a map of its own.

What takes time in a small world is the calls and not the numbers, so hundreds of maps of a few
cells are planned for at once: as one MDP, in which no map leads to another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from goalmeter._types import FloatArray, IntArray
from goalmeter.gridworld.planner import State, existing, plan
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.directed.evidence import Decisions, summed_evidence
from goalmeter.tabular.mdp import TabularMDP

# Of maps that are planned for together, so that what they take stays within some hundred MB.
_MOST_STATES = 4000


def evidence_on_maps(
    walks: IntArray,
    steps: IntArray,
    caps: IntArray,
    actions: IntArray,
    worlds: Sequence[GridWorld | None],
    states: Sequence[State] | None,
    rationalities: FloatArray,
) -> FloatArray:
    """How well the wish for the goal predicts decisions at each rationality, by walk: [W, G] nats.

    Args:
        walks: number of the walk of each decision, from 0 without gaps, [N].
        steps: number of the decision in its walk, [N].
        caps: decisions that a walk has, [N].
        actions: what was done, `INVALID` for an answer that could not be read, [N].
        worlds: the map of each decision; nothing is explained of one without, [N].
        states: where the agent is on its map; its start if not given, [N].
        rationalities: in rising order, [G].
    """
    # One plan serves all decisions with one cap, since a plan counts backwards from it.
    out = np.zeros((int(walks.max()) + 1, len(rationalities)))

    def add(union: _Union, cap: int) -> None:
        if union.decisions:
            chosen = np.array(union.decisions)
            made = Decisions(walks[chosen], steps[chosen], np.array(union.states), actions[chosen])
            out[:] += summed_evidence(union.mdp(cap), made, len(out), rationalities)

    for cap in np.unique(caps).tolist():
        union = _Union()
        for number in np.flatnonzero(caps == cap).tolist():
            if (world := worlds[number]) is not None:
                union.add(number, world, None if states is None else states[number])
            if union.n_states > _MOST_STATES:
                add(union, cap)
                union = _Union()
        add(union, cap)
    return out


class _Union:
    """Several maps as one MDP. Steps on one map share it, wherever the agent is on it."""

    def __init__(self) -> None:
        self.decisions: list[int] = []
        self.states: list[int] = []  # of each decision
        self.n_states = 0
        self._successors: list[IntArray] = []
        self._rewards: list[FloatArray] = []
        self._known: dict[tuple[Any, ...], IntArray] = {}

    def add(self, decision: int, world: GridWorld, state: State | None) -> None:
        """A decision on a map: in a state, or at the map's start."""
        objects = (world.goal, world.key, world.door, world.neutral)
        name = (world.shape, world.walls.tobytes(), *objects)
        if name not in self._known:
            self._known[name] = self._joined(world)
        (row, column), layer = State(world.start) if state is None else state
        rows, columns = world.shape
        self.decisions.append(decision)
        self.states.append(int(self._known[name][(layer * rows + row) * columns + column]))

    def mdp(self, horizon: int) -> TabularMDP:
        """All maps so far."""
        after = np.concatenate(self._successors)[..., None]
        rewards = np.concatenate(self._rewards)
        return TabularMDP((after, np.ones(after.shape)), rewards, horizon=horizon, initial=0)

    def _joined(self, world: GridWorld) -> IntArray:
        """The index of each of the planner's states, -1 for those that the map does not have."""
        planned = plan(world)
        has = existing(planned)
        index = np.where(has, np.cumsum(has) - 1 + self.n_states, -1)
        self._successors.append(index[planned.plans.successors[0][has]])
        self._rewards.append((planned.plans.distances[0][has] == 0).astype(float))
        self.n_states += int(has.sum())
        return index
