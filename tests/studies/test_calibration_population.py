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
from goalmeter.navigation import Trajectory, walk
from goalmeter.statistics import Estimate
from replications.calibration.population import page
from replications.calibration.population import scores as scoring
from replications.calibration.population.agents import (
    TARGETS,
    ScenePair,
    Simulated,
    Traits,
    population,
    scene_pair,
)
from replications.calibration.population.evidence import (
    PopulationEvidence,
    PopulationScale,
    measure_population,
    pair_evidence,
    scene_walks,
    towards,
)
from replications.calibration.population.scores import (
    FOLLOWED,
    INSTRUMENTS,
    LEVEL,
    MEG,
    TESTS,
    Truth,
    followed,
    judged,
    rank_correlation,
    scores_of,
    swap_signs,
    swap_test_of_evidence,
    swap_test_of_means,
    threshold,
)

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


@pytest.mark.slow
@pytest.mark.parametrize("target", ["key", "corner"])
def test_an_agent_that_follows_a_target_has_more_where_it_is(target: str) -> None:
    # In one maze both showings may have the target on the same way.
    keen = agent(target=target, strength=0.6)
    pairs = [scene_pair(7, 0.5, seed) for seed in range(4)]
    parts = [pair_evidence(pair, walks_of([keen], pair)) for pair in pairs]
    sums = [sum(part[name] for part in parts) for name in ("cut_there", "cut_moved", "cut_most")]
    gain = followed(*sums)[0]
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
        parts.append(pair_evidence(pair, walks_of(aimless, pair, walks=1, seed=5)))
    joined = {name: np.array([part[name] for part in parts]) for name in parts[0]}
    scores = scores_of(joined, np.ones(len(parts)), TESTS)
    for name in TESTS:
        p_value = 1 - scores[name].max(axis=1)
        for level in (LEVEL, 0.05, 0.25):
            spread = math.sqrt(level * (1 - level) / len(aimless))
            assert (p_value <= level + 1e-9).mean() <= level + 3 * spread, (name, level)


# --- Scores ---------------------------------------------------------------------------------------
def test_thresholds_and_rank_correlations_by_hand() -> None:
    plain = [agent(target="none", habit="loop") for _ in range(50)]
    competent = [agent(target="none", habit="explorer") for _ in range(50)]
    truth = Truth((*plain, *competent, agent()))
    # Of 50 competent ones 2% is one: the second highest of them, 0.48, rounded up.
    scores = np.array([*np.zeros(50), *np.arange(50) / 100, 9.0])
    assert threshold(scores, truth) == 0.48
    assert threshold(scores + 0.0001, truth) == 0.481
    # d = 0, 1, -1, 0: 1 - 6 * 2 / (4 * 15).
    first, second = np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4])
    assert rank_correlation(first, second) == pytest.approx(0.8)
    assert math.isnan(rank_correlation(np.ones(3), np.arange(3.0)))


BESIDE = ["ideal-mouse", "wall-follower"]
SMALL = PopulationScale(agents=30, grids=1, sizes=(7,), complexities=(0.0, 0.5), walks=1)


@pytest.fixture(scope="module")
def small() -> PopulationEvidence:
    return measure_population(SMALL, seed=5, beside=BESIDE)


@pytest.mark.slow
def test_walks_do_not_depend_on_how_many_processes_share_them(small: PopulationEvidence) -> None:
    shared = measure_population(SMALL, seed=5, beside=BESIDE, on="processes:2")
    assert (shared.traits, shared.pairs) == (small.traits, small.pairs)
    for name, values in small.evidence.items():
        assert (values == shared.evidence[name]).all(), name


@pytest.mark.slow
def test_a_calibration_on_two_populations(
    small: PopulationEvidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "RESAMPLES", 20)
    calibration = judged(SMALL, 0, small, measure_population(SMALL, seed=6, beside=BESIDE))
    assert set(calibration["thresholds"]) == set(INSTRUMENTS)
    second = calibration["populations"][1]
    assert [each["seed"] for each in calibration["populations"]] == [100, 101]
    assert sum(second["classes"].values()) == len(second["agents"]) == SMALL.agents
    assert np.sum(second["confusion"]["wanted_by_named"]) == SMALL.agents
    assert np.argmax(second["beside"]["ideal-mouse"][FOLLOWED]) == TARGETS.index("goal")
    tables = [table for section in page.sections(calibration) for table in section.tables]
    assert len({table.caption for table in tables}) == len(tables) == 11
    sentences = page.findings(calibration)
    assert sentences[0].startswith("Recommended: the swap test of MEG")
    assert sum("Aim: at " in line for line in sentences) == 7
    # Every agent's scores are in the results: a rate can be counted again.
    aimless = [max(a["scores"][MEG]) for a in second["agents"] if a["target"] == "none"]
    alarms = np.mean(np.array(aimless) > calibration["thresholds"][MEG])
    assert second["false_alarms"][MEG].value == pytest.approx(alarms)


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
