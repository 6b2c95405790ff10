"""MEG towards classes of utilities: lists, weighted sums of features, torch modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from causal.models import network_of
from hypothesis import given
from meg.causal.instances import CHEESE, MEG_08, mouse, several, solvable
from oracles import causal_meg as oracle
from oracles import causal_targets
from oracles import random_diagrams as diagrams
from oracles.causal_model import Model

from goalmeter import meg

LEFT = {"D": {"left": 1, "right": 0}}


def indicators(model: Model, group: tuple[str, ...]) -> list[Any]:
    """One feature for each joint state of some variables."""
    sizes = [model.sizes[x] for x in group]
    rows = np.eye(int(np.prod(sizes)))
    return [(group, row.reshape(sizes)) for row in rows]


def test_the_best_of_a_list_by_hand() -> None:
    result = meg.causal_class(mouse(), ["D"], utilities=[LEFT, CHEESE, {"S": [1, 2]}])
    assert result.value == pytest.approx(MEG_08, abs=1e-15)
    assert result.rationality == pytest.approx(np.log(2))
    assert result.target == "the best of 3 given utilities"
    assert result.notes[0] == (
        "the best is utility 1, counted from 0; nats of each: 0, 0.192745, 0"
    )
    assert result.certified
    # Reversed and in another unit it is the same goal.
    worse = meg.causal_class(mouse(), ["D"], utilities=[{"T": [-3, 5]}])
    assert worse.value == pytest.approx(MEG_08, abs=1e-14)
    assert worse.rationality == pytest.approx(-np.log(2) / 4)
    # A list without any influence.
    none = meg.causal_class(mouse(), ["D"], utilities=[{"S": [1, 2]}])
    assert none.value == 0.0
    assert "S is not downstream" in none.notes[1]


@given(model=solvable)
@several
def test_sums_of_utilities_are_the_literal_optimum(model: Model) -> None:
    # The class of all sums of one utility for each group that the model's own utility reads.
    groups = diagrams.groups_of(model)
    features = [feature for group in groups for feature in indicators(model, group)]
    result = meg.causal_class(network_of(model), model.decisions, features=features)
    optimiser = causal_targets.targets_meg(model, groups, starts=1)
    assert optimiser.value <= result.value + 1e-8
    assert result.value <= optimiser.value + (2e-6 if np.isinf(result.rationality) else 1e-8)
    assert result.certified
    if np.isfinite(result.rationality) and result.recall != "none":
        assert result.utility is not None
        weights = result.rationality * np.nan_to_num(result.utility)
        factors = causal_targets.factors_of(model, groups, weights)
        policy = oracle.soft_optimal_policy(model, 1.0, factors)
        assert oracle.evidence(model, policy) == pytest.approx(result.value, abs=1e-7)


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
