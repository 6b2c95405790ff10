"""Newton systems: solutions where there is information, and what is ignored."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meg.instances import few, generic_world

from goalmeter.meg import soft_model
from goalmeter.meg.behaviour import linear_class
from goalmeter.meg.soft_model import NewtonSystem, SoftModel, conjugate_gradients


def test_conjugate_gradients_by_hand() -> None:
    # diag(1, 2, 0): the last entry of the right side is 0, so there is a solution.
    matrix = np.diag([1.0, 2.0, 0.0])
    solution = conjugate_gradients(lambda v: matrix @ v, np.array([3.0, 4.0, 0.0]), 1e-14)
    np.testing.assert_allclose(solution, [3.0, 2.0, 0.0], atol=1e-12)
    nothing = conjugate_gradients(lambda v: matrix @ v, np.zeros(3), 1e-14)
    np.testing.assert_array_equal(nothing, np.zeros(3))


@given(seed=st.integers(0, 999), rank=st.integers(1, 8))
@few
def test_conjugate_gradients_find_the_shortest_solution(seed: int, rank: int) -> None:
    root = np.random.default_rng(seed).normal(size=(8, rank))
    matrix = root @ root.T
    right = matrix @ np.random.default_rng(seed + 1).normal(size=8)
    solution = conjugate_gradients(lambda v: matrix @ v, right, 1e-13)
    np.testing.assert_allclose(solution, np.linalg.pinv(matrix) @ right, rtol=1e-5, atol=1e-6)


@given(seed=st.integers(0, 999), direct=st.booleans())
@few
def test_solutions_and_ignored_directions(seed: int, direct: bool) -> None:
    # Utilities of the state: adding a constant changes no policy, and is the only such direction.
    world = generic_world(seed)
    mdp = world.mdp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(soft_model, "DIRECT_WEIGHTS", 160 if direct else 0)
        theta = np.random.default_rng(seed).normal(size=4)
        model = SoftModel(mdp, linear_class(mdp), theta, None)
        system = NewtonSystem([(model, model.states)])
        information = model.information(model.states)
        right = information @ theta
        np.testing.assert_allclose(information @ system.solve(right), right, atol=1e-9)
        kept = system.ignored(theta)
        assert np.ptp(kept) == pytest.approx(0.0, abs=1e-6)
        np.testing.assert_allclose(system.ignored(np.ones(4)), 1.0, atol=1e-6)
