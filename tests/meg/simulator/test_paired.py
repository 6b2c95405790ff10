"""Differences of MEG: bounded from the differences in the same episodes."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from meg.simulator.worlds import Corridor

from goalmeter._types import FloatArray
from goalmeter.meg import known_utility
from goalmeter.meg.simulator import LearntUtility, from_simulator
from goalmeter.meg.simulator.result import SimulatorResult
from goalmeter.meg.simulator.state_bounds import (
    Bounded,
    EpisodeEvidence,
    RationalityChoice,
    excesses,
)
from goalmeter.tabular import TabularMDP, soft_plan

HORIZON = 5
EPISODES = 400


def world(seed: int, successors: int, starts: int) -> TabularMDP:
    rng = np.random.default_rng(seed)
    after = rng.integers(0, 8, (8, 3, successors))
    probability = rng.dirichlet(np.full(successors, 2.0), (8, 3))
    initial = np.r_[rng.dirichlet(np.full(starts, 3.0)), np.zeros(8 - starts)]
    return TabularMDP((after, probability), rng.random(8), horizon=HORIZON, initial=initial)


def joint(one: SimulatorResult, other: SimulatorResult) -> tuple[float, float]:
    """What the two intervals leave of the difference."""
    return one.interval[0] - other.interval[1], one.interval[1] - other.interval[0]


def alike(mdp: TabularMDP, rng: np.random.Generator, noise: float) -> FloatArray:
    """The reward with some noise."""
    reward = np.asarray(mdp.reward)
    return np.asarray(np.clip(reward + noise * rng.normal(size=reward.shape), 0, 1))


def results_of(mdp: TabularMDP, **arguments: object) -> dict[str, SimulatorResult]:
    policy = soft_plan(mdp, 6.0).policy()[..., 0]
    bounds = (0, 1)
    options = {"budget": 20_000, "bounds": bounds, "precision": 0.0} | arguments
    results = from_simulator(mdp, policy, **options)  # type: ignore[arg-type]
    assert isinstance(results, dict)
    return results


@pytest.mark.slow
@pytest.mark.parametrize(("successors", "starts"), [(1, 8), (2, 1), (2, 8)])
def test_differences_hold(successors: int, starts: int) -> None:
    told = 0
    for seed in range(8):
        mdp = world(seed, successors, starts)
        rng = np.random.default_rng(100 + seed)
        utilities = {"reward": np.asarray(mdp.reward), "like it": alike(mdp, rng, 0.1)}
        utilities["another"] = rng.random(8)
        # A level at which every second run may fail, so that too narrow intervals would show.
        results = results_of(mdp, utility=utilities, level=0.5, seed=seed)
        policy = soft_plan(mdp, 6.0).policy()[..., 0]
        exact = {name: known_utility(mdp, policy, utility=u).value for name, u in utilities.items()}
        for one, other in permutations(utilities, 2):
            difference, (low, high) = results[one].less(results[other])
            assert low <= difference <= high
            assert low - 1e-6 <= exact[one] - exact[other] <= high + 1e-6
            told += results[one].exceeds.get(other, -np.inf) > -np.inf
            mirrored, (least, most) = results[other].less(results[one])
            assert (-mirrored, (-most, -least)) == (difference, (low, high))
            bottom, top = joint(results[one], results[other])
            assert low >= bottom and high <= top
    assert told > 0


class Kinked:
    """Evidence b up to b = 1 and 2 - b from there, with noise of each episode; 3 at most."""

    is_certain = False
    places = tuple((beta, 1.0, True) for beta in (0.5, 0.75, 2.0, 4.0))

    def __init__(self, noise: np.ndarray) -> None:
        self.noise = noise

    def around(self, choice: RationalityChoice) -> list[tuple[float, float, bool]]:
        return list(self.places)

    def most_evidence(self, episodes: Any, beta: float) -> EpisodeEvidence:
        return EpisodeEvidence(min(beta, 2.0 - beta) + self.noise, -4.0, 3.0)

    least_evidence = most_evidence


@pytest.mark.slow
@pytest.mark.parametrize("shared", [0.0, 1.0])
def test_an_excess_fails_as_rarely_as_it_says(shared: float) -> None:
    # MEG is 1 towards both, and chords through exact values would say so.
    failed, limits = 0, []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        common = shared * rng.choice([-1.0, 1.0], EPISODES)
        both = [
            Bounded(
                Kinked(common + rng.choice([-0.2, 0.2], EPISODES)),
                RationalityChoice(1.0, 1.0, 0.5),
                0.5,
                1.5,
            )  # type: ignore[arg-type]
            for _ in range(2)
        ]
        (limit,) = excesses(both, [(0, 1)], None, 0.1).values()  # type: ignore[arg-type]
        failed += limit > 0.0
        limits.append(limit)
    assert failed <= 10
    # What episodes have in common cancels, so it takes nothing away.
    assert np.mean(limits) > -0.3


def corridor() -> tuple[TabularMDP, np.ndarray, np.ndarray]:
    """Fifteen cells, of which the last is the goal, begun anywhere: MEG differs much by start.

    Returns:
        The world, what reaching the goal pays, [S, A], and that with a little for the other end.
    """
    cells = 15
    after = np.clip(np.arange(cells)[:, None] + [-1, 0, 1], 0, cells - 1)
    # The goal is left for an end that nothing leaves.
    after[-1] = cells - 1
    initial = np.full(cells, 1.0 / (cells - 1))
    initial[-1] = 0.0
    pays = np.zeros((cells, 3))
    pays[-2, 2] = 1.0
    also = pays.copy()
    also[0, 0] = 0.02
    mdp = TabularMDP((after[..., None], np.ones((cells, 3, 1))), pays, horizon=16, initial=initial)
    return mdp, pays, also


def test_the_same_episodes_tell_utilities_apart_that_are_alike() -> None:
    mdp, pays, also = corridor()
    utilities = {"goal": pays, "the same": pays, "like it": also}
    policy = soft_plan(mdp, 12.0).policy()[..., 0]
    results = from_simulator(
        mdp, policy, utility=utilities, budget=300_000, bounds=(0, 1, 0, 1.5), precision=0.0
    )
    assert isinstance(results, dict)
    difference, (low, high) = results["goal"].less(results["the same"])
    assert low <= 0 <= high and difference == 0
    bottom, top = joint(results["goal"], results["the same"])
    assert high - low < 0.5 * (top - bottom)
    _, (low, high) = results["goal"].less(results["like it"])
    bottom, top = joint(results["goal"], results["like it"])
    assert high - low < 0.6 * (top - bottom)
    exact = [known_utility(mdp, policy, utility=u).value for u in (pays, also)]
    assert low <= exact[0] - exact[1] <= high


class Anywhere(Corridor):
    """Begins in any cell but the last."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell = int(self.np_random.integers(3))
        return self.cell, {}


@pytest.mark.slow
@pytest.mark.slow
def test_an_excess_over_the_best_of_a_class_is_not_known() -> None:
    pytest.importorskip("torch")
    utilities = {"reward": "reward", "learnt": LearntUtility(iterations=30)}
    results = from_simulator(
        Anywhere(),
        lambda seen: np.array([0.1, 0.9]),
        utility=utilities,
        horizon=6,
        budget=20_000,
        state="observation",
        chance="generator",
        bounds={"reward": (-1, 0)},
        precision=0.0,
    )
    assert isinstance(results, dict)
    # No curve of one member bounds the others of its class.
    assert "learnt" not in results["reward"].exceeds
    assert results["learnt"].exceeds["reward"] < 0
