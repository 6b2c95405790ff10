"""Instances on the boundary of what can be done: values, bounds, directions, both solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meg.instances import awkward, generic_world

from goalmeter.meg import soft_model, unknown_utility
from goalmeter.meg.behaviour import behaviour_of, linear_class
from goalmeter.meg.linear import measure_class
from goalmeter.meg.soft_model import SoftModel


# Of these awkward instances a third have their optimum at infinity. The primal oracle computes the
# support of the optimum with a linear program, which misses masses below about 1e-7 and then
# says too much: where it disagrees, the dual decides.
@pytest.mark.parametrize("seed", range(30))
def test_awkward_instances(seed: int) -> None:
    instance = awkward(seed)
    mdp, behaviour = instance.mdp(), behaviour_of(instance.mdp(), [instance.policy])
    over: Any = "state" if instance.features is not None else instance.over
    utilities = linear_class(mdp, instance.features, over)
    result, fit = measure_class(behaviour, utilities, None, 1e-6)
    assert result.certified, result
    try:
        upper = instance.primal()
    except RuntimeError:  # the linear program of the oracle failed
        upper = np.inf
    assert result.value <= upper + 1e-7
    if upper > result.upper_bound + 1e-7:
        lower = instance.dual()
        assert result.value >= lower - 1e-6
        assert result.upper_bound >= lower - 1e-7
    # What the behaviour does is optimal for the direction that its utilities diverge in. The first
    # face is one of the whole world; a second is one of the first.
    for direction in fit.directions[:1]:
        regrets = SoftModel(mdp, utilities, direction, None).regrets(direction)
        for t in range(mdp.steps):
            used = behaviour.weights(t, slice(None))[..., 0] > 0
            assert regrets[t][used].max(initial=0.0) <= 1e-8


@pytest.mark.parametrize("seed", [84, 1774, 3218, 4165, 5526])
def test_a_certificate_needs_a_policy_that_exists(seed: int) -> None:
    # Here a Newton step empties a state that the behaviour never visits, exactly, and would have
    # left some of its actions with negative mass: no policy, and a bound that was too low.
    instance = awkward(seed)
    result = instance.measure()
    assert result.certified
    assert result.upper_bound >= instance.dual() - 1e-9


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["generic", "awkward"])
def test_conjugate_gradients_reach_the_same(
    seed: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = generic_world(seed)
    values = []
    for direct_weights in (soft_model.DIRECT_WEIGHTS, 0):
        monkeypatch.setattr(soft_model, "DIRECT_WEIGHTS", direct_weights)
        if kind == "awkward":
            result = awkward(seed).measure()
        else:
            result = unknown_utility(world.mdp(), world.policy)
        values.append(result.value)
        assert result.certified
    assert values[1] == pytest.approx(values[0], abs=2e-6)
