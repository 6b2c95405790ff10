"""Decisions without sufficient recall: the paper's Example 2, and cases worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from oracles import random_diagrams as diagrams
from oracles.causal_model import Model

import goalmeter as gm


def network(model: Model) -> gm.CausalBayesianNetwork:
    domains = {x: list(range(n)) for x, n in model.sizes.items()}
    return gm.CausalBayesianNetwork(domains, model.parents, model.cpds)


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
    mouse = network(model)
    results = [gm.meg.targets(mouse, model.decisions, [x]) for x in ("U3", "S3", "S2")]
    for result, expected in zip(results, FIGURE_2[follows], strict=True):
        assert result.value == pytest.approx(expected, abs=2e-6)
    assert [result.recall for result in results] == ["insufficient", "insufficient", "single"]
    # S3 d-separates the decisions from U3.
    assert mouse.is_d_separated(model.decisions, ["U3"], ["S3"])
    assert results[0].value <= results[1].value + 1e-9


def test_a_searched_result_says_that_it_is_a_lower_bound_and_why() -> None:
    model = diagrams.smelling_mouse(0.8)
    result = gm.meg.targets(network(model), model.decisions, ["U3"])
    assert "a lower bound, provided that the maximum entropy policies found" in result.notes[0]
    assert "D1, D2 rely on each other in a circle (insufficient recall)" in result.notes[0]
    # 2 log 2 less the policy's own entropy holds whatever the search found.
    assert result.upper_bound == pytest.approx(2 * (math.log(2) + 0.8 * math.log(0.8)
                                                    + 0.2 * math.log(0.2)))  # fmt: skip


def test_a_local_maximum_of_the_entropy_is_no_maximum_entropy_policy() -> None:
    # U(0, 0) = 1, U(1, 1) = 0.9, else 0, and the policy plays (1, 1): an isolated local maximum of
    # the entropy at u = 0.9, which scored as such would give 2 log 2. The true maximum entropy
    # policies nearly always play 0, and the best of them is on the other side of chance.
    model = diagrams.two_peaks(0.1)
    factors = [(names, values) for names, values in model.factors]
    result = gm.meg.causal_utility(network(model), model.decisions, factors)
    assert result.value == pytest.approx(0.0520, abs=5e-5)
    assert result.rationality == pytest.approx(-2.107, abs=1e-3)


def test_a_utility_that_no_rationality_attains() -> None:
    # Three coins, U = (-1)^(number of ones), each 0 with probability 0.6: E[U] = 0.2^3 = 0.008, and
    # the policy is the maximum entropy policy there, though no rationality leads to it.
    model = diagrams.parity_team(0.6)
    factors = [(names, values) for names, values in model.factors]
    result = gm.meg.causal_utility(network(model), model.decisions, factors)
    entropy = -(0.6 * math.log(0.6) + 0.4 * math.log(0.4))
    assert result.value == pytest.approx(3 * (math.log(2) - entropy), abs=1e-6)
    assert "in a gap" in result.notes[1]


def test_the_same_seed_gives_the_same_numbers_and_the_unit_does_not_matter() -> None:
    model = diagrams.smelling_mouse(0.8, 0.7)
    mouse = network(model)
    utility = {"U3": [0, 1]}
    first = gm.meg.causal_utility(mouse, model.decisions, utility, rng=np.random.default_rng(3))
    again = gm.meg.causal_utility(mouse, model.decisions, utility, rng=np.random.default_rng(3))
    scaled = gm.meg.causal_utility(mouse, model.decisions, {"U3": [7, 3]})
    assert first.to_json() == again.to_json()
    assert scaled.value == pytest.approx(first.value, abs=1e-9)
    assert scaled.rationality == pytest.approx(-first.rationality / 4, rel=1e-6)
