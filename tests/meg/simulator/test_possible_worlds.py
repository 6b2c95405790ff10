"""Planning against possible worlds: exact where nothing is left to chance, bounds where it is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from goalmeter.meg.simulator.confidence import AS_SEEN, LEAST, MOST, ConfidenceSet, PossibleWorlds
from goalmeter.meg.simulator.exploration import Exploration
from goalmeter.meg.simulator.start_bounds import entropies
from goalmeter.meg.simulator.state_bounds import CurveBounds, summit
from goalmeter.meg.simulator.worlds import TabularSimulator
from goalmeter.tabular import TabularMDP, soft_plan

HORIZON = 6


def world(seed: int, *, certain: bool) -> TabularMDP:
    rng = np.random.default_rng(seed)
    after = rng.integers(0, 7, (7, 3, 1 if certain else 2))
    probability = np.ones(after.shape) if certain else rng.dirichlet([2, 2], size=(7, 3))
    return TabularMDP((after, probability), rng.normal(size=(7, 3)), horizon=HORIZON)


def explored(mdp: TabularMDP, draws: int, error: float = 0.05) -> PossibleWorlds:
    simulator = TabularSimulator(mdp, seed=1)
    exploration = Exploration(simulator, HORIZON, seed=2)
    exploration.expand([0], 10**6)
    assert exploration.complete([0])
    if draws:
        total = exploration.table.arrays().counts.sum(axis=1)
        exploration.refine(np.ones(len(total)), total, draws)
    arrays = exploration.table.arrays()
    ranges = tuple(simulator.utilities.bounds.values())
    return PossibleWorlds(ConfidenceSet(arrays, error), 3, HORIZON, ranges)


def literal_value(mdp: TabularMDP, b: float) -> float:
    """log sum exp, decision by decision, less log A each."""
    p, r = mdp.transition.to_dense(), mdp.reward
    value = np.zeros(mdp.n_states)
    for _ in range(HORIZON):
        q = b * r + p @ value
        value = np.log(np.exp(q).mean(axis=1))
    return float(value[0])


@pytest.mark.parametrize("b", [0.3, -2.0])
def test_without_chance_all_bounds_are_exact(b: float) -> None:
    mdp = world(3, certain=True)
    worlds = explored(mdp, 0)
    for which in (AS_SEEN, MOST, LEAST):
        plan = worlds.soft_plan(np.array([b]), which)
        assert plan.value[0, 0] == pytest.approx(literal_value(mdp, b), abs=1e-12)
    exact = soft_plan(mdp, b).policy()[0, 0, :, 0]
    np.testing.assert_allclose(plan.policy[0, 0], exact, atol=1e-12)


@pytest.mark.parametrize("seed", range(2))
def test_with_chance_the_truth_lies_between(seed: int) -> None:
    mdp = world(seed, certain=False)
    worlds = explored(mdp, 20_000)
    one = np.array([1.0])
    for b in (0.7, -0.7):
        truth = literal_value(mdp, b)
        most = worlds.soft_plan(b * one, MOST).value[0, 0]
        least = worlds.soft_plan(b * one, LEAST).value[0, 0]
        assert least <= truth <= most
    policy = worlds.soft_plan(one, AS_SEEN).policy
    # A tenth of the draws leaves wider ends.
    fewer = explored(mdp, 2_000).soft_plan(one, MOST).value[0, 0]
    assert worlds.soft_plan(one, MOST).value[0, 0] < fewer
    returns = [worlds.evaluate(policy, one, which)[0] for which in (LEAST, MOST)]
    assert returns[0] <= literal_return(mdp, policy) <= returns[1]
    costs = [
        worlds.evaluate(policy, 0 * one, which, entropies(policy))[0]
        for which in (LEAST, AS_SEEN, MOST)
    ]
    assert costs[0] <= costs[1] <= costs[2]
    # What a policy collects less what its choices cost is below the soft value.
    assert returns[0] - costs[2] <= literal_value(mdp, 1.0)


def literal_return(mdp: TabularMDP, policy: np.ndarray) -> float:
    p, r = mdp.transition.to_dense(), mdp.reward
    value = np.zeros(mdp.n_states)
    for t in reversed(range(HORIZON)):
        value = (policy[t] * (r + p @ value)).sum(axis=1)
    return float(value[0])


@pytest.mark.parametrize("lift", [0.0, 3.0])
@pytest.mark.parametrize("seed", range(2))
def test_the_summit_of_a_concave_function(seed: int, lift: float) -> None:
    # The least of three lines through 0 and beyond: concave, with f(0) = 0, and what is above it.
    rng = np.random.default_rng(seed)
    slopes, heights = np.sort(rng.normal(0.5, 1.5, 3)), np.sort(rng.random(3) * 3)[::-1]
    heights[-1] = 0.0
    f = [lambda b, s=s, h=h: s * b + h for s, h in zip(slopes, heights, strict=True)]

    def lowest(b: float) -> float:
        return min(line(b) for line in f) + lift

    def bounded(b: float, below: bool) -> CurveBounds:
        low = lowest(b) - 0.05 * rng.random() if below else -math.inf
        return CurveBounds(b, low, lowest(b) + 0.05 * rng.random())

    grid = np.geomspace(0.1, 50, 15)
    at = float(rng.choice(grid))
    top = max(lowest(b) for b in np.linspace(0, 400, 4_001))
    few = summit([bounded(b, b == at) for b in grid])
    assert few >= top
    if lowest(at) > 0.5 and lowest(50.0) < lowest(at) - 0.2 and not lift:
        assert few <= 1.35 * top + 0.2
    many = summit([bounded(b, True) for b in np.geomspace(0.1, 50, 40)])
    assert many >= top
    if lowest(50.0) < lowest(40.0) - 1.0:
        assert many <= top + 0.2
