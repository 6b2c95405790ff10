"""Budgets: what they allow, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalmeter._errors import InvalidParameterError
from goalmeter.commands.options import ModelOptions, limits
from goalmeter.navigation.inspect.budget import Budget, Spent

counts = st.integers(0, 10**9)
spendings = st.builds(Spent, counts, counts, counts)


def test_what_money_buys() -> None:
    # 400,000 at $1 and 300,000 at $4 a million: 0.40 + 1.20.
    budget = Budget(usd=1.6, price_in=1.0, price_out=4.0)
    spent = Spent(9, 400_000, 300_000)
    assert budget.cost(spent) == pytest.approx(1.6) and spent.tokens == 700_000
    assert budget.allows(spent) and not budget.allows(spent + Spent(0, 0, 1))
    assert Budget().cost(spent) is None and Budget().to_json(spent)["usd"] is None
    assert budget.to_json(spent) == {
        "calls": 9,
        "input_tokens": 400_000,
        "output_tokens": 300_000,
        "tokens": 700_000,
        "usd": pytest.approx(1.6),
    }


@given(spendings, spendings)
def test_sums_and_differences(some: Spent, more: Spent) -> None:
    assert some + more - more == some
    budget = Budget(calls=some.calls, tokens=some.tokens)
    assert budget.allows(some)
    assert budget.allows(some + more) == (not more.calls and not more.tokens)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"calls": -1}, "calls is -1, expected 0 or more"),
        ({"calls": 10**400}, r"calls is 10+\.\.\.0+, expected 0 or more"),
        ({"usd": float("nan"), "price_in": 1, "price_out": 1}, "usd is nan"),
        ({"usd": 1.0}, "a budget in usd needs price_in and price_out"),
        ({"usd": 1.0, "price_in": 1.0}, "one of the two prices is missing"),
    ],
)
def test_what_is_no_budget(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        Budget(**options)


@pytest.mark.parametrize(
    "text", ["", "5", "calls", "calls=", "calls=x", "calls=1.5", "tokens=-1", "money=3", "usd=inf"]
)
def test_what_is_no_budget_as_it_is_typed(text: str) -> None:
    with pytest.raises(InvalidParameterError, match=r"--budget is .* expected one to three of"):
        limits("--budget", text)


def test_a_limit_is_given_once() -> None:
    with pytest.raises(InvalidParameterError, match="--budget is"):
        limits("--budget", "calls=1,calls=2")


def test_options_make_a_budget() -> None:
    typed = ModelOptions(budget={"usd": 2.0}, price_in=1.0, price_out=3.0)
    assert typed.spending() == Budget(usd=2.0, price_in=1.0, price_out=3.0)
    with pytest.raises(InvalidParameterError, match="--price-in and --price-out"):
        ModelOptions(budget={"usd": 2.0}).spending()
    with pytest.raises(InvalidParameterError, match="--budget: for language models only"):
        ModelOptions(budget={"calls": 2.0}).refuse("greedy")
