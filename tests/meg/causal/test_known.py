"""MEG of decisions towards a known utility: by hand, by brute force over beta, as in the MDP."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from causal.models import random_team
from hypothesis import given
from hypothesis import strategies as st
from meg.causal.instances import CHEESE, MEG_08, few, known, mouse, seeds, several
from oracles import causal_meg as oracle
from oracles import random_diagrams as diagrams
from oracles.causal_model import Model, has_sufficient_recall

from goalmeter import meg
from goalmeter.causal import unroll
from goalmeter.tabular import cliff_world, epsilon_greedy, optimal_policy


def test_the_mouse_of_example_one() -> None:
    result = meg.causal_utility(mouse(), ["D"], CHEESE)
    assert result.value == pytest.approx(MEG_08, abs=1e-15)
    assert result.rationality == pytest.approx(np.log(2), rel=1e-12)
    assert result.certified
    assert result.maximum == pytest.approx(np.log(2), abs=1e-15)
    # One decision whose contexts are mirror images: no goal of any class could say more.
    assert result.ceiling == pytest.approx(MEG_08, abs=1e-15)
    assert result.fraction == pytest.approx(0.2780719051126377, abs=1e-14)
    assert result.by_decision == {"D": pytest.approx(MEG_08, abs=1e-15)}
    assert (result.decisions, result.targets, result.do) == (("D",), ("T",), {})
    assert (result.recall, result.circle) == ("single", ())
    assert result.method.startswith("one decision: closed form in the rationality; ")
    assert result.target == "the given utility over T"
    assert result.goal is None


def assert_agrees(model: Model, **options: Any) -> None:
    value, beta = oracle.known_utility_meg(model)
    result = known(model, **options)
    assert result.value == pytest.approx(value, abs=1e-8)
    assert result.upper_bound == pytest.approx(value, abs=1e-8)
    assert result.certified
    assert result.value <= result.ceiling + 1e-12
    assert result.ceiling <= result.maximum + 1e-12
    assert sum(result.by_decision.values()) == pytest.approx(value, abs=1e-8)
    # The value itself is attained at the rationality that is given.
    if result.recall != "none":
        policy = oracle.soft_optimal_policy(model, result.rationality)
        assert oracle.evidence(model, policy) == pytest.approx(value, abs=1e-8)
    if value > 1e-4 and np.isfinite(beta):
        assert result.rationality == pytest.approx(beta, rel=1e-3)


@given(seed=seeds)
@several
def test_the_value_is_the_maximum_over_beta_in_any_diagram(seed: int) -> None:
    model = random_team(seed, most=5)
    if has_sufficient_recall(model.parents, model.decisions, diagrams.groups_of(model)):
        assert_agrees(model)


@given(seed=seeds, beta=st.floats(-5, 5))
@few
def test_one_decision_is_a_softmax_of_conditional_expectations(seed: int, beta: float) -> None:
    # A policy that is soft optimal at some rationality is explained completely, at that one.
    model = diagrams.one_decision(np.random.default_rng(seed))
    policy = oracle.soft_optimal_single(model, beta)
    soft = model._replace(cpds={**model.cpds, **{d: np.exp(q) for d, q in policy.items()}})
    result = known(soft)
    assert result.value == pytest.approx(result.ceiling, abs=1e-9)
    if result.value > 1e-6:
        assert result.rationality == pytest.approx(beta, rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.9])
def test_cliff_world_unrolled(epsilon: float) -> None:
    mdp = cliff_world(goal_length=1)
    policy: Any = optimal_policy(mdp)
    if epsilon:
        policy = epsilon_greedy(policy, epsilon)
    expected = meg.known_utility(mdp, policy)
    result = meg.causal_utility(unroll(mdp, policy))
    assert result.value == pytest.approx(expected.value, abs=1e-9)
    # The MDP counts every choice between different states, the diagram those that its utility can
    # tell apart.
    assert result.value <= result.maximum <= expected.maximum + 1e-9
    assert result.certified
    shares = list(result.by_decision.values())
    np.testing.assert_allclose(shares, [*expected.by_step[:-1], 0.0], atol=1e-9)
    if not epsilon:
        # 29 decisions of 4 actions (facts/meg.md).
        assert result.value == pytest.approx(29 * np.log(4), abs=1e-9)
