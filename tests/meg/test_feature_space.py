"""The preconditioner for features: exact where nothing is averaged, and symmetric."""

from __future__ import annotations

import numpy as np
import pytest
from meg.instances import generic_world

from goalmeter._types import FloatArray
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
