"""Simulated agents whose goals are known: who is drawn, how they plan, and their habits."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from studies.simulated import DOWN, RIGHT, ROOM, SCENE, UP, agent, number, task_of

from goalmeter import InvalidParameterError
from goalmeter.gridworld import GridWorld
from goalmeter.gridworld.generators import distances_from
from goalmeter.navigation import walk
from replications.calibration.population.agents import (
    DISTRIBUTION,
    LEAST_DISTANCE,
    Habit,
    Simulated,
    arrival_chances,
    believed_walls,
    class_of,
    course,
    limited_estimates,
    most_arrivals,
    neighbours,
    population,
    scene_pair,
)


@pytest.mark.slow
def test_traits_come_as_often_as_the_distribution_says() -> None:
    drawn = population(3000, seed=3)
    directed = [each for each in drawn if each.directed]
    for field, among in (("target", drawn), ("planner", directed), ("habit", drawn)):
        counts = Counter(getattr(each, field) for each in among)
        for value, share in DISTRIBUTION[field].items():
            spread = math.sqrt(share * (1 - share) / len(among))
            assert counts[value] / len(among) == pytest.approx(share, abs=4 * spread), value
    strengths = np.sort([each.strength for each in directed])
    assert np.abs(strengths - np.linspace(0.05, 1.0, len(strengths))).max() < 0.05


def test_populations_are_nested_and_every_agent_has_a_class() -> None:
    assert population(20, seed=1)[:5] == population(5, seed=1) != population(5, seed=2)
    with pytest.raises(InvalidParameterError, match="agents is 0, expected at least 1"):
        population(0, seed=1)
    aimless = agent(target="none", strength=0.0, habit="left wall")
    assert class_of(aimless) == "aimless, competent habit"
    titles = [class_of(agent(strength=s)) for s in (0.19, 0.2, 0.5, 0.8)]
    assert titles == ["faint goal", "half-hearted goal", "medium goal", "strong goal"]


@pytest.mark.parametrize(("size", "complexity"), [(7, 0.0), (9, 0.9)])
def test_a_pair_has_the_same_walls_and_start_and_other_places(size: int, complexity: float) -> None:
    pair = scene_pair(size, complexity, 5)
    first, second = pair.scenes
    assert (first.world.walls == second.world.walls).all()
    assert first.world.start == second.world.start
    places = [*first.places.values(), *second.places.values()]
    assert len({*places, first.world.start}) == 9
    steps = distances_from(first.world.walls, [first.world.start])[0]
    assert min(steps[place] for place in places) >= LEAST_DISTANCE
    for scene in pair.scenes:
        blocked = scene.world.walls.copy()
        blocked[scene.world.goal] = True
        around = distances_from(blocked, [scene.world.start])[0]
        assert all(around[p] > 0 for p in places if p != scene.world.goal)


def test_wrong_maps_are_wrong_as_they_say_and_leave_every_place_in_reach() -> None:
    scene = scene_pair(9, 0.9, 1).scenes[0]
    walls = scene.world.walls
    lost, phantom, unseen = (
        believed_walls(agent(belief=belief), scene)
        for belief in ("lost walls", "phantom walls", "unseen rows")
    )
    assert (lost <= walls).all() and (lost != walls).any() and lost[0].all()
    assert (phantom >= walls).all() and (phantom != walls).any()
    assert not unseen[2, 1:-1].any() and (unseen[3] == walls[3]).all()
    assert (believed_walls(agent(), scene) == walls).all()
    for seen in (lost, phantom, unseen):
        steps = distances_from(seen, [scene.world.start])[0]
        assert all(steps[place] >= 0 for place in scene.places.values())


def test_an_exact_planner_takes_shortest_ways_and_shuns_the_goal_for_another_target() -> None:
    start = number(ROOM.start)
    assert course(agent(), SCENE, "goal")(start) == (0, 1, 0, 0)
    # The key lies in the dead end below: down, and along the bottom row.
    assert course(agent(), SCENE, "key")(start) == (0, 0, 0, 1)
    soft = agent(strength=0.3, noise="softness")
    assert course(soft, SCENE, "corner")(number((4, 5)))[DOWN] < 1e-9
    # On its cell it stays, by walking into a wall: there are three, and one way out.
    stays = course(agent(), SCENE, "cell")(number(SCENE.cell))
    assert stays == pytest.approx((1 / 3, 1 / 3, 1 / 3, 0))


def test_a_limited_planner_sees_as_far_as_its_depth() -> None:
    # From (1, 1) the goal is 4 down and 4 right. After a move right one more step is looked ahead:
    # (1, 3), 1 + 4 + 2. After a move down: (3, 1), 1 + 2 + 4.
    estimates = limited_estimates(ROOM.walls, ROOM.goal, depth=2)
    assert estimates[number((1, 2))] == estimates[number((2, 1))] == 7
    assert course(agent(planner="depth-limited"), SCENE, "goal")(8) == (0, 0.5, 0, 0.5)
    # With five more steps the dead end looks nearer, which it is as the crow flies.
    deep = agent(planner="depth-limited", depth=6)
    assert limited_estimates(ROOM.walls, ROOM.goal, 6)[number((2, 1))] == 7
    assert course(deep, SCENE, "goal")(number((1, 5))) == (0, 0, 0, 1)


def test_chances_of_samples_are_those_of_all_walks() -> None:
    after = neighbours(ROOM.walls)
    target, steps = number((1, 3)), 4
    for cell in (number((1, 1)), number((2, 1))):
        literal = 0.0
        for moves in product(range(4), repeat=steps):
            at = cell
            for move in moves:
                at = at if at == target else int(after[at, move])
            literal += (at == target) / 4**steps
        assert arrival_chances(after, target, steps)[cell] == pytest.approx(literal)
    drawn = np.random.default_rng(0).binomial(3, [0.1, 0.3, 0.3, 0.5], size=(40_000, 4))
    winners = (drawn == drawn.max(axis=1, keepdims=True)).astype(float)
    expected = (winners / winners.sum(axis=1, keepdims=True)).mean(axis=0)
    chances = np.array([[0.1, 0.3, 0.3, 0.5]])
    assert most_arrivals(chances, 3)[0] == pytest.approx(expected, abs=0.01)


# --- Habits ---------------------------------------------------------------------------------------
def habit(kind: str, *done: tuple[tuple[int, int], int], **changes: object) -> Habit:
    """A habit in the room, after some decisions."""
    after = tuple(map(tuple, neighbours(ROOM.walls).tolist()))
    remembering = Habit(agent(target="none", habit=kind, **changes), after)
    for cell, action in done:
        remembering.remember(number(cell), action)
    return remembering


@pytest.mark.parametrize(
    ("kind", "done", "cell", "expected"),
    [
        ("any action", [], (1, 1), (0.25, 0.25, 0.25, 0.25)),
        ("wander", [], (1, 1), (0, 0.5, 0, 0.5)),
        # Right and down are open, with weights of 0.2 and 0.4.
        ("moth-like", [], (1, 1), (0, 1 / 3, 0, 2 / 3)),
        # Facing up at first: to the right if it can; a left hand tries left, up, then right.
        ("right wall", [], (1, 1), (0, 1, 0, 0)),
        ("left wall", [], (1, 1), (0, 1, 0, 0)),
        # Facing down in the left column: right of it is a wall, so on.
        ("right wall", [((1, 1), DOWN)], (2, 1), (0, 0, 0, 1)),
        ("left wall", [((4, 1), DOWN)], (5, 1), (0, 1, 0, 0)),
        ("momentum", [((1, 1), RIGHT)], (1, 2), (0.2, 0.8, 0, 0)),  # no way but on and back
        ("momentum", [((4, 1), DOWN)], (5, 1), (0, 1, 0, 0)),
        ("momentum", [((4, 3), UP)], (3, 3), (0, 0, 0, 1)),  # out of the dead end
        ("most visited", [((1, 1), RIGHT)], (1, 2), (1, 0, 0, 0)),
        ("explorer", [((1, 1), RIGHT)], (1, 2), (0, 1, 0, 0)),
        ("loop", [((1, 1), RIGHT)] * 2, (1, 2), (0, 0, 0, 1)),
    ],
)
def test_habits_by_hand(
    kind: str,
    done: list[tuple[tuple[int, int], int]],
    cell: tuple[int, int],
    expected: tuple[float, ...],
) -> None:
    assert habit(kind, *done).weights(number(cell)) == pytest.approx(expected)


def test_momentum_turns_and_steadiness_mixes_in_any_action() -> None:
    open_room = GridWorld.from_text("#####\n#A__#\n#___#\n#__G#\n#####")
    after = tuple(map(tuple, neighbours(open_room.walls).tolist()))
    momentum = Habit(agent(target="none", habit="momentum"), after)
    momentum.remember(11, RIGHT)
    assert momentum.weights(12) == pytest.approx((0, 0.8, 0.1, 0.1))
    assert habit("right wall", steadiness=0.6).weights(8) == pytest.approx((0.1, 0.7, 0.1, 0.1))


def test_walks_mix_plan_and_habit_and_go_on_after_the_key() -> None:
    half = Simulated(agent(strength=0.5, habit="any action"), SCENE)
    first = walk(half, task_of(SCENE), seed=1).steps[0]
    assert first.probabilities == pytest.approx((0.125, 0.625, 0.125, 0.125))
    then_goal = walk(Simulated(agent(target="key", then="goal"), SCENE), task_of(SCENE), seed=1)
    assert then_goal.outcome == "arrived" and len(then_goal.steps) == 7 + 15
    idle = Simulated(agent(target="key", habit="most visited"), SCENE)
    assert walk(idle, task_of(SCENE), seed=1).outcome == "cap"
