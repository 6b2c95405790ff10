"""Faces at infinity: found, proven, and not claimed where there are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from meg.against_the_program import instance
from meg.instances import Awkward, awkward
from oracles import unknown_utility as oracle
from scipy.optimize import linprog

from goalmeter._types import FloatArray
from goalmeter.meg.behaviour import behaviour_of, linear_class
from goalmeter.meg.certificate import LinearFit
from goalmeter.meg.faces import Rows, recession_faces, strictest
from goalmeter.meg.linear import fit_linear
from goalmeter.meg.soft_model import SoftModel
from goalmeter.tabular import TabularMDP


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
