"""Instances on the boundary of what can be done: values, bounds, directions, both solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meg.instances import awkward, seeds

from goalmeter.meg.behaviour import behaviour_of, linear_class
from goalmeter.meg.linear import measure_class
from goalmeter.meg.soft_model import SoftModel


# Of these 80 awkward instances 26 have their optimum at infinity. The primal oracle computes the
# support of the optimum with a linear program, which misses masses below about 1e-7 and then
# says too much: where it disagrees, the dual decides.
@pytest.mark.parametrize("seed", seeds(20, 80))
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
