"""Propositions 3.1 to 3.3 and Theorem 4.1 of the MEG paper, in random diagrams of every recall."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from causal.models import network_of, random_team
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from meg.causal.instances import built, few, known, seeds, several, solvable
from oracles import random_diagrams as diagrams
from oracles.causal_model import (
    Factor,
    Model,
    descendants,
    has_sufficient_recall,
    uniform_policy,
    with_policy,
)

from goalmeter import meg

# A search takes about a second, so these are few.
forgetful = st.builds(
    built,
    family=st.sampled_from(diagrams.INSUFFICIENT),
    seed=st.integers(0, 2**16),
    policy=st.sampled_from(["random", "mixed"]),
)
searched = settings(max_examples=1, deadline=None, derandomize=True)


def transformed(model: Model, a: float, b: float) -> Model:
    """The utility a U + b."""
    factors: list[Factor] = [(scope, a * values) for scope, values in model.factors]
    scope, values = factors[0]
    return model._replace(factors=((scope, values + b), *factors[1:]))


def decision_nats(model: Model) -> float:
    """sum_D log |dom D|."""
    return float(sum(np.log(model.sizes[d]) for d in model.decisions))


scales = st.sampled_from([2.0, -1.0, -7.5, 1e-6, 1e6, -1e-3])
shifts = st.sampled_from([0.0, 1.0, -3.0])


@given(model=solvable, a=scales, b=shifts)
@several
def test_a_times_u_plus_b_has_the_same_meg(model: Model, a: float, b: float) -> None:
    plain, moved = known(model), known(transformed(model, a, a * b))
    assert moved.value == pytest.approx(plain.value, abs=1e-9)
    if plain.value > 1e-6:
        assert a * moved.rationality == pytest.approx(plain.rationality, rel=1e-5)


@given(model=forgetful)
@searched
def test_meg_is_between_the_bounds_where_it_is_searched_for(model: Model) -> None:
    result = known(model, restarts=8)
    assert result.recall == "insufficient"
    assert 0.0 <= result.value <= result.upper_bound + 1e-12
    assert result.upper_bound <= decision_nats(model) + 1e-12
    assert any("lower bound" in note for note in result.notes)


@given(model=solvable)
@few
def test_the_uniform_policy_has_none(model: Model) -> None:
    uniform = with_policy(model, uniform_policy(model))
    assert known(uniform).value == pytest.approx(0.0, abs=1e-12)
    targets = model.factors[0][0]
    if has_sufficient_recall(model.parents, model.decisions, [targets]):
        result = meg.targets(network_of(uniform), model.decisions, targets)
        assert result.value == pytest.approx(0.0, abs=1e-9)


@given(seed=seeds, data=st.data())
@several
def test_without_causal_influence_there_is_none(seed: int, data: Any) -> None:
    model = random_team(seed)
    below: set[str] = set(model.decisions)
    below |= {y for d in model.decisions for y in descendants(model.parents, d)}
    apart = [x for x in model.sizes if x not in below]
    assume(apart)
    scope = tuple(data.draw(st.lists(st.sampled_from(apart), min_size=1, unique=True)))
    utility = np.random.default_rng(seed).normal(size=[model.sizes[x] for x in scope])
    network = network_of(model)
    for result in (
        meg.causal_utility(network, model.decisions, (scope, utility)),
        meg.targets(network, model.decisions, scope),
        meg.causal_class(network, model.decisions, features=[(scope, utility)]),
    ):
        assert (result.value, result.upper_bound, result.maximum) == (0.0, 0.0, 0.0)
        assert "Proposition 3.3" in result.notes[0]
