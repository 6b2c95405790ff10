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
from goalmeter.causal import CausalBayesianNetwork, utility_of

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
        ("cheese", r"the utility is 'cheese', expected {variable: {state: number}}"),
        ({"T": {"cheez": 1, "none": 0}}, "'cheez' does not exist.*did you mean 'cheese'?"),
        ({"T": [1, 2, 3]}, r"the utility over T has shape \[3\], expected \[2\]"),
        ((("T",), [1, np.nan]), r"the utility over T\[1\] is nan, expected a finite number"),
        ((("T",), lambda t, n: 0), "cannot be called with 1 values: .*missing 1 required"),
        ([{"variables": "T", "values": [0, 1]}], "are 'T', expected a list of names"),
        (["T", "N"], "a factor of the utility is 'T', expected"),
        ([], "the utility has no factors"),
    ],
)
def test_what_is_no_utility_is_refused(written: Any, message: str) -> None:
    with pytest.raises(InvalidUtilityError, match=message):
        utility_of(NETWORK, written)
