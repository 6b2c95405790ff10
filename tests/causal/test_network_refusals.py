"""What `CausalBayesianNetwork` refuses: models, CPDs and queries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from causal.models import CPDS, DOMAINS, PARENTS, SIDE, mouse

from goalmeter._errors import InvalidModelError, InvalidParameterError
from goalmeter.causal import CausalBayesianNetwork


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({}, {}, {}), "the model has no variables"),
        (({"S": "yes"}, {}, {"S": [1]}), "the domain of 'S' is 'yes'"),
        (({"S": ["a", "b", "a"]}, {}, {"S": [1, 0, 0]}), "has two states that read 'a'"),
        (({"S": [float("nan")]}, {}, {"S": [1]}), "the domain of 'S' has the state nan"),
        (({"Smell": SIDE, "D": SIDE}, {"D": ["smel"]}, {}), "did you mean 'Smell'?"),
        ((DOMAINS, {**PARENTS, "S": ["T"]}, CPDS), r"form a cycle \((S|D|T) -> .* -> .*\)"),
        ((DOMAINS, PARENTS, {"S": [0.5, 0.5]}), "D, T have no CPD"),
    ],
)
def test_models_that_make_no_sense_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        CausalBayesianNetwork(*arguments)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ([[0.8, 0.2], [0.3, 0.6]], r"the CPD of 'D' given S = right sums to 0\.9, expected"),
        ([[1.5, -0.5], [0, 1]], r"given S = left has the negative probability -0\.5, expected"),
        ([0.5, 0.5], r"the CPD of 'D' has shape \[2\], expected \[2, 2\]"),
        ("left", r"cpds\['D'\] is not an array of numbers"),
        (lambda s: None, "given S = left: the returned state None does not exist"),
        (lambda s: [1, 0, 0], r"given S = left returns \[1, 0, 0\], expected 2 probabilities"),
        (lambda s: {"left": np.nan, "right": 1.0}, r"the CPD of 'D'\[0, 0\] is nan, expected"),
    ],
)
def test_what_is_no_distribution_is_refused(written: Any, message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        mouse(D=written)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda n: n.marginal("t"), "variable 't' does not exist.*did you mean 'T'?"),
        (lambda n: n.with_mechanism("Q", [1]), "variable 'Q' does not exist"),
        (lambda n: n.do(S="lefft"), "state of 'S': 'lefft' does not exist.*did you mean 'left'"),
        (lambda n: n.marginal(), "marginal of nothing given nothing"),
        (lambda n: n.marginal("S", given={"S": "right"}), "marginal of S given S"),
        (lambda n: n.is_d_separated(3, ["D"]), "variables are 3, expected a list of names"),
        (lambda n: n.sample(0, np.random.default_rng()), "n is 0, expected a whole number of at"),
    ],
)
def test_questions_that_make_no_sense_are_refused(ask: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        ask(mouse())
