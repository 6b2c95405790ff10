"""The preconditioner for features: exact where nothing is averaged, and symmetric."""

from __future__ import annotations

import numpy as np
import pytest
from meg.instances import generic_world
from meg.test_counted import tilings
from meg.test_visit_matching import error_after, grid

from goalmeter._types import FloatArray
from goalmeter.meg import preconditioners
from goalmeter.meg.behaviour import linear_class
from goalmeter.meg.preconditioners import FeatureSpace, counted, model_entries, model_visits
from goalmeter.meg.soft_model import SoftModel
from goalmeter.tabular import TabularMDP


def assert_it_solves(model: SoftModel, right: FloatArray) -> None:
    """The preconditioner solves a system exactly, to rounding."""
    damping = np.full(len(right), 0.01)
    solve = FeatureSpace(model, model_entries(model)).preconditioner(
        model, model_visits(model), damping
    )
    matrix = model.information(model.states) + np.diag(damping)
    np.testing.assert_allclose(matrix @ solve(right), right, atol=1e-9)


@pytest.mark.parametrize("on_actions", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_exact_in_the_infinite_problem(seed: int, on_actions: bool) -> None:
    rng = np.random.default_rng(seed)
    mdp = generic_world(seed, discount=0.8).mdp(horizon=None)
    features = rng.normal(size=(4, 3, 3) if on_actions else (4, 3))
    model = counted(SoftModel(mdp, linear_class(mdp, features), rng.normal(size=3), None))
    assert_it_solves(model, rng.normal(size=3))


@pytest.mark.parametrize("on_actions", [False, True])
def test_it_is_exact_where_a_state_belongs_to_one_decision(on_actions: bool) -> None:
    # One state, then two, then three: nothing is averaged. Discounted, as a finite horizon can be.
    rng = np.random.default_rng(0)
    moves = np.zeros((6, 3, 6))
    moves[0, :, 1:3] = rng.dirichlet(np.ones(2), size=3)
    moves[1:3, :, 3:] = rng.dirichlet(np.ones(3), size=(2, 3))
    moves[3:, :, 3:] = np.eye(3)[:, None]
    mdp = TabularMDP(moves, np.zeros(6), horizon=3, discount=0.7)
    features = rng.normal(size=(6, 3, 3) if on_actions else (6, 3))
    model = counted(SoftModel(mdp, linear_class(mdp, features), rng.normal(size=3), None))
    assert_it_solves(model, rng.normal(size=3))


def test_it_is_symmetric_and_nearly_solves() -> None:
    mdp, features = grid(8, slip=0.05), tilings(8, 2)
    d = features.shape[1]
    rng = np.random.default_rng(0)
    start = SoftModel(mdp, linear_class(mdp, features), rng.normal(size=d) * 0.3, None)
    model = counted(start)
    damping = 1e-3 * model_visits(model)
    solve = FeatureSpace(model, model_entries(model)).preconditioner(
        model, model_visits(model), damping
    )
    x, y = rng.normal(size=(2, d))
    assert solve(x) @ y == pytest.approx(x @ solve(y), rel=1e-6)
    matrix = model.information(model.states) + np.diag(damping)
    assert error_after(8, matrix, x, solve) < 0.2 * error_after(8, matrix, x, None)


def test_what_it_does_beyond_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = grid(4)
    rng = np.random.default_rng(0)
    model = counted(SoftModel(mdp, linear_class(mdp, rng.normal(size=(16, 3))), np.ones(3), None))
    visits, damping, right = model_visits(model), np.full(3, 0.01), rng.normal(size=3)
    monkeypatch.setattr(preconditioners, "_MOST_WEIGHTS", 2)
    space = FeatureSpace(model, model_entries(model))
    alone = space.preconditioner(model, visits, damping)
    np.testing.assert_allclose(alone(right), right / (visits + damping))
    # The information itself, once that is asked for.
    assert space.give_up() and not space.give_up()
    solve = space.preconditioner(model, visits, damping)
    matrix = model.information(model.states) + np.diag(damping)
    np.testing.assert_allclose(matrix @ solve(right), right, atol=1e-9)
    monkeypatch.setattr(preconditioners, "_DENSE_WEIGHTS", 2)
    assert not FeatureSpace(model, model_entries(model)).give_up()


def test_the_scale_of_a_weight_is_the_spread_of_its_feature() -> None:
    # Two states, each visited half of the time by the model; the behaviour is in the first alone.
    moves = np.full((2, 2, 2), 0.5)
    mdp = TabularMDP(moves, np.zeros(2), horizon=1, initial=np.array([0.5, 0.5]))
    features = np.array([[1.0, 0.0], [-1.0, 100.0]])
    model = SoftModel(mdp, linear_class(mdp, features), np.zeros(2), None)
    assert model.utilities.matrix is not None
    width = np.ptp(model.utilities.matrix, axis=0)
    space = FeatureSpace(model, np.array([1.0, 0.0])[None, None, :, None])
    visits, wanted = model_visits(model), np.ones(2)
    # Half a visit where the feature differs from what the behaviour expects.
    np.testing.assert_allclose(space.scale(model, visits, wanted), 0.5 * width**2)
    both = FeatureSpace(model, np.array([0.5, 0.5])[None, None, :, None])
    np.testing.assert_allclose(both.scale(model, visits, wanted), 0.5 * width**2)
    np.testing.assert_allclose(both.scale(model, visits, 0.0 * wanted), 0.25 * width**2)
