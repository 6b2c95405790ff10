"""The examples of the MEG paper (NeurIPS 2024) with its numbers; 0.19 is in test_known.py."""

from __future__ import annotations

import numpy as np
import pytest
from causal.models import network_of
from meg.causal.instances import CHEESE, SIDE, mouse
from oracles import example_one
from oracles import random_diagrams as diagrams

from goalmeter import meg
from goalmeter.causal import CausalBayesianNetwork
from goalmeter.tabular import TabularMDP


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


# MEG towards U3, S3 and S2 of the mouse of Figure 2 that follows its smell with probability p at
# the first step and q at the second, from the literal oracle (`oracles.causal_meg`).
FIGURE_2 = {(0.9, 0.7): (0.385490, 0.450347, 0.368064), (1.0, 1.0): (1.386294, 1.386294, 0.693147)}


@pytest.mark.parametrize("follows", [(0.9, 0.7), pytest.param((1.0, 1.0), marks=pytest.mark.slow)])
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
