"""Propositions 3.1 to 3.3 and Theorem 4.1 of the MEG paper, in random diagrams.

With one decision, with several that have sufficient recall, and with several that have not, whose
maximum entropy policies are searched for.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from causal.models import network_of, random_team
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from meg.causal.instances import built, few, known, seeds, several, solvable
from oracles import causal_cube
from oracles import causal_meg as oracle
from oracles import random_diagrams as diagrams
from oracles.causal_model import (
    Factor,
    Model,
    d_separated,
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
searched = settings(max_examples=3, deadline=None, derandomize=True)
# What two searches may differ by.
SEARCHED = 1e-5


def transformed(model: Model, a: float, b: float) -> Model:
    """The utility a U + b."""
    factors: list[Factor] = [(scope, a * values) for scope, values in model.factors]
    scope, values = factors[0]
    return model._replace(factors=((scope, values + b), *factors[1:]))


def decision_nats(model: Model) -> float:
    """sum_D log |dom D|."""
    return float(sum(np.log(model.sizes[d]) for d in model.decisions))


# --- Proposition 3.1: translation and scale invariance --------------------------------------------

scales = st.sampled_from([2.0, -1.0, -7.5, 1e-6, 1e6, -1e-3])
shifts = st.sampled_from([0.0, 1.0, -3.0])


@given(model=solvable, a=scales, b=shifts)
@several
def test_a_times_u_plus_b_has_the_same_meg(model: Model, a: float, b: float) -> None:
    plain, moved = known(model), known(transformed(model, a, a * b))
    assert moved.value == pytest.approx(plain.value, abs=1e-9)
    if plain.value > 1e-6:
        assert a * moved.rationality == pytest.approx(plain.rationality, rel=1e-5)


@given(model=forgetful, a=scales, b=shifts)
@searched
def test_a_times_u_plus_b_has_the_same_meg_where_it_is_searched_for(
    model: Model, a: float, b: float
) -> None:
    plain, moved = (known(m, restarts=8) for m in (model, transformed(model, a, a * b)))
    assert plain.recall == "insufficient"
    assert moved.value == pytest.approx(plain.value, abs=SEARCHED)


# --- Proposition 3.2: bounds ----------------------------------------------------------------------


@given(model=solvable)
@several
def test_meg_is_between_zero_and_the_nats_of_the_decisions(model: Model) -> None:
    result = known(model)
    assert 0.0 <= result.value <= result.maximum + 1e-12
    assert result.maximum <= decision_nats(model) + 1e-12
    assert 0.0 <= result.fraction <= 1.0


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


def certain(rows: Any) -> bool:
    """Each row of a policy is one action."""
    return bool((np.asarray(rows).max(axis=-1) > 1 - 1e-12).all())


@given(seed=seeds, family=st.sampled_from(diagrams.SUFFICIENT), sign=st.sampled_from([1, -1]))
@settings(several, max_examples=30)
def test_the_unique_optimal_policy_has_all_there_is(seed: int, family: Any, sign: int) -> None:
    model = built(family, seed, "random")
    limit = oracle.soft_optimal_policy(model, sign * np.inf)
    best = {d: np.exp(logs) for d, logs in limit.items()}
    # Unique where every context has one best action; those that never come about do not count,
    # and are left uniform by the oracle.
    assume(all(certain(rows) for rows in best.values()))
    result = known(with_policy(model, best))
    assert result.value == pytest.approx(decision_nats(model), abs=1e-9)
    assert result.rationality == sign * np.inf
    assert result.fraction == pytest.approx(1.0)


@given(seed=seeds, family=st.sampled_from(diagrams.INSUFFICIENT))
@searched
def test_the_unique_optimal_policy_has_all_there_is_where_it_is_searched_for(
    seed: int, family: Any
) -> None:
    model = built(family, seed, "random")
    space = causal_cube.cube(model, list(model.factors[0][0]))
    utility = model.factors[0][1].ravel()
    worth = np.tensordot(utility, space.targets, axes=1)
    corners = np.sort(worth.ravel())
    # One pure policy is best, and by something.
    assume(corners[-1] - corners[-2] > 1e-3)
    best = np.unravel_index(int(worth.argmax()), worth.shape)
    policy = uniform_policy(model)
    for (d, context), choice in zip(space.contexts, best, strict=True):
        policy[d][context] = np.eye(2)[choice]
    result = known(with_policy(model, policy), restarts=8)
    assert result.value == pytest.approx(decision_nats(model), abs=1e-6)


# --- Proposition 3.3: no goal-directedness without causal influence -------------------------------


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


# --- Theorem 4.1: pseudo-terminal goals -----------------------------------------------------------


def with_views(model: Model, seed: int) -> Model:
    """Two more variables that follow from others than the decisions: often mediated, not always."""
    rng = np.random.default_rng(seed)
    sizes, parents, cpds = dict(model.sizes), dict(model.parents), dict(model.cpds)
    for view in ("V", "W"):
        outside = [str(x) for x in rng.permutation([x for x in sizes if x not in model.decisions])]
        parents[view] = tuple(outside[: int(rng.integers(1, 3))])
        sizes[view] = int(rng.integers(2, 4))
        cpds[view] = diagrams.random_cpd(rng, [*(sizes[x] for x in parents[view]), sizes[view]])
    return model._replace(sizes=sizes, parents=parents, cpds=cpds)


def separated_sets(model: Model) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Up to four pairs of influenced T, and S, with D independent of T given S by the graph."""
    below = {y for d in model.decisions for y in descendants(model.parents, d)}
    outside = [x for x in model.sizes if x not in model.decisions]
    sets = [*combinations(outside, 1), *combinations(outside, 2)]
    pairs = [(t, s) for t in sets for s in sets if below & set(t) and not set(t) <= set(s)]
    chosen = []
    for at in np.random.default_rng(0).permutation(len(pairs))[:60]:
        targets, mediators = pairs[at]
        if d_separated(model.parents, model.decisions, targets, mediators):
            chosen.append(pairs[at])
    return chosen[:4]


def recalled(model: Model, scope: tuple[str, ...]) -> bool:
    return has_sufficient_recall(model.parents, model.decisions, [scope])


def assert_pseudo_terminal(model: Model) -> int:
    """MEG_T <= MEG_S; in how many cases that said something."""
    network, shown = network_of(model), 0
    for targets, mediators in separated_sets(model):
        if recalled(model, targets) and recalled(model, mediators):
            low = meg.targets(network, model.decisions, targets)
            high = meg.targets(network, model.decisions, mediators)
            assert low.value <= high.value + 1e-8, (targets, mediators)
            shown += low.value > 1e-6
    return shown


@given(model=solvable, seed=seeds)
@several
def test_mediators_that_separate_several_decisions_are_pseudo_terminal(
    model: Model, seed: int
) -> None:
    assert_pseudo_terminal(with_views(model, seed))


def test_the_theorem_is_put_to_the_test() -> None:
    # The random diagrams do have mediators of something that the decisions are after.
    shown = [
        assert_pseudo_terminal(with_views(built(family, seed, "random"), seed))
        for family in diagrams.SUFFICIENT
        for seed in range(4)
    ]
    assert np.count_nonzero(shown) >= 8


@pytest.mark.parametrize("seed", [0, 1])
def test_mediators_that_separate_forgetful_decisions_are_pseudo_terminal(seed: int) -> None:
    # Two decisions, each of which sees a view of the state alone, and then a view V of the outcome.
    model = built(diagrams.forgetful, seed, "random")
    rng = np.random.default_rng(seed)
    model = model._replace(
        sizes={**model.sizes, "V": 2},
        parents={**model.parents, "V": ("T",)},
        cpds={**model.cpds, "V": diagrams.random_cpd(rng, [model.sizes["T"], 2], 0.0)},
    )
    assert d_separated(model.parents, model.decisions, ["V"], ["T"])
    network = network_of(model)
    high = meg.targets(network, model.decisions, ["T"], restarts=8)
    low = meg.targets(network, model.decisions, ["V"], restarts=8)
    assert low.recall == high.recall == "insufficient"
    # Both are what a search has found.
    assert low.value <= high.value + SEARCHED
