"""The search for maximum entropy policies against literal definitions, and its laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from causal.models import network_of
from hypothesis import assume, given
from hypothesis import strategies as st
from meg.causal.searches import (
    few,
    forgetful,
    grid_entropy,
    many,
    searched,
    seeds,
    several,
    table_of,
    team,
    towards,
)
from oracles import causal_cube, causal_search
from oracles import causal_meg as oracle
from oracles import random_diagrams as diagrams
from oracles.causal_model import Model

from goalmeter import meg
from goalmeter.causal import CausalBayesianNetwork, utility_of
from goalmeter.causal.contexts import recall_of
from goalmeter.meg.causal.insufficient_recall import search
from goalmeter.meg.causal.outcomes import (
    implicit_gradient,
    joint_outcomes,
    prospects_of,
    respond,
    score,
)
from goalmeter.meg.causal.search import Family, SearchTask, random_policies, stacked

# --- Against literal definitions ------------------------------------------------------------------


@many
@given(forgetful)
def test_the_table_is_the_model(model: Model) -> None:
    table, measured = table_of(model)
    network = network_of(model)
    assert table.probability(measured).sum() == pytest.approx(1.0)
    utility = utility_of(network, list(model.factors))
    assert table.expected(measured) == pytest.approx([utility.expected(network)])
    assert table.entropy(measured) == pytest.approx(oracle.causal_entropy(model))
    drawn = [p[..., 0] for p in random_policies(table, 1, np.random.default_rng(0))]
    logs = {
        d: np.log(p).reshape(network.cpd(d).shape)
        for d, p in zip(table.decisions, drawn, strict=True)
    }
    assert table.evidence(measured, drawn) == pytest.approx(oracle.evidence(model, logs))
    scope = ("S1", "T", "D2") if "S1" in model.sizes else ("S", "T", "D2")
    targets = joint_outcomes(network, model.decisions, scope)
    assert targets.expected(measured) == pytest.approx(network.marginal(*scope).reshape(-1))


@few
@given(forgetful)
def test_the_search_finds_what_definition_3_1_says(model: Model) -> None:
    """At the expected utility of the best model the oracle's maximum entropy policy is the same
    one, and at others it predicts no more."""
    table, _ = table_of(model)
    result = searched(model)
    ((scope, values),) = model.factors
    space = causal_cube.cube(model, scope)
    literal = causal_search.Search(space, np.asarray(values).ravel())
    assume(literal.high - literal.low > 1e-3)
    at = float(np.clip(result.utility, literal.low, literal.high))
    assert literal.accuracy(at)[0] == pytest.approx(result.value, abs=2e-5)
    for share in (0.15, 0.5, 0.85):
        u = literal.low + share * (literal.high - literal.low)
        assert literal.accuracy(u)[0] <= result.value + 2e-5
    assert table.maximum >= result.value


@several
@given(
    st.sampled_from([diagrams.perfect_recall, diagrams.chain, diagrams.branches]),
    seeds,
    st.sampled_from(diagrams.POLICIES),
)
def test_the_search_knows_nothing_of_recall(make: Any, seed: int, policy: str) -> None:
    """Where soft backward induction is exact, the search finds the same without it."""
    model = make(np.random.default_rng(seed), policy)
    network = network_of(model)
    recall = recall_of(network, model.decisions, [scope for scope, _ in model.factors])
    assume(recall.kind == "sufficient")
    utility = utility_of(network, list(model.factors))
    table = joint_outcomes(network, recall.decisions, utility)
    result = search(table, table.policies(network), restarts=8, rng=np.random.default_rng(seed))
    exact = meg.causal_utility(network, model.decisions, utility)
    assert result.value == pytest.approx(exact.value, abs=1e-8)
    if exact.value > 1e-6:
        assert result.rationality == pytest.approx(exact.rationality, rel=1e-4)


@several
@given(
    st.sampled_from([diagrams.perfect_recall, diagrams.chain]),
    seeds,
    st.sampled_from(diagrams.POLICIES),
)
def test_nor_does_the_search_for_targets(make: Any, seed: int, policy: str) -> None:
    model = make(np.random.default_rng(seed), policy)
    network = network_of(model)
    scopes = [x for scope, _ in model.factors for x in scope if x not in model.decisions]
    targets = tuple(dict.fromkeys(scopes))[:2]
    recall = recall_of(network, model.decisions, [targets])
    assume(targets and recall.kind == "sufficient")
    table = joint_outcomes(network, recall.decisions, targets)
    result = search(table, table.policies(network), restarts=8, rng=np.random.default_rng(seed))
    exact = meg.targets(network, model.decisions, targets)
    assert result.value == pytest.approx(exact.value, abs=1e-7)
    assert np.isinf(result.rationality) == np.isinf(exact.rationality)


# --- Laws -----------------------------------------------------------------------------------------


@many
@given(forgetful, seeds, st.floats(-6, 6))
def test_no_answer_lowers_the_objective(model: Model, seed: int, size: float) -> None:
    table, _ = table_of(model)
    now = random_policies(table, 5, np.random.default_rng(seed))
    b = np.array([0.0, 1.0, -1.0, np.sinh(size), -np.sinh(size)])

    def objective() -> Any:
        utility, entropy = score(table, table.features, now)
        return b * utility + entropy

    before = objective()
    for _ in range(3):
        for i in range(len(now)):
            now[i] = respond(prospects_of(table, table.features, now, i), b, now[i])
            after = objective()
            assert (after >= before - 1e-10 * (1 + np.abs(before))).all()
            before = after


@several
@given(forgetful, seeds)
def test_the_gradient_of_the_evidence(model: Model, seed: int) -> None:
    """By differences of the utility, with policies that stay stationary."""
    network = network_of(model)
    table = joint_outcomes(network, model.decisions, ["T"])
    measured = table.policies(network)
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(table.features.shape[1])

    def stationary(weights: Any, start: Any) -> Any:
        task = SearchTask(table, table.features @ weights, measured, table.visits(measured))
        family = Family(task, rng, 1.0, fixed=False)
        return family.polished(1.0, stacked([start]), np.ones(1))[0]

    task = SearchTask(table, table.features @ weights, measured, table.visits(measured))
    family = Family(task, rng, 1.0, fixed=False)
    start = family.maximise([1.0], [random_policies(table, 6, rng)])[0].best[0]
    assume(np.isfinite(start.evidence) and start.evidence > -20)
    gradient = implicit_gradient(table, task.value, 1.0, start.policies, task.visits)
    for k, axis in enumerate(1e-5 * np.eye(len(weights))):
        ahead = stationary(weights + axis, start.policies)
        behind = stationary(weights - axis, start.policies)
        slope = (ahead.evidence - behind.evidence) / 2e-5
        assert slope == pytest.approx(gradient[k], rel=1e-4, abs=1e-5)


@pytest.mark.slow
@few
@given(forgetful)
def test_targets_have_at_least_the_meg_of_any_utility_over_them(model: Model) -> None:
    """Definition 4.4 is a maximum over utilities; and 0 <= MEG <= what the policy says of itself,
    which is at most the sum of log|dom D|."""
    network = network_of(model)
    table = joint_outcomes(network, model.decisions, ["T"])
    measured = table.policies(network)
    sought = search(table, measured, restarts=4, rng=np.random.default_rng(0))
    assert 0.0 <= sought.value <= table.evidence(measured, measured) + 1e-9
    assert table.evidence(measured, measured) <= table.maximum + 1e-9
    assert sought.weights is not None
    rng = np.random.default_rng(1)
    for weights in rng.standard_normal((2, model.sizes["T"])):
        known_table = table.with_features((table.features @ weights)[:, None])
        result = search(known_table, measured, restarts=4, rng=rng)
        assert result.value <= sought.value + 1e-6
    # The evidence is that of the policies which are reported.
    assert table.evidence(measured, sought.policies) == pytest.approx(sought.value, abs=1e-9)


def test_a_policy_that_is_best_for_some_utility_is_certain() -> None:
    """A team whose every outcome shows: for some utility only what it always does is best."""
    states = range(3)
    names = ["D0", "D1"]
    network = CausalBayesianNetwork(
        {**dict.fromkeys(names, states), "Y": range(9), "Z": [0, 1]},
        {"Y": names},
        {
            "D0": [0.0, 1.0, 0.0],
            "D1": [0.0, 0.0, 1.0],
            "Y": lambda a, b: 3 * a + b,
            "Z": [0.3, 0.7],
        },
    )
    result = towards(network, "Y")
    assert result.value == pytest.approx(2 * np.log(3), abs=1e-9)
    assert result.rationality == np.inf
    assert result.weights is not None
    assert np.argmax(result.weights) == 5
    # Nobody has a say in Z.
    blind = joint_outcomes(network, ["D0", "D1"], ["Z"])
    nothing = search(blind, blind.policies(network), rng=np.random.default_rng(0))
    assert nothing.value == 0.0
    assert nothing.weights is not None
    assert np.isnan(nothing.weights).all()
    assert "no say" in nothing.note


def test_fixed_utilities_are_attained() -> None:
    network = team([0.6, 0.2, 0.2], [0.6, 0.2, 0.2])
    table = joint_outcomes(network, ["D0", "D1"], utility_of(network, (("X",), [0.0, 1.0])))
    measured = table.policies(network)
    task = SearchTask(table, table.features[:, 0], measured, table.visits(measured))
    rng = np.random.default_rng(0)
    wanted = [0.36, 0.44, 0.6, 1.2]
    starts = [random_policies(table, 8, rng) for _ in wanted]
    *ends, last = Family(task, rng, 2.0, fixed=True).maximise(wanted, starts)
    for u, end in zip(wanted, ends, strict=False):
        assert end.best[0].utility == pytest.approx(u, abs=1e-9)
        assert end.best[0].entropy >= grid_entropy(u) - 1e-9
        # Three are equally good: the match may be at any of the three choices.
        assert 1 <= len(end.best) <= 3
    assert last.best == []  # Nothing attains more than 1.
