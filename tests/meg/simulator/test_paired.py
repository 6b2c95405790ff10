"""Differences of MEG: bounded from the differences in the same episodes."""

from __future__ import annotations

import numpy as np
import pytest

from goalmeter.meg import known_utility
from goalmeter.meg.simulator import from_simulator
from goalmeter.meg.simulator.result import SimulatorResult
from goalmeter.tabular import TabularMDP, soft_plan

HORIZON = 5


def world(seed: int, successors: int, starts: int) -> TabularMDP:
    rng = np.random.default_rng(seed)
    after = rng.integers(0, 8, (8, 3, successors))
    probability = rng.dirichlet(np.full(successors, 2.0), (8, 3))
    initial = np.r_[rng.dirichlet(np.full(starts, 3.0)), np.zeros(8 - starts)]
    return TabularMDP((after, probability), rng.random(8), horizon=HORIZON, initial=initial)


def joint(one: SimulatorResult, other: SimulatorResult) -> tuple[float, float]:
    """What the two intervals leave of the difference."""
    return one.interval[0] - other.interval[1], one.interval[1] - other.interval[0]


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


@pytest.mark.slow
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
