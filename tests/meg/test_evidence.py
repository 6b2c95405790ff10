"""Evidence as a function of rationality: its slope and its curvature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meg.instances import few, generic_world
from oracles import known_utility as oracle
from oracles import soft_policy

from goalmeter._types import FloatArray
from goalmeter.meg.behaviour import ModelEvidence, behaviour_of, evidence
from goalmeter.tabular import expected_return, soft_plan
from goalmeter.tabular.backup import problem
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.policies import rewards_of

seeds = st.integers(0, 2**16)
rationalities = st.sampled_from([0.3, 1.0, 2.5])


def at(mdp: TabularMDP, policy: FloatArray, *b: float) -> ModelEvidence:
    return evidence(problem(mdp, rewards_of(mdp), np.array(b)), behaviour_of(mdp, [policy]))


def soft(mdp: TabularMDP, b: float) -> FloatArray:
    return soft_plan(mdp, b).policy()[..., 0]


def test_one_decision_by_hand() -> None:
    # Rewards 0 and 1, agent (1/4, 3/4), b = log 3: the model is the agent. The model gives up
    # 1/4 on average, as the agent does, and the variance of the choice is 1/4 * 3/4.
    mdp = TabularMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], horizon=1)
    result = at(mdp, np.array([[0.25, 0.75]]), np.log(3))
    assert result.value == pytest.approx(np.log(2) + 0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    assert (result.model_loss, result.loss) == (pytest.approx(0.25), pytest.approx(0.25))
    assert result.slope == pytest.approx(0.0, abs=1e-15)
    assert result.curvature == pytest.approx(-3 / 16)


@given(seed=seeds, b=st.sampled_from([-2.0, 0.0, 0.7, np.inf]))
@few
def test_the_value_is_the_sum_over_all_paths(seed: int, b: float) -> None:
    world = generic_world(seed, 3, 2, 3, discount=0.9)
    policy = soft(world.mdp(), b)  # anything that the model does not rule out
    model = soft_policy.soft_policy(world.P, world.R, 3, b, 0.9)
    want = oracle.evidence(world.P, policy, model, world.mu, 3)
    assert at(world.mdp(), policy, b).value == pytest.approx(want, abs=1e-12)


@given(seed=seeds, b=rationalities, infinite=st.booleans())
@few
def test_the_slope_is_the_difference_in_return(seed: int, b: float, infinite: bool) -> None:
    # Section 5: E_policy[U] - E_model[U].
    world = generic_world(seed, discount=0.6)
    mdp = world.mdp(horizon=None) if infinite else world.mdp()
    policy = world.policy[0] if infinite else world.policy
    result = at(mdp, policy, b)
    difference = expected_return(mdp, policy).mean - expected_return(mdp, soft(mdp, b)).mean
    assert result.slope == pytest.approx(difference, abs=1e-11)
    assert result.start_loss == pytest.approx(result.model_loss, abs=1e-11)
    step = 1e-5
    low, high = at(mdp, policy, b - step, b + step).value
    assert result.slope == pytest.approx((high - low) / (2 * step), abs=1e-7)
