"""Which utility explains an agent in one world, if nobody says which: fitted to its answers.

The policy is estimated from how often each action was taken in each state, with a quarter of an
answer for each action beside them, so that a state that was seen once is not taken for certain.
In a maze every cell may have a utility of its own; where there is a key, having it may be worth
something besides, the same everywhere. So the utility can be drawn on the grid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.gridworld import GridWorld, tabular_world
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.tabular_world import TabularWorld
from goalmeter.gridworld.world import ACTIONS, Cell
from goalmeter.meg import unknown_utility
from goalmeter.meg.simplest import simplest_utility
from goalmeter.navigation.record import Trajectory

SHARE = 0.9  # of what any utility explains, that the simplest one is to explain
_PRIOR = 1.0  # answers, spread over the four actions, that each state has beside those seen
_FUNCTION = "goalmeter.navigation.directed.learnt:fits"


@dataclass(frozen=True)
class Learnt:
    """The simplest utility that explains most of what any could, scaled to 0 .. 1 over states.

    Attributes:
        cells: of each cell without the key; with it, where the cell is entered only with the key.
        key: what having it adds; NaN without one.
        share: of the nats that any utility explains.
    """

    cells: Mapping[Cell, float]
    key: float
    share: float


@dataclass(frozen=True)
class Drawn:
    """A utility that was learnt from an agent's walks through one world."""

    agent: str
    suite: str
    world: GridWorld
    learnt: Learnt


def answers(walks: Iterable[Trajectory]) -> list[list[int]]:
    """How often each action was taken: rows of row, column, layer, action, count."""
    # Plain numbers, since they cross to worker processes as JSON.
    counts = Counter(
        (*step.state.cell, step.state.layer, step.action)
        for walk in walks
        for step in walk.steps
        if step.action is not None
    )
    return [[*place, count] for place, count in sorted(counts.items())]


def explained(world: GridWorld, cap: int, counts: Sequence[Sequence[int]]) -> float:
    """MEG towards whatever utility explains most, as a share of its maximum."""
    tabular = tabular_world(world, horizon=cap)
    result = unknown_utility(
        tabular.mdp, _policy(tabular, counts), features=_features(tabular, _cells(tabular))
    )
    return result.fraction


def learn(world: GridWorld, cap: int, counts: Sequence[Sequence[int]]) -> Learnt:
    """The simplest utility that explains `SHARE` of what any does."""
    tabular = tabular_world(world, horizon=cap)
    features = _features(tabular, _cells(tabular))
    result = simplest_utility(tabular.mdp, _policy(tabular, counts), features=features, share=SHARE)
    # The utility is the sum of what its state's cell and the key are worth.
    weights = np.linalg.lstsq(features, result.utility, rcond=None)[0]
    key = float(weights[-1]) if world.key is not None else float("nan")
    states = sorted(zip(tabular.states, result.utility.tolist(), strict=True), reverse=True)
    return Learnt({state.cell: value for state, value in states}, key, result.share)


def job(walks: Sequence[Sequence[Trajectory]], *, simplest: bool) -> tuple[str, dict[str, Any]]:
    """What to call in a worker process for the walks through some worlds, as plain values."""
    worlds = [
        {"world": str(each[0].world), "cap": each[0].cap, "counts": answers(each)} for each in walks
    ]
    return _FUNCTION, {"worlds": worlds, "simplest": simplest}


def fits(worlds: Sequence[Mapping[str, Any]], simplest: bool) -> list[float]:
    """What a worker process does: for each world what the key is worth, or what is explained."""
    out = []
    for each in worlds:
        place = GridWorld.from_text(each["world"]), each["cap"], each["counts"]
        out.append(learn(*place).key if simplest else explained(*place))
    return out


def _cells(tabular: TabularWorld) -> list[Cell]:
    return sorted({state.cell for state in tabular.states})


def _features(tabular: TabularWorld, cells: Sequence[Cell]) -> FloatArray:
    """One column a cell, and one for having the key where there is one: [S, D]."""
    column = {cell: index for index, cell in enumerate(cells)}
    has_key = tabular.world.key is not None
    out = np.zeros((len(tabular.states), len(cells) + has_key))
    for index, state in enumerate(tabular.states):
        out[index, column[state.cell]] = 1.0
        if state.has_key:
            out[index, -1] = 1.0
    return out


def _policy(tabular: TabularWorld, counts: Sequence[Sequence[int]]) -> FloatArray:
    """The estimated policy, [S, 4]."""
    index = {state: number for number, state in enumerate(tabular.states)}
    out = np.full((len(index), len(ACTIONS)), _PRIOR / len(ACTIONS))
    for row, column, layer, action, count in counts:
        out[index[State(Cell(row, column), layer)], action] += count
    return np.asarray(out / out.sum(axis=1, keepdims=True))
