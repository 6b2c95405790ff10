"""Numbers that are asked for: every range has two ends, and no number is too large to refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from goalmeter._errors import InvalidParameterError, finite, whole, whole_in_text


def test_numbers_of_any_kind_become_pythons() -> None:
    assert whole(np.int8(3), "n", least=1, most=3) == 3
    assert type(whole(np.int8(3), "n", least=1, most=3)) is int
    assert finite(np.float32(0.5), "x", least=0, most=1) == 0.5
    assert finite(2, "x", least=0, most=10) == 2.0
    assert whole_in_text(" 42 ", "n", least=0, most=100) == 42


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "n is 0, expected at least 1"),
        (11, "n is 11, expected at most 10"),
        pytest.param(10**5000, "n is an integer of 16610 bits, expected at most 10", id="huge"),
        (1.5, "n is 1.5, expected an integer, 1 or more"),
        ("3", "n is '3', expected an integer"),
    ],
)
def test_whole_numbers_out_of_range(value: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        whole(value, "n", least=1, most=10)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -float("inf"), -1, 2, 10**400, True, "1", None]
)
def test_numbers_that_are_none_or_out_of_range(value: Any) -> None:
    with pytest.raises(InvalidParameterError, match=r"x is .*, expected a number from 0 to 1"):
        finite(value, "x", least=0, most=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9" * 5000, "K is '9999.*9999', expected at most 100"),
        ("101", "K is 101, expected at most 100"),
        ("x", "K is 'x', expected a whole number"),
        ("-1", "K is -1, expected at least 0"),
    ],
)
def test_whole_numbers_in_text(text: str, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        whole_in_text(text, "K", least=0, most=100)
