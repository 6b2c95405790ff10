"""Features as counts: the same class, what behaviour never meets, and the fit of large ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meg.instances import Awkward, awkward, few, generic_world
from meg.test_visit_matching import assert_the_program_agrees, grid, matched
from oracles import unknown_utility as oracle

from goalmeter._types import FloatArray
from goalmeter.meg import linear, simplest_utility, unknown_utility
from goalmeter.meg.behaviour import behaviour_of, linear_class
from goalmeter.meg.certificate import policy_certificate
from goalmeter.meg.preconditioners import (
    behaviour_entries,
    counted,
    expected_visits,
    features_moved,
    met,
    model_entries,
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


@given(seed=st.integers(0, 2**16))
@few
def test_counting_changes_no_policy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = generic_world(seed, n_states=12).mdp()
    # One feature in twelve states, so that products are compressed.
    for features in (rng.normal(size=(12, 3)), np.eye(12)[:, :2] - 3.0):
        model = SoftModel(
            mdp, linear_class(mdp, features), rng.normal(size=features.shape[1]), None
        )
        again = counted(model)
        assert (again.utilities.matrix >= 0).all() if features.shape[1] == 3 else True
        np.testing.assert_allclose(again.policy(0), model.policy(0), rtol=1e-12)
        direction = rng.normal(size=features.shape[1])
        np.testing.assert_allclose(
            again.curve(direction, again.states), model.curve(direction, model.states), atol=1e-12
        )
        assert counted(again).utilities.n_weights == model.utilities.n_weights


# --- What behaviour never meets -------------------------------------------------------------------


def test_what_single_features_rule_out_by_hand() -> None:
    # Four states, of which the behaviour meets the first two. The first feature is at its least
    # there and rules the third out, the second at its largest and rules the last out; the third
    # feature tells nothing, and the fourth is constant.
    features = np.array([[0, 2, 0, 1], [0, 2, 1, 1], [3, 2, 0, 1], [0, -1, 1, 1]], dtype=float)
    mdp = TabularMDP(np.full((4, 2, 4), 0.25), np.zeros(4), horizon=2)
    visits = np.array([1.0, 1.0, 0.0, 0.0])[None, None, :, None]
    inside, direction = met(linear_class(mdp, features), visits)
    np.testing.assert_array_equal(inside[0, 0], [True, True, False, False])
    np.testing.assert_array_equal(direction, [-1.0, 1.0, 0.0, 0.0])
    # Without features: exactly what is visited.
    inside, direction = met(linear_class(mdp), visits)
    np.testing.assert_array_equal(inside[0, 0], [True, True, False, False])
    np.testing.assert_array_equal(direction, [0.0, 0.0, -1.0, -1.0])


@given(seed=st.integers(0, 2**16))
@few
def test_the_direction_is_largest_exactly_where_nothing_is_ruled_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = generic_world(seed, n_states=6).mdp()
    utilities = linear_class(mdp, rng.integers(0, 3, size=(6, 3)).astype(float))
    visits = (rng.random(6) < 0.5)[None, None, :, None].astype(float)
    visits[..., 0, 0] = 1.0
    inside, direction = met(utilities, visits)
    paid = utilities.matrix @ direction  # type: ignore[operator]
    np.testing.assert_array_equal(paid >= paid.max() - 1e-12, inside[0, 0])
    assert inside[visits[..., 0] > 0].all()


# --- Changes of logarithms ------------------------------------------------------------------------


def test_changes_of_logarithms_ask_for_what_policies_can_change() -> None:
    mdp, features = grid(8), tilings(8, 2)
    rng = np.random.default_rng(0)
    theta = rng.normal(size=features.shape[1])
    model = counted(SoftModel(mdp, linear_class(mdp, features), theta, None))
    change = rng.normal(size=features.shape[1])
    moved = features_moved(model, change)
    # Each tiling covers every square once, so a constant on either is a constant utility.
    first = int(tilings(8, 2, (0,)).shape[1])
    assert moved[:first].sum() == pytest.approx(0.0, abs=1e-12)
    assert moved[first:].sum() == pytest.approx(0.0, abs=1e-12)


def test_one_tiling_moves_by_what_was_asked() -> None:
    # Features that no two share: the visits of a tile change by the factor of the tile, but for
    # what holds their sum.
    mdp, features = grid(6), tilings(6, 2, (0,))
    rng = np.random.default_rng(1)
    model = counted(SoftModel(mdp, linear_class(mdp, features), rng.normal(size=9), None))
    visits = model.utilities.collect(model_entries(model))[:, 0]
    change = rng.normal(size=9)
    expected = visits * (change - (visits @ change) / visits.sum())
    np.testing.assert_allclose(features_moved(model, change), expected, rtol=1e-9, atol=1e-12)


# --- Fits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
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
    model = counted(SoftModel(mdp, utilities, np.zeros(2), None))
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


@pytest.mark.parametrize("noise", [0.2, 0.0])
def test_tiles_close_within_all_utilities(noise: float) -> None:
    mdp, features = grid(14), tilings(14, 2)
    policy = epsilon_greedy(optimal_policy(mdp), noise)
    tiled = unknown_utility(mdp, policy, features=features)
    everything = unknown_utility(mdp, policy)
    assert tiled.certified and features.shape[1] > 100
    assert tiled.value <= everything.upper_bound + 1e-9
    assert tiled.utility is not None
    # The utility is made of tiles: it is what features and some weights give.
    weights, *_ = np.linalg.lstsq(features, tiled.utility, rcond=None)
    np.testing.assert_allclose(features @ weights, tiled.utility, atol=1e-8)


def test_a_feature_for_each_state_of_a_large_world() -> None:
    mdp = grid(11)
    policy = epsilon_greedy(optimal_policy(mdp), 0.2)
    order = np.random.default_rng(0).permutation(121)
    first = unknown_utility(mdp, policy, features=np.eye(121)[order])
    second = unknown_utility(mdp, policy)
    assert first.certified and first.value == pytest.approx(second.value, abs=1e-9)
    assert first.target == "some utility linear in 121 state features"


def test_other_features_close() -> None:
    rng = np.random.default_rng(0)
    mdp = grid(8, slip=0.05).replace(horizon=None, discount=0.95)
    policy = epsilon_greedy(optimal_policy(mdp), 0.3)
    assert unknown_utility(mdp, policy, features=tilings(8, 1, (0, 0))[:, :110]).certified
    mdp = grid(8, slip=0.05).replace(discount=0.9)
    policy = epsilon_greedy(optimal_policy(mdp), 0.3)
    assert unknown_utility(mdp, policy, features=rng.normal(size=(64, 4, 110))).certified


def test_the_simplest_utility_made_of_tiles() -> None:
    mdp, features = grid(14), tilings(14, 2)
    policy = epsilon_greedy(optimal_policy(mdp), 0.2)
    simplest = simplest_utility(mdp, policy, features=features, share=0.9)
    assert 0.9 <= simplest.share <= 1.0


def test_a_class_is_restated_without_its_weights_changing() -> None:
    mdp = generic_world(0).mdp()
    utilities = linear_class(mdp, np.arange(4.0)[:, None])
    model = SoftModel(mdp, utilities, np.ones(1), None)
    behaviour = behaviour_of(mdp, [generic_world(0).policy])
    other = model.restated(replace(utilities, matrix=2.0 * np.asarray(utilities.matrix)))
    assert other.theta is model.theta
    doubled = model.at(np.full(1, 2.0))
    assert other.evidence(behaviour) == pytest.approx(doubled.evidence(behaviour), rel=1e-12)
    visits = behaviour_entries(utilities, behaviour)
    assert visits.sum() == pytest.approx(4.0)
