"""The search for maximum entropy policies: by hand, against literal definitions, and its laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from causal.models import network_of
from hypothesis import assume, given
from hypothesis import strategies as st
from meg.causal.searches import LOG2, entropy, grid_entropy, known, searched, seeds, several, team
from oracles import random_diagrams as diagrams

from goalmeter import meg
from goalmeter.causal import utility_of
from goalmeter.causal.contexts import recall_of
from goalmeter.meg.causal.insufficient_recall import search
from goalmeter.meg.causal.outcomes import joint_outcomes


def test_a_team_that_mostly_matches() -> None:
    """With D0 = 0 at 1/2 + x and D1 = 0 at 1/2 + y, E[U] = 1/2 + 2 x y: at a given u above 1/2 the
    entropy h(1/2 + x) + h(1/2 + y) is largest at x = y. The evidence of p, q for (r, r) is
    2 log 2 + (p + q) log r + (2 - p - q) log(1 - r), largest at r = (p + q) / 2. And r is
    stationary: b (2 r - 1) = log(r / (1 - r))."""
    p, q = 0.9, 0.6
    r = (p + q) / 2
    result = known(team([p, 1 - p], [q, 1 - q]))
    assert result.value == pytest.approx(2 * (LOG2 - entropy(r)), abs=1e-11)
    assert result.rationality == pytest.approx(np.log(r / (1 - r)) / (2 * r - 1), rel=1e-5)
    assert result.policies[:2] == pytest.approx(np.array([r, 1 - r]), abs=1e-6)
    nothing = known(team([0.5, 0.5], [0.5, 0.5]))
    assert (nothing.value, nothing.rationality) == (0.0, 0.0)


def test_a_gap_that_no_rationality_attains() -> None:
    """Two members with three choices: b E[U] + H is largest at the uniform policy up to
    b = 4 log 2, and from there at (p, q, q) with p >= 2/3, so E[U] jumps from 1/3 to 1/2. The
    policy (0.6, 0.2, 0.2) of both has E[U] = 0.44 and is the maximum entropy policy there."""
    network = team([0.6, 0.2, 0.2], [0.6, 0.2, 0.2])
    result = known(network)
    expected = 2 * (np.log(3) + 0.6 * np.log(0.6) + 0.4 * np.log(0.2))
    assert result.value == pytest.approx(expected, abs=1e-9)
    assert np.isnan(result.rationality)
    assert result.utility == pytest.approx(0.44, abs=1e-5)
    assert "in a gap, 0.333333 to 0.5, that no rationality attains" in result.note
    # Definition 3.1 at u = 0.44, on a grid: no policy has more entropy.
    assert grid_entropy(0.44) <= result.entropy + 1e-7
    assert grid_entropy(0.44) == pytest.approx(result.entropy, abs=2e-3)


@pytest.mark.slow
def test_parity_is_in_a_gap_altogether() -> None:
    """Three equal biases m have E[U] = m^3: no b plans anything small, yet m = 0.2 has the most
    entropy at u = 0.008 and predicts itself: 3 (log 2 - h(0.6))."""
    result = searched(diagrams.parity_team(0.6))
    assert result.value == pytest.approx(3 * (LOG2 - entropy(0.6)), abs=1e-9)
    assert np.isnan(result.rationality)
    assert result.utility == pytest.approx(0.008, abs=1e-5)


def test_a_local_maximum_does_not_count() -> None:
    """The policy (1, 1) is a strict local optimum, 0.9, where (0, 0) is worth 1: it predicts itself
    with certainty, and is no maximum entropy policy."""
    result = searched(diagrams.two_peaks(0.1))
    assert result.value == pytest.approx(0.0519628, abs=1e-5)
    # The true ones nearly always play 0, and the best of them is on the other side of chance.
    assert result.rationality == pytest.approx(-2.107, abs=1e-3)


def test_the_smelling_mouse() -> None:
    """Figure 2: the cheese is reached if both moves follow the smell, so per side E[U] = p q, and
    p = q = 0.8 is the maximum entropy policy at 0.64: b p = log(p / (1 - p))."""
    model = diagrams.smelling_mouse(0.8)
    result = searched(model)
    assert result.value == pytest.approx(2 * (LOG2 - entropy(0.8)), abs=1e-10)
    assert result.rationality == pytest.approx(np.log(4) / 0.8, rel=1e-5)


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
