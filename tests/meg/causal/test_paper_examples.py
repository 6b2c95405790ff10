"""The examples of the MEG paper (NeurIPS 2024) with its numbers; 0.19 is in test_known.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from causal.models import network_of
from meg.causal.instances import CHEESE, SIDE, mouse
from oracles import causal_meg as oracle
from oracles import causal_targets, example_one
from oracles import random_diagrams as diagrams

from goalmeter import meg
from goalmeter.causal import CausalBayesianNetwork, InfluenceDiagram
from goalmeter.tabular import TabularMDP


def bits(p: float) -> float:
    """log 2 less the entropy of a coin."""
    return float(np.log(2) + p * np.log(p) + (1 - p) * np.log(1 - p))


# --- Example 1, section 3 -------------------------------------------------------------------------


def naive(model: CausalBayesianNetwork, utility: dict[str, float]) -> float:
    """E[log pi(d | s)] of the policy that is soft optimal at rationality 1 (equation 2)."""
    values = np.array([utility[state] for state in model.domain("T")])
    total = 0.0
    for s in SIDE:
        worth = np.array([model.marginal("T", given={"S": s, "D": d}) @ values for d in SIDE])
        logs = worth - np.log(np.exp(worth).sum())
        chosen = model.cpd("D")[model.index("S", s)]
        total += float(model.marginal("S")[model.index("S", s)] * (chosen @ logs))
    return total


def test_the_naive_plug_in_depends_on_the_unit_and_meg_does_not() -> None:
    # Section 3, "Comparison to MCE IRL": predictive accuracy -0.13 for U and -0.018 for 2 U. (The
    # model's policy is mixed a little so that everything can be conditioned on.)
    optimal = mouse(1.0 - 1e-12)
    once = naive(optimal, {"cheese": 1.0, "none": -1.0})
    twice = naive(optimal, {"cheese": 2.0, "none": -2.0})
    assert (round(once, 2), round(twice, 3)) == (-0.13, -0.018)
    assert once == pytest.approx(example_one.NAIVE_U, abs=1e-9)
    assert twice == pytest.approx(example_one.NAIVE_2U, abs=1e-9)
    # The same from the tabular room, whose second decision adds log 1/2.
    mdp = TabularMDP(example_one.P, example_one.U, horizon=2, initial=example_one.MU)
    plugged = [
        meg.mce_plug_in(mdp, example_one.mouse(1.0), utility=k * example_one.U).evidence
        for k in (1, 2)
    ]
    np.testing.assert_allclose([once, twice], np.array(plugged) - np.log(2), atol=1e-9)
    # MEG: one value for both, at half the rationality.
    first = meg.causal_utility(mouse(0.8), ["D"], CHEESE)
    second = meg.causal_utility(mouse(0.8), ["D"], {"T": [2, -2]})
    assert first.value == pytest.approx(second.value, abs=1e-14)
    assert round(second.value, 2) == 0.19
    assert second.rationality == pytest.approx(first.rationality / 2, rel=1e-12)


def test_the_mouse_as_a_diagram_with_a_utility_node() -> None:
    # Figure 1 (c): the utility is a node; (b): T is a variable.
    diagram = InfluenceDiagram(
        {"S": SIDE, "D": SIDE},
        {"D": ["S"]},
        {"S": [0.5, 0.5]},
        decisions=["D"],
        utilities={"U": (["S", "D"], lambda s, d: 1 if s == d else -1)},
        policy={"D": lambda s: {s: 0.8, SIDE[1 - SIDE.index(s)]: 0.2}},
    )
    assert meg.causal_utility(diagram).value == pytest.approx(bits(0.8), abs=1e-15)
    assert diagram.expected_utility() == pytest.approx(0.6)


# --- Section 4: towards variables -----------------------------------------------------------------


@pytest.mark.parametrize("p", [0.8, 1.0, 0.5, 0.2])
def test_towards_the_cheese(p: float) -> None:
    result = meg.targets(mouse(p), decisions=["D"], targets=["T"])
    expected = np.log(2) if p == 1.0 else bits(p)
    assert result.value == pytest.approx(expected, abs=1e-12)
    assert result.certified
    if p != 0.5:
        # "Effectively only three utility functions": for cheese, against it, indifferent.
        assert str(result.goal) == ("cheese +1, none −1" if p > 0.5 else "none +1, cheese −1")


def test_towards_the_cheeses_position_there_is_none() -> None:
    result = meg.targets(mouse(0.8), ["D"], ["S"])
    assert result.value == 0.0
    assert result.notes == (
        "S is not downstream of the decision D in the graph, so every policy attains the same "
        "utility and MEG is 0 (Proposition 3.3)",
    )


def test_towards_mouse_and_cheese_together() -> None:
    with_position = mouse(0.8, position=True)
    together = meg.targets(with_position, ["D"], ["M", "S"])
    assert together.value == pytest.approx(bits(0.8), abs=1e-12)
    assert together.goal is not None
    np.testing.assert_allclose(together.goal.values, [[1, -1], [-1, 1]], atol=1e-6)
    # The mouse alone is nowhere in particular.
    assert meg.targets(with_position, ["D"], ["M"]).value == pytest.approx(0.0, abs=1e-12)
    # Theorem 4.1: {M, S} separates the decision from the cheese.
    assert with_position.is_d_separated(["D"], ["T"], ["M", "S"])
    towards_cheese = meg.targets(with_position, ["D"], ["T"]).value
    assert towards_cheese <= together.value + 1e-9


@pytest.mark.parametrize("targets", [("T",), ("M", "S"), ("M",), ("M", "T")])
def test_the_oracle_says_the_same(targets: tuple[str, ...]) -> None:
    model = diagrams.mouse(0.8, position=True)
    expected = causal_targets.targets_meg(model, [targets]).value
    result = meg.targets(network_of(model), ["D"], targets)
    assert result.value == pytest.approx(expected, abs=1e-9)


# --- Figure 4, appendix A -------------------------------------------------------------------------


def mechanised(to_cheese: float) -> CausalBayesianNetwork:
    """Figure 4 (b): mechanisms of T and D as variables, that of D adapted to that of T."""
    return CausalBayesianNetwork(
        {"T~": SIDE, "D~": SIDE, "D": SIDE, "T": ["cheese", "none"]},
        {"D~": ["T~"], "D": ["D~"], "T": ["T~", "D"]},
        {
            "T~": [0.5, 0.5],
            "D~": [[to_cheese, 1 - to_cheese], [1 - to_cheese, to_cheese]],
            "D": lambda mechanism: mechanism,
            "T": lambda where, d: "cheese" if where == d else "none",
        },
    )


@pytest.mark.parametrize("p", [0.8, 1.0, 0.5])
def test_mechanism_variables_make_no_difference(p: float) -> None:
    plain, written_out = mouse(p), mechanised(p)
    known = meg.causal_utility(plain, ["D"], CHEESE)
    explicit = meg.causal_utility(written_out, ["D~"], CHEESE)
    assert explicit.value == pytest.approx(known.value, abs=1e-14)
    assert explicit.rationality == pytest.approx(known.rationality)
    assert explicit.maximum == pytest.approx(known.maximum)
    for targets in (["T"], ["D", "T~"]):
        result = meg.targets(written_out, ["D~"], targets)
        assert result.value == pytest.approx(known.value, abs=1e-12)
    model = diagrams.mechanised_mouse(p)
    assert explicit.value == pytest.approx(oracle.known_utility_meg(model)[0], abs=1e-9)


# --- Section 4: goal-conditional agents -----------------------------------------------------------


def follower(obeys: float, first: float = 0.5) -> CausalBayesianNetwork:
    """The instruction, what the agent does about it, and what comes of it."""
    return CausalBayesianNetwork(
        {"instruction": SIDE, "D": SIDE, "outcome": SIDE},
        {"D": ["instruction"], "outcome": ["D"]},
        {
            "instruction": [first, 1 - first],
            "D": [[obeys, 1 - obeys], [1 - obeys, obeys]],
            "outcome": lambda d: d,
        },
    )


@pytest.mark.parametrize(("obeys", "high"), [(1.0, np.log(2)), (0.9, bits(0.9))])
def test_an_agent_that_follows_instructions(obeys: float, high: float) -> None:
    network = follower(obeys)
    outcome = meg.targets(network, ["D"], ["outcome"])
    assert outcome.value == pytest.approx(0.0, abs=1e-12)
    both = meg.targets(network, ["D"], ["instruction", "outcome"])
    assert both.value == pytest.approx(high, abs=1e-12)
    assert both.certified
    assert both.goal is not None
    np.testing.assert_allclose(both.goal.values, [[1, -1], [-1, 1]], atol=1e-6)
    alone = meg.targets(network, ["D"], ["instruction"])
    assert (alone.value, alone.recall) == (0.0, "none")


def test_an_agent_that_is_told_one_thing_more_often() -> None:
    # Told "left" three times of four, it ends left with 3/4 * 0.9 + 1/4 * 0.1 = 0.7: the outcome
    # alone explains that, and no more.
    network = follower(0.9, first=0.75)
    outcome = meg.targets(network, ["D"], ["outcome"])
    assert outcome.value == pytest.approx(bits(0.7), abs=1e-12)
    both = meg.targets(network, ["D"], ["instruction", "outcome"])
    assert both.value == pytest.approx(bits(0.9), abs=1e-12)
    # Its goal, carried to a world in which it is told the rarer thing, goes on predicting; the
    # goal of the outcome alone does not.
    for goal, holds in ((["instruction", "outcome"], True), (["outcome"], False)):
        shift: Any = [{"instruction": "right"}]
        table = meg.under_interventions(network, ["D"], shift, targets=goal)
        transferred = table.rows[1].transferred
        expected = bits(0.9) if holds else np.log(2) + 0.1 * np.log(0.7) + 0.9 * np.log(0.3)
        assert transferred == pytest.approx(expected, abs=1e-6)


# --- Example 2, Figure 2: decisions that rely on each other ---------------------------------------

# MEG towards U3, S3 and S2 of the mouse of Figure 2 that follows its smell with probability p at
# the first step and q at the second, from the literal oracle (`oracles.causal_meg`).
FIGURE_2 = {
    (0.8, 0.8): (0.385490, 0.385490, 0.192745),
    (0.9, 0.7): (0.385490, 0.450347, 0.368064),
    (1.0, 1.0): (1.386294, 1.386294, 0.693147),
}


@pytest.mark.parametrize("follows", FIGURE_2)
def test_figure_2_and_the_inequality_of_theorem_4_1(follows: tuple[float, float]) -> None:
    model = diagrams.smelling_mouse(*follows)
    two_steps = network_of(model)
    results = [meg.targets(two_steps, model.decisions, [x]) for x in ("U3", "S3", "S2")]
    for result, expected in zip(results, FIGURE_2[follows], strict=True):
        assert result.value == pytest.approx(expected, abs=2e-6)
    assert [result.recall for result in results] == ["insufficient", "insufficient", "single"]
    # S3 d-separates the decisions from U3.
    assert two_steps.is_d_separated(model.decisions, ["U3"], ["S3"])
    assert results[0].value <= results[1].value + 1e-9
