"""Budgets of language-model runs, in the limits of Inspect."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields
from sys import float_info
from typing import Any

from goalmeter._errors import GoalmeterError, InvalidParameterError, shown
from goalmeter._files import JsonFields


@dataclass(frozen=True)
class Budget(JsonFields):
    """Limits on the tokens and the cost of a run, over all its commands."""

    tokens: int | None = None  # input and output tokens together; None for no limit
    usd: float | None = None  # cost in US dollars; None for no limit. It needs both prices
    price_in: float | None = None  # US dollars for a million input tokens
    price_out: float | None = None  # US dollars for a million output tokens

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            # The comparison is false for NaN as well.
            if value is not None and not 0 <= value <= float_info.max:
                raise InvalidParameterError(f"{each.name} is {shown(value)}, expected 0 or more")
        prices = (self.price_in, self.price_out)
        if None in prices and (self.usd is not None or prices != (None, None)):
            raise InvalidParameterError(
                "price_in and price_out are needed together, and for a budget in usd; give both, "
                "in US dollars for a million tokens"
            )

    def limits(self, spent: Mapping[str, Any]) -> ExitStack:
        """Open the limits of Inspect on what is left after `spent`."""
        from inspect_ai.util import cost_limit, token_limit

        stack = ExitStack()
        if self.tokens is not None:
            stack.enter_context(token_limit(max(0, self.tokens - spent["tokens"])))
        if self.usd is not None:
            stack.enter_context(cost_limit(max(0.0, self.usd - (spent["usd"] or 0.0))))
        return stack

    def set_prices(self, model: str) -> None:
        """Tell Inspect the prices of a model, if there are any."""
        if self.price_in is None or self.price_out is None:
            return
        from inspect_ai.model import ModelCost, ModelInfo, get_model_info, set_model_info

        cost = ModelCost(
            input=self.price_in,
            output=self.price_out,
            input_cache_write=self.price_in,
            input_cache_read=self.price_in,
        )
        known = get_model_info(model) or ModelInfo()
        set_model_info(model, known.model_copy(update={"cost": cost}))


class BudgetReachedError(GoalmeterError):
    """A command reached its budget before all of its trajectories had ended."""

    def __init__(self, spent: Mapping[str, Any], budget: Budget, *, ended: int, walks: int) -> None:
        self.spent, self.budget, self.ended, self.walks = spent, budget, ended, walks
        usd = "" if spent["usd"] is None else f", ${spent['usd']:.2f}"
        super().__init__(
            f"the budget is reached after {spent['tokens']} tokens{usd}: {ended} of {walks} walks "
            f"have ended"
        )
