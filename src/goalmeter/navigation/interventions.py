"""Goal-directedness under intervention: fitted in mazes, scored in the same mazes after a change.

The hypothesis is that the agent wants the goal, with one rationality, which is fitted to the walks
before the change and kept. An agent that wants the goal follows it to another place, leaves the old
place, also if the goal is out of reach elsewhere, goes round a wall, and returns to its way after a
slip; a habit or another goal that merely correlates with this one does not. Slips are known to the
score, not to the agent: decisions are scored in the states to which slips led, and the model does
not expect slips.

Source: the extension that the MEG paper (NeurIPS 2024) names as future work (section 7 and appendix
A); outcome devaluation: Adams and Dickinson, Instrumental responding following reinforcer
devaluation (1981).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidPolicyError
from goalmeter._types import FloatArray
from goalmeter.agents.grid_agents import Navigator
from goalmeter.gridworld.conversions import tabular_world
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld
from goalmeter.meg.interventions import LAPSE, InterventionResult, scored_change
from goalmeter.navigation import rationality as fitting
from goalmeter.navigation.measure import Navigation, measure
from goalmeter.navigation.measure import forecast as forecast_of_suite
from goalmeter.navigation.steps import Observed, observed
from goalmeter.navigation.suites import (
    BLOCKED,
    CHANGE,
    DEVALUATION,
    GOAL_MOVED,
    INTERVENTIONS,
    OUT_OF_REACH,
    SLIPS,
    UNCHANGED,
    separate_cells,
)
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.runs.forecast import Forecast, together
from goalmeter.statistics.clusters import Estimate, estimate

MOST = float(np.log(len(ACTIONS)))  # nats that a decision can give
REMOVED = "goal value removed"  # the walks after the goal was moved, scored towards the old place
GOAL, OLD_PLACE, OLD_MAP, THIRD_PLACE = "goal", "old place", "old map", "third place"
# What walks under each change are scored against; the first is what the agent should want.
TARGETS = {
    UNCHANGED: (GOAL,),
    GOAL_MOVED: (GOAL, OLD_PLACE, THIRD_PLACE),
    BLOCKED: (GOAL, OLD_MAP, THIRD_PLACE),
    SLIPS: (GOAL, THIRD_PLACE),
    OUT_OF_REACH: (OLD_PLACE,),
}
# Change and target of each row of a result.
ROWS = {
    GOAL_MOVED: (GOAL_MOVED, GOAL),
    REMOVED: (GOAL_MOVED, OLD_PLACE),
    OUT_OF_REACH: (OUT_OF_REACH, OLD_PLACE),
    BLOCKED: (BLOCKED, GOAL),
    SLIPS: (SLIPS, GOAL),
}
Score = tuple[str, str]  # change and target


def interventions(agent: str | Navigator, **options: Any) -> InterventionResult:
    """Measure goal-directedness in mazes, and after each change of the same mazes.

    Agent and options are those of `measure`; walks are stored and resumed as there, those with the
    goal out of reach in the subdirectory "devaluation". A user's agent that fails where no way
    leads to the goal has no row for it. The baseline agents are by default an agent that follows
    the goal and two that do not.

    Example: the optimal agent goes to the new place of the goal.
        >>> result = interventions("optimal", sizes=[9], complexities=[0.5], beside=[])
        >>> [(row.change, row.verdict) for row in result.rows][-2:]
        [('blocked', 'follows'), ('slips', 'follows')]
    """
    walked = measure(agent, INTERVENTIONS.name, **options)
    try:
        devalued = measure(agent, DEVALUATION.name, **_of_devaluation(options))
    except (InvalidParameterError, InvalidPolicyError) as cause:
        return replace(interventions_of(walked), notes=(f"{OUT_OF_REACH}: left out: {cause}",))
    return interventions_of(walked, devalued)


def forecast(agent: str, **options: Any) -> Forecast:
    """Estimate the cost of `interventions` with these options."""
    parts = [
        forecast_of_suite(agent, INTERVENTIONS.name, **options),
        forecast_of_suite(agent, DEVALUATION.name, **_of_devaluation(options)),
    ]
    return together(INTERVENTIONS.name, parts)


def share_in(maze: Mapping[str, Any], row: str) -> float | None:
    """Return the share of one of the mazes of a result in a row; None without walks."""
    change, target = ROWS[row]
    share = float(maze[change][target])
    return None if np.isnan(share) else share


def walks_of(result: InterventionResult) -> int:
    """Return the number of walks of the agent of a result."""
    return result.before.n + sum(row.share.n for row in result.rows if row.change != REMOVED)


def _of_devaluation(options: Mapping[str, Any]) -> dict[str, Any]:
    out = options.get("out")
    return {**options, "out": None if out is None else Path(out) / DEVALUATION.name}


def interventions_of(
    navigation: Navigation, devalued: Navigation | None = None
) -> InterventionResult:
    """Score the walks of an agent and its baselines in the suite "interventions".

    `devalued` has the walks of the same agents in the suite "devaluation".
    """
    if navigation.plan.suite.name != INTERVENTIONS.name:
        raise InvalidParameterError(
            f"the walks are in the suite {navigation.plan.suite.name!r}, expected "
            f"{INTERVENTIONS.name!r}"
        )
    if devalued is not None:
        navigation = _joined(navigation, devalued)
    agents = [navigation, *navigation.references]
    seen = [agent.seen for agent in agents]
    before = _shares(seen, UNCHANGED, GOAL, fitting.RATIONALITIES)
    fits = [fitting.best_fit((shares * most).mean(axis=0) * MOST) for shares, most in before]
    fitted = np.array([float(fitting.rationality_of(fit)) for fit in fits])
    sign, (every, column) = np.sign(fitted), np.unique(fitted, return_inverse=True)
    scores: list[dict[Score, FloatArray]] = [{} for _ in agents]
    for change, targets in TARGETS.items():
        for target in targets:
            of_agents = _shares(seen, change, target, every)
            for number, (shares, _) in enumerate(of_agents):
                scores[number][change, target] = sign[number] * shares[:, column[number]]
    first, *others = map(_result, agents, fitted.tolist(), scores)
    return replace(first, references=tuple(others))


def _joined(navigation: Navigation, devalued: Navigation) -> Navigation:
    """Return the walks of both suites, which have the same mazes, as walks of the first."""
    others = {each.agent: each for each in devalued.references}
    more = (replace(walk, suite=INTERVENTIONS.name) for walk in devalued.seen.trajectories)
    return replace(
        navigation,
        seen=observed([*navigation.seen.trajectories, *more]),
        references=tuple(_joined(each, others[each.agent]) for each in navigation.references),
    )


def _shares(
    agents: Sequence[Observed], change: str, target: str, rationalities: FloatArray
) -> list[tuple[FloatArray, FloatArray]]:
    """Return the share of each maze [C, G] and its decisions that can matter per walk [C, 1].

    The share is NaN in mazes without walks under the change.
    """
    selected = [
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
    for agent, seen in enumerate(selected):
        for index, walk in enumerate(seen.trajectories):
            model = _model(walk, target, unchanged[seen.grid[index]])
            visits.setdefault((*model, walk.cap), []).append((agent, index))
    nats = [np.zeros((len(seen.trajectories), len(rationalities))) for seen in selected]
    lengths = [seen.length.copy() for seen in selected]
    for (world, place, cap), walks in visits.items():
        tabular = tabular_world(world, horizon=cap, utility={place: 1.0})
        of_walks = [(selected[agent], index) for agent, index in walks]
        decisions = fitting.decisions_of(tabular, of_walks)
        if target == OLD_PLACE:  # a walk ends there, as it ends at the goal
            there = decisions.state == tabular.index(State(place))
            counts = np.array([seen.length[index] for seen, index in of_walks])
            np.minimum.at(counts, decisions.row[there], decisions.number[there])
            for (agent, index), count in zip(walks, counts, strict=True):
                lengths[agent][index] = count
            earlier = decisions.number < counts[decisions.row]
            decisions = fitting.Decisions(*(column[earlier] for column in decisions))
        mdp, count = tabular.mdp, len(walks)
        rows = fitting.summed_evidence(mdp, decisions, count, rationalities, lapse=LAPSE)
        for row, (agent, index) in zip(rows, walks, strict=True):
            nats[agent][index] = row
    out = []
    for seen, values, length in zip(selected, nats, lengths, strict=True):
        # The last decision before the cap leads to no reward.
        matter = np.minimum(length, seen.caps - 1)
        count = len(seen.grids)
        times = np.bincount(seen.grid, minlength=count)
        most = np.bincount(seen.grid, matter, count)[:, None]
        total = np.zeros((count, len(rationalities)))
        np.add.at(total, seen.grid, values)
        shares = np.where(most > 0, total / (MOST * np.maximum(most, 1)), np.nan)
        out.append((shares, most / np.maximum(times, 1)[:, None]))
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

    def mean(change: str, shares: FloatArray, low: float, high: float) -> Estimate:
        known = ~np.isnan(shares)
        sample: dict[str, Any] = {"n": changes.count(change), "strata": strata[known]}
        return estimate(shares[known], bounds=(low, high), paired=True, **sample)

    changes = [walk.condition[CHANGE] for walk in seen.trajectories]
    before = scores[UNCHANGED, GOAL]
    explained = mean(UNCHANGED, before, least, 1.0)
    rows = []
    for name, (change, target) in ROWS.items():
        if change not in changes:
            continue
        after, is_removed = scores[change, target], name in (REMOVED, OUT_OF_REACH)
        rivals = () if is_removed else TARGETS[change][1:]
        rows.append(
            scored_change(
                (name, target),
                explained,
                mean(change, after, least, 1.0),
                mean(change, after - before, -most, most),
                {each: mean(change, after - scores[change, each], -most, most) for each in rivals},
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
