"""Utilities in every form that users write, and influence diagrams."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from causal.models import diagram_of, many, network_of, random_team, seeds, several
from hypothesis import given
from oracles import causal_model as oracle
from oracles.random_diagrams import random_policy

from goalmeter._errors import InvalidModelError, InvalidParameterError, InvalidUtilityError
from goalmeter.causal import CausalBayesianNetwork, InfluenceDiagram, utility_of

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


SIDE = ["left", "right"]


def mouse(**options: Any) -> InfluenceDiagram:
    arguments: dict[str, Any] = {
        "domains": {"S": SIDE, "D": SIDE},
        "parents": {"D": ["S"]},
        "cpds": {"S": [0.5, 0.5]},
        "decisions": ["D"],
        "utilities": {"U": (["S", "D"], lambda s, d: 1 if s == d else -1)},
    }
    return InfluenceDiagram(**(arguments | options))


# --- By hand --------------------------------------------------------------------------------------


def test_the_expected_utility_of_the_mouse_by_hand() -> None:
    # 0.8 - 0.2; 0 of a mouse that chooses by a coin; 0.5 (0.8 - 0.2) + 0.5 (0.4 - 0.6).
    policy = {"D": [[0.8, 0.2], [0.2, 0.8]]}
    assert mouse(policy=policy).expected_utility() == pytest.approx(0.6, abs=1e-15)
    assert mouse().expected_utility() == 0.0
    assert mouse().expected_utility(policy) == pytest.approx(0.6, abs=1e-15)
    skewed = {"D": lambda s: {"left": 0.8, "right": 0.2} if s == "left" else [0.6, 0.4]}
    assert mouse().expected_utility(skewed) == pytest.approx(0.2, abs=1e-15)


def test_a_decision_that_is_set_is_a_decision_no_longer() -> None:
    done = mouse(policy={"D": [[1, 0], [0, 1]]}).do(D="left")
    assert done.decisions == ()
    assert done.expected_utility() == 0.0
    kept = mouse(policy={"D": [[1, 0], [0, 1]]}).do({"S": "left"})
    assert kept.decisions == ("D",)
    assert kept.expected_utility() == 1.0


# --- The enumerated joint -------------------------------------------------------------------------


@given(seed=seeds)
@several
def test_the_expected_utility_of_another_policy_and_world(seed: int) -> None:
    model = random_team(seed)
    rng = np.random.default_rng(seed)
    policy = {d: random_policy(rng, model.cpds[d].shape, "mixed") for d in model.decisions}
    changed = oracle.with_policy(model, policy)
    expected_utility = diagram_of(model).expected_utility(policy)
    assert expected_utility == pytest.approx(oracle.expected_utility(changed), abs=1e-12)
    x = str(rng.choice(list(model.sizes)))
    value = int(rng.integers(model.sizes[x]))
    done = diagram_of(model).do({x: value})
    expected = oracle.expected_utility(model, oracle.truncated(model, {x: value}))
    assert done.expected_utility() == pytest.approx(expected, abs=1e-12)


# --- Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"cpds": {"S": [0.5, 0.5], "D": [[1, 0], [0, 1]]}}, InvalidModelError, "expected it in"),
        ({"decisions": ["D", "E"]}, InvalidParameterError, "decision 'E' does not exist"),
        ({"utilities": {"S": (["D"], [0, 1])}}, InvalidModelError, "has the name of a variable"),
        ({"policy": {"D": [[0.5, 0.6]] * 2}}, InvalidModelError, "given S = left sums to"),
    ],
)
def test_diagrams_that_make_no_sense_are_refused(options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        mouse(**options)
