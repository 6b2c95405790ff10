"""Results near a discount of 1, compared with 50 digits, and values that exceed their bounds."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from goalmeter import TabularMDP
from goalmeter._types import FloatArray
from goalmeter.meg import unknown_utility
from goalmeter.meg.behaviour import behaviour_of, bracketed, linear_class, reconciled
from goalmeter.meg.certificate import Bounds, Certificate, LinearFit, UtilitySearch
from goalmeter.meg.soft_model import SoftModel

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
near_one: Any = import_module("unknown_near_one")


def drawn(rng: np.random.Generator, discount: float) -> tuple[TabularMDP, FloatArray]:
    s, a = int(rng.integers(3, 8)), int(rng.integers(2, 5))
    transition = rng.dirichlet(np.ones(s) * rng.choice([0.3, 1.0]), size=(s, a))
    policy = rng.dirichlet(np.ones(a) * rng.choice([0.1, 0.3, 1, 5]), size=s)
    return TabularMDP(transition, np.zeros(s), discount=discount, initial=0), policy


def test_a_world_that_was_certified_a_third_too_high() -> None:
    mdp, policy = drawn(np.random.default_rng([1, 17, 5]), 0.9999)
    result = unknown_utility(mdp, policy)
    # 4794.4981376328752 in 50 digits; it was "6459.564, proven gap 0".
    assert result.value == pytest.approx(4794.4981376329, abs=1e-6)
    assert result.upper_bound >= 4794.4981376328


# Of each kind a world at 0.9, 0.9999 and 1 - 1e-6, side by side where the kind allows it; those
# that take a second are left to the benchmark.
@pytest.mark.slow
@pytest.mark.parametrize("kind", near_one.KINDS)
def test_no_result_contradicts_fifty_digits(kind: str) -> None:
    discounts = (0.9, 0.99) if "features" in kind or kind == "states" else (0.9, 0.9999, 1 - 1e-6)
    numbers = [
        i
        for i in range(2 * len(near_one.KINDS) * len(near_one.DISCOUNTS))
        if (world := near_one.drawn(i)).kind == kind and world.discount in discounts
    ]
    rows = near_one.judged(numbers)
    assert len(rows) == 2 * len(discounts)
    assert not any(row["contradicts"] for row in rows)
    assert all(row["certified"] for row in rows if row["discount"] == 0.9)


@pytest.mark.slow
def test_an_offset_does_not_hide_a_difference_between_actions() -> None:
    # 691994341.57 in 50 digits; with ties relative to an offset the value was 693146261.77.
    world = near_one.drawn(647)
    assert near_one.measured(world).value <= 691994341.57 < near_one.measured(world).upper_bound


def test_a_value_above_its_bound_leaves_the_maximum() -> None:
    assert bracketed(1.0, 1.5, 3.0, 2.0)["upper_bound"] == 1.5
    assert bracketed(1.5, 1.0, 3.0, 2.0)["upper_bound"] == 3.0


def test_a_bound_below_a_value_is_raised_for_rounding_only() -> None:
    assert reconciled(1.0, 1.0 + 1e-9, 3.0) == 1.0 + 1e-9
    assert reconciled(1.0, 1.1, 3.0) == 3.0


def test_a_search_does_not_close_where_the_value_is_above_the_bound() -> None:
    fit = LinearFit(2.0, 1.0, 0.0, False, model=None)  # type: ignore[arg-type]
    assert not fit.closes(1e-6)
    assert not replace(fit, error=10.0).closes(1e-6)
    assert replace(fit, upper_bound=2.0).closes(1e-6)


def test_a_model_refutes_a_bound_that_it_exceeds() -> None:
    mdp, policy = drawn(np.random.default_rng(3), 0.99)
    behaviour = behaviour_of(mdp, [policy])
    model = SoftModel(mdp, linear_class(mdp), np.linspace(0.0, 1.0, mdp.n_states), None)
    bounds = Bounds(500.0)
    value = model.evidence(behaviour)
    bounds.add(Certificate(value - 1.0, 0.0))
    bounds.add(Certificate(value + 1.0, 0.0))
    fit = UtilitySearch(behaviour, 1e-6, bounds).checked(
        LinearFit(value, *bounds.at(model), model=model)
    )
    assert fit.upper_bound == value + 1.0
    assert fit.error < 1e-9


@pytest.mark.parametrize("discount", [0.9, 0.9999])
def test_a_constant_takes_no_digits(discount: float) -> None:
    mdp, policy = drawn(np.random.default_rng(5), discount)
    behaviour = behaviour_of(mdp, [policy])
    # Powers of two, so that the weights themselves are exact.
    theta = np.arange(mdp.n_states) / 8.0
    plain, offset = (SoftModel(mdp, linear_class(mdp), theta + c, None) for c in (0.0, 2.0**40))
    assert offset.evidence(behaviour) == pytest.approx(plain.evidence(behaviour), rel=1e-9)
    assert linear_class(mdp).centred(theta + 2.0**40) == pytest.approx(theta - theta.mean())


def test_rounding_is_that_of_the_values_that_are_added_up() -> None:
    mdp, policy = drawn(np.random.default_rng(7), 0.999)
    behaviour = behaviour_of(mdp, [policy])
    theta = np.random.default_rng(8).normal(size=mdp.n_states)
    errors = []
    for size in (1.0, 1e4, 1e8):
        model = SoftModel(mdp, linear_class(mdp), size * theta, None)
        errors.append(float(model.rounding(behaviour)[0]))
        again = float(model.verified(behaviour)[0])
        assert abs(again - model.evidence(behaviour)) <= errors[-1]
    assert errors[0] < 1e-8
    assert errors[2] > 1e3 * errors[1] > 1e5 * errors[0] or errors[2] > 1e-4
