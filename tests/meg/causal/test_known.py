"""MEG of decisions towards a known utility: by hand, by brute force over beta, as in the MDP."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from causal.models import random_team
from hypothesis import given
from hypothesis import strategies as st
from meg.causal.instances import CHEESE, MEG_08, done, few, known, mouse, seeds, several, solvable
from oracles import causal_meg as oracle
from oracles import random_diagrams as diagrams
from oracles.causal_model import Model, has_sufficient_recall

from goalmeter import meg
from goalmeter.causal import CausalBayesianNetwork, unroll
from goalmeter.tabular import cliff_world, epsilon_greedy, optimal_policy


def choices(*policies: list[float]) -> CausalBayesianNetwork:
    """Decisions that see nothing and do not meet: D0, D1, ... with these policies."""
    return CausalBayesianNetwork(
        {f"D{i}": range(len(row)) for i, row in enumerate(policies)},
        {},
        {f"D{i}": row for i, row in enumerate(policies)},
    )


# --- By hand --------------------------------------------------------------------------------------


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


def test_decisions_that_do_not_meet_add_up_at_one_rationality() -> None:
    eight = [0.2, 0.8]
    model = choices(eight, eight, [0.5, 0.5])
    bits = {"D0": [0, 1], "D1": [0, 1]}
    result = meg.causal_utility(model, ["D0", "D1", "D2"], bits)
    assert result.recall == "sufficient"
    assert result.value == pytest.approx(2 * MEG_08, abs=1e-14)
    assert result.by_decision == {
        "D0": pytest.approx(MEG_08),
        "D1": pytest.approx(MEG_08),
        "D2": 0.0,
    }
    # D2 is idle: it counts neither for the value nor for what could be scored.
    assert result.maximum == pytest.approx(2 * np.log(2))
    assert meg.causal_utility(model, ["D1", "D0"], bits).value == pytest.approx(result.value)
    # Where they pull apart, beta = 0 is the best for both: f(b) is even.
    apart = meg.causal_utility(choices(eight, eight), ["D0", "D1"], {"D0": [0, 1], "D1": [1, 0]})
    assert apart.value == pytest.approx(0.0, abs=1e-12)
    # Decisions of 2 and 3 actions at one beta: sigmoid(b) = 2/3 and (1, 2, 4) / 7.
    uneven = choices([1 / 3, 2 / 3], [1 / 7, 2 / 7, 4 / 7])
    result = meg.causal_utility(uneven, ["D0", "D1"], {"D0": [0, 1], "D1": [0, 1, 2]})
    assert result.rationality == pytest.approx(np.log(2), rel=1e-12)
    assert result.maximum == pytest.approx(np.log(6))
    assert result.value == pytest.approx(result.ceiling, abs=1e-14)


def fork(first: list[float]) -> CausalBayesianNetwork:
    """Fact 4: the way after action 0 has one action to the prize of three, after 1 all three."""
    third = [1 / 3, 1 / 3, 1 / 3]
    return CausalBayesianNetwork(
        {"D": [0, 1, 2], "E": [0, 1, 2], "T": [0, 1]},
        {"E": ["D"], "T": ["D", "E"]},
        {
            "D": first,
            "E": [[1, 0, 0], third, third],
            "T": lambda d, e: int((d == 0 and e == 0) or d == 1),
        },
    )


@pytest.mark.parametrize("first", [[0.25, 0.75, 0.0], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
def test_the_limit_counts_the_ways_to_be_optimal(first: list[float]) -> None:
    # 4 of 9 pairs of actions reach the prize. The first decision of the limit is (1/4, 3/4), not
    # (1/2, 1/2): D = 0 is worth log(3/4) + log 3, D = 1 log(9/4) + 0, both log(9/4).
    result = meg.causal_utility(fork(first), ["D", "E"], {"T": [0, 1]})
    assert result.recall == "sufficient"
    assert result.rationality == np.inf
    assert result.value == pytest.approx(np.log(9 / 4), abs=1e-14)
    share = first[0]
    by_hand = share * np.log(3 / 4) + first[1] * np.log(9 / 4)
    assert result.by_decision["D"] == pytest.approx(by_hand, abs=1e-14)
    assert result.by_decision["E"] == pytest.approx(share * np.log(3), abs=1e-14)


def test_branches_by_hand() -> None:
    # D opens the way for both or for none of two others, which see it; utility 1 for each that
    # chooses 1 on an open way. At beta: E and F choose 1 with e^b / (1 + e^b) where open, and by a
    # coin elsewhere; opening is worth 2 log(1 + e^b) in soft value, not opening 2 log 2, so D opens
    # with (1 + e^b)^2 / ((1 + e^b)^2 + 4). At b = log 3: 16 / 20 = 4/5, and E, F choose 1 with 3/4.
    network = CausalBayesianNetwork(
        {x: [0, 1] for x in ("D", "E", "F", "Y", "Z")},
        {"E": ["D"], "F": ["D"], "Y": ["D", "E"], "Z": ["D", "F"]},
        {
            "D": [0.2, 0.8],
            "E": [[0.5, 0.5], [0.25, 0.75]],
            "F": [[0.5, 0.5], [0.25, 0.75]],
            "Y": lambda d, e: d * e,
            "Z": lambda d, f: d * f,
        },
    )
    result = meg.causal_utility(network, ["D", "E", "F"], {"Y": [0, 1], "Z": [0, 1]})
    assert result.recall == "sufficient"
    assert result.rationality == pytest.approx(np.log(3), rel=1e-10)

    def bits(p: float) -> float:
        return np.log(2) + p * np.log(p) + (1 - p) * np.log(1 - p)

    assert result.value == pytest.approx(bits(0.8) + 2 * 0.8 * bits(0.75), abs=1e-14)
    assert result.by_decision["E"] == pytest.approx(0.8 * bits(0.75), abs=1e-14)


# --- No influence ---------------------------------------------------------------------------------


def test_no_influence_is_zero_with_the_reason() -> None:
    result = meg.causal_utility(mouse(), ["D"], {"S": [1, 0]})
    assert (result.value, result.upper_bound, result.maximum) == (0.0, 0.0, 0.0)
    assert (result.rationality, result.fraction, result.recall) == (0.0, 0.0, "none")
    assert result.certified
    assert result.notes == (
        "S is not downstream of the decision D in the graph, so every policy attains the same "
        "utility and MEG is 0 (Proposition 3.3)",
    )
    assert result.by_decision == {"D": 0.0}
    several = meg.causal_utility(
        choices([0.5, 0.5], [0.5, 0.5], [1.0, 0.0], [0.5, 0.5]),
        ["D0", "D1"],
        {"D2": [0, 1], "D3": [0, 1]},
    )
    assert several.notes[0].startswith(
        "D2, D3 are not downstream of the decisions D0, D1 in the graph"
    )
    # Influence in the graph and none in the numbers.
    constant = meg.causal_utility(mouse(), ["D"], {"T": [2, 2]})
    assert constant.value == 0.0
    assert "no choice influences this utility" in constant.notes[0]


# --- The literal oracle ---------------------------------------------------------------------------


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


@given(model=solvable, data=st.data())
@few
def test_interventions_change_the_world_that_is_measured(model: Model, data: Any) -> None:
    outside = [x for x in model.sizes if x not in model.decisions]
    x = data.draw(st.sampled_from(outside))
    value = data.draw(st.integers(0, model.sizes[x] - 1))
    changed = done(model, {x: value})
    if not has_sufficient_recall(changed.parents, model.decisions, diagrams.groups_of(model)):
        return
    result = known(model, do={x: value})
    assert result.value == pytest.approx(oracle.known_utility_meg(changed)[0], abs=1e-8)
    assert result.do == {x: value}
    assert result.value == pytest.approx(known(changed).value, abs=1e-12)


# --- MDPs -----------------------------------------------------------------------------------------


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


# --- How it reads ---------------------------------------------------------------------------------


def test_a_result_is_json() -> None:
    fields = json.loads(json.dumps(meg.causal_utility(mouse(0.0), ["D"], CHEESE).to_json()))
    assert fields["meg"] == pytest.approx(np.log(2))
    assert fields["rationality"] == "-inf"
    assert (fields["decisions"], fields["targets"], fields["do"]) == (["D"], ["T"], {})
    assert (fields["recall"], fields["circle"], fields["goal"]) == ("single", [], None)
    assert fields["by_decision"] == {"D": pytest.approx(np.log(2))}
