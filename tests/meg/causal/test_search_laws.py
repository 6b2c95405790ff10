"""The search for maximum entropy policies against literal definitions, and its laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from causal.models import network_of
from hypothesis import assume, given
from hypothesis import strategies as st
from meg.causal.searches import (
    forgetful,
    many,
    seeds,
    several,
    table_of,
)
from oracles import causal_meg as oracle
from oracles import random_diagrams as diagrams
from oracles.causal_model import Model

from goalmeter import meg
from goalmeter.causal import utility_of
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
