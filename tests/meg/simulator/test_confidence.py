"""Confidence sets, relative entropies of clipped normals, and planning in possible worlds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from goalmeter.meg.simulator.confidence import (
    AS_SEEN,
    LEAST,
    MOST,
    ConfidenceSet,
    OutcomeArrays,
    PossibleWorlds,
)
from goalmeter.meg.simulator.exploration import Exploration
from goalmeter.meg.simulator.references import largest_relative_entropy, relative_entropy
from goalmeter.meg.simulator.start_bounds import entropies
from goalmeter.meg.simulator.state_bounds import CurveBounds, highest, summit
from goalmeter.meg.simulator.tables import TabularSimulator
from goalmeter.tabular import TabularMDP, soft_plan


def one_pair(counts: list[int], unlisted: int = 0, *, certain: bool = False) -> OutcomeArrays:
    """The table of one pair with these counts, the first of its lists."""
    return OutcomeArrays(
        np.arange(len(counts))[None],
        np.zeros((1, len(counts), 1)),
        np.array([counts], dtype=float),
        np.array([float(unlisted)]),
        np.array([certain]),
        np.array([len(counts)]),
        np.array([0]),
    )


def test_the_radius_by_hand() -> None:
    # Three draws, a b a: the predictor gives 1/2.02 * 0.5/2.02... in the order 0.5/1.02,
    # 0.5/2.02, 1.5/3.02; the frequencies give (2/3)^2 (1/3).
    predicted = (0.5 / 1.02) * (0.5 / 2.02) * (1.5 / 3.02)
    fitted = (2 / 3) ** 2 * (1 / 3)
    price = math.log(2.11 * 2 * math.log(2) ** 2 / 0.1)
    expected = (price + math.log(fitted) - math.log(predicted)) / 3
    assert ConfidenceSet(one_pair([2, 1]), 0.1).radius[0] == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(2))
def test_the_bound_is_the_supremum_over_the_set(seed: int) -> None:
    # Over a fine grid of distributions on two outcomes and the unlisted one.
    rng = np.random.default_rng(seed)
    counts, unlisted = rng.integers(1, 60, 2), int(rng.integers(0, 3))
    worlds = ConfidenceSet(one_pair(counts.tolist(), unlisted), 0.05)
    values, best = rng.normal(size=2) * 3, 9.0
    frequencies = np.append(worlds.frequencies[0], worlds.unlisted[0])
    a, b = np.meshgrid(np.linspace(1e-6, 1, 1200), np.linspace(1e-6, 1, 1200))
    kept = a + b < 1
    p = np.stack([a[kept], b[kept], 1 - a[kept] - b[kept]])
    used = frequencies > 0
    divergence = (frequencies[used, None] * np.log(frequencies[used, None] / p[used])).sum(axis=0)
    inside = divergence <= worlds.radius[0]
    most = (p * np.append(values, best)[:, None]).sum(axis=0)[inside].max()
    bound = worlds.highest(values[None], best)[0]
    assert bound >= most - 1e-9
    assert bound <= most + 0.02 * (best - values.min())
    assert worlds.lowest(values[None], -best)[0] == pytest.approx(
        -worlds.highest(-values[None], best)[0]
    )


def test_the_truth_stays_in_the_set_at_every_look() -> None:
    truth = np.array([0.55, 0.3, 0.149, 0.001])
    rng = np.random.default_rng(5)
    outside, runs = 0, 300
    for _ in range(runs):
        counts, left = np.zeros(3), 0
        for n in (10, 30, 100, 400, 2000):
            more = rng.multinomial(n, truth)
            counts, left = counts + more[:3], left + int(more[3])
            worlds = ConfidenceSet(one_pair(counts.astype(int).tolist(), left), 0.2)
            f = np.append(worlds.frequencies[0], worlds.unlisted[0])
            used = f > 0
            gone = (f[used] * np.log(f[used] / truth[used])).sum() > worlds.radius[0]
            if gone:
                outside += 1
                break
    # The first list has 0.2 / (2.11 * 2 * log(2)^2) = 0.0986 of the error.
    assert outside / runs < 0.0986


def by_quadrature(
    mean: float, std: float, centre: float, scale: float, low: float, high: float
) -> float:
    """The definition: what the ends catch, and the integral between them."""
    p, q = norm(mean, std), norm(centre, scale)
    total = 0.0
    for mine, others in ((p.cdf(low), q.cdf(low)), (p.sf(high), q.sf(high))):
        total += mine * math.log(mine / others) if mine > 0 else 0.0
    inside, _ = quad(
        lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)),
        max(low, mean - 40 * std),
        min(high, mean + 40 * std),
        points=[min(max(mean, low), high)],
        limit=200,
    )
    return float(total + inside)


def array(value: float) -> np.ndarray:
    return np.array([value])


@pytest.mark.parametrize(
    "case",
    [
        (0.0, 0.5, 0.0, 1.0, -1.0, 2.0),
        (1.9, 0.3, 0.0, 1.0, -2.0, 2.0),
        (3.0, 0.7, 0.5, 1.5, -2.0, 2.0),
        (-0.4, 2.5, 0.0, 0.5, -1.0, 1.0),
    ],
)
def test_against_quadrature(case: tuple[float, ...]) -> None:
    assert relative_entropy(*map(array, case)) == pytest.approx(by_quadrature(*case), rel=1e-7)


def test_nothing_exceeds_the_bound() -> None:
    rng = np.random.default_rng(0)
    for _ in range(500):
        low, high = np.sort(rng.normal(0, 2, (2, 3)), axis=0)
        centre, scale, least = rng.normal(0, 1, 3), rng.gamma(2, 1, 3), rng.gamma(2, 0.2, 3)
        mean, std = rng.normal(0, 5, 3), least * (1 + rng.gamma(1, 1, 3))
        told = relative_entropy(mean, std, centre, scale, low, high)
        assert 0.0 <= told <= largest_relative_entropy(least, centre, scale, low, high)


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


def test_the_lowest_of_two_lines_is_highest_where_they_cross() -> None:
    assert highest([(1.0, 0.0), (-1.0, 2.0)]) == 1.0
    assert highest([(1.0, 0.0)]) == math.inf
