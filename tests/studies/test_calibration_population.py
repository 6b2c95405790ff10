"""A population of simulated agents: who they are, and what their walks say of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import goalmeter as gm
from goalmeter._types import IntArray
from goalmeter.gridworld import GridWorld, tabular_world
from goalmeter.gridworld.conversions import TabularWorld
from goalmeter.gridworld.generators import distances_from
from goalmeter.navigation import Trajectory, walk
from goalmeter.statistics import Estimate
from replications.calibration import study as page
from replications.calibration.population import scores as scoring
from replications.calibration.population.agents import (
    LEAST_DISTANCE,
    Habit,
    ScenePair,
    Simulated,
    Traits,
    arrival_chances,
    most_arrivals,
    neighbours,
    population,
    scene_pair,
)
from replications.calibration.population.evidence import (
    PopulationScale,
    measure_population,
    pair_evidence,
    scene_walks,
    towards,
)

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


def columns_of(walks: Sequence[Trajectory], world: TabularWorld) -> tuple[IntArray, ...]:
    """The states, actions and lengths of walks, as `from_trajectories` takes them."""
    length = np.array([len(walk.steps) for walk in walks])
    states, actions = np.zeros((2, len(walks), length.max()), dtype=int)
    for row, trajectory in enumerate(walks):
        for number, step in enumerate(trajectory.steps):
            states[row, number], actions[row, number] = world.index(step.state), step.action
    return states, actions, length


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


Walks = list[list[list[Trajectory]]]


def walks_of(walkers: Sequence[Traits], pair: ScenePair, walks: int = 2, seed: int = 3) -> Walks:
    """Walks by scene and by agent."""
    return [
        [
            [walk(Simulated(who, scene), pair.task(i), n, seed=seed) for n in range(walks)]
            for who in walkers
        ]
        for i, scene in enumerate(pair.scenes)
    ]


@pytest.mark.parametrize("target", ["key", "cell"])
def test_the_evidence_is_that_of_known_utility_meg(target: str) -> None:
    """`from_trajectories` goes another way to the same maximum."""
    scene = scene_pair(7, 0.5, 2).scenes[0]
    half = agent(target=target, strength=0.5, noise="both")
    ((walked,), _) = walks_of([half], ScenePair(7, 0.5, 2, (scene, scene)), walks=4)
    curve = towards(scene, scene_walks(scene, walked), target).sum(0)
    utility = {"cell": {scene.cell: 1.0}}.get(target, target)
    world = tabular_world(scene.world, horizon=scene.cap, utility=utility)
    expected = gm.meg.from_trajectories(world.mdp, columns_of(walked, world), resamples=100)
    assert expected.signed > 0
    # Rationalities are 21% apart, so the best of them is a little below the best of all.
    assert curve.max() / len(walked) == pytest.approx(expected.signed, rel=0.01)
    assert curve.max() / len(walked) <= expected.signed + 1e-6


def test_the_swap_test_by_hand() -> None:
    # In each of ten mazes the target has 1 more where it is: of 1,024 swaps one does as well, and
    # of 399 drawn ones none is that one.
    there = np.ones((10, 1, 4)) * [1.0, 0, 0, 0]
    test = scoring.swap_test_of_means(there, np.zeros_like(there), np.ones(10))
    assert test.p_value[0] == 1 / 400 and test.target[0] == 0
    # What is the same in both showings says nothing at all.
    assert scoring.swap_test_of_means(there, there, np.ones(10)).p_value[0] == 1


def test_the_fit_of_a_swap_is_that_of_swapped_evidence() -> None:
    """A literal loop over swaps, each with a rationality of its own."""
    rng = np.random.default_rng(2)
    there, moved = (
        rng.normal(size=(2, 6, 3, 4, 5)) + np.array([0.5, 0.0])[:, None, None, None, None]
    )
    test = scoring.swap_test_of_evidence(there, moved, np.ones(6), swaps=80)
    for who in range(3):
        values = []
        for sign in scoring.swap_signs(6, 80):
            kept = sign[:, None, None] > 0
            near = np.where(kept, there[:, who], moved[:, who]).sum(axis=0)
            away = np.where(kept, moved[:, who], there[:, who]).sum(axis=0)
            best = near.argmax(axis=-1)
            values.append([near[t, best[t]] - away[t, best[t]] for t in range(4)])
        largest = np.max(values, axis=1)
        assert test.target[who] == int(np.argmax(values[0]))
        assert test.p_value[who] == (largest >= largest[0] - 1e-9).sum() / 81


@pytest.mark.slow
def test_blind_agents_raise_false_alarms_at_most_as_often_as_the_level_says() -> None:
    """An aimless-only population, half of it with the habits that get about best."""
    aimless = [drawn for drawn in population(400, seed=11) if drawn.target == "none"][:80]
    parts = []
    for seed, complexity in product(range(4), (0.0, 0.9)):
        pair = scene_pair(7, complexity, 900 + seed)
        parts.append(pair_evidence(pair, walks_of(aimless, pair, walks=1, seed=5)))
    joined = {name: np.array([part[name] for part in parts]) for name in parts[0]}
    scores = scoring.scores_of(joined, np.ones(len(parts)), scoring.TESTS)
    for name in scoring.TESTS:
        p_value = 1 - scores[name].max(axis=1)
        for level in (scoring.LEVEL, 0.05, 0.25):
            spread = math.sqrt(level * (1 - level) / len(aimless))
            assert (p_value <= level + 1e-9).mean() <= level + 3 * spread, (name, level)


def test_thresholds_and_rank_correlations_by_hand() -> None:
    plain = [agent(target="none", habit="loop") for _ in range(50)]
    competent = [agent(target="none", habit="explorer") for _ in range(50)]
    truth = scoring.Truth((*plain, *competent, agent()))
    # Of 50 competent ones 2% is one: the second highest of them, 0.48, rounded up.
    scores = np.array([*np.zeros(50), *np.arange(50) / 100, 9.0])
    assert scoring.threshold(scores, truth) == 0.48
    assert scoring.threshold(scores + 0.0001, truth) == 0.481
    # d = 0, 1, -1, 0: 1 - 6 * 2 / (4 * 15).
    first, second = np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4])
    assert scoring.rank_correlation(first, second) == pytest.approx(0.8)
    assert math.isnan(scoring.rank_correlation(np.ones(3), np.arange(3.0)))


@pytest.mark.parametrize(
    ("value", "interval", "words"),
    [
        (0.070, (0.049, 0.173), "inconclusive"),  # a biased bootstrap: reflected it holds 0
        (-0.032, (-0.032, 0.175), "inconclusive"),
        (0.070, (0.049, 0.091), "better"),
        (-0.070, (-0.091, -0.049), "worse"),
        (0.5, None, "inconclusive"),
    ],
)
def test_a_one_sided_interval_is_no_verdict(
    value: float, interval: tuple[float, float] | None, words: str
) -> None:
    assert page.verdict(Estimate(value, interval, 100, 36)) == words


def test_an_interval_includes_the_choice_of_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = PopulationScale(agents=30, grids=1, sizes=(7,), complexities=(0.0, 0.5), walks=1)
    small = measure_population(scale, seed=5, beside=["ideal-mouse", "wall-follower"])
    monkeypatch.setattr(scoring, "RESAMPLES", 20)
    scores = scoring.scored(small)
    chosen = scoring.thresholds(scores)
    assert len(chosen) == 21 and chosen[0][scoring.MEG] == scoring.threshold(
        scores.scores[scoring.MEG][: scale.agents].max(axis=1), scoring.Truth(small.traits)
    )
    assert len({limits[scoring.MEG] for limits in chosen}) > 4
    directed = scoring.Truth(small.traits).directed

    def found(scores: scoring.Scores, name: str, rows: IntArray) -> float:
        return float(np.mean(scores[name][rows[directed[rows]]].max(axis=1) > 0))

    anew, fixed = (
        scores.above(limits).estimate(found, int(directed.sum()), scoring.MEG, share=True).interval
        for limits in (chosen, [chosen[0]] * 21)
    )
    assert anew is not None and fixed is not None
    assert anew[1] - anew[0] > fixed[1] - fixed[0] and anew[0] < fixed[0]
