"""Features as counts: the same class, what behaviour never meets, and the fit of large ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meg.instances import Awkward, awkward, few, generic_world, seeds
from meg.test_visit_matching import assert_the_program_agrees, grid, matched
from oracles import unknown_utility as oracle

from goalmeter._types import FloatArray
from goalmeter.meg import linear, unknown_utility
from goalmeter.meg.behaviour import behaviour_of, linear_class
from goalmeter.meg.certificate import policy_certificate
from goalmeter.meg.preconditioners import (
    count_features,
    expected_visits,
    find_met_entries,
    tabular,
)
from goalmeter.meg.soft_model import SoftModel
from goalmeter.tabular import TabularMDP, epsilon_greedy, optimal_policy


def tilings(n: int, width: int, shifts: tuple[int, ...] = (0, 1)) -> FloatArray:
    """Tile coding of n x n squares, one tiling for each diagonal shift: [n * n, D]."""
    row, column = np.divmod(np.arange(n * n), n)
    layers = []
    for shift in shifts:
        tile = (row + shift) // width * n + (column + shift) // width
        layers.append(np.eye(n * n)[tile][:, np.unique(tile)])
    return np.concatenate(layers, axis=1)


def with_features(seed: int) -> Awkward:
    """Zeros, ties and states out of reach, and features of states or of states and actions."""
    instance, rng = awkward(seed), np.random.default_rng(seed)
    n_states, n_actions, _ = instance.P.shape
    d = int(rng.integers(1, 6))
    kinds = [
        rng.integers(-2, 3, size=(n_states, d)).astype(float),
        (rng.random((n_states, d)) < 0.4).astype(float),
        rng.normal(size=(n_states, n_actions, d)),
        -3.0 * np.eye(n_states)[rng.permutation(n_states)],
    ]
    return instance._replace(features=kinds[seed % 4], over="state")


# --- The class ------------------------------------------------------------------------------------


def test_a_feature_for_each_state_is_all_utilities() -> None:
    mdp = generic_world(0).mdp()
    order = np.random.default_rng(0).permutation(4)
    for features in (np.eye(4)[order], 1.0 - np.eye(4)[order], 5.0 - 2.0 * np.eye(4)):
        assert tabular(linear_class(mdp, features)).matrix is None
    pairs = np.eye(12).reshape(4, 3, 12)
    assert tabular(linear_class(mdp, pairs)).matrix is None
    for features in (np.eye(4)[:, :3], np.eye(4)[[0, 0, 1, 2]], np.arange(16.0).reshape(4, 4)):
        same = linear_class(mdp, features)
        assert tabular(same) is same


# --- What behaviour never meets -------------------------------------------------------------------


def test_what_single_features_rule_out_by_hand() -> None:
    # Four states, of which the behaviour meets the first two. The first feature is at its least
    # there and rules the third out, the second at its largest and rules the last out; the third
    # feature tells nothing, and the fourth is constant.
    features = np.array([[0, 2, 0, 1], [0, 2, 1, 1], [3, 2, 0, 1], [0, -1, 1, 1]], dtype=float)
    mdp = TabularMDP(np.full((4, 2, 4), 0.25), np.zeros(4), horizon=2)
    visits = np.array([1.0, 1.0, 0.0, 0.0])[None, None, :, None]
    inside, direction = find_met_entries(linear_class(mdp, features), visits)
    np.testing.assert_array_equal(inside[0, 0], [True, True, False, False])
    np.testing.assert_array_equal(direction, [-1.0, 1.0, 0.0, 0.0])
    # Without features: exactly what is visited.
    inside, direction = find_met_entries(linear_class(mdp), visits)
    np.testing.assert_array_equal(inside[0, 0], [True, True, False, False])
    np.testing.assert_array_equal(direction, [0.0, 0.0, -1.0, -1.0])


# --- Fits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_awkward_classes_of_features(seed: int) -> None:
    # The engine for large classes, whatever the size, against the literal convex program.
    instance = with_features(seed)
    fit = matched(instance)
    assert fit.gap >= -1e-12
    # A far-out optimum of a tiny world is left to the dense path, which follows for small classes.
    if seed == 32:
        assert fit.value <= instance.dual() + 1e-6 <= fit.upper_bound + 2e-6
        return
    assert fit.gap <= 1e-6
    assert_the_program_agrees(instance, fit)


@given(seed=st.integers(0, 2**16), length=st.floats(0.0, 5.0))
@few
def test_what_any_policy_proves_of_features_is_weak_duality(seed: int, length: float) -> None:
    world, rng = (
        generic_world(seed, n_states=3, n_actions=2, horizon=3),
        np.random.default_rng(seed),
    )
    mdp, features = world.mdp(horizon=3), rng.normal(size=(3, 2))
    utilities, behaviour = linear_class(mdp, features), behaviour_of(mdp, [world.policy])
    model = count_features(SoftModel(mdp, utilities, np.zeros(2), None))
    policy = rng.dirichlet(np.ones(2), size=(3, 3))
    target = expected_visits(model.utilities, behaviour)
    proven = policy_certificate(model, policy.transpose(0, 2, 1), target)
    assert not proven.by_range
    matrix: Any = utilities.matrix
    phi = oracle.given_features(matrix, 2, 3)
    for _ in range(5):
        theta = rng.normal(size=2) * length
        literal = oracle.weak_duality(world.P, world.policy, policy, world.mu, 3, phi, theta)
        assert literal <= proven.bound(float(np.abs(theta).sum())) + 1e-9


@pytest.mark.slow
def test_two_engines_agree_on_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp, features = grid(12, slip=0.05), tilings(12, 1, (0,))[:, :-2]
    features = np.concatenate([features, tilings(12, 3)], axis=1)
    assert features.shape[1] > 170
    policy = epsilon_greedy(optimal_policy(mdp), 0.4)
    first = unknown_utility(mdp, policy, features=features)
    monkeypatch.setattr(linear, "_LARGE_WEIGHTS", 10**9)
    monkeypatch.setattr(linear, "_LARGE_WORK", 1e30)
    second = unknown_utility(mdp, policy, features=features)
    assert first.certified and first.value == pytest.approx(second.value, abs=1e-8)
    assert first.bound_measure == "weights"
