"""MEG towards the best utility of a linear class: both convex problems, laws, certificates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meg.instances import Awkward, few, generic_world, many
from oracles import example_one
from oracles import unknown_utility as oracle
from tabular.worlds import World, worlds

from goalmeter._errors import InvalidParameterError, InvalidPolicyError, InvalidUtilityError
from goalmeter.meg import known_utility, unknown_utility
from goalmeter.tabular import TabularMDP, cliff_world, epsilon_greedy, optimal_policy

MOUSE = TabularMDP(example_one.P, example_one.U, horizon=2, initial=example_one.MU)
CLASSES = ("state", "time-state", "state-action")

seeds = st.integers(0, 2**16)


def test_the_mouse_of_example_one() -> None:
    # Section 4: up to scale and translation three utilities of the outcome; the one that likes
    # cheese explains the mouse as well as the known utility does.
    result = unknown_utility(MOUSE, example_one.mouse(0.8))
    assert result.value == pytest.approx(example_one.MEG_08, abs=1e-9)
    assert result.certified
    assert result.utility is not None
    assert (result.utility[2], result.utility[3]) == (1.0, 0.0)
    # In the scale 0..1 the difference of 2 that beta = log 2 belonged to is 1.
    assert result.rationality == pytest.approx(2 * np.log(2), rel=1e-4)


def test_an_action_that_is_never_taken_by_hand() -> None:
    # Three outcomes, one action each: (3/4, 1/4, 0) is the limit of models whose dislike of the
    # third grows without bound. The evidence is log 3 - entropy, all that there can be.
    P = np.zeros((4, 3, 4))
    P[0, [0, 1, 2], [1, 2, 3]] = 1.0
    P[[1, 2, 3], :, [1, 2, 3]] = 1.0
    policy = np.full((4, 3), 1 / 3)
    policy[0] = [3 / 4, 1 / 4, 0.0]
    result = unknown_utility(TabularMDP(P, np.zeros(4), horizon=2), policy)
    assert result.value == pytest.approx(
        np.log(3) + 3 / 4 * np.log(3 / 4) + 1 / 4 * np.log(1 / 4), abs=1e-9
    )
    assert result.value == pytest.approx(result.ceiling, abs=1e-9)
    assert result.rationality == np.inf
    # The utility shown is the direction that matters first: all but the third are fine.
    assert result.utility is not None
    np.testing.assert_allclose(result.utility[[1, 2, 3]], [1.0, 1.0, 0.0], atol=1e-9)


@given(
    world=worlds(max_states=4, max_horizon=4),
    over=st.sampled_from(CLASSES),
    stationary=st.booleans(),
)
@many
def test_it_is_the_optimum_of_the_maximum_entropy_problem(
    world: World, over: Any, stationary: bool
) -> None:
    policy = world.policy[0] if stationary else world.policy
    result = unknown_utility(world.mdp(), policy, over=over)
    instance = Awkward(world.P, policy, world.mu, world.horizon, world.discount, over, None)
    assert result.value == pytest.approx(instance.primal(), abs=1e-7)
    assert result.certified


@given(
    seed=seeds, discount=st.sampled_from([0.5, 0.8]), over=st.sampled_from(["state", "features"])
)
@settings(max_examples=8, deadline=None, derandomize=True)
def test_the_infinite_discounted_problem(seed: int, discount: float, over: str) -> None:
    world = generic_world(seed, discount=discount)
    features = np.random.default_rng(seed).normal(size=(4, 2)) if over == "features" else np.eye(4)
    phi = oracle.given_features(features, 3, 1)
    arguments = (world.P, world.policy[0], world.mu, None, phi, discount)
    options = {"features": features} if over == "features" else {}
    result = unknown_utility(world.mdp(horizon=None), world.policy[0], **options)
    assert result.value == pytest.approx(oracle.primal_optimum(*arguments).value, abs=1e-7)
    assert result.certified


@given(seed=seeds, horizon=st.integers(2, 4))
@few
def test_a_reference_policy(seed: int, horizon: int) -> None:
    world = generic_world(seed, 3, 3, horizon)
    habit = np.random.default_rng(seed).dirichlet(np.full(3, 2.0), size=3)
    phi = oracle.state_features(3, 3, horizon)
    arguments = (world.P, world.policy, world.mu, horizon, phi, 1.0, habit)
    result = unknown_utility(world.mdp(), world.policy, reference=habit)
    assert result.value == pytest.approx(oracle.primal_optimum(*arguments).value, abs=1e-7)
    assert result.certified
    zero = unknown_utility(world.mdp(), habit, reference=habit)
    assert zero.value == pytest.approx(0.0, abs=1e-9)


@given(world=worlds(), over=st.sampled_from(["state", "time-state"]))
@many
def test_a_class_knows_no_less_than_its_members(world: World, over: Any) -> None:
    mdp = world.mdp(reward=world.R if world.R.ndim == 1 else world.R[:, 0])
    known = known_utility(mdp, world.policy)
    unknown = unknown_utility(mdp, world.policy, over=over)
    assert unknown.value >= known.value - 1e-8
    assert 0.0 <= unknown.value <= unknown.upper_bound
    assert unknown.value <= unknown.ceiling + 1e-7
    assert unknown.ceiling <= unknown.maximum + 1e-9
    assert unknown.by_step.sum() == pytest.approx(unknown.value, abs=1e-9)
    assert unknown.by_state.sum() == pytest.approx(unknown.value, abs=1e-9)


@given(world=worlds(), infinite=st.booleans())
@many
def test_a_class_of_one_direction_is_the_known_utility(world: World, infinite: bool) -> None:
    infinite = infinite and world.discount < 1
    mdp = world.mdp(horizon=None) if infinite else world.mdp()
    policy = world.policy[0] if infinite else world.policy
    known = known_utility(mdp, policy)
    unknown = unknown_utility(mdp, policy, features=world.R[..., None])
    assert unknown.value == pytest.approx(known.value, abs=1e-7)
    assert unknown.certified


@given(seed=seeds, infinite=st.booleans(), on_actions=st.booleans())
@few
def test_the_utility_found_explains_the_behaviour(
    seed: int, infinite: bool, on_actions: bool
) -> None:
    world = generic_world(seed, discount=0.7)
    mdp = world.mdp(horizon=None) if infinite else world.mdp()
    policy = world.policy[0] if infinite else world.policy
    result = unknown_utility(mdp, policy, over="state-action" if on_actions else "state")
    utility = result.utility
    assert utility is not None
    assert (utility.min(), utility.max()) == (0.0, 1.0)
    assert utility.shape == ((4, 3) if on_actions else (4,))
    again = known_utility(mdp, policy, utility=utility)
    assert again.value == pytest.approx(result.value, abs=1e-6)
    assert again.rationality == pytest.approx(result.rationality, rel=1e-2)


# Appendix D.1 reports networks, which are lower bounds: 34.3, 32.1, 33.6, 35.4 for k = 1..4.
@pytest.mark.parametrize(
    ("goal_length", "value", "published"),
    [(1, 40.2025, 34.3), (2, 37.8046, 32.1), (3, 40.2025, 33.6), (4, 40.2025, 35.4)],
)
def test_cliff_world_by_goal_length(goal_length: int, value: float, published: float) -> None:
    mdp = cliff_world(goal_length)
    policy = optimal_policy(mdp)
    result = unknown_utility(mdp, policy)
    assert result.value == pytest.approx(value, abs=6e-5)
    assert result.certified
    assert result.rationality == np.inf
    assert result.value >= known_utility(mdp, policy).value - 1e-6
    assert result.value >= published
    assert result.maximum == pytest.approx(29 * np.log(4), abs=1e-9)


# The published row for 0.9, 0.091, is a tenth of what it should be, like the known column.
@pytest.mark.parametrize(
    ("tenths", "value", "published"),
    [
        (1, 26.7942, 26.1),
        (2, 18.0392, 17.4),
        (3, 11.3894, 11.0),
        (4, 6.4412, 6.2),
        (5, 3.0501, 2.9),
        (6, 1.0239, 1.0),
        (7, 0.1077, 0.10),
        (8, 0.1038, 0.10),
        (9, 0.9299, 0.91),
    ],
)
def test_cliff_world_by_epsilon(tenths: int, value: float, published: float) -> None:
    mdp = cliff_world(1)
    policy = epsilon_greedy(optimal_policy(mdp), tenths / 10)
    result = unknown_utility(mdp, policy)
    assert result.value == pytest.approx(value, abs=6e-5)
    assert result.certified
    assert np.isfinite(result.rationality)
    assert result.value >= known_utility(mdp, policy).value
    assert 0.0 <= result.value - published < 0.08 * result.value


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (
            {"features": np.ones((3, 2))},
            InvalidUtilityError,
            r"features has shape \[3, 2\], expected \[4, D\] \(state features\) or \[4, 2, D\]",
        ),
        (
            {"over": "states"},
            InvalidParameterError,
            "over is 'states', expected 'state', 'state-action' or 'time-state'",
        ),
        (
            {"reference": [[1.0, 0.0]] * 4},
            InvalidPolicyError,
            r"reference\[0, 1\] is 0 at decision 0, but the measured behaviour takes",
        ),
    ],
)
def test_options_that_are_refused(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        unknown_utility(MOUSE, example_one.mouse(0.8), **options)
