"""What the walks of a population say of each target, and what is said of the agents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from studies.simulated import agent, columns_of

import goalmeter as gm
from goalmeter.gridworld import tabular_world
from goalmeter.navigation.steps import observed
from goalmeter.navigation.trajectories import Trajectory, walk
from goalmeter.statistics.clusters import Estimate
from replications.calibration.population import evidence as walks_evidence
from replications.calibration.population import page, result
from replications.calibration.population import scores as scoring
from replications.calibration.population.agents import Simulated
from replications.calibration.population.evidence import (
    PopulationEvidence,
    PopulationScale,
    measure_population,
    pair_evidence,
)
from replications.calibration.population.result import rank_correlation
from replications.calibration.population.scores import (
    FOLLOWED,
    INSTRUMENTS,
    LEVEL,
    MEG,
    TESTS,
    Truth,
    detected,
    followed,
    scored,
    scores_of,
    swap_signs,
    swap_test_of_evidence,
    swap_test_of_means,
    threshold,
    thresholds,
)
from replications.calibration.population.traits import (
    TARGETS,
    ScenePair,
    Traits,
    population,
    scene_pair,
)

# --- What their walks say -------------------------------------------------------------------------


Walks = list[list[list[Trajectory]]]


def walks_of(walkers: Sequence[Traits], pair: ScenePair, walks: int = 2, seed: int = 3) -> Walks:
    """By scene, by agent."""
    return [
        [
            [walk(Simulated(who, scene), pair.task(i), n, seed=seed) for n in range(walks)]
            for who in walkers
        ]
        for i, scene in enumerate(pair.scenes)
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_the_evidence_is_that_of_known_utility_meg(target: str) -> None:
    """`from_trajectories` goes another way to the same maximum."""
    scene = scene_pair(7, 0.5, 2).scenes[0]
    half = agent(target=target, strength=0.5, noise="both")
    ((walked,), _) = walks_of([half], ScenePair(7, 0.5, 2, (scene, scene)), walks=4)
    curve = walks_evidence.towards(scene, walks_evidence.scene_walks(scene, walked), target).sum(0)
    utility = {"goal": "goal", "key": "key"}.get(target) or {scene.place(target): 1.0}
    world = tabular_world(scene.world, horizon=scene.cap, utility=utility)
    expected = gm.meg.from_trajectories(world.mdp, columns_of(walked, world), resamples=100)
    assert expected.signed > 0
    # Rationalities are 21% apart, so the best of them is a little below the best of all.
    assert curve.max() / len(walked) == pytest.approx(expected.signed, rel=0.01)
    assert curve.max() / len(walked) <= expected.signed + 1e-6


def test_success_spl_and_accuracy_towards_the_goal_are_those_of_navigation() -> None:
    pair = scene_pair(7, 0.5, 2)
    walks = walks_of([agent(strength=0.4)], pair)
    measured = pair_evidence(pair, walks)
    seen = observed([walked for scene in walks for of_agent in scene for walked in of_agent])
    goal = TARGETS.index("goal")
    assert measured.success[0, goal] == seen.arrived.mean()
    assert measured.spl[0, goal] == pytest.approx(seen.spl.mean())
    assert measured.accuracy[0, goal] == pytest.approx(seen.accuracy.mean())


def test_who_follows_a_target_has_more_where_it_is() -> None:
    # In one maze both showings may have the target on the same way.
    pairs = [scene_pair(7, 0.5, seed) for seed in range(4)]
    for target in TARGETS:
        keen = agent(target=target, strength=0.6)
        parts = [pair_evidence(pair, walks_of([keen], pair)) for pair in pairs]
        there, moved, most = (
            sum(getattr(part, name) for part in parts)
            for name in ("cut_there", "cut_moved", "cut_most")
        )
        gain = followed(there, moved, most)[0]
        assert gain.argmax() == TARGETS.index(target) and gain.max() > 0.1


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
    for who in range(3):
        values = []
        for sign in swap_signs(6, 80):
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
    aimless = [drawn for drawn in population(400, seed=11) if not drawn.directed][:80]
    parts = []
    for seed, complexity in product(range(4), (0.0, 0.9)):
        pair = scene_pair(7, complexity, 900 + seed)
        parts.append(vars(pair_evidence(pair, walks_of(aimless, pair, walks=1, seed=5))))
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


def test_rank_correlation_by_hand() -> None:
    # d = 0, 1, -1, 0: 1 - 6 * 2 / (4 * 15).
    assert rank_correlation(np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4])) == pytest.approx(
        0.8
    )
    assert math.isnan(rank_correlation(np.ones(3), np.arange(3.0)))


# --- All of it, small -----------------------------------------------------------------------------

BESIDE = ["ideal-mouse", "wall-follower"]
SMALL = PopulationScale(agents=30, grids=1, sizes=(7,), complexities=(0.0, 0.5), walks=1)


@pytest.fixture(scope="module")
def small() -> PopulationEvidence:
    return measure_population(SMALL, seed=5, beside=BESIDE)


@pytest.mark.slow
def test_walks_do_not_depend_on_how_many_processes_share_them(small: PopulationEvidence) -> None:
    shared = measure_population(SMALL, seed=5, beside=BESIDE, on="processes:2")
    assert shared.traits == small.traits and shared.pairs == small.pairs
    for name, values in vars(small.evidence).items():
        assert (values == getattr(shared.evidence, name)).all(), name


def test_a_calibration_on_two_populations(
    small: PopulationEvidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "RESAMPLES", 20)
    later = measure_population(SMALL, seed=6, beside=BESIDE)
    calibration = result.judged(SMALL, 0, small, later)
    assert set(calibration.thresholds) == set(INSTRUMENTS)
    assert (calibration.first.seed, calibration.second.seed) == (100, 101)
    assert sum(calibration.second.agents.values()) == SMALL.agents
    assert calibration.second.confusion.sum() == SMALL.agents
    plain = calibration.to_json()
    assert len(plain["populations"][1]["agents"]) == SMALL.agents
    assert np.argmax(calibration.second.beside["ideal-mouse"][FOLLOWED]) == TARGETS.index("goal")
    tables = [table for section in page.sections(calibration) for table in section.tables]
    assert len({table.caption for table in tables}) == len(tables) == 11
    sentences = page.findings(calibration)
    assert sentences[0].startswith("Recommended: the swap test of MEG")
    assert sum("Aim: at " in line for line in sentences) == 7
    # The recommended test is the first row and the first column of every table of instruments.
    first = {table.caption: table for table in tables}
    assert first["Every instrument at its threshold, second population"].cells[0][0].text == (
        "swap test of MEG"
    )
    classes = first["Who is said to want something"].heads
    assert [head.title for head in classes[3:5]] == ["swap test of MEG", "MEG"]
    # Every agent's scores are in the JSON: a rate can be counted again.
    population = plain["populations"][1]
    agents = population["agents"]
    aimless = [max(who["scores"][MEG]) for who in agents if who["target"] == "none"]
    alarms = np.mean(np.array(aimless) > plain["thresholds"][MEG])
    assert population["false_alarms"][MEG]["value"] == pytest.approx(alarms)


@pytest.mark.slow
def test_an_interval_includes_the_choice_of_the_threshold(
    small: PopulationEvidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "RESAMPLES", 20)
    scores = scored(small)
    chosen = thresholds(scores)
    assert len(chosen) == 21 and chosen[0][MEG] == threshold(
        scores.scores[MEG][: SMALL.agents].max(axis=1), Truth(small.traits)
    )
    assert len({limits[MEG] for limits in chosen}) > 4
    directed = Truth(small.traits).directed
    anew, fixed = (
        detected(scores.above(limits), MEG, directed).interval
        for limits in (chosen, [chosen[0]] * 21)
    )
    assert anew is not None and fixed is not None
    assert anew[1] - anew[0] > fixed[1] - fixed[0] and anew[0] < fixed[0]


@pytest.mark.parametrize(
    ("value", "interval", "words"),
    [
        (0.070, (0.049, 0.173), "inconclusive"),  # a biased bootstrap: reflected it holds 0
        (0.007, (0.001, 0.027), "inconclusive"),
        (-0.032, (-0.032, 0.175), "inconclusive"),
        (0.070, (0.049, 0.091), "better"),
        (-0.070, (-0.091, -0.049), "worse"),
        (0.01, (-0.01, 0.03), "inconclusive"),
        (0.5, None, "inconclusive"),
    ],
)
def test_a_one_sided_interval_is_no_verdict(
    value: float, interval: tuple[float, float] | None, words: str
) -> None:
    assert page.verdict(Estimate(value, interval, 100, 36)) == words
