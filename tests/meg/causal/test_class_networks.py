"""MEG towards the best utility that a torch module can express."""

from __future__ import annotations

import numpy as np
import pytest
from causal.models import network_of
from meg.causal.instances import MEG_08, built, mouse
from oracles import random_diagrams as diagrams

from goalmeter import meg

# --- A torch module -------------------------------------------------------------------------------


def test_a_network_is_a_lower_bound_beside_the_certified_one() -> None:
    pytest.importorskip("torch")
    model = built(diagrams.perfect_recall, 1, "random")
    network, targets = network_of(model), model.factors[0][0]
    best = meg.targets(network, model.decisions, targets)
    heard: list[tuple[int, int, float]] = []
    result = meg.causal_class(
        network,
        model.decisions,
        network=True,
        targets=targets,
        seeds=range(2),
        iterations=15,
        progress=lambda *row: heard.append(row),
    )
    assert 0 < result.value <= best.value + 1e-9
    assert result.upper_bound == pytest.approx(best.upper_bound, abs=1e-9)
    # A hidden layer can say everything about a handful of outcomes.
    assert result.value > 0.98 * best.value
    assert result.method == "Algorithm 2, the best of 2 seeded restarts"
    assert result.notes[0].startswith("a lower bound: the problem is not convex")
    assert result.notes[1].startswith("over 2 seeds: ")
    assert "computed by a network with one hidden layer of" in result.target
    assert {restart for restart, _, _ in heard} == {0, 1}
    assert result.goal is not None
    assert result.goal.variables == targets


def test_a_linear_module_reaches_the_optimum() -> None:
    torch = pytest.importorskip("torch")
    result = meg.causal_class(
        mouse(position=True),
        ["D"],
        network=torch.nn.Linear(2, 1),
        targets=["M", "S"],
        # Whether mouse and cheese are on one side, and a constant.
        inputs=[[1, 1], [0, 1], [0, 1], [1, 1]],
        seeds=[3],
        iterations=50,
    )
    assert result.value == pytest.approx(MEG_08, abs=1e-9)
    assert result.goal is not None
    np.testing.assert_allclose(result.goal.values, [[1, -1], [-1, 1]], atol=1e-4)
    assert result.rationality == pytest.approx(np.log(2), rel=1e-3)
    assert "computed by a torch module" in result.target
    # A module that cannot see where the cheese is has nothing to say.
    blind = meg.causal_class(
        mouse(position=True),
        ["D"],
        network=torch.nn.Linear(1, 1),
        targets=["M", "S"],
        inputs=[[1], [1], [-1], [-1]],
        seeds=[3],
        iterations=5,
    )
    assert blind.value == pytest.approx(0.0, abs=1e-9)
    assert blind.upper_bound == pytest.approx(MEG_08, abs=1e-6)
