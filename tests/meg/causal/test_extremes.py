"""Chances and scales far apart: what is rare or small must not be lost, nor decide everything."""

from __future__ import annotations

import numpy as np
import pytest

import goalmeter as gm

RARE = 5e-13


@pytest.mark.parametrize("seed", range(3))
def test_more_targets_never_explain_less_where_contexts_are_rare(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sure = np.eye(2)[rng.integers(2, size=2)]
    model = gm.CausalBayesianNetwork(
        {"D": [0, 1], "E": [0, 1], "S": [0, 1], "T": [0, 1, 2]},
        {"E": ["D"], "S": ["D"], "T": ["S", "E"]},
        {
            "D": [1 - RARE, RARE],
            "E": sure,
            "S": rng.dirichlet([1, 1], size=2),
            "T": rng.dirichlet([1, 1, 1], size=(2, 2)),
        },
    )
    alone = gm.meg.targets(model, ["D", "E"], ["T"])
    both = gm.meg.targets(model, ["D", "E"], ["S", "T"])
    assert both.value >= alone.value - 1e-6
    assert sum(both.by_decision.values()) == pytest.approx(both.value, abs=1e-6)


def test_a_large_factor_that_is_constant_does_not_drown_a_small_one() -> None:
    model = gm.CausalBayesianNetwork(
        {"D": ["a", "b"], "T": ["a", "b"], "K": [0, 1]},
        {"T": ["D"], "K": ["D"]},
        {"D": [0.9, 0.1], "T": np.eye(2), "K": [[1, 0], [1, 0]]},
    )
    alone = gm.meg.causal_utility(model, ["D"], [(["T"], [1e-9, 0])])
    beside = gm.meg.causal_utility(model, ["D"], [(["T"], [1e-9, 0]), (["K"], [7e8, -1e8])])
    # log 2 - H(0.9)
    expected = np.log(2) + 0.9 * np.log(0.9) + 0.1 * np.log(0.1)
    assert alone.value == pytest.approx(expected, abs=1e-12)
    assert beside.value == pytest.approx(expected, abs=1e-12)


def test_many_targets_need_no_square_table() -> None:
    leaves = [f"T{i}" for i in range(16)]
    model = gm.CausalBayesianNetwork(
        {x: [0, 1] for x in ["D", *leaves]},
        {x: ["D"] for x in leaves},
        {"D": [0.8, 0.2]} | {x: [[0.9, 0.1], [0.4, 0.6]] for x in leaves},
    )
    # 65 536 joint outcomes, which tell two actions apart: one number.
    result = gm.meg.targets(model, ["D"], leaves)
    expected = np.log(2) + 0.8 * np.log(0.8) + 0.2 * np.log(0.2)
    assert result.certified
    assert result.value == pytest.approx(expected, abs=1e-9)
