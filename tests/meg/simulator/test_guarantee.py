"""The finite-sample bound: inequalities against oracles, validity, and exact worlds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import goalmeter as gm
from goalmeter._types import FloatArray
from goalmeter.meg.simulator import guarantee
from goalmeter.meg.simulator.counts import CountTable
from goalmeter.meg.simulator.guarantee import Ends, guaranteed_interval
from goalmeter.meg.simulator.protocol import Episodes
from goalmeter.meg.simulator.utilities import Range

HORIZON = 4
ONE = np.ones(1)
UNIT = Range(0.0, 1.0, 0.0, float(HORIZON))


def counts(
    p: FloatArray, reward: FloatArray, sizes: tuple[int, int], seed: int, starts: FloatArray
) -> tuple[CountTable, CountTable]:
    """Both halves of draws from p [S, A, S], the same number of each pair."""
    rng, (s, a, _) = np.random.default_rng(seed), p.shape
    after = np.tile(np.arange(s), (s * a, 1))
    paid = np.broadcast_to(reward.repeat(a)[:, None, None], (s * a, s, 1))
    certain = (p.reshape(-1, s) > 0).sum(axis=1) == 1
    fixed = (starts > 0).sum() == 1
    drawn = [np.stack([rng.multinomial(n, q) for q in p.reshape(-1, s)]) for n in sizes]
    begun = [starts * 1.0 if fixed else rng.multinomial(n, starts) * 1.0 for n in sizes]
    first, second = (
        CountTable(after, paid, half.astype(float), certain, starts, a, HORIZON)
        for half, starts in zip(drawn, begun, strict=True)
    )
    return first, second


def interval(
    data: tuple[CountTable, CountTable],
    policy: FloatArray | None,
    returns: FloatArray = ONE[:, None],
    level: float = 0.95,
) -> Ends:
    one_start, none = bool((data[0].starts > 0).sum() == 1), np.zeros(len(returns), dtype=np.int64)
    steps = np.zeros((HORIZON * len(returns), 2), dtype=np.int64)
    answers = np.zeros((len(steps), 0))
    walks = Episodes(returns, none + HORIZON, none + np.nan, none, steps, answers)
    return guaranteed_interval(data, walks, policy, 0, UNIT, one_start=one_start, error=1.0 - level)


def two_states(seed: int) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(2), (2, 2)), np.array([0.0, 1.0])


def literal(p: FloatArray, reward: FloatArray, policy: FloatArray | None, b: float) -> float:
    """Value of b times the utility from state 0: of a policy [S, A], or the soft value."""

    def value(t: int, state: int) -> float:
        if t == HORIZON:
            return 0.0
        q = np.array([
            b * reward[state] + sum(p[state, a, k] * value(t + 1, k) for k in range(2))
            for a in range(2)
        ])  # fmt: skip
        return float(np.log(np.exp(q).mean()) if policy is None else policy[state] @ q)

    return value(0, 0)


@pytest.mark.parametrize("is_soft", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_remainders_hold_for_models_in_the_confidence_set(seed: int, is_soft: bool) -> None:
    p, reward = two_states(seed)
    data = counts(p, reward, (40, 60), seed, np.array([1.0, 0.0]))
    world = guarantee._World(data, 0, True, 0.05, fresh=True)
    policy = None if is_soft else np.array([[0.3, 0.7], [0.9, 0.1]])
    b, price = (1.5, -1.0) if is_soft else (-1.5, 0.0)
    problem = guarantee._Problem(world, UNIT, None, ONE)
    chain = problem._chain(b, None if policy is None else policy[None], price)
    # The value of a policy is linear in the utility: the negative has the bound from below.
    below = chain if policy is None else problem._chain(-b, policy[None], price)
    centre = world.share.copy()
    rng, inside = np.random.default_rng(seed), 0
    estimate = data[0].counts / data[0].total[:, None]
    assert chain.value == pytest.approx(literal(estimate.reshape(2, 2, 2), reward, policy, b))
    for _ in range(40):
        model = np.stack([rng.dirichlet(row + 0.5) for row in data[1].counts])
        flat = model[world.pair, world.after]
        if ((flat < centre + world.less) | (flat > centre + world.more)).any():
            continue
        inside += 1
        linear = float(flat @ chain.weights[: len(flat)])
        true = literal(model.reshape(2, 2, 2), reward, policy, b)
        remainder = true - chain.value - linear
        assert remainder <= chain.rest + 1e-9
        assert is_soft or -below.rest - 1e-9 <= remainder
        # The linear part is the derivative: the remainder is of second order.
        near = estimate + 1e-4 * (model - estimate)
        rest = literal(near.reshape(2, 2, 2), reward, policy, b) - chain.value - 1e-4 * linear
        assert abs(rest) < 1e-6
    assert inside > 30


@pytest.mark.parametrize("count", [0.0, 0.3, 4.0, 60.0])
def test_chernoff_limit_covers_the_binomial(count: float) -> None:
    limit = guarantee._poisson(count, -np.log(0.05))
    assert limit > count
    # For every larger mean, so few events have at most the error.
    for n in (int(limit) + 200, 5000):
        assert binom.cdf(count, n, limit / n) <= 0.05


@pytest.mark.parametrize("level", [0.95, 0.5])
def test_intervals_hold_the_truth_with_rare_payoffs_and_random_starts(level: float) -> None:
    p = np.array([
        [[0.5, 0.48, 0.02], [0.2, 0.8, 0.0]],
        [[0.6, 0.2, 0.2], [0.3, 0.699, 0.001]],
        [[0.0, 1.0, 0.0], [0.1, 0.0, 0.9]],
    ])  # fmt: skip
    reward, starts = np.array([0.0, 0.0, 1.0]), np.array([0.6, 0.4, 0.0])
    mdp = gm.TabularMDP(p, reward, horizon=HORIZON, initial=starts)
    policy = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]])
    exact = gm.meg.known_utility(mdp, policy).value
    held, lows = [], []
    for seed in range(4):
        for n in (3, 30, 3_000):
            ends = interval(counts(p, reward, (n, n), seed, starts), policy[None], level=level)
            held.append(ends.low - 1e-9 <= exact <= ends.high + 1e-9)
            lows.append(ends.low)
    assert np.mean(held) >= level
    assert max(lows) > 0.5 * exact


def test_a_world_without_chance_gives_a_point() -> None:
    p = np.zeros((2, 2, 2))
    p[0, 0, 0] = p[0, 1, 1] = p[1, 0, 0] = p[1, 1, 1] = 1.0
    reward, policy = np.array([0.0, 1.0]), np.array([[0.2, 0.8], [0.4, 0.6]])
    mdp = gm.TabularMDP(p, reward, horizon=HORIZON)
    exact = gm.meg.known_utility(mdp, policy).value
    data = counts(p, reward, (2, 2), 0, np.eye(2)[0])
    assert interval(data, policy[None])[:2] == pytest.approx((exact, exact), abs=1e-6)


def test_missing_pairs_and_agents_of_unknown_policy() -> None:
    p, reward = two_states(3)
    data = counts(p, reward, (4_000, 4_000), 0, np.array([1.0, 0.0]))
    policy = np.array([[0.1, 0.9], [0.9, 0.1]])
    exact = gm.meg.known_utility(gm.TabularMDP(p, reward, horizon=HORIZON), policy).value
    data[1].counts[1] = 0
    ends = interval(data, policy[None])
    assert ends.low <= exact <= ends.high
    walks = gm.tabular.sample_trajectories(
        gm.TabularMDP(p, reward, horizon=HORIZON), policy, 4_000, rng=np.random.default_rng(0)
    )
    ends = interval(data, None, reward[walks.states].sum(axis=1)[:, None])
    assert ends.low <= exact <= ends.high


def test_large_tables_have_the_bound_of_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    p, reward = two_states(1)
    data = counts(p, reward, (3_000, 3_000), 0, np.array([0.5, 0.5]))
    policy = np.array([[0.9, 0.1], [0.1, 0.9]])[None]
    monkeypatch.setattr(guarantee, "_LARGE", 0.0)
    assert interval(data, policy)[:2] == pytest.approx((0.0, HORIZON * np.log(2)))


@pytest.mark.parametrize(("rise", "drop"), [(0.5, -0.2), (0.5, -3.0), (0.1, 0.4)])
def test_two_lines_bound_what_is_beyond_the_first(rise: float, drop: float) -> None:
    # From 0 on one line rises; from 2 on the other one falls, which says nothing before.
    x = np.linspace(0, 30, 300_001)
    falls = np.where(x > 2, 1.0 + drop - 0.3 * (x - 2), np.inf)
    highest = np.minimum(1.0 + rise * x, falls).max()
    assert guarantee._highest(1.0, rise, drop, 0.3, 2.0) == pytest.approx(highest, abs=1e-3)
