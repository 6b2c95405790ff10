"""Faces: optima at infinity are found, proven, and not claimed where there are none."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meg.instances import Awkward, awkward, few, generic_world

from goalmeter._types import FloatArray
from goalmeter.meg.behaviour import PolicyBehaviour, behaviour_of, linear_class
from goalmeter.meg.certificate import LinearFit
from goalmeter.meg.faces import find_face
from goalmeter.meg.linear import fit_linear
from goalmeter.meg.soft_model import NewtonSystem, SoftModel
from goalmeter.tabular import TabularMDP

# One decision between three outcomes, each of which pays a weight of its own.
THREE = TabularMDP(np.ones((1, 3, 1)), [0.0], horizon=1)


class Step(NamedTuple):
    model: SoftModel
    step: FloatArray
    psi: dict[int, FloatArray]
    behaviour: PolicyBehaviour


def newton_step(mdp: TabularMDP, policy: FloatArray, theta: FloatArray) -> Step:
    behaviour = behaviour_of(mdp, [policy])
    model = SoftModel(mdp, linear_class(mdp, over="state-action"), theta, None)
    step = NewtonSystem([(model, model.states)]).solve(model.gradient(behaviour))
    return Step(model, step, dict(model.tangents(step[:, None])), behaviour)


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


def test_by_hand() -> None:
    # The third action is never taken and already has probability e^-5 / (2 + e^-5): a Newton step
    # lowers its log by about 1, and what is left is a choice between the first two.
    result = newton_step(THREE, np.array([[0.75, 0.25, 0.0]]), np.array([0.0, 0.0, -5.0]))
    assert result.psi[0][2, 0, 0] == pytest.approx(-1.0, abs=0.02)
    face = find_face(*result)
    assert face is not None
    np.testing.assert_array_equal(face.model.step(0)[0][2], 0.0)
    np.testing.assert_allclose(face.model.step(0)[0][:2, 0], 0.5)
    regrets = result.model.regrets(face.direction)[0, :, 0]
    np.testing.assert_allclose(regrets[:2], 0.0, atol=1e-8)
    assert regrets[2] > 1e-5
    assert np.abs(face.direction).max() == 1.0


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
