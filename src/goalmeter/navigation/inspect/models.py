"""Query a model through Inspect: failures by name, retries and costs, and access to the model."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goalmeter._errors import GoalmeterError, InvalidParameterError, MissingExtraError, require
from goalmeter.agents.local_models import check_folder
from goalmeter.navigation.inspect.budget import Budget, Ledger, Spent
from goalmeter.navigation.prompts import Asking
from goalmeter.runs.jobs import in_a_line

if TYPE_CHECKING:
    import anyio


# --- Failures -------------------------------------------------------------------------------------
# timeout               no answer in time, however often was asked server unreachable    no
# connection, or one that broke: the server died server error          it answered with an error
# of its own (5xx), or without any content rate limit            it had too much to do (429)
# request refused       it did not accept the question (other 4xx) time limit, token limit, ...
# a limit that was set for the whole walk token cap             the walk's own allowance of tokens
# is used up context overflow      the prompt, with room for an answer, is longer than the model's
# context budget                the run has spent what it was allowed, and goes on with a larger
# budget model error           anything else that went wrong in asking error
# something went wrong outside of the questions
#
# Limits are part of how a model is asked, its context is part of the model, and the walk has
# ended. The others are failures of the server or of the way to it: the walk can be made again.
# One that the budget ended goes on where it was.

TIMEOUT = "timeout"
UNREACHABLE = "server unreachable"
SERVER_ERROR = "server error"
RATE_LIMIT = "rate limit"
REFUSED = "request refused"
TOKEN_CAP = "token cap"
CONTEXT = "context overflow"
TIME_LIMIT = "time limit"
MODEL_ERROR = "model error"
ERROR = "error"
BUDGET = "budget"
# Tried again in vain, and the whole question with the error at its end.
_PASSED_ON = ("RetryError", "ModelGenerateError")
# How servers say that a prompt is too long. They have no status of their own for it, and few codes.
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size"
    r"|maximum context length|context (?:length|size|window)"
    r"|prompt is too long|input is too long|input length"
    r"|input token count .* exceeds|`inputs` tokens"
    r"|max_tokens must be at least 1",
    re.IGNORECASE,
)
_REFUSED_AS = (400, 413, 422)
_MARKUP = re.compile(r"\[/?[a-z ]+\]")  # of what Inspect prints
# Walks that ended so are made again.
FAILURES = frozenset(
    {TIMEOUT, UNREACHABLE, SERVER_ERROR, RATE_LIMIT, REFUSED, MODEL_ERROR, ERROR, BUDGET}
)


class GivenUpError(Exception):
    """A walk is not begun, since all those before it failed; the outcome is theirs."""

    def __init__(self, outcome: str) -> None:
        super().__init__(f"not begun, as the walks before it ended with: {outcome}")
        self.outcome = outcome


class EmptyReplyError(Exception):
    """A server replied, but with no answer in it, not even an empty one."""


def failure_of(error: BaseException) -> str:
    """The name of what an error means.

    Errors of clients are told apart by their names and status codes, since every provider brings
    its own classes.
    """
    chain = list(_causes(error))
    for cause in chain:
        if isinstance(cause, GivenUpError):
            return cause.outcome
    names = [kind.__name__ for e in chain for kind in type(e).__mro__]
    if "LimitExceededError" in names:
        return f"{getattr(error, 'type', 'sample')} limit"
    if any(isinstance(cause, EmptyReplyError) or is_garbled(cause) for cause in chain):
        return SERVER_ERROR
    for cause in chain:
        status = getattr(cause, "status_code", None)
        if isinstance(status, int) and status >= 400:
            if status in _REFUSED_AS and _TOO_LONG.search(f"{cause} {getattr(cause, 'code', '')}"):
                return CONTEXT
            if status in (408, 504):
                return TIMEOUT
            if status == 429:
                return RATE_LIMIT
            return SERVER_ERROR if status >= 500 else REFUSED
    if any("Timeout" in name for name in names):
        return TIMEOUT
    unreachable = ("ConnectionError", "ConnectError", "RemoteProtocolError", "NetworkError")
    if any(name.endswith(unreachable) for name in names):
        return UNREACHABLE
    return MODEL_ERROR


def is_garbled(error: BaseException) -> bool:
    """Whether a reply was no JSON, or not that of an answer: what lies before the server broke."""
    return type(error).__name__ in ("JSONDecodeError", "APIResponseValidationError")


def reason_of(error: BaseException) -> str:
    """An error in a line: what lies behind the errors that only pass it on.

    >>> reason_of(ValueError("[bold]ERROR[/bold]: no key"))
    'ValueError: ERROR: no key'
    """
    chain = list(_causes(error))
    reason = next((e for e in chain if type(e).__name__ not in _PASSED_ON), chain[-1])
    return _MARKUP.sub("", in_a_line(reason))


def is_ours_to_mend(error: BaseException) -> bool:
    """Whether something is missing here, such as a package or a key, so that no walk can be made.

    Inspect has one class for that.
    """
    return any(type(e).__name__ == "PrerequisiteError" for e in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what it came from."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        at = at.__cause__ or at.__context__


# --- Questions ------------------------------------------------------------------------------------
# Budget. Before a question is put, the most that it can cost is set aside: a call, as many input
# tokens as its prompt has bytes and `TEMPLATE` more, and as many output tokens as an answer may
# have.
# It waits while what was spent and what others have set aside leave no room; when what was spent
# alone leaves none, the budget is reached. So a server that keeps to the limit of an answer and a
# tokenizer that makes no more tokens than bytes never exceed a budget.
#
# Retries. What the server failed is put again `max_retries` times, after 3, 6, 12, ... up to 60
# seconds, each of them times a random factor from a half to one and a half, so that questions that
# failed together do not come back together. Where the server says when (Retry-After), it is asked
# then, or up to a quarter later. An answer that it has too much to do is no failure: the question
# is
# put again for as long as `PATIENCE`, whatever `max_retries` says.

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


# --- Models ---------------------------------------------------------------------------------------
# Inspect gives a server's reply without any content on as an empty answer, which would count as the
# model's. Here it is an error of the server, asked again as its other errors are. And where a reply
# says nothing of tokens, Inspect would download an encoding to count them; here words are counted.
# In a run, each call to the server is counted, and put again as `questions` says.

# Set on a provider that has been made fit.
_FIT = "_goalmeter_fit"
# A reply that was cut or withheld says so, and has no content for that reason.
_CUT = ("length", "content_filter", "max_tokens", "model_length")
# Where servers put what is not the answer itself.
_BESIDE = ("reasoning", "reasoning_content", "reasoning_details", "refusal", "tool_calls")
# Nobody closes the models that Inspect makes; one that is dropped warns of its open connections.
_opened: list[Any] = []


@dataclass(frozen=True)
class Server:
    """How a model is reached; another server of the same model goes on with the same run.

    Attributes:
        base_url: where it is; None for what the provider's variable of the environment says.
        max_connections: questions on their way at once; None leaves it to Inspect, which looks for
            as many as the server can take.
        max_retries: how often a question that the server failed is put again; that it has too much
            to do is no failure.
        timeout: seconds for one answer.
    """

    base_url: str | None = None
    max_connections: int | None = None
    max_retries: int = 5
    timeout: int = 600


def opened(name: str, asking: Asking, server: Server) -> Any:
    """The model of a name, ready to be asked.

    Raises InvalidParameterError if there is no such model, or something is missing for it.
    """
    inspect = require("inspect_ai.model", extra="lm", feature="Asking language models")
    check_folder(name)
    # Their names, goalmeter/... and goalmeter-local/..., have to be known to Inspect.
    from goalmeter.agents import inspect_providers as providers

    try:
        options = dict(asking.options)
        made = inspect.get_model(name, base_url=server.base_url, memoize=False, **options)
    except (GoalmeterError, MissingExtraError):
        raise
    except Exception as cause:  # each provider has errors of its own
        raise InvalidParameterError(
            f"the model {name!r} cannot be asked: {reason_of(cause)}; models are spelled as "
            f"Inspect spells them, PROVIDER/NAME"
        ) from cause
    if not name.startswith(f"{providers.LOCAL}/"):
        _opened.append(made)
    return made


def fit(model: Any) -> Any:
    """The model, whose provider now raises `EmptyReplyError`, counts and downloads no encoding.

    Inspect puts a question again when its provider says that an error is one to retry, so the
    provider is where this belongs. Each is changed once, and no other model of its class.
    """
    from inspect_ai.model import ModelAPI

    api = model.api
    if getattr(api, _FIT, False):
        return model
    generate, should_retry, retry_wait = api.generate, api.should_retry, api.retry_wait

    async def checked(*args: Any, **options: Any) -> Any:
        asked = question.get()
        if asked is not None:
            _one_request_a_call(api)
            # Inspect would find out by a request of its own whether OpenAI gives summaries.
            config = options["config"]
            summary = config.reasoning_summary or "none"
            options["config"] = config.model_copy(update={"reasoning_summary": summary})
            await asked.call()
        replied = await generate(*args, **options)
        output, call = replied if isinstance(replied, tuple) else (replied, None)
        if asked is not None and not isinstance(output, Exception):
            asked.answered(output.usage)
        if lacks := _lacks(output, getattr(call, "response", None)):
            raise EmptyReplyError(lacks)
        return replied

    def retried(error: Exception) -> Any:
        # A paid quota that is used up has the status of a rate limit, and no end.
        if getattr(error, "code", None) == "insufficient_quota":
            return False
        # Inspect's own objects stay what they are: its adaptive connections go by them.
        decision = isinstance(error, EmptyReplyError) or is_garbled(error) or should_retry(error)
        asked = question.get()
        if asked is None or not getattr(decision, "retry", decision):
            return decision
        is_busy = getattr(decision, "kind", None) == "rate_limit"
        after = getattr(decision, "retry_after", None)
        return asked.may_be_put_again(is_busy=is_busy, after=after) and decision

    def wait() -> Any:
        asked = question.get()
        return retry_wait() if asked is None else asked.wait

    async def words(text: str) -> int:
        return len(text.split())

    api.generate, api.should_retry, api.retry_wait = checked, retried, wait
    if type(api).count_text_tokens is ModelAPI.count_text_tokens:
        api.count_text_tokens = words
    setattr(api, _FIT, True)
    return model


def _one_request_a_call(api: Any) -> None:
    """Keep the clients of OpenAI and Anthropic from putting a question again by themselves.

    Inspect does, and otherwise nobody could count the calls.
    """
    client: Any = getattr(api, "client", None)
    if getattr(client, "max_retries", 0):
        client.max_retries = 0


def _lacks(output: Any, response: Any) -> str:
    """What is missing in a reply that is none; "" for one that is.

    `output` is the reply as Inspect understood it, or the error that it makes of it; `response` the
    reply as it came, if the provider keeps it.
    """
    if isinstance(output, Exception):
        return ""
    if not output.choices:
        return "the reply of the server has no choices"
    choices = response.get("choices") if isinstance(response, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, Mapping):
        return ""
    message = first.get("message")
    if not isinstance(message, Mapping) or message.get("content", "") is not None:
        return ""
    if first.get("finish_reason") in _CUT or any(message.get(part) for part in _BESIDE):
        return ""
    return "the reply of the server has null as its content, and nothing beside it"
