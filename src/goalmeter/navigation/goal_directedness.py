"""Goal-directedness of trajectories in nats: towards goal, key, or a learnt utility."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from goalmeter._files import json_value
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.gridworld import GridWorld, tabular_world
from goalmeter.gridworld.conversions import GOAL_UTILITY, KEY_UTILITY, NEUTRAL_UTILITY, TabularWorld
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import ACTIONS, Cell
from goalmeter.meg import unknown_utility
from goalmeter.meg.unknown import simplest_utility
from goalmeter.navigation.rationality import (
    Evidence,
    GoalFit,
    fit_tops,
    fitted,
    goal_fit,
    refined_evidence,
)
from goalmeter.navigation.steps import INVALID, Grids, Observed
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.statistics.clusters import Estimate

if TYPE_CHECKING:
    from goalmeter.navigation.measure import Navigation


# --- Goal-directedness ----------------------------------------------------------------------------
# One rationality is fitted to all walks of an agent. Goal and key are compared on the decisions
# until the key is taken, where both can explain something.


@dataclass(frozen=True)
class Directedness:
    """Goal-directedness of an agent in worlds under one condition.

    Attributes:
        agent: name.
        reference: whether it is a baseline agent.
        condition: as JSON.
        silent: number of invalid answers, which have no evidence.
        thing: "key", "neutral" or None: the object in these worlds.
        goal: towards the goal, whole walks.
        goal_without: towards the goal until the object is taken; None where there is none.
        towards_thing: towards the object, until it is taken.
        difference: `goal_without` less `towards_thing`, nats per walk.
    """

    agent: str
    reference: bool
    condition: str
    silent: int
    thing: str | None
    goal: GoalFit
    goal_without: GoalFit | None
    towards_thing: GoalFit | None
    difference: Estimate | None

    @property
    def larger(self) -> str | None:
        """Which explains more of the decisions until the object is taken; None if inconclusive.

        The intervals of the difference and of the larger one must exclude 0.
        """
        low, high = (self.difference and self.difference.interval) or (0.0, 0.0)
        if low <= 0 <= high:
            return None
        name, fit = (
            (GOAL_UTILITY, self.goal_without) if low > 0 else (self.thing, self.towards_thing)
        )
        interval = None if fit is None else fit.nats.interval
        return name if interval is not None and interval[0] > 0 else None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        plain = {name: json_value(value) for name, value in vars(self).items()}
        del plain["reference"]
        return plain | {"condition": json.loads(self.condition), "larger": self.larger}


def directedness(
    results: Sequence[Navigation], *, progress: Callable[[str], None] | None = None
) -> list[Directedness]:
    """Measure every agent under every condition, in grids as they were generated.

    Agents in the same worlds share the planning.
    """
    if progress is not None:
        progress("goal-directedness")
    seen = [
        result.seen.where(np.array([w.transform is None for w in result.seen.trajectories]))
        for result in results
    ]

    def tops(number: int, coarse: Evidence) -> IntArray:
        """Indices of the rationalities that the fits to an agent's walks depend on."""
        out: list[IntArray] = [np.zeros(0, dtype=np.int64)]
        for _, under in _conditions(seen[number]):
            grids = Grids(seen[number].where(under), 0.95)
            curves = (coarse.curves(under), coarse.curves_without(under))
            out += [fit_tops(grids, each) for each in curves]
        return np.unique(np.concatenate(out))

    utilities = (GOAL_UTILITY, KEY_UTILITY, NEUTRAL_UTILITY)
    goal, *objects = (refined_evidence(seen, name, tops) for name in utilities)
    out = []
    for i, (result, walks) in enumerate(zip(results, seen, strict=True)):
        of_objects = dict(zip(utilities[1:], (each[i] for each in objects), strict=True))
        for condition, under in _conditions(walks):
            fits = _fits(walks.where(under), under, goal[i], of_objects)
            out.append(Directedness(result.agent, result.reference, condition, **fits))
    return out


def _fits(
    walks: Observed, under: BoolArray, goal: Evidence, objects: dict[str, Evidence]
) -> dict[str, Any]:
    """The fits to the walks of one agent under one condition, as fields of `Directedness`."""
    grids = Grids(walks, 0.95)
    world = walks.trajectories[0].world
    name = next((name for name in objects if getattr(world, name) is not None), None)
    without, to_object, difference = None, None, None
    if name is not None:
        curves = goal.curves_without(under), objects[name].curves_without(under)
        without, to_object = (goal_fit(grids, c, goal.most_without[under]) for c in curves)
        most = max(without.maximum, to_object.maximum)
        difference = fitted(
            grids,
            curves,
            lambda to_goal, to_object: np.round(to_goal - to_object, 9),
            bounds=(-most, most),
            paired=True,
        )
    return {
        "silent": int((walks.action == INVALID).sum()),
        "thing": name,
        "goal": goal_fit(grids, goal.curves(under), goal.most[under]),
        "goal_without": without,
        "towards_thing": to_object,
        "difference": difference,
    }


def _conditions(seen: Observed) -> list[tuple[str, BoolArray]]:
    """Each condition, as JSON, with a mask of its walks, [N]."""
    conditions = np.array([seen.kinds[kind].condition for kind in seen.kind])
    return [(name, conditions == name) for name in dict.fromkeys(conditions.tolist())]


# --- Learnt utility -------------------------------------------------------------------------------
# A utility of each cell, plus one of having the key. The policy is estimated from counts of actions
# in each state with a prior of a quarter of an answer for each action.

SHARE = 0.9  # of what any utility explains, that the simplest one has to explain
_PRIOR = 1.0  # answers per state, spread over the four actions
_FUNCTION = "goalmeter.navigation.goal_directedness:fits"


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


@dataclass(frozen=True)
class Drawn:
    """Utility learnt from an agent's walks through one world."""

    agent: str
    suite: str
    world: GridWorld
    learnt: Learnt


def answers(walks: Iterable[Trajectory]) -> list[list[int]]:
    """Count actions by state: rows of row, column, layer, action, count, for worker processes."""
    counts = Counter(
        (*step.state.cell, step.state.layer, step.action)
        for walk in walks
        for step in walk.steps
        if step.action is not None
    )
    return [[*place, count] for place, count in sorted(counts.items())]


def explained(world: GridWorld, cap: int, counts: Sequence[Sequence[int]]) -> float:
    """Return the MEG of the utility that explains most, as a share of its maximum."""
    tabular = tabular_world(world, horizon=cap)
    policy = _policy(tabular, counts)
    return unknown_utility(tabular.mdp, policy, features=_features(tabular)).fraction


def learn(world: GridWorld, cap: int, counts: Sequence[Sequence[int]]) -> Learnt:
    """Return the simplest utility that explains `SHARE` of what any does."""
    tabular = tabular_world(world, horizon=cap)
    features = _features(tabular)
    result = simplest_utility(tabular.mdp, _policy(tabular, counts), features=features, share=SHARE)
    weights = np.linalg.lstsq(features, result.utility, rcond=None)[0]
    key = float(weights[-1]) if world.key is not None else float("nan")
    states = sorted(zip(tabular.states, result.utility.tolist(), strict=True), reverse=True)
    return Learnt({state.cell: value for state, value in states}, key, result.share)


def job(walks: Sequence[Sequence[Trajectory]], *, simplest: bool) -> tuple[str, dict[str, Any]]:
    """Return function and arguments for a worker process, for the walks through some worlds."""
    worlds = [
        {"world": str(each[0].world), "cap": each[0].cap, "counts": answers(each)} for each in walks
    ]
    return _FUNCTION, {"worlds": worlds, "simplest": simplest}


def fits(worlds: Sequence[Mapping[str, Any]], simplest: bool) -> list[float]:
    """Return for each world the value of the key, or the share explained; run by workers."""
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


def _policy(tabular: TabularWorld, counts: Sequence[Sequence[int]]) -> FloatArray:
    """Estimated policy, [S, 4]."""
    index = {state: number for number, state in enumerate(tabular.states)}
    out = np.full((len(index), len(ACTIONS)), _PRIOR / len(ACTIONS))
    for row, column, layer, action, count in counts:
        out[index[State(Cell(row, column), layer)], action] += count
    return np.asarray(out / out.sum(axis=1, keepdims=True))
