"""Goal-directedness under intervention: fitted in mazes, scored in the same mazes after a change.

The hypothesis is that the agent wants the goal, with one rationality, which is fitted to the walks
before the change and kept. An agent that wants the goal follows it to another place, leaves the old
place, and goes round a wall; a habit or another goal that merely correlates with this one does not.

Source: the extension that the MEG paper (NeurIPS 2024) names as future work (section 7 and appendix
A); outcome devaluation: Adams and Dickinson, Instrumental responding following reinforcer
devaluation (1981).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.agents.grid_agents import Navigator
from goalmeter.gridworld.conversions import tabular_world
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld
from goalmeter.meg.interventions import LAPSE, InterventionResult, scored_change
from goalmeter.navigation.measure import Navigation, measure
from goalmeter.navigation.rationality import (
    RATIONALITIES,
    best_fit,
    decisions_of,
    rationality_of,
    summed_evidence,
)
from goalmeter.navigation.steps import Observed
from goalmeter.navigation.suites import (
    BLOCKED,
    CHANGE,
    GOAL_MOVED,
    INTERVENTIONS,
    UNCHANGED,
    separate_cells,
)
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.statistics.clusters import Estimate, estimate

MOST = float(np.log(len(ACTIONS)))  # nats that a decision can give
REMOVED = "goal value removed"  # the walks after the goal was moved, scored towards the old place
GOAL, OLD_PLACE, OLD_MAP, THIRD_PLACE = "goal", "old place", "old map", "third place"
# What walks under each change are scored against; the first is what the agent should want.
TARGETS = {
    UNCHANGED: (GOAL,),
    GOAL_MOVED: (GOAL, OLD_PLACE, THIRD_PLACE),
    BLOCKED: (GOAL, OLD_MAP, THIRD_PLACE),
}
Score = tuple[str, str]  # change and target


def interventions(agent: str | Navigator, **options: Any) -> InterventionResult:
    """Measure goal-directedness in mazes, after their goal is moved, and after they are blocked.

    Agent and options are those of `measure`; walks are stored and resumed as there. The baseline
    agents are by default an agent that follows the goal and two that do not.

    Example: the optimal agent goes to the new place of the goal.
        >>> result = interventions("optimal", sizes=[9], complexities=[0.5], beside=[])
        >>> [(row.change, row.verdict) for row in result.rows]
        [('goal moved', 'follows'), ('goal value removed', 'follows'), ('blocked', 'follows')]
    """
    return interventions_of(measure(agent, INTERVENTIONS.name, **options))


def interventions_of(navigation: Navigation) -> InterventionResult:
    """Score the walks of an agent and its baselines in the suite "interventions"."""
    if navigation.plan.suite.name != INTERVENTIONS.name:
        raise InvalidParameterError(
            f"the walks are in the suite {navigation.plan.suite.name!r}, expected "
            f"{INTERVENTIONS.name!r}"
        )
    agents = [navigation, *navigation.references]
    seen = [agent.seen for agent in agents]
    before = _shares(seen, UNCHANGED, GOAL, RATIONALITIES)
    fits = [best_fit((shares * most).mean(axis=0) * MOST) for shares, most in before]
    fitted = np.array([float(rationality_of(fit)) for fit in fits])
    every = np.unique(fitted)
    scores: list[dict[Score, FloatArray]] = [{} for _ in agents]
    for change, targets in TARGETS.items():
        for target in targets:
            of_agents = _shares(seen, change, target, every)
            for out, own, (shares, _) in zip(scores, fitted, of_agents, strict=True):
                out[change, target] = np.sign(own) * shares[:, np.searchsorted(every, own)]
    first, *others = map(_result, agents, fitted.tolist(), scores)
    return replace(first, references=tuple(others))


def _shares(
    agents: Sequence[Observed], change: str, target: str, rationalities: FloatArray
) -> list[tuple[FloatArray, FloatArray]]:
    """Return the share of each maze [C, G] and its decisions that can matter per walk [C, 1]."""
    kept = [
        seen.where(np.array([walk.condition[CHANGE] == change for walk in seen.trajectories]))
        for seen in agents
    ]
    unchanged = {
        seen.grid[i]: walk.world
        for seen in agents[:1]
        for i, walk in enumerate(seen.trajectories)
        if walk.condition[CHANGE] == UNCHANGED
    }
    visits: dict[tuple[GridWorld, Cell, int], list[tuple[int, int]]] = {}
    for agent, seen in enumerate(kept):
        for index, walk in enumerate(seen.trajectories):
            model = _model(walk, target, unchanged[seen.grid[index]])
            visits.setdefault((*model, walk.cap), []).append((agent, index))
    nats = [np.zeros((len(seen.trajectories), len(rationalities))) for seen in kept]
    for (world, place, cap), walks in visits.items():
        tabular = tabular_world(world, horizon=cap, utility={place: 1.0})
        decisions = decisions_of(tabular, [(kept[agent], index) for agent, index in walks])
        rows = summed_evidence(tabular.mdp, decisions, len(walks), rationalities, lapse=LAPSE)
        for row, (agent, index) in zip(rows, walks, strict=True):
            nats[agent][index] = row
    out = []
    for seen, values in zip(kept, nats, strict=True):
        # The last decision before the cap leads to no reward.
        matter = np.minimum(seen.length, seen.caps - 1)
        count = len(seen.grids)
        walks_of, most = np.bincount(seen.grid), np.bincount(seen.grid, matter, count)[:, None]
        total = np.zeros((count, len(rationalities)))
        np.add.at(total, seen.grid, values)
        out.append((total / (MOST * np.maximum(most, 1)), most / walks_of[:, None]))
    return out


def _model(walk: Trajectory, target: str, unchanged: GridWorld) -> tuple[GridWorld, Cell]:
    """Return the map that a model uses and the place that it wants."""
    if target == GOAL:
        return walk.world, walk.world.goal
    if target == OLD_PLACE:
        return walk.world, unchanged.goal
    if target == OLD_MAP:
        return unchanged, walk.world.goal
    return walk.world, _third_place(walk.world, unchanged.goal)


@lru_cache(maxsize=512)
def _third_place(world: GridWorld, old_place: Cell) -> Cell:
    others = [cell for cell in separate_cells(world) if cell != old_place]
    return Draws("third place", str(world)).choice(others)


def _result(
    navigation: Navigation, rationality: float, scores: dict[Score, FloatArray]
) -> InterventionResult:
    seen = navigation.seen
    labels = [(grid.size, float(grid.complexity or 0)) for grid in seen.grids]
    strata = np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1)
    least = float(np.log(LAPSE)) / MOST
    most = 1.0 - least

    def mean(shares: FloatArray, low: float, high: float) -> Estimate:
        n = len(seen.trajectories) // len(TARGETS)
        return estimate(shares, n=n, strata=strata, bounds=(low, high), paired=True)

    before = scores[UNCHANGED, GOAL]
    explained = mean(before, least, 1.0)
    rows = []
    for name, change, target in (
        (GOAL_MOVED, GOAL_MOVED, GOAL),
        (REMOVED, GOAL_MOVED, OLD_PLACE),
        (BLOCKED, BLOCKED, GOAL),
    ):
        after, is_removed = scores[change, target], name == REMOVED
        rivals = () if is_removed else TARGETS[change][1:]
        rows.append(
            scored_change(
                (name, target),
                explained,
                mean(after, least, 1.0),
                mean(after - before, -most, most),
                {each: mean(after - scores[change, each], -most, most) for each in rivals},
                nats=MOST,
                removed=is_removed,
            )
        )
    mazes = [
        {"size": grid.size, "complexity": grid.complexity, "seed": grid.seed}
        | {change: {t: float(scores[change, t][i]) for t in ts} for change, ts in TARGETS.items()}
        for i, grid in enumerate(seen.grids)
    ]
    return InterventionResult(navigation.agent, rationality, explained, tuple(rows), tuple(mazes))
