"""Questions that make no sense are refused."""

from __future__ import annotations

from typing import Any

import pytest
from meg.causal.instances import CHEESE, mouse

from goalmeter import meg
from goalmeter._errors import InvalidParameterError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decisions": ["d"]}, "decision 'd' does not exist, expected one of S, D, T; did you"),
        ({"decisions": ["D", "D"]}, "decisions are D, D, expected one or more, each of them once"),
        ({"utility": None}, "the utility is missing, expected {variable: {state: number}}"),
        ({"do": {"S": "lift"}}, "state of 'S': 'lift' does not exist"),
        ({"do": {"D": "left"}}, "do sets the decision 'D', expected other variables"),
    ],
)
def test_questions_that_make_no_sense_are_refused(options: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        meg.causal_utility(mouse(), **{"decisions": ["D"], "utility": CHEESE, **options})


@pytest.mark.parametrize(
    ("targets", "options", "message"),
    [
        (["T", "D"], {}, "the target 'D' is one of the decisions, expected other variables"),
        (["t"], {}, "target 't' does not exist, expected one of S, D, T; did you mean 'T'?"),
        ([], {}, "targets are missing, expected one or more, each of them once"),
        ("T", {}, r"targets are 'T', expected a list of names such as \['T'\]"),
        (["T"], {"tolerance": 0.0}, "tolerance is 0.0, expected a positive number"),
    ],
)
def test_targets_that_make_no_sense_are_refused(targets: Any, options: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        meg.targets(mouse(), ["D"], targets, **options)
