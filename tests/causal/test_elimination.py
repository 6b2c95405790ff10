"""Variable elimination: right, remembered, never larger than it must be, and refused in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from causal.models import many, network_of, random_model, seeds
from hypothesis import given
from hypothesis import strategies as st
from oracles import causal_model as oracle

from goalmeter._errors import InvalidModelError
from goalmeter.causal import CausalBayesianNetwork, elimination
from goalmeter.causal.elimination import Factor, sum_of_product


def chain_of(n: int, stay: float = 0.9) -> CausalBayesianNetwork:
    """A bit that flips with probability 1 - stay at each of n - 1 steps."""
    return CausalBayesianNetwork(
        {f"X{i}": [0, 1] for i in range(n)},
        {f"X{i}": [f"X{i - 1}"] for i in range(1, n)},
        {f"X{i}": [[stay, 1 - stay], [1 - stay, stay]] if i else [1.0, 0.0] for i in range(n)},
    )


def square_of(side: int) -> CausalBayesianNetwork:
    """A grid of bits, each the parity of those above and to the left, with noise."""
    domains: dict[str, Any] = {}
    parents: dict[str, list[str]] = {}
    cpds: dict[str, Any] = {}
    for i in range(side):
        for j in range(side):
            x = f"X{i}{j}"
            domains[x] = [0, 1]
            parents[x] = [*([f"X{i - 1}{j}"] if i else []), *([f"X{i}{j - 1}"] if j else [])]
            cpds[x] = lambda *above: {sum(above) % 2: 0.9, 1 - sum(above) % 2: 0.1}
    return CausalBayesianNetwork(domains, parents, cpds)


# --- By hand --------------------------------------------------------------------------------------


def test_products_of_factors_by_hand() -> None:
    a = Factor(("X", "Y"), np.array([[1.0, 2.0], [3.0, 4.0]]))
    b = Factor(("Y",), np.array([10.0, 100.0]))
    answer = sum_of_product([a, b], ["X"])
    assert answer.variables == ("X",)
    assert answer.values.tolist() == [210.0, 430.0]
    assert sum_of_product([a, b], []).values == 640.0
    assert a.arranged(("Y", "X")).tolist() == [[1, 3], [2, 4]]
    assert a.at({"X": 1}).values.tolist() == [3, 4]
    assert a.at({"Z": 1}) is a


def test_two_hundred_variables_in_a_row() -> None:
    # P(X_n = 0) = 1/2 + (2 stay - 1)^n / 2.
    network = chain_of(200)
    for n in (1, 7, 199):
        expected = 0.5 + 0.8**n / 2
        np.testing.assert_allclose(network.marginal(f"X{n}"), [expected, 1 - expected], rtol=1e-12)
    # Between two observations: Bayes with the chances of both halves.
    ends = network.marginal("X100", given={"X99": 1, "X101": 1})
    np.testing.assert_allclose(ends, [0.01 / 0.82, 0.81 / 0.82], rtol=1e-12)


# --- The enumerated joint -------------------------------------------------------------------------


@given(seed=seeds, data=st.data())
@many
def test_conditionals_are_those_of_the_joint(seed: int, data: Any) -> None:
    model = random_model(seed)
    names = data.draw(st.permutations(list(model.sizes)))
    xs = names[: data.draw(st.integers(0, 3))]
    condition = names[len(xs) :][: data.draw(st.integers(0, 3))]
    answer = network_of(model).elimination.conditional(xs, condition)
    both = oracle.sum_to(model, (*condition, *xs), oracle.probability_table(model))
    known = both.sum(axis=tuple(range(len(condition), both.ndim)), keepdims=True)
    possible = np.broadcast_to(known > 0, both.shape)
    assert answer.shape == both.shape
    expected = np.divide(both, known, out=np.zeros_like(both), where=known > 0)
    np.testing.assert_allclose(answer[possible], expected[possible], atol=1e-12)
    # A row of what cannot happen is empty, or a distribution where nothing asked for shows it.
    sums = answer.sum(axis=tuple(range(len(condition), both.ndim)))
    assert ((np.abs(sums - 1) < 1e-12) | (sums == 0)).all()


# --- Too large ------------------------------------------------------------------------------------


def test_a_model_too_large_to_eliminate_says_what_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(elimination, "MAX_ENTRIES", 16)
    monkeypatch.setattr(elimination, "_SMALL_ENTRIES", 8)
    with pytest.raises(
        InvalidModelError,
        match=r"the model is too large for variable elimination: the best order found needs a "
        r"table over \d variables \(X\d\d, .*\) with \d+ entries, expected at most 16 to store and "
        r"2\.15e\+09 to sum; merge states of these variables, fix some of them with do, or query "
        "fewer targets at a time",
    ):
        square_of(6).marginal("X55")
