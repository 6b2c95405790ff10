"""What `CausalBayesianNetwork` refuses, and in which words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from causal.models import CPDS, DOMAINS, PARENTS, SIDE, mouse

from goalmeter._errors import InvalidModelError, InvalidParameterError
from goalmeter.causal import CausalBayesianNetwork

# --- Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({}, {}, {}), "the model has no variables, expected at least one"),
        (
            ({"S": "yes"}, {}, {"S": [1]}),
            r"the domain of 'S' is 'yes', expected a list of its states, such as \['yes', 'no'\]",
        ),
        (
            ({"S": ["a", "b", "a"]}, {}, {"S": [1, 0, 0]}),
            "the domain of 'S' has two states that read 'a'",
        ),
        (({"S": [float("nan")]}, {}, {"S": [1]}), "the domain of 'S' has the state nan"),
        (
            ({"Smell": SIDE, "D": SIDE}, {"D": ["smel"]}, {}),
            "parents of 'D': the variable 'smel' does not exist, expected one of Smell, D; did you "
            "mean 'Smell'?",
        ),
        (
            (DOMAINS, {**PARENTS, "S": ["T"]}, CPDS),
            r"the arrows form a cycle \((S|D|T) -> .* -> .*\), expected a directed acyclic graph; "
            "leave one of them out, or give the later variable a copy for each time step",
        ),
        ((DOMAINS, PARENTS, {"S": [0.5, 0.5]}), "D, T have no CPD"),
    ],
)
def test_models_that_make_no_sense_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        CausalBayesianNetwork(*arguments)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda n: n.marginal("t"),
            "variable 't' does not exist, expected one of S, D, T; did you mean 'T'?",
        ),
        (lambda n: n.parents("Q"), "variable 'Q' does not exist"),
        (lambda n: n.ancestors("T", "Q"), "variable 'Q' does not exist"),
        (lambda n: n.with_mechanism("Q", [1]), "variable 'Q' does not exist"),
        (
            lambda n: n.do(S="lefft"),
            "state of 'S': 'lefft' does not exist, expected one of left, right; did you mean "
            "'left'",
        ),
        (
            lambda n: n.marginal(),
            "marginal of nothing given nothing, expected at least one variable, and each of them",
        ),
        (
            lambda n: n.marginal("S", given={"D": "left", "S": "right", "T": "cheese"}),
            "marginal of S given D, S, T",
        ),
        (lambda n: n.is_d_separated(3, ["D"]), "variables are 3, expected a list of names"),
        (lambda n: n.sample(0, np.random.default_rng()), "n is 0, expected a whole number of at"),
    ],
)
def test_questions_that_make_no_sense_are_refused(ask: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        ask(mouse())
