"""A population of agents whose goals are known: who they are, and what is said of them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import goalmeter as gm
from goalmeter._errors import InvalidParameterError
from goalmeter.experiments.calibration.population import evidence as walks_evidence
from goalmeter.experiments.calibration.population import page, result, scoring, traits
from goalmeter.experiments.calibration.population.agents import Habit, Simulated
from goalmeter.experiments.calibration.population.evidence import GRID, pair_evidence
from goalmeter.experiments.calibration.population.judging import (
    Truth,
    answers,
    confusion,
    cost,
    detected,
    threshold,
)
from goalmeter.experiments.calibration.population.measuring import (
    PopulationEvidence,
    PopulationScale,
    measure_population,
)
from goalmeter.experiments.calibration.population.planners import (
    believed_walls,
    course,
    lapses,
    limited_estimates,
    neighbours,
    soft_choices,
    softness,
)
from goalmeter.experiments.calibration.population.sampling import arrival_chances, most_arrivals
from goalmeter.experiments.calibration.population.scenes import (
    LEAST_DISTANCE,
    TARGETS,
    Scene,
    ScenePair,
    scene_pair,
)
from goalmeter.experiments.calibration.population.scoring import (
    FOLLOWED,
    INSTRUMENTS,
    MEG,
    RECOMMENDED,
    TESTS,
    followed,
    scored,
    scores_of,
)
from goalmeter.experiments.calibration.population.swap_test import (
    LEVEL,
    swap_test_of_evidence,
    swap_test_of_means,
)
from goalmeter.experiments.calibration.population.traits import (
    CLASSES,
    Traits,
    class_of,
    population,
)
from goalmeter.experiments.calibration.population.validity import rank_correlation
from goalmeter.gridworld import GridWorld, tabular_world
from goalmeter.gridworld.paths import distances_from
from goalmeter.gridworld.world import Cell
from goalmeter.navigation.measures.observed import observed
from goalmeter.navigation.walks import walk
from goalmeter.statistics.clustered import Estimate

LEFT, RIGHT, UP, DOWN = range(4)
# The marked cell lies at the end of a dead end, the marked corner at the bottom right.
ROOM = GridWorld.from_text("""
#######
#A____#
#_###_#
#_#_#_#
#_#K#_#
#___#G#
#######
""")
SCENE = Scene(ROOM, cell=Cell(3, 3), corner=Cell(5, 1), cap=42)


def agent(**changes: object) -> Traits:
    """An agent that goes for the goal by the shortest way, with changes."""
    base = Traits(
        name="agent",
        target="goal",
        strength=1.0,
        noise="lapses",
        planner="exact",
        belief="true map",
        habit="wander",
        steadiness=1.0,
        then="habit",
        depth=2,
        rollouts=4,
        discount=1.0,
        preferences=(0.1, 0.2, 0.3, 0.4),
        persistence=0.8,
        loop=(RIGHT, RIGHT, DOWN),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def number(cell: tuple[int, int]) -> int:
    return cell[0] * 7 + cell[1]


# --- Who is drawn ---------------------------------------------------------------------------------


def test_traits_come_as_often_as_the_distribution_says() -> None:
    drawn = population(3000, seed=3)
    directed = [one for one in drawn if one.directed]
    for field, among, shares in (
        ("target", drawn, traits.TARGET_SHARES),
        ("planner", directed, traits.PLANNER_SHARES),
        ("habit", drawn, traits.HABIT_SHARES),
    ):
        counts = Counter(getattr(one, field) for one in among)
        for value, share in shares.items():
            spread = math.sqrt(share * (1 - share) / len(among))
            assert counts[value] / len(among) == pytest.approx(share, abs=4 * spread), value
        assert sum(shares.values()) == pytest.approx(1)
    strengths = np.sort([one.strength for one in directed])
    expected = np.linspace(*traits.STRENGTHS, len(strengths))
    assert np.abs(strengths - expected).max() < 0.05
    mapped = [one for one in directed if one.planner != "compass with memory"]
    wrong = sum(one.belief != "true map" for one in mapped) / len(mapped)
    assert wrong == pytest.approx(1 - traits.BELIEF_SHARES["true map"], abs=0.05)


def test_a_larger_population_begins_with_the_smaller_and_seeds_differ() -> None:
    assert population(20, seed=1)[:5] == population(5, seed=1)
    assert population(5, seed=1) != population(5, seed=2)
    with pytest.raises(InvalidParameterError, match="agents is 0, expected at least 1"):
        population(0, seed=1)


def test_every_agent_is_counted_in_exactly_one_class() -> None:
    for one in population(500, seed=4):
        assert sum(each.holds(one) for each in CLASSES) == 1
        assert class_of(one).directed == one.directed
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
    out = Habit(agent(target="none", habit=kind, **changes), after)
    for cell, action in done:
        out.remember(number(cell), action)
    return out


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
    one = Habit(agent(target="none", habit="momentum"), after)
    one.remember(11, RIGHT)
    assert one.weights(12) == pytest.approx((0, 0.8, 0.1, 0.1))


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


def task_of(scene: Scene):  # type: ignore[no-untyped-def]
    return replace(
        ScenePair(7, 0.5, 0, (scene, scene)).task(0), distance=gm.gridworld.plan(ROOM).distance
    )


# --- What their walks say -------------------------------------------------------------------------


def walks_of(one: Traits, pair: ScenePair, walks: int = 2) -> list[list[list]]:  # type: ignore[type-arg]
    return [
        [[walk(Simulated(one, scene), pair.task(i), w, seed=3) for w in range(walks)]]
        for i, scene in enumerate(pair.scenes)
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_the_evidence_is_that_of_known_utility_meg(target: str) -> None:
    """`from_trajectories` goes another way to the same maximum."""
    scene = scene_pair(7, 0.5, 2).scenes[0]
    one = Simulated(agent(target=target, strength=0.5, noise="both"), scene)
    pair = ScenePair(7, 0.5, 2, (scene, scene))
    walked = [walk(one, pair.task(0), w, seed=3) for w in range(4)]
    curve = walks_evidence.towards(scene, walks_evidence.scene_walks(scene, walked), target).sum(0)
    utility = {"goal": "goal", "key": "key"}.get(target) or {scene.place(target): 1.0}
    world = tabular_world(scene.world, horizon=scene.cap, utility=utility)
    length = np.array([len(each.steps) for each in walked])
    states, actions = np.zeros((2, len(walked), length.max()), dtype=int)
    for row, each in enumerate(walked):
        for step, said in enumerate(each.steps):
            states[row, step], actions[row, step] = world.index(said.state), said.action
    expected = gm.meg.from_trajectories(world.mdp, (states, actions, length), resamples=100)
    assert expected.signed > 0
    # Rationalities are 21% apart, so the best of them is a little below the best of all.
    assert curve.max() / len(walked) == pytest.approx(expected.signed, rel=0.01)
    assert curve.max() / len(walked) <= expected.signed + 1e-6


def test_success_spl_and_accuracy_towards_the_goal_are_those_of_navigation() -> None:
    pair = scene_pair(7, 0.5, 2)
    walks = walks_of(agent(strength=0.4), pair)
    measured = pair_evidence(pair, walks)
    seen = observed([one for scene in walks for each in scene for one in each])
    goal = TARGETS.index("goal")
    assert measured.success[0, goal] == seen.arrived.mean()
    assert measured.spl[0, goal] == pytest.approx(seen.spl.mean())
    assert measured.accuracy[0, goal] == pytest.approx(seen.accuracy.mean())


def test_who_follows_a_target_has_more_where_it_is() -> None:
    # In one maze both showings may have the target on the same way.
    pairs = [scene_pair(7, 0.5, seed) for seed in range(4)]
    for target in TARGETS:
        one = agent(target=target, strength=0.6)
        parts = [pair_evidence(pair, walks_of(one, pair)) for pair in pairs]
        there, moved, most = (
            sum(getattr(part, name) for part in parts)
            for name in ("cut_there", "cut_moved", "cut_most")
        )
        gain = followed(there, moved, most)[0]
        assert gain.argmax() == TARGETS.index(target) and gain.max() > 0.1


def test_walks_are_cut_where_they_first_come_to_either_goal() -> None:
    pair = scene_pair(7, 0.0, 3)
    explorer = agent(target="none", habit="explorer", strength=0.0, steadiness=0.9)
    for index, scene in enumerate(pair.scenes):
        other = pair.scenes[1 - index]
        seen = walks_evidence.scene_walks(scene, walks_of(explorer, pair, 4)[index][0])
        aim = number(other.world.goal)
        cut = walks_evidence.until(seen, aim)
        assert aim not in cut.cell
        for each in range(4):
            whole, kept = seen.cell[seen.walk == each], cut.cell[cut.walk == each]
            came = np.flatnonzero(whole == aim)
            assert len(kept) == (came[0] if came.size else len(whole))
            assert cut.last[each] == (aim if came.size else seen.last[each])


# --- The swap test --------------------------------------------------------------------------------


def test_the_swap_test_by_hand() -> None:
    # In each of ten mazes the target has 1 more where it is: of 1,024 swaps one does as well, and
    # of 399 drawn ones none is that one.
    there = np.ones((10, 1, 4)) * [1.0, 0, 0, 0]
    test = swap_test_of_means(there, np.zeros_like(there), np.ones(10))
    assert test.p_value[0] == 1 / 400 and test.target[0] == 0
    # What is the same in both showings says nothing at all.
    assert swap_test_of_means(there, there, np.ones(10)).p_value[0] == 1


def test_the_fit_of_a_swap_is_that_of_swapped_evidence() -> None:
    """A literal loop over swaps, each with a rationality of its own."""
    rng = np.random.default_rng(2)
    there, moved = (
        rng.normal(size=(2, 6, 3, 4, 5)) + np.array([0.5, 0.0])[:, None, None, None, None]
    )
    test = swap_test_of_evidence(there, moved, np.ones(6), swaps=80)
    from goalmeter.experiments.calibration.population.swap_test import swap_signs

    for one in range(3):
        values = []
        for sign in swap_signs(6, 80):
            here = np.where(sign[:, None, None] > 0, there[:, one], moved[:, one]).sum(axis=0)
            away = np.where(sign[:, None, None] > 0, moved[:, one], there[:, one]).sum(axis=0)
            best = here.argmax(axis=-1)
            values.append([here[t, best[t]] - away[t, best[t]] for t in range(4)])
        largest = np.max(values, axis=1)
        assert test.target[one] == int(np.argmax(values[0]))
        assert test.p_value[one] == (largest >= largest[0] - 1e-9).sum() / 81


def test_blind_agents_raise_false_alarms_at_most_as_often_as_the_level_says() -> None:
    """An aimless-only population, half of it with the habits that get about best."""
    aimless = [one for one in population(400, seed=11) if not one.directed][:80]
    parts = []
    for seed, complexity in product(range(4), (0.0, 0.9)):
        pair = scene_pair(7, complexity, 900 + seed)
        walked = [
            [[walk(Simulated(one, scene), pair.task(i), seed=5)] for one in aimless]
            for i, scene in enumerate(pair.scenes)
        ]
        parts.append(vars(pair_evidence(pair, walked)))
    joined = walks_evidence.PairEvidence(
        **{name: np.array([part[name] for part in parts]) for name in parts[0]}
    )
    scores = scores_of(joined, np.ones(len(parts)), TESTS)
    for name in TESTS:
        p_value = 1 - scores[name].max(axis=1)
        for level in (LEVEL, 0.05, 0.25):
            spread = math.sqrt(level * (1 - level) / len(aimless))
            assert (p_value <= level + 1e-9).mean() <= level + 3 * spread, (name, level)


# --- What is said of them -------------------------------------------------------------------------


def test_a_threshold_lets_so_many_pass_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = [agent(target="none", habit="loop") for _ in range(50)]
    competent = [agent(target="none", habit="explorer") for _ in range(50)]
    truth = Truth((*plain, *competent, agent()))
    # Of 50 competent ones 2% is one: the second highest of them, 0.48, rounded up.
    scores = np.array([*np.zeros(50), *np.arange(50) / 100, 9.0])
    assert threshold(scores, truth) == 0.48
    assert threshold(scores + 0.0001, truth) == 0.481


def test_an_answer_is_the_largest_of_four_or_none() -> None:
    scores = np.array([[0.1, 0.5, 0.0, 0.2], [0.1, 0.2, 0.3, 0.2]])
    assert answers(scores, 0.3).tolist() == [1, -1]


def test_rank_correlation_by_hand() -> None:
    # d = 0, 1, -1, 0: 1 - 6 * 2 / (4 * 15).
    assert rank_correlation(np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4])) == pytest.approx(
        0.8
    )
    assert math.isnan(rank_correlation(np.ones(3), np.arange(3.0)))


@pytest.mark.parametrize(
    ("interval", "least", "most", "words"),
    [
        ((0.96, 1.0), 0.95, None, page.REACHED),
        ((0.94, 1.0), 0.95, None, page.OPEN),
        ((0.80, 0.90), 0.95, None, page.MISSED),
        ((0.0, 0.05), None, 0.05, page.REACHED),
        ((0.0, 0.06), None, 0.05, page.OPEN),
        ((0.06, 0.10), None, 0.05, page.MISSED),
        (None, 0.95, None, page.OPEN),
    ],
)
def test_reached_means_that_the_interval_does(
    interval: tuple[float, float] | None, least: float | None, most: float | None, words: str
) -> None:
    assert page.outcome(Estimate(0.9, interval, 10, 5), least, most) == words


# --- All of it, small -----------------------------------------------------------------------------

SMALL = PopulationScale(agents=30, grids=1, sizes=(7,), complexities=(0.0, 0.5), walks=1)


@pytest.fixture(scope="module")
def small() -> PopulationEvidence:
    return measure_population(SMALL, seed=5, beside=["ideal-mouse", "wall-follower"])


def test_walks_do_not_depend_on_how_many_processes_share_them(small: PopulationEvidence) -> None:
    two = measure_population(SMALL, seed=5, beside=["ideal-mouse", "wall-follower"], workers=2)
    assert two.traits == small.traits and two.pairs == small.pairs
    for name, values in vars(small.evidence).items():
        assert (values == getattr(two.evidence, name)).all(), name


def test_a_calibration_on_two_populations(
    small: PopulationEvidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "RESAMPLES", 20)
    other = measure_population(SMALL, seed=6, beside=["ideal-mouse", "wall-follower"])
    found = result.judged(SMALL, 0, small, other)
    assert set(found.thresholds) == set(INSTRUMENTS)
    assert (found.first.seed, found.second.seed) == (100, 101)
    assert sum(found.second.agents.values()) == SMALL.agents
    assert found.second.confusion.sum() == SMALL.agents
    plain = found.to_json()
    assert len(plain["populations"][1]["agents"]) == SMALL.agents
    assert np.argmax(found.second.beside["ideal-mouse"][FOLLOWED]) == TARGETS.index("goal")
    tables = [table for section in page.sections(found) for table in section.tables]
    assert len({table.caption for table in tables}) == len(tables) == 11
    sentences = page.findings(found)
    assert sentences[0].startswith("Recommended: the swap test of MEG")
    assert sum("Aim: at " in line for line in sentences) == 7


def test_rates_are_of_counted_agents(
    small: PopulationEvidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "RESAMPLES", 20)
    own = scored(small)
    truth = Truth(small.traits)
    limit = -1.0  # everybody is above
    rate = detected(own, MEG, truth.directed, limit)
    assert rate.value == 1 and rate.n == truth.directed.sum()
    assert rate.interval is not None and rate.interval[0] == pytest.approx(0.025 ** (1 / rate.n))
    counts = confusion(own, RECOMMENDED, math.inf)
    assert counts[:, -1].tolist() == counts.sum(axis=1).tolist()
    assert counts[-1].sum() == (~truth.directed).sum()
    alone = cost(small, small, MEG, 1)
    assert alone.half_hearted.n == truth.half_hearted.sum()


def test_rationalities_are_some_of_those_that_navigation_tries() -> None:
    from goalmeter.navigation.directed.rationality import RATIONALITIES

    assert set(GRID) <= set(RATIONALITIES) and (GRID[0], GRID[-1]) == (0, 30)
