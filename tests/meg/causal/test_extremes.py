"""Chances and scales far apart: what is rare or small must not be lost, nor decide everything."""

from __future__ import annotations

import numpy as np
import pytest

import goalmeter as gm
from goalmeter._errors import InvalidUtilityError

RARE = 5e-13


def rarely_different() -> gm.CausalBayesianNetwork:
    """The second decision is certain in both contexts of the first, one of them all but unheard of.

    At the best utility the model is so sure of the common context that the rare one has no weight
    in double precision; the policy goes there all the same.
    """
    return gm.CausalBayesianNetwork(
        {"X0": [0, 1], "X1": [0, 1, 2], "X2": [0, 1, 2]},
        {"X1": ["X0"]},
        {"X0": [1 - RARE, RARE], "X1": [[0, 1, 0], [1, 0, 0]], "X2": [0.1, 0.7, 0.2]},
    )


def utilities(n: int) -> list[list[tuple[list[str], np.ndarray]]]:
    rng = np.random.default_rng(7)
    return [[(["X1", "X2"], rng.normal(size=(3, 3)))] for _ in range(n)]


@pytest.mark.parametrize("utility", utilities(6))
def test_a_class_of_one_utility_is_that_utility(utility: list) -> None:
    model = rarely_different()
    known = gm.meg.causal_utility(model, ["X0", "X1"], utility)
    result = gm.meg.causal_class(model, ["X0", "X1"], features=[utility])
    assert result.value == pytest.approx(known.value, abs=1e-7)
    assert result.upper_bound >= known.value - 1e-9


@pytest.mark.parametrize("seed", range(12))
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


def test_a_utility_that_would_overflow_is_refused() -> None:
    model = gm.CausalBayesianNetwork({"D": [0, 1]}, {}, {"D": [0.5, 0.5]})
    with pytest.raises(InvalidUtilityError, match=r"an entry of size 1e\+308, expected at most"):
        gm.meg.causal_utility(model, ["D"], [(["D"], [1e308, 0])])


def test_a_table_asked_for_larger_sets_than_there_are_ends() -> None:
    rows = gm.meg.sensitivity(rarely_different(), ["X0"], up_to=10**30).rows
    assert {row.targets for row in rows} == {("X1",), ("X1", "X2")}


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
