"""Evidence as a function of rationality: its slope and its curvature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meg.instances import few, generic_world
from oracles import soft_policy
from tabular.worlds import World

from goalmeter._types import FloatArray
from goalmeter.meg.behaviour import Evidence, behaviour_of, evidence
from goalmeter.tabular import expected_return, soft_plan
from goalmeter.tabular.backup import problem
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.policies import rewards_of

seeds = st.integers(0, 2**16)
rationalities = st.sampled_from([0.3, 1.0, 2.5])


def at(mdp: TabularMDP, policy: FloatArray, *b: float) -> Evidence:
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


def choices_variance(world: World, b: float) -> float:
    """sum_t E[Var over a ~ pi_b of the expected utility to go], written out."""
    model = soft_policy.soft_policy(world.P, world.R, world.horizon, b)
    S, A, _ = world.P.shape
    value, total = np.zeros(S), np.zeros(S)
    for t in reversed(range(world.horizon)):
        now, carried = np.zeros(S), np.zeros(S)
        for s in range(S):
            to_go = [world.R[s] + world.P[s, a] @ value for a in range(A)]
            now[s] = sum(model[t, s, a] * to_go[a] for a in range(A))
            spread = sum(model[t, s, a] * (to_go[a] - now[s]) ** 2 for a in range(A))
            carried[s] = spread + sum(model[t, s, a] * (world.P[s, a] @ total) for a in range(A))
        value, total = now, carried
    return float(world.mu @ total)


@given(seed=seeds, b=rationalities)
@few
def test_the_curvature_is_the_variance_that_choices_cause(seed: int, b: float) -> None:
    world = generic_world(seed, horizon=3)
    result = float(at(world.mdp(), world.policy, b).curvature[0])
    step = 1e-3
    low, middle, high = at(world.mdp(), world.policy, b - step, b, b + step).value
    assert result == pytest.approx((high - 2 * middle + low) / step**2, rel=1e-4, abs=1e-6)
    assert result == pytest.approx(-choices_variance(world, b), rel=1e-10)
    # It is not the variance of the whole return: chance and the start are no choices.
    whole = expected_return(world.mdp(), soft(world.mdp(), b)).variance
    assert -result < 0.9 * whole
