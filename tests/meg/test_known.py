"""MEG towards a known utility: by hand, by brute force over beta, published numbers, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meg.instances import few, generic_world, many
from oracles import example_one
from oracles import known_utility as oracle

from goalmeter._errors import InvalidPolicyError
from goalmeter.meg import known_utility
from goalmeter.tabular import TabularMDP, cliff_world, epsilon_greedy, optimal_policy, transition

MOUSE = TabularMDP(example_one.P, example_one.U, horizon=2, initial=example_one.MU)

# One decision of three actions, paying 0, 1 and 2.
CHOICE = TabularMDP(np.ones((1, 3, 1)), [[0.0, 1.0, 2.0]], horizon=1)

# Fact 4: from 0 to 1 or 2 (or 4, nothing); from 1 one action of three leads to the prize, 3, and
# from 2 all three do.
FORK = np.zeros((5, 3, 5))
FORK[0, [0, 1, 2], [1, 2, 4]] = 1.0
FORK[1, [0, 1, 2], [3, 4, 4]] = 1.0
FORK[2, :, 3] = FORK[3, :, 3] = FORK[4, :, 4] = 1.0
PRIZE = [0.0, 0.0, 0.0, 1.0, 0.0]

seeds = st.integers(0, 2**16)


def test_the_mouse_of_example_one() -> None:
    # log 2 + 0.8 log 0.8 + 0.2 log 0.2, at 2 beta = log(0.8 / 0.2).
    result = known_utility(MOUSE, example_one.mouse(0.8))
    assert result.value == pytest.approx(0.19274475702175753, abs=1e-15)
    assert result.rationality == pytest.approx(np.log(2), rel=1e-12)
    assert result.signed == result.value
    assert result.certified
    # The second decision cannot matter: one decision between two actions.
    assert result.maximum == pytest.approx(np.log(2), abs=1e-15)
    assert result.fraction == pytest.approx(0.2780719051126377, abs=1e-14)
    np.testing.assert_allclose(result.by_step, [result.value, 0.0], atol=1e-15)


@pytest.mark.parametrize(("to_cheese", "sign"), [(1.0, 1), (0.0, -1)])
def test_the_optimal_and_the_worst_mouse(to_cheese: float, sign: int) -> None:
    result = known_utility(MOUSE, example_one.mouse(to_cheese))
    assert result.value == pytest.approx(np.log(2), abs=1e-15)
    assert result.rationality == sign * np.inf
    assert result.signed == sign * result.value  # footnote 4


def test_one_decision_by_hand() -> None:
    # pi_b is proportional to (1, e^b, e^2b); (1, 2, 4) / 7 is b = log 2 exactly, and the evidence
    # is log 3 - entropy = log 3 + (log(1/7) + 2 log(2/7) + 4 log(4/7)) / 7.
    result = known_utility(CHOICE, [[1 / 7, 2 / 7, 4 / 7]])
    assert result.rationality == pytest.approx(np.log(2), rel=1e-13)
    value = np.log(3) - np.log(7) + (2 * np.log(2) + 4 * np.log(4)) / 7
    assert result.value == pytest.approx(value, abs=1e-15)
    # (1/2, 0, 1/2) has the mean of the uniform policy, which is the best model of it.
    even = known_utility(CHOICE, [[0.5, 0.0, 0.5]])
    assert (even.value, even.rationality) == (0.0, 0.0)
    # ... although nothing else than its own entropy bounds what another utility could say.
    assert even.ceiling == pytest.approx(np.log(3) - np.log(2), abs=1e-15)


@pytest.mark.parametrize("first", [[0.25, 0.75, 0.0], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
def test_the_limit_counts_the_ways_to_be_optimal(first: list[float]) -> None:
    # Of the 9 pairs of first actions 4 reach the prize, and whatever the share of the two
    # optimal first actions the evidence of the limit is the same, log(9 / 4):
    # its first decision is (1/4, 3/4), not (1/2, 1/2), so 1 -> 1 is worth log(3/4) + log 3 and
    # 1 -> 2 log(9/4) + 0.
    mdp = TabularMDP(FORK, PRIZE, horizon=3)
    policy = [first, [1.0, 0.0, 0.0], *[[1 / 3, 1 / 3, 1 / 3]] * 3]
    result = known_utility(mdp, policy)
    assert result.rationality == np.inf
    assert result.value == pytest.approx(np.log(9 / 4), abs=1e-15)
    share_of_1 = first[0]
    by_hand = share_of_1 * np.log(3 / 4) + first[1] * np.log(9 / 4)
    np.testing.assert_allclose(result.by_step, [by_hand, share_of_1 * np.log(3), 0], atol=1e-15)
    against = known_utility(mdp, policy, utility=-np.array(PRIZE))
    assert (against.value, against.rationality) == (pytest.approx(result.value), -np.inf)


def test_a_reference_sets_the_zero() -> None:
    # Against the habit (1/2, 1/4, 1/4) the model is proportional to (2, e^b, e^2b).
    habit = [[0.5, 0.25, 0.25]]
    assert known_utility(CHOICE, habit, reference=habit).value == 0.0
    result = known_utility(CHOICE, [[2 / 8, 2 / 8, 4 / 8]], reference=habit)
    assert result.rationality == pytest.approx(np.log(2), rel=1e-13)
    # 1/4 log(1/2) + 1/4 log 1 + 1/2 log 2.
    assert result.value == pytest.approx(np.log(2) / 4, abs=1e-15)
    # A fully predictable agent could be one that always does what is least likely: log 4.
    assert result.maximum == pytest.approx(np.log(4), abs=1e-15)
    assert result.reference == "given reference policy"


@given(
    seed=seeds,
    n_states=st.integers(2, 4),
    n_actions=st.integers(2, 4),
    horizon=st.integers(2, 4),
    discount=st.sampled_from([1.0, 0.9, 0.5]),
    on_actions=st.booleans(),
    with_reference=st.booleans(),
    block=st.sampled_from([1, 2, 10**6]),
)
@many
def test_the_rationality_matches_the_return(
    seed: int,
    n_states: int,
    n_actions: int,
    horizon: int,
    discount: float,
    on_actions: bool,
    with_reference: bool,
    block: int,
) -> None:
    world = generic_world(seed, n_states, n_actions, horizon, discount, on_actions)
    reference = None
    if with_reference:
        rng = np.random.default_rng(seed + 1)
        reference = rng.dirichlet(np.full(n_actions, 2.0), size=n_states)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transition, "BLOCK_STATES", block)
        result = known_utility(world.mdp(), world.policy, reference=reference)
    arguments = (world.P, world.R, world.policy, world.mu, horizon, discount, reference)
    value, _ = oracle.known_utility_meg(*arguments)
    assert result.value == pytest.approx(value, abs=1e-8)
    beta = oracle.beta_matching_return(*arguments)
    assert result.rationality == pytest.approx(beta, rel=1e-8)


@given(seed=seeds, discount=st.sampled_from([0.3, 0.5, 0.8]), on_actions=st.booleans())
@few
def test_the_infinite_discounted_problem(seed: int, discount: float, on_actions: bool) -> None:
    world = generic_world(seed, 3, 2, 1, discount, on_actions)
    policy = world.policy[0]
    result = known_utility(world.mdp(horizon=None), policy)
    arguments = (world.P, world.R, policy, world.mu)
    value, _ = oracle.known_utility_meg_discounted(*arguments, discount)
    assert result.value == pytest.approx(value, abs=1e-8)
    beta = oracle.beta_matching_return(*arguments, None, discount)
    assert result.rationality == pytest.approx(beta, rel=1e-8)
    assert result.by_step.shape == (1,)


@pytest.mark.parametrize(
    ("goal_length", "value", "published"),
    [(1, 40.203, None), (2, 21.367, 21.4), (3, 19.415, None), (4, 18.881, 18.9)],
)
def test_cliff_world_by_goal_length(
    goal_length: int, value: float, published: float | None
) -> None:
    # Appendix D.1; its rows for 1 and 3 had not converged (37.8 and 16.8).
    mdp = cliff_world(goal_length)
    result = known_utility(mdp, optimal_policy(mdp))
    assert result.value == pytest.approx(value, abs=5e-4)
    assert published is None or round(result.value, 1) == published
    assert result.rationality == np.inf
    assert result.maximum == pytest.approx(29 * np.log(4), abs=1e-9)


@pytest.mark.parametrize(
    ("tenths", "value", "published", "unit"),
    [
        (1, 23.789, 2.4, 0.1),
        (2, 15.428, 1.5, 0.1),
        (3, 9.469, 0.95, 0.01),
        (4, 5.047, 0.50, 0.01),
        (5, 2.009, 0.20, 0.01),
        (6, 0.4675, 0.04, 0.01),
        (7, 0.0303, 0.003, 0.001),
        (8, 0.0170, 0.001, 0.001),
        (9, 0.0836, 0.008, 0.001),
    ],
)
def test_cliff_world_by_epsilon(tenths: int, value: float, published: float, unit: float) -> None:
    # Appendix D.1 prints a tenth of these, the smallest cut off rather than rounded.
    mdp = cliff_world(1)
    result = known_utility(mdp, epsilon_greedy(optimal_policy(mdp), tenths / 10))
    assert result.value == pytest.approx(value, abs=5e-4 if value > 1 else 5e-5)
    assert result.value / 10 == pytest.approx(published, abs=unit)
    assert np.sign(result.rationality) == (1 if tenths < 7.5 else -1)
    assert result.certified


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ([[0.5, 0.4, 0.0]], r"policy\[0\] sums to 0.9, expected 1 \(tolerance 1e-05\)"),
        (
            [[0.5, 0.5]],
            r"policy has shape \[1, 2\], expected \[1, 3\] \(stationary\) or \[1, 1, 3\]",
        ),
    ],
)
def test_policies_that_are_refused(policy: Any, words: str) -> None:
    with pytest.raises(InvalidPolicyError, match=words):
        known_utility(CHOICE, policy)


def test_a_reference_that_rules_out_what_was_done_is_refused() -> None:
    words = (
        r"reference\[0, 2\] is 0 at decision 0, but the measured behaviour takes that action "
        r"there, so the evidence would be infinite"
    )
    with pytest.raises(InvalidPolicyError, match=words):
        known_utility(CHOICE, [[0.5, 0.0, 0.5]], reference=[[0.5, 0.5, 0.0]])
    # What was not done may be ruled out: two actions are left.
    result = known_utility(CHOICE, [[0.2, 0.0, 0.8]], reference=[[0.5, 0.0, 0.5]])
    assert result.value == pytest.approx(example_one.MEG_08, abs=1e-14)
    with pytest.raises(InvalidPolicyError, match=r"reference has shape \[2\]"):
        known_utility(CHOICE, [[0.5, 0.0, 0.5]], reference=[0.5, 0.5])
