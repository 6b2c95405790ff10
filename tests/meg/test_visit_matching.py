"""Large classes: the same optimum, and a bound from a policy that exists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meg.instances import Awkward, awkward, few, generic_world
from oracles import unknown_utility as oracle

from goalmeter._types import FloatArray
from goalmeter.meg import linear, unknown_utility
from goalmeter.meg.behaviour import behaviour_of, linear_class, yardstick
from goalmeter.meg.certificate import Bounds, LinearFit, UtilitySearch, policy_certificate
from goalmeter.meg.preconditioners import behaviour_entries
from goalmeter.meg.soft_model import SoftModel
from goalmeter.meg.visit_matching import match_visits
from goalmeter.tabular import TabularMDP, epsilon_greedy, optimal_policy

MATCHED = ("state", "state-action", "time-state")


def grid(n: int, horizon: int | None = None, slip: float = 0.0) -> TabularMDP:
    """n x n squares, moves left, right, up and down that bump; start first, reward last."""
    row, column = np.divmod(np.arange(n * n), n)
    moves = [(0, -1), (0, 1), (-1, 0), (1, 0)]
    target = np.stack(
        [np.clip(row + dr, 0, n - 1) * n + np.clip(column + dc, 0, n - 1) for dr, dc in moves], 1
    )
    sideways = target[:, [[2, 3], [2, 3], [0, 1], [0, 1]]]
    next_state = np.concatenate([target[..., None], sideways], axis=2)
    probability = np.broadcast_to([1 - 2 * slip, slip, slip], next_state.shape)
    start, reward = np.eye(n * n)[0], np.eye(n * n)[-1]
    return TabularMDP((next_state, probability), reward, horizon=horizon or 2 * n, initial=start)


def matched(instance: Awkward) -> LinearFit:
    """The fit of the engine for large classes, whatever the size."""
    mdp = instance.mdp()
    over: Any = instance.over
    utilities = linear_class(mdp, instance.features, over)
    behaviour = behaviour_of(mdp, [instance.policy])
    ceiling = float(yardstick(behaviour, None, utilities.tells_apart())[1][0])
    start = SoftModel(mdp, utilities, np.zeros(utilities.n_weights), None)
    inside, directions = linear._confined(start, behaviour)
    return match_visits(UtilitySearch(behaviour, 1e-7, Bounds(ceiling)), inside, directions)


def assert_the_program_agrees(instance: Awkward, fit: LinearFit) -> None:
    """Value and bound of a fit lie where the literal convex program has the optimum."""
    try:
        upper = instance.primal()
    except RuntimeError:  # the linear program of the oracle failed
        upper = np.inf
    assert fit.value <= upper + 1e-7
    if upper > fit.upper_bound + 1e-7:  # the oracle's program misses masses below 1e-7
        lower = instance.dual()
        assert fit.value >= lower - 1e-6 and fit.upper_bound >= lower - 1e-7


@pytest.mark.parametrize("seed", range(24))
def test_awkward_instances(seed: int) -> None:
    # Zeros, absorbing states, states out of reach and ties, finite and infinite.
    instance = awkward(seed)
    if instance.features is not None:
        instance = instance._replace(features=None, over="state")
    fit = matched(instance)
    assert fit.gap >= -1e-12
    # Far-out optima of tiny worlds are left to the dense path, which follows for small classes.
    assert fit.gap <= 1e-6
    assert_the_program_agrees(instance, fit)


@given(seed=st.integers(0, 2**16), over=st.sampled_from(MATCHED), length=st.floats(0.0, 5.0))
@few
def test_what_any_policy_proves_is_weak_duality(seed: int, over: Any, length: float) -> None:
    # The literal bound of a policy about random utilities, against their literal evidence.
    world = generic_world(seed, n_states=3, n_actions=2, horizon=3)
    rng = np.random.default_rng(seed)
    mdp = world.mdp(horizon=3)
    utilities, behaviour = linear_class(mdp, over=over), behaviour_of(mdp, [world.policy])
    model = SoftModel(mdp, utilities, np.zeros(utilities.n_weights), None)
    policy = rng.dirichlet(np.ones(2), size=(3, 3))
    target = utilities.collect(behaviour_entries(utilities, behaviour))[:, 0]
    proven = policy_certificate(model, policy.transpose(0, 2, 1), target)
    make = {
        "state": oracle.state_features,
        "state-action": oracle.state_action_features,
        "time-state": oracle.timed_state_features,
    }
    phi = make[over](3, 2, 3)
    rho = oracle.reference_blocks(None, 3, 3, 2)
    wanted = np.einsum(
        "tsa,tsad->d", oracle.behaviour(world.P, world.policy, world.mu, 3, 1.0), phi
    )
    for _ in range(5):
        theta = rng.normal(size=phi.shape[-1]) * length
        evidence, _ = oracle.dual_value(theta, world.P, wanted, world.mu, 3, phi, 1.0, rho)
        literal = oracle.weak_duality(world.P, world.policy, policy, world.mu, 3, phi, theta)
        assert evidence <= literal + 1e-9
        assert literal <= proven.bound(float(np.ptp(theta))) + 1e-9


@pytest.mark.parametrize("n", [8])
def test_the_optimum_of_a_grid_has_a_closed_form(n: int) -> None:
    # All decisions but the last, of which each takes one of four; at the one corner that ends the
    # first leg, two of the four actions are the same bump.
    mdp = grid(n)
    result = unknown_utility(mdp, optimal_policy(mdp))
    assert result.value == pytest.approx((2 * n - 1) * np.log(4) - np.log(2), abs=1e-6)
    assert result.certified and result.rationality == np.inf


def test_two_engines_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = grid(7, slip=0.1)
    policy = epsilon_greedy(optimal_policy(mdp), 0.4)
    rng = np.random.default_rng(0)
    reference: FloatArray = rng.dirichlet(np.full(4, 3.0), size=49)
    monkeypatch.setattr(linear, "_LARGE_WEIGHTS", 0)
    first = unknown_utility(mdp, policy, reference=reference)
    monkeypatch.setattr(linear, "_LARGE_WEIGHTS", 10**9)
    second = unknown_utility(mdp, policy, reference=reference)
    assert first.certified and second.certified
    assert first.value == pytest.approx(second.value, abs=1e-8)


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


@pytest.mark.parametrize("seed", range(20))
def test_awkward_classes_of_features(seed: int) -> None:
    # The engine for large classes, whatever the size, against the literal convex program.
    instance = with_features(seed)
    fit = matched(instance)
    assert fit.gap >= -1e-12
    assert fit.gap <= 1e-6
    assert_the_program_agrees(instance, fit)
