"""What asking a language model costs, and a budget that ends a run cleanly.

A call is one request to the server, also one that it failed or answered with an error: those cost a
call and no tokens. Output tokens are all that was written, reasoning included; input tokens are all
that was read, those that the server had cached included.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from sys import float_info
from typing import Any

from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter._text import shown

PER_MILLION = 1_000_000


@dataclass(frozen=True)
class Spent:
    """Calls, input tokens and output tokens."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, more: Spent) -> Spent:
        return Spent(*(getattr(self, f.name) + getattr(more, f.name) for f in fields(Spent)))

    def __sub__(self, less: Spent) -> Spent:
        return Spent(*(getattr(self, f.name) - getattr(less, f.name) for f in fields(Spent)))


@dataclass(frozen=True)
class Budget:
    """The most that a run may spend, over all the commands that worked on it.

    Attributes:
        calls: requests to the server; None for any number.
        tokens: input and output together; None for any number.
        usd: money; None for any sum. It is computed of all tokens of the run with these prices.
        price_in: US dollars for a million input tokens.
        price_out: US dollars for a million output tokens.
    """

    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    price_in: float | None = None
    price_out: float | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            # A NaN is at least nothing.
            if value is not None and not 0 <= value <= float_info.max:
                raise InvalidParameterError(f"{each.name} is {shown(value)}, expected 0 or more")
        if (self.price_in is None) != (self.price_out is None):
            raise InvalidParameterError(
                "one of the two prices is missing, price_in or price_out; give both, in US dollars "
                "for a million tokens"
            )
        if self.usd is not None and self.price_in is None:
            raise InvalidParameterError(
                "a budget in usd needs price_in and price_out, in US dollars for a million tokens"
            )

    def cost(self, spent: Spent) -> float | None:
        """What was spent in US dollars; None without prices."""
        if self.price_in is None or self.price_out is None:
            return None
        paid = spent.input_tokens * self.price_in + spent.output_tokens * self.price_out
        return paid / PER_MILLION

    def allows(self, spent: Spent) -> bool:
        """Whether so much may be spent in all."""
        cost = self.cost(spent)
        limits = ((self.calls, spent.calls), (self.tokens, spent.tokens), (self.usd, cost))
        return all(most is None or (at or 0) <= most for most, at in limits)

    @property
    def limits_tokens(self) -> bool:
        """Whether it has to be known how many tokens an answer took."""
        return self.tokens is not None or self.usd is not None

    def to_json(self, spent: Spent) -> dict[str, Any]:
        """What was spent as JSON values; `usd` is null without prices."""
        plain = {each.name: getattr(spent, each.name) for each in fields(spent)}
        return plain | {"tokens": spent.tokens, "usd": self.cost(spent)}

    def in_words(self, spent: Spent) -> str:
        """What was spent of what.

        >>> Budget(calls=10, usd=2, price_in=1, price_out=4).in_words(Spent(9, 400_000, 300_000))
        '9 of 10 calls, 700000 tokens, $1.60 of $2'
        """
        tokens = f"{spent.tokens}{_of(self.tokens)} tokens"
        words = [f"{spent.calls}{_of(self.calls)} calls", tokens]
        cost = self.cost(spent)
        if cost is not None:
            words.append(f"${cost:.2f}" + (f" of ${self.usd:g}" if self.usd is not None else ""))
        return ", ".join(words)


def _of(most: float | None) -> str:
    return "" if most is None else f" of {most}"


class BudgetReachedError(GoalmeterError):
    """A run has spent its budget before all of its walks had ended.

    Attributes:
        spent: over all the commands that worked on the run.
        budget: what it was allowed.
        ended: walks that have ended, and are kept.
        half: walks that have begun, and go on where they were.
        walks: how many there are to be.
    """

    def __init__(self, spent: Spent, budget: Budget, *, ended: int, half: int, walks: int) -> None:
        self.spent, self.budget = spent, budget
        self.ended, self.half, self.walks = ended, half, walks
        super().__init__(
            f"the budget is reached after {budget.in_words(spent)}: {ended} of {walks} walks have "
            f"ended and {half} are half-way; the same with a larger budget goes on from there"
        )
