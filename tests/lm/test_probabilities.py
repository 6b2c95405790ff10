"""Probabilities of actions from log-probabilities of tokens, by hand."""

from __future__ import annotations

from math import log
from types import SimpleNamespace
from typing import Any

import pytest

from goalmeter.navigation.prompts import action_probabilities


def token(text: str, probability: float = 1.0, **references: float) -> Any:
    """A token with its alternatives; an underscore stands for what names may not contain."""
    tops = [SimpleNamespace(token=text, logprob=log(probability))]
    tops += [SimpleNamespace(token=t, logprob=log(p)) for t, p in references.items()]
    return SimpleNamespace(token=text, logprob=log(probability), top_logprobs=tops)


def lead(text: str) -> Any:
    return SimpleNamespace(token=text, logprob=0.0, top_logprobs=[])


def test_pieces_of_words_add_up() -> None:
    tokens = [lead('{"action":"'), token("D", 0.5, DO=0.125, L=0.25, R=0.0625), lead('OWN"}')]
    assert action_probabilities(tokens) == pytest.approx((0.25, 0.0625, 0, 0.625))


def test_the_last_answer_counts() -> None:
    first = [lead('{"action": "'), token("UP", 0.9, DOWN=0.1), lead('"} or ')]
    last = [lead('{"action": "'), token("LEFT", 0.75, UP=0.25), lead('"}')]
    assert action_probabilities(first + last) == pytest.approx((0.75, 0, 0.25, 0))


@pytest.mark.parametrize(
    "tokens", [[], [lead("UP")], [lead('{"action": "'), lead("UP")], [lead('{"action": "')]]
)
def test_nothing_to_read(tokens: list[Any]) -> None:
    assert action_probabilities(tokens) is None


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 1e6])
def test_what_is_no_log_probability(wrong: float) -> None:
    drawn, second = token("UP", 0.5, DOWN=0.25), token("UP", 0.5, DOWN=0.25)
    drawn.logprob = second.top_logprobs[1].logprob = wrong
    drawn.token = "LEFT"  # not among the alternatives, so it counts
    for decides in (drawn, second):
        assert action_probabilities([lead('{"action": "'), decides]) is None
    impossible = token("UP", 0.5, DOWN=0.25)
    impossible.top_logprobs[1].logprob = -float("inf")
    assert action_probabilities([lead('{"action": "'), impossible]) == (0, 0, 0.5, 0)
