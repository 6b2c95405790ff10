"""Faces: optima at infinity are found, proven, and not claimed where there are none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meg.instances import Awkward, awkward, few, generic_world

from goalmeter.meg.behaviour import behaviour_of, linear_class
from goalmeter.meg.certificate import LinearFit
from goalmeter.meg.linear import fit_linear


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
