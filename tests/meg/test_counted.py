"""Features as counts: the same class, what behaviour never meets, and the fit of large ones."""

from __future__ import annotations

import numpy as np
import pytest
from meg.instances import Awkward, awkward
from meg.test_visit_matching import assert_the_program_agrees, grid, matched

from goalmeter._types import FloatArray
from goalmeter.meg import linear, unknown_utility
from goalmeter.meg.behaviour import linear_class
from goalmeter.meg.preconditioners import (
    met,
)
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


@pytest.mark.parametrize("seed", range(20))
def test_awkward_classes_of_features(seed: int) -> None:
    # The engine for large classes, whatever the size, against the literal convex program.
    instance = with_features(seed)
    fit = matched(instance)
    assert fit.gap >= -1e-12
    assert fit.gap <= 1e-6
    assert_the_program_agrees(instance, fit)


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


def test_tiles_close_within_all_utilities() -> None:
    mdp, features = grid(14), tilings(14, 2)
    policy = epsilon_greedy(optimal_policy(mdp), 0.2)
    tiled = unknown_utility(mdp, policy, features=features)
    everything = unknown_utility(mdp, policy)
    assert tiled.certified and features.shape[1] > 100
    assert tiled.value <= everything.upper_bound + 1e-9
    assert tiled.utility is not None
    # The utility is made of tiles: it is what features and some weights give.
    weights, *_ = np.linalg.lstsq(features, tiled.utility, rcond=None)
    np.testing.assert_allclose(features @ weights, tiled.utility, atol=1e-8)
