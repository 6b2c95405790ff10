"""Returns: mean and variance by hand, against all paths, and how they move with the utility."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import paths
from tabular.worlds import World, few, worlds

from goalmeter.tabular import TabularMDP, expected_return, planning, transition

# Action 0 stays, action 1 goes to state 1 (which both keep); state 1 pays 1.
STEP = TabularMDP([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], reward=[0, 1], horizon=3)


def test_by_hand() -> None:
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
