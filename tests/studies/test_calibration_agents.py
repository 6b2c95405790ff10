"""A population of agents whose goals are known: who they are, how they plan, and their habits."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from studies.simulated import DOWN, RIGHT, ROOM, SCENE, UP, agent, number, task_of

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld import GridWorld
from goalmeter.gridworld.generators import distances_from
from goalmeter.navigation.trajectories import walk
from replications.calibration.population import traits
from replications.calibration.population.agents import (
    Habit,
    Simulated,
    arrival_chances,
    believed_walls,
    course,
    lapses,
    limited_estimates,
    most_arrivals,
    neighbours,
    soft_choices,
    softness,
)
from replications.calibration.population.traits import (
    CLASSES,
    LEAST_DISTANCE,
    class_of,
    population,
    scene_pair,
)

# --- Who is drawn ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_traits_come_as_often_as_the_distribution_says() -> None:
    drawn = population(3000, seed=3)
    directed = [each for each in drawn if each.directed]
    for field, among, shares in (
        ("target", drawn, traits.TARGET_SHARES),
        ("planner", directed, traits.PLANNER_SHARES),
        ("habit", drawn, traits.HABIT_SHARES),
    ):
        counts = Counter(getattr(each, field) for each in among)
        for value, share in shares.items():
            spread = math.sqrt(share * (1 - share) / len(among))
            assert counts[value] / len(among) == pytest.approx(share, abs=4 * spread), value
        assert sum(shares.values()) == pytest.approx(1)
    strengths = np.sort([each.strength for each in directed])
    expected = np.linspace(*traits.STRENGTHS, len(strengths))
    assert np.abs(strengths - expected).max() < 0.05
    mapped = [each for each in directed if each.planner != "compass with memory"]
    wrong = sum(each.belief != "true map" for each in mapped) / len(mapped)
    assert wrong == pytest.approx(1 - traits.BELIEF_SHARES["true map"], abs=0.05)


def test_a_larger_population_begins_with_the_smaller_and_seeds_differ() -> None:
    assert population(20, seed=1)[:5] == population(5, seed=1)
    assert population(5, seed=1) != population(5, seed=2)
    with pytest.raises(InvalidParameterError, match="agents is 0, expected at least 1"):
        population(0, seed=1)


def test_every_agent_is_counted_in_exactly_one_class() -> None:
    for drawn in population(500, seed=4):
        assert sum(kind.holds(drawn) for kind in CLASSES) == 1
        assert class_of(drawn).directed == drawn.directed
    assert class_of(agent(target="none", strength=0.0, habit="left wall")).title == (
        "aimless, competent habit"
    )
    assert class_of(agent(strength=0.5)).title == "medium goal"


# --- Where they walk ------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "complexity"), [(7, 0.0), (7, 0.9), (9, 0.5)])
def test_a_pair_has_the_same_walls_and_start_and_other_places(size: int, complexity: float) -> None:
    pair = scene_pair(size, complexity, 5)
    first, second = pair.scenes
    assert (first.world.walls == second.world.walls).all()
    assert first.world.start == second.world.start
    places = [*first.places.values(), *second.places.values(), first.world.start]
    assert len(set(places)) == 9
    steps = distances_from(first.world.walls, [first.world.start])[0]
    for scene in pair.scenes:
        assert scene.corner in {(r, c) for r in (1, size - 2) for c in (1, size - 2)}
        blocked = scene.world.walls.copy()
        blocked[scene.world.goal] = True
        around = distances_from(blocked, [scene.world.start])[0]
        assert all(around[p] > 0 for p in places[:-1] if p != scene.world.goal)
        assert min(steps[place] for place in scene.places.values()) >= LEAST_DISTANCE
    assert scene_pair(size, complexity, 5) == pair and scene_pair(size, complexity, 6) != pair


def test_wrong_maps_are_wrong_as_they_say_and_leave_every_place_in_reach() -> None:
    scene = scene_pair(9, 0.9, 1).scenes[0]
    walls = scene.world.walls
    lost = believed_walls(agent(belief="lost walls"), scene)
    phantom = believed_walls(agent(belief="phantom walls"), scene)
    unseen = believed_walls(agent(belief="unseen rows"), scene)
    assert (lost <= walls).all() and (lost != walls).any() and lost[0].all()
    assert (phantom >= walls).all() and (phantom != walls).any()
    assert not unseen[2, 1:-1].any() and (unseen[3] == walls[3]).all()
    assert (believed_walls(agent(), scene) == walls).all()
    for seen in (lost, phantom, unseen):
        steps = distances_from(seen, [scene.world.start])[0]
        assert all(steps[place] >= 0 for place in scene.places.values())


# --- How they plan --------------------------------------------------------------------------------


def test_strength_is_the_share_of_right_moves_beyond_chance() -> None:
    # One right move of four, three that cost two steps more: right with 1/4 + 3/4 * 0.5.
    soft = agent(strength=0.5, noise="softness")
    assert soft_choices(np.array([3.0, 5, 5, 5]), softness(soft))[0] == pytest.approx(0.625)
    assert (lapses(soft), lapses(agent(strength=0.3))) == (0, 0.7)
    # Both: the square root of the strength to each.
    both = agent(strength=0.25, noise="both")
    assert lapses(both) == 0.5
    assert soft_choices(np.array([3.0, 5, 5, 5]), softness(both))[0] == pytest.approx(0.625)
    assert softness(agent()) == math.inf


def test_an_exact_planner_takes_shortest_ways_and_shuns_the_goal_for_another_target() -> None:
    start = number(ROOM.start)
    assert course(agent(), SCENE, "goal").weights(start) == (0, 1, 0, 0)
    # The key lies in the dead end below: down, and along the bottom row.
    assert course(agent(), SCENE, "key").weights(start) == (0, 0, 0, 1)
    beside_goal = number((4, 5))
    soft = agent(strength=0.3, noise="softness")
    assert course(soft, SCENE, "corner").weights(beside_goal)[DOWN] < 1e-9
    # On its cell it stays, by walking into a wall: there are three, and one way out.
    left, right, up, down = course(agent(), SCENE, "cell").weights(number(SCENE.cell))
    assert (left, right, up, down) == pytest.approx((1 / 3, 1 / 3, 1 / 3, 0))


def test_a_limited_planner_sees_as_far_as_its_depth() -> None:
    # From (1, 1) the goal is 4 down and 4 right. After a move right one more step is looked ahead:
    # (1, 3), 1 + 4 + 2. After a move down: (3, 1), 1 + 2 + 4.
    estimates = limited_estimates(ROOM.walls, ROOM.goal, depth=2)
    assert estimates[number((1, 2))] == estimates[number((2, 1))] == 7
    assert course(agent(planner="depth-limited"), SCENE, "goal").weights(8) == (0, 0.5, 0, 0.5)
    deep = agent(planner="depth-limited", depth=6)
    # With five more steps it ends at (5, 3) below, 5 + 2, and at (2, 5) to the right, 5 + 3 - 0:
    # the dead end looks nearer, which it is as the crow flies.
    assert limited_estimates(ROOM.walls, ROOM.goal, 6)[number((2, 1))] == 7
    assert course(deep, SCENE, "goal").weights(number((1, 5))) == (0, 0, 0, 1)


def test_a_compass_that_remembers_leaves_a_dead_end() -> None:
    compass = agent(planner="compass with memory")
    walked = walk(Simulated(compass, SCENE), task_of(SCENE), seed=2)
    assert walked.outcome == "arrived"
    # On its way back out of (3, 3) the estimates along the dead end have risen.
    memory = course(compass, SCENE, "goal")
    assert memory.weights(number((3, 3))) == (0, 0, 0, 1)


def test_a_hyperbolic_planner_is_decisive_near_and_idle_far() -> None:
    hyperbolic = agent(planner="hyperbolic", strength=0.5, noise="softness", discount=2.0)
    near, far = number((3, 5)), number((1, 1))
    plan = course(hyperbolic, SCENE, "goal")
    assert plan.weights(near)[DOWN] > 0.7 > 0.4 > plan.weights(far)[RIGHT] > 0.25


def test_chances_of_samples_are_those_of_all_walks() -> None:
    after = neighbours(ROOM.walls)
    target, steps = number((1, 3)), 4
    literal = np.zeros(49)
    for cell in (number((1, 1)), number((1, 2)), number((2, 1))):
        for moves in product(range(4), repeat=steps):
            at = cell
            for move in moves:
                at = at if at == target else int(after[at, move])
            literal[cell] += (at == target) / 4**steps
        assert arrival_chances(after, target, steps)[cell] == pytest.approx(literal[cell])
    rng = np.random.default_rng(0)
    chances = np.array([[0.1, 0.3, 0.3, 0.5]])
    drawn = rng.binomial(3, chances[0], size=(40_000, 4))
    winners = (drawn == drawn.max(axis=1, keepdims=True)).astype(float)
    expected = (winners / winners.sum(axis=1, keepdims=True)).mean(axis=0)
    assert most_arrivals(chances, 3)[0] == pytest.approx(expected, abs=0.01)


# --- What they do without a goal ------------------------------------------------------------------


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
        ("loop", [((1, 1), RIGHT)], (1, 2), (0, 1, 0, 0)),
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


def test_momentum_repeats_as_often_as_it_says_where_it_can_turn() -> None:
    open_room = GridWorld.from_text("#####\n#A__#\n#___#\n#__G#\n#####")
    after = tuple(map(tuple, neighbours(open_room.walls).tolist()))
    momentum = Habit(agent(target="none", habit="momentum"), after)
    momentum.remember(11, RIGHT)
    assert momentum.weights(12) == pytest.approx((0, 0.8, 0.1, 0.1))


def test_a_habit_that_is_not_steady_takes_any_action_now_and_then() -> None:
    assert habit("right wall", steadiness=0.6).weights(8) == pytest.approx((0.1, 0.7, 0.1, 0.1))


def test_a_lapse_is_a_share_of_habit_in_a_move() -> None:
    half = Simulated(agent(strength=0.5, habit="any action"), SCENE)
    first = walk(half, task_of(SCENE), seed=1).steps[0]
    assert first.probabilities == pytest.approx((0.125, 0.625, 0.125, 0.125))


def test_who_has_the_key_goes_on_to_the_goal_or_falls_into_a_habit() -> None:
    then_goal = walk(Simulated(agent(target="key", then="goal"), SCENE), task_of(SCENE), seed=1)
    assert then_goal.outcome == "arrived" and len(then_goal.steps) == 7 + 15
    then_habit = walk(
        Simulated(agent(target="key", habit="most visited"), SCENE), task_of(SCENE), seed=1
    )
    assert then_habit.outcome == "cap"
