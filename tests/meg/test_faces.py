"""Faces at infinity: found, proven, and not claimed where there are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from meg.against_the_program import instance
from meg.instances import Awkward, awkward, few, generic_world
from oracles import unknown_utility as oracle
from scipy.optimize import linprog

from goalmeter._types import FloatArray
from goalmeter.meg import unknown_utility
from goalmeter.meg.behaviour import behaviour_of, linear_class
from goalmeter.meg.certificate import LinearFit
from goalmeter.meg.faces import Rows, recession_faces, strictest
from goalmeter.meg.linear import fit_linear
from goalmeter.meg.soft_model import SoftModel
from goalmeter.tabular import TabularMDP, optimal_policy


def fit(instance: Awkward) -> LinearFit:
    over: Any = "state" if instance.features is not None else instance.over
    mdp = instance.mdp()
    return fit_linear(
        behaviour_of(mdp, [instance.policy]),
        linear_class(mdp, instance.features, over),
        None,
        tolerance=1e-7,
        ceiling=100.0,
    )


@given(seed=st.integers(0, 2**16))
@few
def test_interior_optima_have_no_directions(seed: int) -> None:
    world = generic_world(seed)
    result = fit(Awkward(world.P, world.policy, world.mu, 4, 1.0, "state", None))
    assert result.directions == []
    assert result.upper_bound - result.value <= 1e-7


def test_a_face_of_a_face() -> None:
    # Of all seeds, this one has an optimum that is reached along one direction and then another.
    instance = awkward(52)
    result = fit(instance)
    assert len(result.directions) == 2
    assert result.value == pytest.approx(instance.primal(), abs=1e-7)
    assert result.upper_bound - result.value <= 1e-7


def nothing() -> None:
    """No time limit."""


def start_of(mdp: TabularMDP, over: Any = "state") -> SoftModel:
    utilities = linear_class(mdp, over=over)
    return SoftModel(mdp, utilities, np.zeros(utilities.n_weights), None)


def random_world(n: int, horizon: int) -> TabularMDP:
    """Four successors anywhere for each of four actions; start first, reward last."""
    rng = np.random.default_rng(0)
    next_state = rng.integers(n, size=(n, 4, 4))
    probability = rng.dirichlet(np.ones(4), size=(n, 4))
    reward, start = np.eye(n)[-1], np.eye(n)[0]
    return TabularMDP((next_state, probability), reward, horizon=horizon, initial=start)


def test_a_mouse_and_its_cheese() -> None:
    # One decision that is paid: to go to state 1 or 2. Whoever surely goes to 1 wants 1.
    stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
    mdp = TabularMDP([[[0, 1, 0], [0, 0, 1]], *stay], np.zeros(3), horizon=2)
    (face,) = recession_faces(start_of(mdp), behaviour_of(mdp, [[[1, 0]] * 3]), nothing)
    assert face.direction[1] - face.direction[2] > 0.5
    np.testing.assert_allclose(face.model.policy(0)[:, 0], [1.0, 0.0])


@pytest.mark.parametrize("seed", range(20))
def test_the_last_face_is_the_support_of_the_program(seed: int) -> None:
    made = instance(seed)
    mdp, phi = made.mdp(), made.phi
    behaviour = behaviour_of(mdp, [made.policy])
    model = start_of(mdp, made.over)
    for face in recession_faces(model, behaviour, nothing):
        for t in range(mdp.steps):
            # What the behaviour does is optimal for every direction, in the face before it.
            used = behaviour.weights(t, slice(None))[..., 0] > 0
            assert model.regrets(face.direction)[t][used].max(initial=0.0) <= 1e-12
        model = face.model
    arguments = (made.P, made.mu, made.horizon, made.discount)
    flow, flow_right = oracle.flow_constraints(*arguments)
    d = oracle.behaviour(made.P, made.policy, made.mu, made.horizon, made.discount)
    match = oracle.weighted(phi, made.horizon, made.discount).reshape(d.size, -1).T
    right = np.concatenate([flow_right, match @ d.ravel()])
    try:
        support, _ = oracle.relative_interior(
            np.vstack([flow, match]), right, np.zeros(d.size, dtype=bool)
        )
    except RuntimeError:  # SciPy's linear program failed
        return
    some = np.zeros(d.size)
    some[support] = 1.0
    possible = some.reshape(d.shape).transpose(0, 2, 1) > 0
    left = np.stack([model.policy(t) * model.states[t] for t in range(mdp.steps)]) > 0
    np.testing.assert_array_equal(left, possible)


@pytest.mark.slow
def test_the_optimum_of_a_world_with_chance_closes() -> None:
    mdp = random_world(120, 12)
    result = unknown_utility(mdp, optimal_policy(mdp))
    assert result.certified and result.rationality == np.inf


def rows_of(matrix: FloatArray, dense: int) -> Rows:
    """The matrix as rows whose first columns are dense."""
    return Rows(matrix[:, :dense].copy(), sp.csr_matrix(matrix[:, dense:]))


def most_strict(matrix: FloatArray) -> float:
    """How many inequalities can be strict at once, by SciPy: the optimum of the same program."""
    n, k = matrix.shape
    result = linprog(
        np.concatenate([np.zeros(k), -np.ones(n)]),
        A_ub=np.hstack([-matrix, np.eye(n)]),
        b_ub=np.zeros(n),
        bounds=[(None, None)] * k + [(0, 1)] * n,
    )
    return -float(result.fun)


def test_a_case_by_hand() -> None:
    # x1 must be 0, for it and its opposite are asked for; x2 and x2 - x1 can both be positive.
    matrix = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [-1.0, 1.0]])
    for dense in (0, 1, 2):
        x = strictest(rows_of(matrix, dense), nothing)
        assert x[0] == pytest.approx(0.0, abs=1e-6)
        assert x[1] >= 1.0 - 1e-6


@pytest.mark.parametrize("seed", range(8))
def test_as_many_as_a_linear_program(seed: int) -> None:
    # Half of the rows come with their opposites, in a few directions: these must be ties.
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(2, 8)), int(rng.integers(3, 30))
    matrix = rng.normal(size=(n, k))
    matrix[rng.random(matrix.shape) < 0.3] = 0.0
    if seed % 2:
        tied = rng.normal(size=(2, k))
        matrix = np.vstack([matrix, tied, -tied.sum(axis=0)])
    if seed % 3:
        # Something is feasible, and strict in most rows.
        inside = rng.normal(size=k)
        matrix *= np.where(matrix @ inside < 0, -1.0, 1.0)[:, None]
    rows = rows_of(matrix, int(rng.integers(0, k + 1)))
    strict = rows.times(strictest(rows, nothing))
    assert strict.min() > -1e-5
    assert np.minimum(strict, 1.0).sum() == pytest.approx(most_strict(matrix), abs=1e-3)
