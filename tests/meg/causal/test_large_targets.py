"""Targets with many joint states: the same optimum as in coordinates that choices tell apart."""

from __future__ import annotations

import numpy as np
import pytest
from meg.test_visit_matching import grid

from goalmeter.causal import InfluenceDiagram, unroll
from goalmeter.meg import linear, targets
from goalmeter.tabular import epsilon_greedy, optimal_policy


def walk(n: int, horizon: int, noise: float) -> InfluenceDiagram:
    """n x n squares with slip, the horizon shorter than what would lead everywhere."""
    mdp = grid(n, horizon=horizon, slip=0.05)
    return unroll(mdp, epsilon_greedy(optimal_policy(mdp), noise))


@pytest.mark.parametrize("noise", [0.3, 0.0])
def test_both_ways_agree(noise: float, monkeypatch: pytest.MonkeyPatch) -> None:
    diagram = walk(4, 4, noise)
    monkeypatch.setattr(linear, "_LARGE_WORK", 0.0)
    large = targets(diagram, None, ["S4"])
    monkeypatch.setattr(linear, "_LARGE_WORK", 1e30)
    small = targets(diagram, None, ["S4"])
    assert large.certified and small.certified
    assert large.value == pytest.approx(small.value, abs=1e-7)
    # What is never met proves the limit, which coordinates only come near to.
    assert np.isinf(large.rationality) == (noise == 0.0)
    # Squares that no choice leads to have no part in the goal, either way.
    assert large.goal is not None and small.goal is not None
    np.testing.assert_array_equal(np.isnan(large.goal.values), np.isnan(small.goal.values))
