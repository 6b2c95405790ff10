"""Open a model through Inspect, name what can go wrong when it is queried, limit what it costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, fields
from functools import partial
from sys import float_info
from types import SimpleNamespace
from typing import Any

from goalmeter._errors import (
    MOST_SECONDS,
    GoalmeterError,
    InvalidParameterError,
    MissingExtraError,
    require,
    shown,
)
from goalmeter._files import JsonFields
from goalmeter._options import option, values_by_name
from goalmeter.agents.local_models import check_folder
from goalmeter.navigation.prompts import Asking
from goalmeter.runs.jobs import in_a_line

# --- Failures -------------------------------------------------------------------------------------
# A limit set for the walk and the context of the model end a walk for good. The other outcomes are
# failures of the server or the connection to it (FAILURES), and the walk is repeated.
TIMEOUT = "timeout"  # no answer in time, on any attempt
UNREACHABLE = "server unreachable"  # no connection, or a broken one
SERVER_ERROR = "server error"  # 5xx, or a reply without content
RATE_LIMIT = "rate limit"  # 429
REFUSED = "request refused"  # other 4xx
TOKEN_CAP = "token cap"  # `Asking.token_cap`
CONTEXT = "context overflow"  # the prompt and the answer do not fit into the model's context
TIME_LIMIT = "time limit"  # like "token limit" and others: Inspect's limit on a sample
MODEL_ERROR = "model error"  # any other error of a query
ERROR = "error"  # an error outside the queries
BUDGET = "budget"  # the command reached its budget
FAILURES = frozenset(
    {TIMEOUT, UNREACHABLE, SERVER_ERROR, RATE_LIMIT, REFUSED, MODEL_ERROR, ERROR, BUDGET}
)
# Inspect's limits on tokens and cost, which a run sets for its budget only.
BUDGET_LIMITS = ("token limit", "cost limit")
# Errors that only wrap the one that matters.
_PASSED_ON = ("RetryError", "ModelGenerateError")
# How servers say that a prompt is too long; there is no status code for it.
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size"
    r"|maximum context length|context (?:length|size|window)"
    r"|prompt is too long|input is too long|input length"
    r"|input token count .* exceeds|`inputs` tokens"
    r"|max_tokens must be at least 1",
    re.IGNORECASE,
)
_REFUSED_AS = (400, 413, 422)
_NO_CONNECTION = ("ConnectionError", "ConnectError", "RemoteProtocolError", "NetworkError")
_MARKUP = re.compile(r"\[/?[a-z ]+\]")  # of what Inspect prints


class GivenUpError(Exception):
    """A walk was not begun because the walks before it failed, with the outcome that is given."""


class EmptyReplyError(Exception):
    """A server replied without an answer, not even an empty one."""


def failure_of(error: BaseException) -> str:
    """Return the outcome of a walk that an error of any provider ended."""
    chain = _causes(error)
    for cause in chain:
        if isinstance(cause, GivenUpError):
            return str(cause)
    names = [kind.__name__ for e in chain for kind in type(e).__mro__]
    if "LimitExceededError" in names:
        return f"{getattr(error, 'type', 'sample')} limit"
    if any(map(_is_unusable_reply, chain)):
        return SERVER_ERROR
    for cause in chain:
        status = getattr(cause, "status_code", None)
        if isinstance(status, int) and status >= 400:
            if status in _REFUSED_AS and _TOO_LONG.search(f"{cause} {getattr(cause, 'code', '')}"):
                return CONTEXT
            known = {408: TIMEOUT, 504: TIMEOUT, 429: RATE_LIMIT}
            return known.get(status, SERVER_ERROR if status >= 500 else REFUSED)
    if any("Timeout" in name for name in names):
        return TIMEOUT
    return UNREACHABLE if any(name.endswith(_NO_CONNECTION) for name in names) else MODEL_ERROR


def _is_unusable_reply(error: BaseException) -> bool:
    """Whether a reply had no content, or was not the JSON of an answer."""
    garbled = ("JSONDecodeError", "APIResponseValidationError")
    return isinstance(error, EmptyReplyError) or type(error).__name__ in garbled


def reason_of(error: BaseException) -> str:
    """Return the underlying error in one line."""
    chain = _causes(error)
    reason = next((e for e in chain if type(e).__name__ not in _PASSED_ON), chain[-1])
    return _MARKUP.sub("", in_a_line(reason))


def is_ours_to_mend(error: BaseException) -> bool:
    """Whether something is missing here, such as a package or a key."""
    return any(type(e).__name__ == "PrerequisiteError" for e in _causes(error))


def _causes(error: BaseException) -> list[BaseException]:
    """An error and the chain of its causes, which may be circular."""
    chain: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in chain:
        chain.append(at)
        at = at.__cause__ or at.__context__
    return chain


# --- Listening ------------------------------------------------------------------------------------
# Who is told of the walks that Inspect produces: `run.Keeper`, or under `inspect eval` nobody.
_NOBODY = SimpleNamespace(
    begins=lambda name: None,
    step=lambda: None,
    failed=lambda error: None,
    ended=lambda trajectory: None,
)
listener: ContextVar[Any] = ContextVar("listener", default=_NOBODY)


# --- Models ---------------------------------------------------------------------------------------
_FIT = "_goalmeter_fit"  # set on a provider that `fit` has changed
# Stop reasons of replies that were cut or withheld, which lack content for that reason.
_CUT = ("length", "content_filter", "max_tokens", "model_length")
# Fields of a message other than the answer itself.
_OTHER_FIELDS = ("reasoning", "reasoning_content", "reasoning_details", "refusal", "tool_calls")
# Inspect never closes the models it makes; a model that is dropped warns of open connections.
_opened: list[Any] = []


reached = partial(option, group="How it is reached")


@dataclass(frozen=True)
class Server:
    """Connection to a model; a run can be resumed with another server of the same model."""

    base_url: str | None = reached(
        "--model-base-url URL  The server; default from the environment, such as VLLM_BASE_URL."
    )
    max_connections: int | None = reached("Concurrent requests.", least=1, most=10_000)
    max_retries: int = reached(
        "Retries of a request that the server failed.", default=5, least=0, most=1000
    )
    timeout: int = reached("Seconds of an answer.", default=600, least=1, most=MOST_SECONDS)


def opened(name: str, asking: Asking, server: Server) -> Any:
    """Open a model by name; raises InvalidParameterError if it cannot be used."""
    inspect = require("inspect_ai.model", extra="lm", feature="Asking language models")
    check_folder(name)
    # Registers goalmeter/... and goalmeter-local/... with Inspect.
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


def input_tokens(usage: Any) -> int:
    """Return how many tokens were read, from Inspect's usage, those in a cache included."""
    cached = (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)
    return int(usage.input_tokens + cached)


def fit(model: Any) -> Any:
    """Make a model's provider raise `EmptyReplyError` and count tokens without a download."""
    # Inspect passes on a reply without content as an empty answer, which would count as the
    # model's; and where a reply reports no usage, it would download an encoding to count tokens.
    from inspect_ai.model import ModelAPI

    api = model.api
    if getattr(api, _FIT, False):
        return model
    generate, should_retry = api.generate, api.should_retry

    async def checked(*args: Any, **options: Any) -> Any:
        replied = await generate(*args, **options)
        output, call = replied if isinstance(replied, tuple) else (replied, None)
        if not isinstance(output, Exception) and not output.choices:  # Inspect raises errors itself
            raise EmptyReplyError("the reply of the server has no choices")
        match getattr(call, "response", None):  # as it came, where the provider keeps it
            case {"choices": [{"message": {"content": None, **others}, **choice}, *_]}:
                was_cut = choice.get("finish_reason") in _CUT
                if not was_cut and not any(others.get(name) for name in _OTHER_FIELDS):
                    raise EmptyReplyError(
                        "the reply of the server has null as its content, and nothing beside it"
                    )
        return replied

    async def words(text: str) -> int:
        return len(text.split())

    api.generate = checked
    api.should_retry = lambda error: _is_unusable_reply(error) or should_retry(error)
    if type(api).count_text_tokens is ModelAPI.count_text_tokens:
        api.count_text_tokens = words
    setattr(api, _FIT, True)
    return model


# --- Budget ---------------------------------------------------------------------------------------
_price = partial(option, least=0, most=10**6, group="What it may cost")


@dataclass(frozen=True)
class Budget(JsonFields):
    """Limits on the tokens and the cost of a run, over all its commands."""

    tokens: int | None = None  # input and output tokens together; None for no limit
    usd: float | None = None  # cost in US dollars; None for no limit. It needs both prices
    price_in: float | None = _price("US dollars for a million input tokens.")
    price_out: float | None = _price("US dollars for a million output tokens, reasoning included.")

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


def read_limits(flag: str, text: str | None) -> dict[str, float] | None:
    """Return the limits of a budget, each written NAME=NUMBER; tokens are an integer."""
    if text is None:
        return None
    try:
        out = {}
        for name, value in (values_by_name(flag, text.split(","), "", float) or {}).items():
            out[name] = {"tokens": int, "usd": float}[name](value)
            if out[name] != value or not 0 <= value <= float_info.max:
                raise ValueError
    except (KeyError, TypeError, ValueError, OverflowError) as cause:
        raise InvalidParameterError(
            f"{flag} is {shown(text)}, expected tokens=N, usd=X or both with a comma between "
            f"them, such as tokens=1000000,usd=2.50; Inspect has no limit on calls"
        ) from cause
    return out


class BudgetReachedError(GoalmeterError):
    """A command reached its budget before all of its trajectories had ended."""

    def __init__(self, spent: Mapping[str, Any], budget: Budget, *, ended: int, walks: int) -> None:
        self.spent, self.budget, self.ended, self.walks = spent, budget, ended, walks
        usd = "" if spent["usd"] is None else f", ${spent['usd']:.2f}"
        super().__init__(
            f"the budget is reached after {spent['tokens']} tokens{usd}: {ended} of {walks} walks "
            f"have ended"
        )

    def to_json(self) -> dict[str, Any]:
        """Return what is known as JSON values; there are no measures of a part of the walks."""
        walks = {"ended": self.ended, "left": self.walks - self.ended, "all": self.walks}
        known = {"walks": walks, "spent": dict(self.spent), "budget": self.budget.to_json()}
        return {"complete": False, "cells": []} | known
