"""Occupancy and returns: by hand, and against all paths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import paths
from oracles.paths import discounted_occupancy, occupancy_by_paths
from tabular.worlds import World, few, worlds

from goalmeter.tabular import TabularMDP, expected_return, occupancy, planning, transition

# Action 0 stays, action 1 goes to state 1 (which both keep).
STEP = TabularMDP([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], reward=[0, 1], horizon=3)


def test_by_hand() -> None:
    # Leaving with probability 3/4 at each decision: 1, 1/4, 1/16 are still there.
    expected = [[1, 0], [1 / 4, 3 / 4], [1 / 16, 15 / 16]]
    np.testing.assert_array_equal(occupancy(STEP, [[0.25, 0.75], [1.0, 0.0]]), expected)


@given(world=worlds(max_states=3, max_horizon=3))
@few
def test_it_is_the_sum_over_all_paths(world: World) -> None:
    expected = occupancy_by_paths(world.P, world.policy, world.mu, world.horizon).sum(axis=2)
    np.testing.assert_allclose(occupancy(world.mdp(), world.policy), expected, atol=1e-14)


@given(
    world=worlds(max_horizon=1), discount=st.sampled_from([0.1, 0.5, 0.95]), direct=st.booleans()
)
@few
def test_the_infinite_problem_is_the_discounted_sum(
    world: World, discount: float, direct: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if not direct:
            patch.setattr(planning, "DIRECT_STATES", 0)
        visits = occupancy(world.mdp(horizon=None, discount=discount), world.policy[0])
    expected = discounted_occupancy(world.P, world.policy[0], world.mu, discount).sum(axis=1)
    np.testing.assert_allclose(visits, expected, atol=1e-11)


@pytest.mark.parametrize("discount", [0.99, 0.99999])
def test_a_corridor_too_long_for_krylov_steps(
    monkeypatch: pytest.MonkeyPatch, discount: float
) -> None:
    # One step right at each decision: state s < S - 1 is visited once, at time s.
    monkeypatch.setattr(planning, "DIRECT_STATES", 0)
    n_states = 2000
    after = np.minimum(np.arange(n_states) + 1, n_states - 1).reshape(-1, 1, 1)
    mdp = TabularMDP((after, np.ones(after.shape)), np.zeros(n_states), discount=discount)
    expected = discount ** np.arange(n_states)
    expected[-1] /= 1 - discount
    error = occupancy(mdp, np.ones((n_states, 1))) - expected
    assert np.abs(error).sum() < 1e-10 * expected.sum()


def test_returns_by_hand() -> None:
    # Leaving with probability 1/2 at each decision, the returns 2, 1, 0 have 1/2, 1/4, 1/4:
    # mean 1 + 1/4 = 5/4, variance 4/2 + 1/4 - 25/16 = 11/16.
    assert expected_return(STEP, [[0.5, 0.5], [1.0, 0.0]]) == (5 / 4, 11 / 16)


@given(world=worlds(max_states=3, max_horizon=3), block=st.sampled_from([1, 2, 10**6]))
@few
def test_they_are_the_sums_over_all_paths(world: World, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transition, "BLOCK_STATES", block)
        result = expected_return(world.mdp(), world.policy)
    arguments = (world.P, world.R, world.policy, world.mu, world.horizon, world.discount)
    assert result.mean == pytest.approx(paths.expected_return(*arguments), abs=1e-13)
    assert result.variance == pytest.approx(paths.variance_of_return(*arguments), abs=1e-13)


@given(world=worlds(max_horizon=1), discount=st.sampled_from([0.3, 0.5, 0.8]), direct=st.booleans())
@few
def test_returns_of_the_infinite_problem_are_those_of_a_long_finite_one(
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
