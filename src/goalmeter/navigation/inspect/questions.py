"""A question to a model on its way: what it may cost, and how often and when it is put again.

Budget. Before a question is put, the most that it can cost is set aside: a call, as many input
tokens as its prompt has bytes and `TEMPLATE` more, and as many output tokens as an answer may have.
It waits while what was spent and what others have set aside leave no room; when what was spent
alone leaves none, the budget is reached. So a server that keeps to the limit of an answer and a
tokenizer that makes no more tokens than bytes never exceed a budget.

Retries. What the server failed is put again `max_retries` times, after 3, 6, 12, ... up to 60
seconds, each of them times a random factor from a half to one and a half, so that questions that
failed together do not come back together. Where the server says when (Retry-After), it is asked
then, or up to a quarter later. An answer that it has too much to do is no failure: the question is
put again for as long as `PATIENCE`, whatever `max_retries` says.
"""

from __future__ import annotations

import random
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter.navigation.asking.spending import Budget, Spent
from goalmeter.navigation.inspect.failures import BUDGET, GivenUpError
from goalmeter.navigation.inspect.ledger import Ledger

if TYPE_CHECKING:
    import anyio

# Tokens that a chat template puts around a prompt, such as harmony's system message, at most.
TEMPLATE = 512
FIRST_WAIT, LONGEST_WAIT = 3.0, 60.0
# Seconds for which a question is put again to a server that only says that it has too much to do.
PATIENCE = 3600.0
# No seed: two clients of one server with the same seed would come back together.
_jitter = random.Random()


class Account:
    """The spending of a run, and what its questions on their way have set aside.

    All of them are asked in one thread, so nothing here changes between two awaits.

    Args:
        ledger: of the run.
        budget: the most that may be spent.
        answer_tokens: the most of an answer.
        max_retries: how often a question that the server failed is put again.

    Attributes:
        reached: whether a question was refused, since the budget does not allow it any more.
        broken: what made it impossible to keep count.
    """

    def __init__(
        self, ledger: Ledger, budget: Budget, *, answer_tokens: int, max_retries: int
    ) -> None:
        self.ledger, self.budget, self.max_retries = ledger, budget, max_retries
        self.reached = False
        self.broken: GoalmeterError | None = None
        self._answer_tokens = answer_tokens
        self._set_aside = Spent()
        self._changed: anyio.Event | None = None
        least = self.most("")
        if not budget.allows(least):
            raise InvalidParameterError(
                f"the budget does not allow a single question: one may cost "
                f"{budget.in_words(least)}; raise the budget, or lower max_tokens, which is "
                f"{answer_tokens}"
            )

    def most(self, prompt: str) -> Spent:
        """The most that one call with a prompt may cost."""
        return Spent(1, len(prompt.encode(errors="replace")) + TEMPLATE, self._answer_tokens)

    async def set_aside(self, most: Spent) -> None:
        """Wait until there is room for so much, and take it."""
        while True:
            if self.reached or not self.budget.allows(self.ledger.spent + most):
                self.reached = True
                raise GivenUpError(BUDGET)
            if self.budget.allows(self.ledger.spent + self._set_aside + most):
                self._set_aside += most
                return
            # An event belongs to one evaluation, and there are several in a run.
            import anyio  # comes with inspect_ai, which a base installation lacks

            self._changed = self._changed or anyio.Event()
            await self._changed.wait()

    def release(self, amount: Spent) -> None:
        """Give back what was set aside."""
        self._set_aside -= amount
        if self._changed is not None:
            self._changed.set()
            self._changed = None


class Question:
    """One question, which may take several calls until there is an answer."""

    def __init__(self, account: Account, prompt: str) -> None:
        self._account = account
        self._most = account.most(prompt)
        self._held = Spent()
        self._calls = self._failed = 0
        self._busy_since: float | None = None
        self._told: float | None = None

    async def __aenter__(self) -> Question:
        return self

    async def __aexit__(self, *error: object) -> None:
        self._let_go(self._held)

    async def call(self) -> None:
        """A request is about to be sent; raises what ends the question instead."""
        if self._failed > self._account.max_retries:
            # Inspect retries what took too long without asking anybody.
            raise TimeoutError(f"no answer in time, asked {self._calls} times")
        # Here and not before there is a connection: a question that is put again keeps its own, and
        # would wait for ever for what others have set aside that wait for a connection.
        self._let_go(self._held)
        await self._account.set_aside(self._most)
        self._held = self._most
        self._calls += 1
        self._failed += 1  # until there is an answer
        self._told = None
        try:
            self._account.ledger.called()
        except GoalmeterError as error:
            self._account.broken = error
            raise GivenUpError(BUDGET) from error
        self._let_go(Spent(calls=1))

    def answered(self, usage: Any) -> None:
        """The reply has come, with Inspect's count of its tokens; None where it has none."""
        account = self._account
        if usage is None:
            if account.budget.limits_tokens:
                account.broken = InvalidParameterError(
                    "the server does not say how many tokens its answers took, so that a budget in "
                    "tokens or usd cannot be kept; limit calls instead"
                )
                raise GivenUpError(BUDGET) from account.broken
            return
        cached = (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)
        read = usage.input_tokens + cached
        # Providers differ in whether reasoning is part of the output; it is part of the total.
        written = max(usage.output_tokens, usage.reasoning_tokens or 0, usage.total_tokens - read)
        try:
            account.ledger.answered(Spent(0, read, written))
        except GoalmeterError as error:
            account.broken = error
            raise GivenUpError(BUDGET) from error
        self._let_go(Spent(0, self._held.input_tokens, self._held.output_tokens))

    def may_be_put_again(self, *, is_busy: bool, after: float | None) -> bool:
        """Whether to put it again after a failure.

        Args:
            is_busy: whether the server had too much to do.
            after: seconds after which it wants to be asked again, if it says so.
        """
        self._told = after
        if after is not None and after > PATIENCE:
            return False
        if not is_busy:
            self._busy_since = None
            return self._failed <= self._account.max_retries
        self._failed -= 1
        now = time.monotonic()
        self._busy_since = now if self._busy_since is None else self._busy_since
        return now - self._busy_since <= PATIENCE

    def wait(self, attempt: Any) -> float:
        """Seconds until it is put again; `attempt` is tenacity's account of the last one."""
        if self._failed > self._account.max_retries:
            return 0.0  # it will not be
        if self._told is not None:
            return self._told * _jitter.uniform(1.0, 1.25)
        attempts: int = attempt.attempt_number
        backoff = FIRST_WAIT * 2.0 ** min(attempts - 1, 10)
        return min(backoff, LONGEST_WAIT) * _jitter.uniform(0.5, 1.5)

    def _let_go(self, amount: Spent) -> None:
        self._held -= amount
        self._account.release(amount)


# The question that this task waits for; None where nobody counts, as under `inspect eval`.
question: ContextVar[Question | None] = ContextVar("question", default=None)
