"""Which inequalities can be strict at once: by hand, and against a linear program of SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from goalmeter._types import FloatArray
from goalmeter.meg.faces import Rows, strictest


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


def nothing() -> None:
    """No time limit."""


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
