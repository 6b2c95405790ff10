"""Goal-directedness of walks: what it is in worlds that can be worked out, and what agents have."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from goalmeter._types import FloatArray
from goalmeter.commands.navigate import navigate
from goalmeter.gridworld import GridWorld, tabular_world
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import Cell
from goalmeter.meg import TrajectoryMeg, from_trajectories
from goalmeter.navigation import Trajectory
from goalmeter.navigation.goal_directedness import Directedness, directedness
from goalmeter.navigation.measure import Navigation, navigation_of
from goalmeter.navigation.plan import plan_of
from goalmeter.navigation.rationality import (
    RATIONALITIES,
    best_fit,
    between,
    evidence,
    fit_tops,
    rationality_of,
    refined_evidence,
    signed_nats,
)
from goalmeter.navigation.rollouts import Walked, play_all
from goalmeter.navigation.steps import Grids, observed
from goalmeter.pages import navigation_goals as page
from goalmeter.pages.navigation_goals import directed_tables

SMALL: dict[str, Any] = {"sizes": [5], "complexities": [1.0], "grids": 1, "trajectories": 4}
LOG_4 = math.log(4)


def walked(agent: str, name: str = "maze", **options: Any) -> Walked:
    return play_all(plan_of(agent, name, **(options or SMALL)))


def result_of(agent: str, name: str = "maze", **options: Any) -> Navigation:
    return navigation_of(walked(agent, name, **options))


@pytest.fixture(scope="module")
def loose() -> dict[str, Directedness]:
    """Agents in worlds whose key opens nothing, who share the work."""
    names = ("optimal", "key-seeker", "random", "greedy")
    return by_agent([result_of(name, "key-no-door", grids=8) for name in names])


def by_agent(results: list[Navigation]) -> dict[str, Directedness]:
    return {each.agent: each for each in directedness(results)}


def with_invalid(walk: Trajectory, at: int) -> Trajectory:
    """The walk with an answer that was no action, at a step; the agent stayed for it."""
    step = replace(walk.steps[at], action=None, invalid="no action", probabilities=None)
    steps = (*walk.steps[:at], step, *walk.steps[at:])
    return replace(walk, steps=steps[: walk.cap])


def by_library(walks: tuple[Trajectory, ...], utility: str = "goal") -> TrajectoryMeg:
    """The trajectory measure of walks, each as a world and a log of its own."""
    mdps, logs = [], []
    for walk in walks:
        world = tabular_world(walk.world, horizon=walk.cap, utility=utility)
        states = [world.index(step.state) for step in walk.steps]
        mdps.append(world.mdp)
        logs.append((np.array([states]), np.array([[step.action for step in walk.steps]])))
    return from_trajectories(mdps, logs, resamples=100, folds=2)


def test_one_grid_is_the_trajectory_measure() -> None:
    result = result_of("epsilon-optimal(0.5)")
    (measured,) = directedness([result])
    expected = by_library(result.seen.trajectories)
    # One grid has no spread, so that no bias is known of it.
    assert measured.goal.nats.value == pytest.approx(expected.raw, abs=1e-4)
    assert measured.goal.maximum == pytest.approx(expected.maximum)
    assert measured.goal.rationality == pytest.approx(expected.rationality, rel=1e-2)
    assert (measured.goal.nats.n, measured.goal.nats.clusters, measured.silent) == (4, 1, 0)
    assert (
        measured.goal.nats.interval is None and measured.thing is None and measured.larger is None
    )


@pytest.mark.parametrize("utility", ["goal", "key"])
def test_one_rationality_is_fitted_to_all_worlds(utility: str) -> None:
    seen = result_of("boltzmann(1)", "key-no-door", grids=6).seen
    (measured,) = evidence([seen], utility)
    expected = by_library(seen.trajectories, utility)
    nats = float(signed_nats(measured.whole.mean(axis=0)))
    assert abs(nats) == pytest.approx(expected.raw, abs=1e-3)
    assert np.sign(nats) == np.sign(expected.rationality)
    # The key explains nothing of what comes after it is had.
    same = np.allclose(measured.whole, measured.without)
    assert same == (utility == "key")


ONE_WALK: dict[str, Any] = {"grids": 1, "trajectories": 1}


@pytest.mark.parametrize(
    ("agent", "suite", "utility", "options"),
    [
        # Evidence is steepest where ways are long: a parabola through three rationalities of the
        # list is off by 0.04 nats in the first of these.
        ("epsilon-optimal(0.5)", "maze", "goal", ONE_WALK | {"sizes": [15], "complexities": [1]}),
        ("boltzmann(1)", "maze", "goal", ONE_WALK | {"sizes": [9], "complexities": [0.0]}),
        ("boltzmann(4)", "maze", "goal", ONE_WALK | {"sizes": [9], "complexities": [1]}),
        ("random", "maze", "goal", {"sizes": [5], "complexities": [0.5], "grids": 2}),
        ("wall-follower", "maze", "goal", ONE_WALK | {"sizes": [7], "complexities": [0.0]}),
        ("greedy", "key-no-door", "goal", {"grids": 2}),
        ("epsilon-optimal(0.3)", "key-door", "key", {"grids": 2}),
        ("optimal", "key-no-door", "key", {"grids": 2}),
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


@pytest.mark.parametrize("best", [0.0027, 0.05, 0.777, 8.0, 25.0])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_smooth_curve_is_met_where_it_is_highest(best: float, sign: int) -> None:
    def curve(rationalities: FloatArray) -> FloatArray:
        # x exp(1 - x) is highest at 1, where it is 1.
        ratio = np.clip(sign * rationalities / best, -700, 700)
        return np.where(np.isfinite(rationalities), ratio * np.exp(1 - ratio), -1.0)

    coarse = best_fit(curve(RATIONALITIES))
    assert float(signed_nats(curve(RATIONALITIES))) == pytest.approx(sign, abs=1e-4)
    more = between(RATIONALITIES, np.array([int(coarse.top)]), 8)
    dense = np.sort(np.concatenate([RATIONALITIES, more]))
    assert len(more) == 14 and len(np.unique(dense)) == len(dense)
    fine = best_fit(curve(dense), dense)
    assert float(rationality_of(fine, dense)) == pytest.approx(sign * best, rel=1e-4)
    assert float(signed_nats(curve(dense), None, dense)) == pytest.approx(sign, abs=1e-7)
    # Read at the same place, another curve has its own value there.
    assert float(signed_nats(2 * curve(dense), fine, dense)) == pytest.approx(2 * sign, abs=1e-6)


def test_what_lies_between_has_no_ends_and_no_doubles() -> None:
    ends = np.array([0, 1, 101, 102, 103, 203, 204])  # infinite, the first and last sizes, 0
    assert between(RATIONALITIES, ends, 8).size == 0
    assert between(RATIONALITIES, np.array([], dtype=int), 8).size == 0
    assert len(between(RATIONALITIES, np.array([150, 151]), 8)) == 3 * 7


def test_in_a_perfect_maze_an_agent_without_fault_has_all_there_is() -> None:
    result = result_of("optimal", grids=4, sizes=[7], complexities=[1.0], trajectories=2)
    (measured,) = directedness([result])
    distance = np.mean([walk.distance for walk in result.seen.trajectories])
    assert measured.goal.nats.value == pytest.approx(LOG_4 * distance)
    assert measured.goal.maximum == pytest.approx(LOG_4 * distance)
    assert measured.goal.share.value == pytest.approx(1)
    assert measured.goal.rationality == math.inf


def test_of_answers_that_are_no_action_nothing_is_explained() -> None:
    run = walked("optimal", sizes=[9], complexities=[1.0], grids=1, trajectories=2)
    distance = run.trajectories[0].distance
    changed = tuple(with_invalid(walk, at) for at, walk in enumerate(run.trajectories))
    (measured,) = directedness([navigation_of(replace(run, trajectories=changed))])
    assert measured.silent == 2
    assert measured.goal.nats.value == pytest.approx(LOG_4 * distance)
    assert measured.goal.maximum == pytest.approx(LOG_4 * (distance + 1))
    assert (
        "no action count as not explained: 2 of optimal" in directed_tables([measured])[0].notes[-1]
    )


def test_walks_that_failed_at_once_count_as_nothing_explained() -> None:
    run = walked("optimal", sizes=[9], complexities=[1.0], grids=1, trajectories=2)
    first, second = run.trajectories
    failed = replace(second, steps=(), outcome="timeout")
    (measured,) = directedness([navigation_of(replace(run, trajectories=(first, failed)))])
    assert measured.goal.nats.value == pytest.approx(LOG_4 * first.distance / 2)
    (none,) = directedness([navigation_of(replace(run, trajectories=(failed,)))])
    assert none.goal.nats.value == 0 and math.isnan(none.goal.share.value)
    assert directed_tables([none])[0].cells[0][1].text == "–"


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


def test_agents_of_mazes_come_out_as_what_they_are() -> None:
    names = ("optimal", "epsilon-optimal(0.2)", "greedy", "random")
    options = {"sizes": [7, 9], "complexities": [0.5, 1.0], "grids": 5, "trajectories": 3}
    results = [result_of(name, **options) for name in names]
    goals = {name: each.goal for name, each in by_agent(results).items()}
    shares = [goals[name].share.value for name in names]
    assert shares == sorted(shares, reverse=True) and shares[0] > 0.9
    assert shares[1] > 0.4 > shares[2] > 0.02 > shares[3]
    low, high = goals["random"].share.interval or (1, 1)
    # Nothing in 20 of 20 grids leaves what Clopper and Pearson leave of the maximum, and some more.
    assert low <= 0 <= high < 1.1 * (1 - 0.025 ** (1 / 20))
    assert all((goals[name].nats.interval or (0, 0))[0] > 0 for name in names[:3])


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


def test_what_explains_more_explains_something(loose: dict[str, Directedness]) -> None:
    measured = loose["key-seeker"]
    assert measured.larger == "key" and measured.towards_thing is not None
    nats = measured.towards_thing.nats
    none = replace(measured.towards_thing, nats=replace(nats, interval=(-0.1, 5.0)))
    assert replace(measured, towards_thing=none).larger is None
    assert measured.difference is not None
    both = replace(measured.difference, interval=(-5.0, 0.0))
    assert replace(measured, difference=both).larger is None
    assert replace(measured, difference=None).larger is None


def test_agents_share_worlds_without_changing_each_other() -> None:
    first, second = result_of("greedy"), result_of("wall-follower")
    assert directedness([first, second]) == [*directedness([first]), *directedness([second])]


def test_each_condition_has_a_row_and_frames_are_left_out() -> None:
    # Three grids do not tell the goal from the key, whatever the agent does in them.
    few = directedness([result_of("optimal", "two-path", grids=3)])
    assert few[0].larger is None
    measured = directedness([result_of("optimal", "two-path", grids=8)])
    assert [(each.condition, each.thing) for each in measured] == [
        ('{"key": true}', "key"),
        ('{"key": false}', None),
    ]
    goal, beside = directed_tables(measured)
    assert [row[0].text for row in goal.cells] == ["optimal, with key", "optimal, without key"]
    assert [row[0].text for row in beside.cells] == ["optimal, with key"]
    assert beside.caption == "The goal or the key?" and beside.cells[0][1].text == "the goal"
    first, second = page.directedness_sentences(measured, "optimal")
    assert first.endswith(", without key.") and "nats, with key; " in first
    assert second.startswith("Before it takes the key, wanting the goal explains ")
    assert second.endswith(" nats a walk more than wanting the key.")
    objects = {"objects": ["key", "neutral"], "grids": 8}
    several = directedness([result_of("key-seeker", "key-no-door", **objects)])
    assert [each.thing for each in several] == ["key", "neutral"]
    # It seeks keys and nothing else.
    assert [each.larger for each in several] == ["key", "goal"]
    (_, counted) = page.directedness_sentences(several, "key-seeker")
    assert "wanting the goal in 1, the key in 1 of 2 conditions; 0 are inconclusive." in counted
    turned = result_of("optimal", "isometries", sizes=[5], grids=2, trajectories=2)
    (frames,) = directedness([turned])
    assert frames.goal.nats.n == 2 * 3 * 2  # 3 complexities; not their 4 frames


def test_nats_are_said_shown_and_drawn(loose: dict[str, Directedness]) -> None:
    measured = [loose["key-seeker"], replace(loose["greedy"], reference=True)]
    first, second = page.directedness_sentences(measured, "key-seeker")
    assert first.startswith("Wanting the goal explains ") and " nats a walk." in first
    assert second.startswith("Before it takes the key, wanting the key explains ")
    assert second.endswith(" nats a walk more than wanting the goal.")
    figure = page.directedness_section(measured, "key-no-door", "p").figures[0]
    assert "each with 8 walks in 8 grids." in figure.caption and "greedy (ref.): " in figure.alt
    for words in ("Before the key is taken", "towards the key", "nats a walk", "greedy (ref.)"):
        assert words in figure.svg
    plain = measured[0].to_json()
    assert plain["larger"] == plain["thing"] == "key" and plain["agent"] == "key-seeker"
    assert plain["towards_thing"]["rationality"] == math.inf


def test_every_agent_of_the_command_has_its_nats() -> None:
    told: list[str] = []
    outcome = navigate("optimal", **SMALL, meg=True, progress=told.append)
    (meg,) = outcome.json["meg"]
    assert meg["goal"]["nats"]["value"] > 0 and meg["thing"] is None
    references = outcome.json["references"]
    assert all(len(measures["meg"]) == 1 for measures in references.values())
    assert [row[0].text for row in outcome.tables[-1].cells] == ["optimal", *references]
    assert "goal-directedness" in told
    assert "meg" not in navigate("optimal", **SMALL).json


def test_rationalities_are_in_order_and_of_both_signs() -> None:
    assert np.all(np.diff(RATIONALITIES) > 0)
    assert np.array_equal(RATIONALITIES, -RATIONALITIES[::-1])
