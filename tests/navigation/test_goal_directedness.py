"""Goal-directedness of walks: what it is in worlds that can be worked out, and what agents have."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from goalmeter.gridworld import GridWorld, tabular_world
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import Cell
from goalmeter.meg import TrajectoryMeg, from_trajectories
from goalmeter.navigation import Trajectory
from goalmeter.navigation.measure import Navigation, navigation_of
from goalmeter.navigation.plan import plan_of
from goalmeter.navigation.rationality import (
    Directedness,
    best_fit,
    directedness,
    evidence,
    fit_tops,
    rationality_of,
    refined_evidence,
    signed_nats,
)
from goalmeter.navigation.rollouts import Walked, play_all
from goalmeter.navigation.steps import Grids, observed

SMALL: dict[str, Any] = {"sizes": [5], "complexities": [1.0], "grids": 1, "trajectories": 4}
LOG_4 = math.log(4)


def walked(agent: str, name: str = "maze", **options: Any) -> Walked:
    return play_all(plan_of(agent, name, **(options or SMALL)))


def result_of(agent: str, name: str = "maze", **options: Any) -> Navigation:
    return navigation_of(walked(agent, name, **options))


@pytest.fixture(scope="module")
def loose() -> dict[str, Directedness]:
    """Agents in worlds whose key opens nothing, who share the work."""
    names = ("optimal", "key-seeker", "random")
    return by_agent([result_of(name, "key-no-door", grids=8) for name in names])


def by_agent(results: list[Navigation]) -> dict[str, Directedness]:
    return {each.agent: each for each in directedness(results)}


def by_library(walks: tuple[Trajectory, ...], utility: str = "goal") -> TrajectoryMeg:
    """The trajectory measure of walks, each as a world and a log of its own."""
    mdps, logs = [], []
    for walk in walks:
        world = tabular_world(walk.world, horizon=walk.cap, utility=utility)
        states = [world.index(step.state) for step in walk.steps]
        mdps.append(world.mdp)
        logs.append((np.array([states]), np.array([[step.action for step in walk.steps]])))
    return from_trajectories(mdps, logs, resamples=100, folds=2)


ONE_WALK: dict[str, Any] = {"grids": 1, "trajectories": 1}


@pytest.mark.parametrize(
    ("agent", "suite", "utility", "options"),
    [
        # Evidence is steepest where ways are long: a parabola through three rationalities of the
        # list is off by 0.04 nats in the first of these.
        pytest.param(
            "epsilon-optimal(0.5)",
            "maze",
            "goal",
            ONE_WALK | {"sizes": [15], "complexities": [1]},
            marks=pytest.mark.slow,
        ),
        ("boltzmann(1)", "maze", "goal", ONE_WALK | {"sizes": [9], "complexities": [0.0]}),
        ("random", "maze", "goal", {"sizes": [5], "complexities": [0.5], "grids": 2}),
        ("wall-follower", "maze", "goal", ONE_WALK | {"sizes": [7], "complexities": [0.0]}),
        ("epsilon-optimal(0.3)", "key-door", "key", {"grids": 2}),
    ],
)
def test_the_fit_is_that_of_meg_from_trajectories(
    agent: str, suite: str, utility: str, options: dict[str, Any]
) -> None:
    seen = result_of(agent, suite, **options).seen
    every = np.ones(len(seen.trajectories), dtype=bool)
    (measured,) = refined_evidence(
        [seen], utility, lambda _, each: fit_tops(Grids(seen, 0.95), each.curves(every))
    )
    curve = measured.whole.mean(axis=0)
    fit = best_fit(curve, measured.rationalities)
    nats = float(signed_nats(curve, fit, measured.rationalities))
    rationality = float(rationality_of(fit, measured.rationalities))
    expected = by_library(seen.trajectories, utility)
    assert abs(nats) == pytest.approx(expected.raw, abs=1e-3)
    assert np.sign(rationality) == np.sign(expected.rationality)
    if np.isfinite(expected.rationality) and expected.raw > 0.1:
        assert rationality == pytest.approx(expected.rationality, rel=1e-3)


def test_an_agent_that_keeps_away_has_nats_below_zero() -> None:
    (walk,) = walked("optimal", "key-no-door", grids=1).trajectories
    world = GridWorld.from_text("###########\n#_K__A___G#\n###########")
    steps = tuple(
        replace(walk.steps[0], state=State(Cell(1, column), 0), action=1, optimal=(1,))
        for column in range(5, 9)
    )
    away = observed([replace(walk, world=world, steps=steps, distance=4, cap=12)])
    to_goal, to_key = (evidence([away], utility)[0].whole[0] for utility in ("goal", "key"))
    assert float(signed_nats(to_goal)) == pytest.approx(4 * LOG_4)
    assert float(signed_nats(to_key)) < -0.2 and float(rationality_of(best_fit(to_key))) < 0


def test_keys_and_goals_are_told_apart_where_they_differ(loose: dict[str, Directedness]) -> None:
    assert [loose[name].larger for name in ("optimal", "key-seeker", "random")] == [
        "goal",
        "key",
        None,
    ]
    seeker = loose["key-seeker"]
    assert seeker.towards_thing is not None and seeker.goal_without is not None
    assert seeker.towards_thing.rationality == math.inf
    assert seeker.towards_thing.nats.value > 1 > abs(seeker.goal_without.nats.value)
    # Where a door is locked, whoever wants the goal wants the key first.
    locked = [result_of(name, "key-door", grids=4) for name in ("optimal", "key-seeker")]
    for each in directedness(locked):
        assert each.larger is None and each.difference is not None and each.difference.value == 0
        assert each.towards_thing is not None and each.towards_thing.nats.value > 1


def test_each_condition_has_a_row_and_frames_are_left_out() -> None:
    # Three grids do not distinguish the goal from the key, whatever the agent does in them.
    few = directedness([result_of("optimal", "two-path", grids=3)])
    assert [(each.condition, each.thing, each.larger) for each in few] == [
        ('{"key": true}', "key", None),
        ('{"key": false}', None, None),
    ]
    turned = result_of("optimal", "isometries", sizes=[5], grids=2, trajectories=2)
    (frames,) = directedness([turned])
    assert frames.goal.nats.n == 2 * 3 * 2  # 3 complexities; not their 4 frames
