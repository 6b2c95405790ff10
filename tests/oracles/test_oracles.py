"""The oracles against arithmetic done by hand, against each other, and against published values."""

import math

import numpy as np
import pytest

from . import known_utility as known
from . import paths
from . import soft_policy as soft
from .paths import Array


def random_mdp(seed: int, S: int = 3, A: int = 2) -> tuple[Array, Array, Array, Array]:
    """A random ``(P, R [S], policy [S, A], mu)`` with everything positive."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(S), size=(S, A))
    policy = rng.dirichlet(np.ones(A), size=S)
    return P, rng.normal(size=S), policy, rng.dirichlet(np.ones(S))


# Two states, two actions: action 0 stays; action 1 in state 0 moves on with probability 1/2;
# state 1 is absorbing.  Reward 1 in state 1.
P_LADDER = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.0, 1.0]]])
R_LADDER = np.array([0.0, 1.0])
MU_LADDER = np.array([1.0, 0.0])

# Fact 4.  From state 0, action 0 leads to state 1, action 1 to state 2, action 2 to state 4 (no
# prize, for ever).  In state 1 only action 0 leads to the prize (state 3); in state 2 all three do.
P_FORK = np.zeros((5, 3, 5))
P_FORK[0, 0, 1] = P_FORK[0, 1, 2] = P_FORK[0, 2, 4] = 1.0
P_FORK[1, 0, 3] = P_FORK[1, 1, 4] = P_FORK[1, 2, 4] = 1.0
P_FORK[2, :, 3] = P_FORK[3, :, 3] = P_FORK[4, :, 4] = 1.0
R_FORK = np.array([0.0, 0.0, 0.0, 1.0, 0.0])


def test_paths_by_hand() -> None:
    policy = np.full((2, 2), 0.5)
    listed = dict(paths.enumerate_paths(P_LADDER, policy, MU_LADDER, 2))
    # (0,0),(0,.): 1/2 * 1 * 1/2.  (0,1),(0,.) and (0,1),(1,.): 1/2 * 1/2 * 1/2.
    assert listed == {
        ((0, 0), (0, 0)): 0.25,
        ((0, 0), (0, 1)): 0.25,
        ((0, 1), (0, 0)): 0.125,
        ((0, 1), (0, 1)): 0.125,
        ((0, 1), (1, 0)): 0.125,
        ((0, 1), (1, 1)): 0.125,
    }
    # The return is s_1, which is 1 with probability 1/4: mean 1/4, variance 3/16; with g = 1/2 the
    # return is s_1 / 2.
    assert paths.expected_return(P_LADDER, R_LADDER, policy, MU_LADDER, 2) == 0.25
    assert paths.variance_of_return(P_LADDER, R_LADDER, policy, MU_LADDER, 2) == 3 / 16
    assert paths.expected_return(P_LADDER, R_LADDER, policy, MU_LADDER, 2, 0.5) == 0.125


def test_occupancies_agree() -> None:
    P, R, policy, mu = random_mdp(0)
    d = paths.occupancy_by_paths(P, policy, mu, 4)
    np.testing.assert_allclose(d, paths.occupancy_by_loops(P, policy, mu, 4), atol=1e-14)
    assert known.return_of(d, R, 0.9) == pytest.approx(
        paths.expected_return(P, R, policy, mu, 4, 0.9), abs=1e-14
    )
    long = paths.occupancy_by_loops(P, policy, mu, 200)
    by_sum = sum(0.8**t * long[t] for t in range(200))
    infinite = paths.discounted_occupancy(P, policy, mu, 0.8)
    np.testing.assert_allclose(infinite, by_sum, atol=1e-14)
    assert infinite.sum() == pytest.approx(5.0, abs=1e-13)


def test_soft_policy_by_hand() -> None:
    # H = 2, beta = 2, ladder.  W_1(s) = 2 s + log 2.  E_0(0, 0) = log 2; E_0(0, 1) = 1 + log 2.
    # So pi_0(1|0) = e / (1 + e); at the last decision, and in state 1, uniform.
    pi = soft.soft_policy(P_LADDER, R_LADDER, 2, 2.0)
    assert pi[0, 0, 1] == pytest.approx(math.e / (1 + math.e), abs=1e-15)
    np.testing.assert_allclose(pi[1], 0.5, atol=1e-15)
    np.testing.assert_allclose(pi[0, 1], 0.5, atol=1e-15)
    # Discount 1/2: the utility at stake is 1/2, E_0(0, 1) - E_0(0, 0) = 1/2.
    pi = soft.soft_policy(P_LADDER, R_LADDER, 2, 2.0, discount=0.5)
    assert pi[0, 0, 1] == pytest.approx(1 / (1 + math.exp(-0.5)), abs=1e-15)
    # Reference (1/4, 3/4): odds 3 e.
    pi = soft.soft_policy(P_LADDER, R_LADDER, 2, 2.0, reference=np.tile([0.25, 0.75], (2, 1)))
    assert pi[0, 0, 1] == pytest.approx(3 * math.e / (1 + 3 * math.e), abs=1e-15)


def test_limit_is_not_uniform() -> None:
    # One optimal continuation behind action 0, three behind action 1: 1/4 and 3/4.
    pi = soft.soft_policy(P_FORK, R_FORK, 3, math.inf)
    np.testing.assert_allclose(pi[0, 0], [0.25, 0.75, 0.0], atol=1e-15)
    np.testing.assert_allclose(pi[1, 1], [1.0, 0.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(soft.soft_policy(P_FORK, R_FORK, 3, 200.0), pi, atol=1e-15)
    # Worst: from state 0 either action 2 (everything stays bad: 3 * 3 continuations) or action 0
    # and then 1 or 2 (2 * 3 continuations): 9/15 and 6/15.
    pi = soft.soft_policy(P_FORK, R_FORK, 3, -math.inf)
    np.testing.assert_allclose(pi[0, 0], [6 / 15, 0.0, 9 / 15], atol=1e-15)
    np.testing.assert_allclose(soft.soft_policy(P_FORK, R_FORK, 3, -200.0), pi, atol=1e-15)


def test_discounted_soft_policy() -> None:
    P, R, _, _ = random_mdp(2)
    # Backward induction over a long horizon with the *infinite* recursion, written out.
    for beta in (-4.0, 0.0, 1.5, 60.0):
        W = np.zeros(3)
        for _ in range(400):
            energy = beta * R[:, None] + 0.9 * (P @ W)
            W = np.log(np.exp(energy - energy.max()).sum(axis=1)) + energy.max()
        by_hand = np.exp(beta * R[:, None] + 0.9 * (P @ W) - W[:, None])
        pi = soft.soft_policy_discounted(P, R, beta, 0.9)
        np.testing.assert_allclose(pi, by_hand, atol=1e-11)
        np.testing.assert_allclose(pi.sum(axis=1), 1.0, atol=1e-11)
    for sign in (1, -1):
        limit = soft.soft_policy_discounted(P_FORK, R_FORK, sign * math.inf, 0.75)
        close = soft.soft_policy_discounted(P_FORK, R_FORK, sign * 300.0, 0.75)
        np.testing.assert_allclose(limit, close, atol=1e-9)
    # h(3) = log 3 + g h(3), so h(3) = log(3) / (1 - g) = 4 log 3.  h(2) = log 3 + 3 log 3, the
    # same; h(1) = g h(3) = 3 log 3.  Actions 0 and 1 in state 0 weigh exp(g h): 3^(9/4) and 3^3.
    limit = soft.soft_policy_discounted(P_FORK, R_FORK, math.inf, 0.75)
    odds = 3.0 ** (9 / 4) / 3.0**3
    np.testing.assert_allclose(limit[0], [odds / (1 + odds), 1 / (1 + odds), 0.0], atol=1e-12)


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_known_utility(seed: int) -> None:
    P, R, policy, mu = random_mdp(seed)
    value, beta = known.known_utility_meg(P, R, policy, mu, 4, 0.9)
    exact = known.beta_matching_return(P, R, policy, mu, 4, 0.9)
    assert beta == pytest.approx(exact, rel=1e-5, abs=1e-6)
    model = soft.soft_policy(P, R, 4, exact, 0.9)
    assert value == pytest.approx(known.evidence(P, policy, model, mu, 4), abs=1e-13)
    d = paths.occupancy_by_paths(P, policy, mu, 4)
    entropy = -math.fsum(float(x) * math.log(policy[s, a]) for (_, s, a), x in np.ndenumerate(d))
    assert 0.0 <= value <= 4 * math.log(2) - entropy
    # The policy itself as the model attains the upper bound.
    assert known.evidence(P, policy, policy, mu, 4) == pytest.approx(4 * math.log(2) - entropy)
    # A soft policy is found again, against another reference too.
    reference = np.random.default_rng(seed).dirichlet(np.ones(2), size=3)
    model = soft.soft_policy(P, R, 4, -1.25, 0.9, reference)
    value, beta = known.known_utility_meg(P, R, model, mu, 4, 0.9, reference)
    assert beta == pytest.approx(-1.25, abs=1e-6)
    assert value == pytest.approx(known.evidence(P, model, model, mu, 4, reference), abs=1e-13)


@pytest.mark.slow
def test_known_utility_discounted() -> None:
    P, R, policy, mu = random_mdp(6)
    value, beta = known.known_utility_meg_discounted(P, R, policy, mu, 0.8)
    exact = known.beta_matching_return(P, R, policy, mu, None, 0.8)
    assert beta == pytest.approx(exact, rel=1e-5, abs=1e-6)
    # f(beta) = beta E_pi[U] - mu . W + log A / (1 - g), from the fixed point
    model = soft.log_soft_policy_discounted(P, R, exact, 0.8)
    d = paths.discounted_occupancy(P, policy, mu, 0.8)
    assert value == pytest.approx(known.evidence_by_occupancy(d, model), abs=1e-12)
    optimal = soft.soft_policy_discounted(P, R, math.inf, 0.8)
    value, beta = known.known_utility_meg_discounted(P, R, optimal, mu, 0.8)
    assert beta == math.inf
    assert value == pytest.approx(math.log(2) / 0.2, abs=1e-12)
