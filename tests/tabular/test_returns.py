"""Returns: mean and variance by hand, against all paths, and how they move with the utility."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import paths
from tabular.worlds import World, few, random_world, worlds

from goalmeter._errors import InvalidPolicyError, InvalidUtilityError
from goalmeter.tabular import TabularMDP, expected_return, occupancy, planning, transition

# Action 0 stays, action 1 goes to state 1 (which both keep); state 1 pays 1.
STEP = TabularMDP([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], reward=[0, 1], horizon=3)


def test_by_hand() -> None:
    # Leaving with probability 1/2 at each decision, the returns 2, 1, 0 have 1/2, 1/4, 1/4:
    # mean 1 + 1/4 = 5/4, variance 4/2 + 1/4 - 25/16 = 11/16.
    assert expected_return(STEP, [[0.5, 0.5], [1.0, 0.0]]) == (5 / 4, 11 / 16)


def test_a_geometric_return_by_hand() -> None:
    # At g = 1/2, leaving with probability 1/2, the return is sum_{t >= T} g^t = 2 g^T with
    # Pr(T = k) = 2^-k, k >= 1. E = 2 sum 4^-k = 2/3; E of squares = 4 sum 8^-k = 4/7;
    # variance 4/7 - 4/9 = 8/63.
    mdp = STEP.replace(horizon=None, discount=0.5)
    result = expected_return(mdp, [[0.5, 0.5], [1.0, 0.0]])
    np.testing.assert_allclose(result, (2 / 3, 8 / 63), rtol=1e-14)


@given(world=worlds(max_states=3, max_horizon=3), block=st.sampled_from([1, 2, 10**6]))
@few
def test_they_are_the_sums_over_all_paths(world: World, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transition, "BLOCK_STATES", block)
        result = expected_return(world.mdp(), world.policy)
    arguments = (world.P, world.R, world.policy, world.mu, world.horizon, world.discount)
    assert result.mean == pytest.approx(paths.expected_return(*arguments), abs=1e-13)
    assert result.variance == pytest.approx(paths.variance_of_return(*arguments), abs=1e-13)


@given(world=worlds(max_states=2, max_horizon=3), seed=st.integers(0, 99))
@few
def test_a_utility_that_changes_with_time(world: World, seed: int) -> None:
    utility = np.random.default_rng(seed).normal(size=world.policy.shape)
    result = expected_return(world.mdp(), world.policy, utility=utility)
    arguments = (world.P, utility, world.policy, world.mu, world.horizon, world.discount)
    assert result.mean == pytest.approx(paths.expected_return(*arguments), abs=1e-13)
    assert result.variance == pytest.approx(paths.variance_of_return(*arguments), abs=1e-13)


@given(world=worlds(max_horizon=1), discount=st.sampled_from([0.3, 0.5, 0.8]), direct=st.booleans())
@few
def test_the_infinite_problem_is_a_long_finite_one(
    world: World, discount: float, direct: bool
) -> None:
    policy = world.policy[0]
    with pytest.MonkeyPatch.context() as patch:
        if not direct:
            patch.setattr(planning, "DIRECT_STATES", 0)
        result = expected_return(world.mdp(horizon=None, discount=discount), policy)
    # 0.8^200 is 4e-20.
    long = expected_return(world.mdp(horizon=200, discount=discount), policy)
    np.testing.assert_allclose(result, long, atol=1e-12)


@given(world=worlds())
@few
def test_the_mean_is_the_reward_at_the_occupancy(world: World) -> None:
    mdp = world.mdp()
    pairs = occupancy(mdp, world.policy)[..., None] * world.policy
    weight = world.discount ** np.arange(world.horizon)
    reward = world.R if world.R.ndim == 2 else world.R[:, None]
    mean = np.einsum("t,tsa,sa->", weight, pairs, np.broadcast_to(reward, pairs.shape[1:]))
    assert expected_return(mdp, world.policy).mean == pytest.approx(float(mean), abs=1e-13)


def test_scale_and_constant() -> None:
    mdp = random_world(7, horizon=50).mdp()
    policy = random_world(7, horizon=50).policy
    plain = expected_return(mdp, policy)
    assert plain.variance > 1
    double = expected_return(mdp, policy, utility=2 * mdp.reward)
    np.testing.assert_allclose(double, (2 * plain.mean, 4 * plain.variance), rtol=1e-13)
    # A constant a hundred million times the rest does not drown the variance.
    more = expected_return(mdp, policy, utility=mdp.reward + 1e8)
    assert more.mean == pytest.approx(plain.mean + 50e8, rel=1e-15)
    assert more.variance == pytest.approx(plain.variance, rel=1e-5)


def test_a_sure_return_has_no_variance() -> None:
    mdp = STEP.replace(horizon=4000, reward=[0.1, 0.3])
    assert expected_return(mdp, [[0, 1], [1, 0]]).variance == pytest.approx(0.0, abs=1e-9)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidPolicyError, match=r"policy\[1\] sums to 0\.5, expected 1"):
        expected_return(STEP, [[1.0, 0.0], [0.5, 0.0]])
    with pytest.raises(InvalidUtilityError, match=r"utility has shape \[4\], expected \[2\]"):
        expected_return(STEP, [[1, 0], [1, 0]], utility=[1, 2, 3, 4])
