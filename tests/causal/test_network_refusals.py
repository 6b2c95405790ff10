"""What `CausalBayesianNetwork` refuses, and in which words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from causal.models import CPDS, DOMAINS, PARENTS, SIDE, mouse

from goalmeter._errors import GoalmeterError, InvalidModelError, InvalidParameterError
from goalmeter.causal import CausalBayesianNetwork, InfluenceDiagram

# --- Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({}, {}, {}), "the model has no variables, expected at least one"),
        (({3: [0]}, {}, {3: [1]}), "a variable is named 3, expected a text"),
        (({" ": [0]}, {}, {" ": [1]}), "a variable is named ' ', expected a text"),
        (
            ({"S": "yes"}, {}, {"S": [1]}),
            r"the domain of 'S' is 'yes', expected a list of its states, such as \['yes', 'no'\]",
        ),
        (({"S": 2}, {}, {"S": [1]}), "the domain of 'S' is 2, expected a list of its states"),
        (
            ({"S": []}, {}, {"S": []}),
            "the domain of 'S' has no states, expected one or more, all different in print",
        ),
        (
            ({"S": ["a", "b", "a"]}, {}, {"S": [1, 0, 0]}),
            "the domain of 'S' has two states that read 'a'",
        ),
        (({"S": [1, "1"]}, {}, {"S": [1, 0]}), "the domain of 'S' has two states that read '1'"),
        (
            ({"S": [None, 1]}, {}, {"S": [1, 0]}),
            "the domain of 'S' has the state None, expected text, numbers or booleans",
        ),
        (({"S": [float("nan")]}, {}, {"S": [1]}), "the domain of 'S' has the state nan"),
        (
            (DOMAINS, {"D": "S"}, CPDS),
            r"the parents of 'D' are 'S', expected a list of names such as \['S'\]",
        ),
        (
            (DOMAINS, {"T": ["S", "S"]}, CPDS),
            r"the parents of 'T' are \('S', 'S'\), expected each one once",
        ),
        (
            ({"Smell": SIDE, "D": SIDE}, {"D": ["smel"]}, {}),
            "parents of 'D': the variable 'smel' does not exist, expected one of Smell, D; did you "
            "mean 'Smell'?",
        ),
        (
            (DOMAINS, {"Tt": ["S"]}, CPDS),
            "parents: variable 'Tt' does not exist, expected one of S, D, T; did you mean 'T'?",
        ),
        (
            (DOMAINS, PARENTS, {**CPDS, "X": [1]}),
            "cpds: variable 'X' does not exist, expected one of S, D, T$",
        ),
        (
            (DOMAINS, {**PARENTS, "S": ["T"]}, CPDS),
            r"the arrows form a cycle \((S|D|T) -> .* -> .*\), expected a directed acyclic graph; "
            "leave one of them out, or give the later variable a copy for each time step",
        ),
        (
            (DOMAINS, {"S": ["S"]}, CPDS),
            r"the arrows form a cycle \(S -> S\)",
        ),
        (
            (DOMAINS, PARENTS, {"S": [0.5, 0.5], "T": CPDS["T"]}),
            "D has no CPD, expected one for each variable; a decision whose policy is not known "
            "belongs in an InfluenceDiagram",
        ),
        ((DOMAINS, PARENTS, {"S": [0.5, 0.5]}), "D, T have no CPD"),
    ],
)
def test_models_that_make_no_sense_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        CausalBayesianNetwork(*arguments)


def test_the_cycle_is_named_along_its_arrows() -> None:
    names = "ABCD"
    domains = {x: [0, 1] for x in names}
    with pytest.raises(InvalidModelError) as caught:
        # A -> B -> C -> B; D hangs on.
        CausalBayesianNetwork(domains, {"B": ["A", "C"], "C": ["B"], "D": ["C"]}, {})
    assert any(f"({circle})" in str(caught.value) for circle in ("B -> C -> B", "C -> B -> C"))
    with pytest.raises(InvalidModelError) as caught:
        CausalBayesianNetwork(domains, {"A": ["C"], "B": ["A"], "C": ["B"]}, {})
    circles = ("A -> B -> C -> A", "B -> C -> A -> B", "C -> A -> B -> C")
    assert any(f"({circle})" in str(caught.value) for circle in circles)


def test_a_change_that_closes_a_circle_is_refused() -> None:
    even = [[0.5, 0.5], [0.5, 0.5]]
    chain = CausalBayesianNetwork(
        dict.fromkeys("ABC", range(2)),
        {"B": ["A"], "C": ["B"]},
        {"A": [0.5, 0.5], "B": even, "C": even},
    )
    diagram = InfluenceDiagram.of(chain, decisions=["B"], utilities={})
    # A -> B -> C, and C is made a cause of A: the message follows the arrows here, too.
    circles = ("A -> B -> C -> A", "B -> C -> A -> B", "C -> A -> B -> C")
    for model in (chain, diagram):
        with pytest.raises(InvalidModelError, match="the arrows form a cycle") as caught:
            model.with_mechanism("A", even, parents=["C"])
        assert any(f"({circle})" in str(caught.value) for circle in circles), caught.value


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda n: n.marginal("t"),
            "variable 't' does not exist, expected one of S, D, T; did you mean 'T'?",
        ),
        (lambda n: n.domain("Q"), "variable 'Q' does not exist, expected one of S, D, T$"),
        (lambda n: n.size("Q"), "variable 'Q' does not exist"),
        (lambda n: n.parents("Q"), "variable 'Q' does not exist"),
        (lambda n: n.children("Q"), "variable 'Q' does not exist"),
        (lambda n: n.cpd("Q"), "variable 'Q' does not exist"),
        (lambda n: n.ancestors("T", "Q"), "variable 'Q' does not exist"),
        (lambda n: n.descendants("Q"), "variable 'Q' does not exist"),
        (lambda n: n.index("Q", 0), "variable 'Q' does not exist"),
        (lambda n: n.with_mechanism("Q", [1]), "variable 'Q' does not exist"),
        (lambda n: n.with_mechanisms({"Q": [1]}), "variable 'Q' does not exist"),
        (lambda n: n.do(Q="left"), "do: variable 'Q' does not exist"),
        (
            lambda n: n.do(S="lefft"),
            "state of 'S': 'lefft' does not exist, expected one of left, right; did you mean "
            "'left'",
        ),
        (lambda n: n.marginal("T", given={"S": "up"}), "state of 'S': 'up' does not exist"),
        (lambda n: n.marginal("T", given={"Q": "up"}), "variable 'Q' does not exist"),
        (
            lambda n: n.marginal(),
            "marginal of nothing given nothing, expected at least one variable, and each of them",
        ),
        (lambda n: n.marginal("S", "S"), "marginal of S, S given nothing"),
        (lambda n: n.marginal("S", given={"S": "left"}), "marginal of S given S, expected"),
        (
            lambda n: n.marginal("S", given={"D": "left", "S": "right", "T": "cheese"}),
            "marginal of S given D, S, T",
        ),
        (
            lambda n: n.do(D="left").marginal("S", given={"D": "right"}),
            "the observation D = right has probability 0, expected one that can happen",
        ),
        (
            lambda n: n.is_d_separated("S", ["D"]),
            r"variables are 'S', expected a list of names such as \['S'\]",
        ),
        (lambda n: n.is_d_separated(3, ["D"]), "variables are 3, expected a list of names"),
        (lambda n: n.ancestors(3), "variable 3 is int, expected a name"),
        (lambda n: n.is_d_separated(["S"], ["D"], ["Q"]), "variable 'Q' does not exist"),
        (lambda n: n.sample(0, np.random.default_rng()), "n is 0, expected a whole number of at"),
        (lambda n: n.sample(2.5, np.random.default_rng()), r"n is 2\.5, expected a whole number"),
    ],
)
def test_questions_that_make_no_sense_are_refused(ask: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        ask(mouse())


def test_long_lists_of_names_are_cut() -> None:
    many_names = {f"X{i}": [0, 1] for i in range(20)}
    network = CausalBayesianNetwork(many_names, {}, {key: [0.5, 0.5] for key in many_names})
    with pytest.raises(InvalidParameterError) as caught:
        network.domain("x19")
    assert str(caught.value) == (
        "variable 'x19' does not exist, expected one of X0, X1, X2, X3, X4, X5, X6, X7 and 12 "
        "more; did you mean 'X19'?"
    )


def test_errors_are_value_errors_of_the_library() -> None:
    with pytest.raises(GoalmeterError):
        CausalBayesianNetwork({}, {}, {})
    with pytest.raises(ValueError):
        mouse().domain("Q")
