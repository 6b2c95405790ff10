"""Utilities: every form that users write is the same sum of factors, and the rest is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from causal.models import diagram_of, many, network_of, random_team, seeds
from hypothesis import given
from oracles import causal_model as oracle

from goalmeter._errors import InvalidUtilityError
from goalmeter.causal import CausalBayesianNetwork, Utility, utility_of
from goalmeter.causal.elimination import Factor

NETWORK = CausalBayesianNetwork(
    {"T": ["cheese", "none"], "N": [0, 1, 2], "values": [0, 1]},
    {"N": ["T"]},
    {"T": [0.8, 0.2], "N": [[1, 0, 0], [0, 0.5, 0.5]], "values": [0, 1]},
)


def tables(written: Any) -> list[tuple[tuple[str, ...], Any]]:
    return [(f.variables, f.values.tolist()) for f in utility_of(NETWORK, written).factors]


# --- By hand --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        {"T": {"cheese": 1, "none": -1}},
        {"T": {"none": -1, "cheese": 1}},
        {"T": [1, -1]},
        (("T",), [1, -1]),
        (["T"], np.array([1, -1])),
        [["T"], [1, -1]],
        (("T",), lambda t: 1 if t == "cheese" else -1),
        {"variables": ["T"], "values": [1, -1]},
        [{"variables": ["T"], "values": [1, -1]}],
        [(("T",), [1, -1])],
        [(("T",), lambda t: {"cheese": 1, "none": -1}[t])],
        utility_of(NETWORK, {"T": [1, -1]}),
        json.loads('[{"variables": ["T"], "values": [1, -1]}]'),
    ],
)
def test_the_ways_to_want_cheese(written: Any) -> None:
    assert tables(written) == [(("T",), [1.0, -1.0])]
    assert utility_of(NETWORK, written).expected(NETWORK) == pytest.approx(0.6)


def test_a_mapping_of_variables_is_added_up() -> None:
    written = {"T": {"cheese": 1, "none": 0}, "N": {"0": 0, 1: 10, 2: 20.0}}
    assert tables(written) == [(("T",), [1, 0]), (("N",), [0, 10, 20])]
    # 0.8 + 0.2 (5 + 10).
    assert utility_of(NETWORK, written).expected(NETWORK) == pytest.approx(3.8)
    assert utility_of(NETWORK, written).variables == ("T", "N")


def test_a_function_reads_the_values_of_its_variables_in_order() -> None:
    written = (("N", "T"), lambda n, t: n + (10 if t == "cheese" else 0))
    assert tables(written) == [(("N", "T"), [[10, 0], [11, 1], [12, 2]])]
    # P(N = 0, cheese) = 0.8, P(N = 1, none) = P(N = 2, none) = 0.1.
    assert utility_of(NETWORK, written).expected(NETWORK) == pytest.approx(8.3)


def test_factors_of_a_list_are_kept_apart_and_added_up() -> None:
    written = [(("T",), [1, 0]), {"variables": ["T", "N"], "values": [[0, 1, 2], [3, 4, 5]]}]
    assert [variables for variables, _ in tables(written)] == [("T",), ("T", "N")]
    assert utility_of(NETWORK, written).expected(NETWORK) == pytest.approx(0.8 + 0.2 * 4.5)


def test_several_variables_may_be_a_key() -> None:
    written = {"T": [1, 0], ("T", "N"): lambda t, n: 10 * n, ("N",): [0, 0, 1]}
    assert tables(written) == [
        (("T",), [1, 0]),
        (("T", "N"), [[0, 10, 20], [0, 10, 20]]),
        (("N",), [0, 0, 1]),
    ]


def test_a_constant_reads_nothing() -> None:
    assert tables(((), 3.0)) == [((), 3.0)]
    assert utility_of(NETWORK, [((), 3.0), (("T",), [1, 0])]).expected(NETWORK) == pytest.approx(
        3.8
    )
    for nothing in ([], {}):
        with pytest.raises(InvalidUtilityError, match="the utility has no factors, expected at"):
            utility_of(NETWORK, nothing)


def test_a_variable_may_be_called_values() -> None:
    assert tables({"values": {0: 1, 1: 2}}) == [(("values",), [1, 2])]


def test_numbers_are_copied() -> None:
    written = np.array([1.0, -1.0])
    utility = utility_of(NETWORK, (("T",), written))
    written[:] = 0
    assert utility.factors[0].values.tolist() == [1, -1]
    with pytest.raises(ValueError, match="read-only"):
        utility.factors[0].values[0] = 2


# --- The enumerated joint -------------------------------------------------------------------------


@given(seed=seeds)
@many
def test_the_expected_utility_is_that_of_the_joint(seed: int) -> None:
    model = random_team(seed)
    network = network_of(model)
    expected = oracle.expected_utility(model)
    assert utility_of(network, list(model.factors)).expected(network) == pytest.approx(
        expected, abs=1e-12
    )
    assert diagram_of(model).utility.expected(network) == pytest.approx(expected, abs=1e-12)


# --- Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            "cheese",
            r"the utility is 'cheese', expected {variable: {state: number}}, a pair \(variables, "
            r"array\), or a list of {'variables': \[...\], 'values': \[...\]}",
        ),
        (3, "the utility is 3, expected"),
        (
            {"t": {"cheese": 1, "none": 0}},
            "utility: variable 't' does not exist, expected one of T, N, values; did you mean 'T'?",
        ),
        (
            {"T": {"cheez": 1, "none": 0}},
            "utility: state of 'T': 'cheez' does not exist, expected one of cheese, none; did you "
            "mean 'cheese'?",
        ),
        (
            {"T": {"cheese": 1}},
            "the utility of 'T' leaves out none, expected a number for each state",
        ),
        ({"N": {0: 1}}, "the utility of 'N' leaves out 1, 2, expected a number for each state"),
        (
            {"T": [1, 2, 3]},
            r"the utility over T has shape \[3\], expected \[2\]: one number for each combination "
            "of states, in the order of the model",
        ),
        (
            (("T", "N"), [[1, 2], [3, 4], [5, 6]]),
            r"over T, N has shape \[3, 2\], expected \[2, 3\]",
        ),
        ((("T", "T"), [[1, 2], [3, 4]]), "a utility factor reads T, T, expected each once"),
        ((("T",), [1, np.nan]), r"the utility over T\[1\] is nan, expected a finite number"),
        ((("T",), [1, np.inf]), r"the utility over T\[1\] is inf, expected a finite number"),
        (
            (("T",), [0, 1e301]),
            r"the utility over T has an entry of size 1e\+301, expected at most 1e\+300; measure "
            r"it in "
            "a larger unit",
        ),
        (
            (("T",), lambda t, n: 0),
            "the utility's function cannot be called with 1 values: .*missing 1 required",
        ),
        ((("T",), lambda t: t), "the utility over T is not an array of numbers"),
        ((("T",), ["a", "b"]), "the utility over T is not an array of numbers"),
        (
            [{"variables": "T", "values": [0, 1]}],
            "the variables of a utility factor are 'T', expected a list of names",
        ),
        (
            [{"variables": ["T"], "value": [0, 1]}],
            "a factor of the utility has the keys 'variables', 'value', expected 'variables' and "
            "'values'",
        ),
        ([{}], "a factor of the utility has the keys none, expected"),
        (
            ["T", "N"],
            r"a factor of the utility is 'T', expected {'variables': \[\.\.\.\], 'values'",
        ),
        ([3], "a factor of the utility is 3, expected"),
        (Utility((Factor(("Q",), np.zeros(2)),)), "utility: variable 'Q' does not exist"),
    ],
)
def test_what_is_no_utility_is_refused(written: Any, message: str) -> None:
    with pytest.raises(InvalidUtilityError, match=message):
        utility_of(NETWORK, written)
