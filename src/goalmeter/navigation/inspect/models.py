"""Open models through Inspect, classify failures of queries, and limit tokens and cost."""

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
from goalmeter.agents.local_models import check_folder, is_unusable_reply
from goalmeter.navigation.prompts import Asking
from goalmeter.runs.jobs import in_a_line

# --- Failures -------------------------------------------------------------------------------------
# Limits on the walk and the context of the model end a walk for good. All other outcomes are
# failures of the server or the connection (FAILURES), after which the walk is repeated.
TIMEOUT = "timeout"  # every attempt timed out
UNREACHABLE = "server unreachable"  # connection refused or lost
SERVER_ERROR = "server error"  # status 5xx, or a reply without content
RATE_LIMIT = "rate limit"  # status 429
REFUSED = "request refused"  # any other status 4xx
TOKEN_CAP = "token cap"  # `Asking.token_cap`
CONTEXT = "context overflow"  # the prompt and the answer do not fit into the model's context
TIME_LIMIT = "time limit"  # Inspect's limit on a sample, like "token limit" and others
MODEL_ERROR = "model error"  # any other error of a query
ERROR = "error"  # an error outside the queries
BUDGET = "budget"  # the command reached its budget
FAILURES = frozenset(
    {TIMEOUT, UNREACHABLE, SERVER_ERROR, RATE_LIMIT, REFUSED, MODEL_ERROR, ERROR, BUDGET}
)
# Inspect's limits on tokens and cost, which a run uses for its budget only.
BUDGET_LIMITS = ("token limit", "cost limit")
# Errors that wrap the underlying error.
_WRAPPERS = ("RetryError", "ModelGenerateError")
# Messages of servers about a prompt that is too long; there is no status code for it.
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
_MARKUP = re.compile(r"\[/?[a-z ]+\]")  # markup in Inspect's messages


class GivenUpError(Exception):
    """A walk was not started because previous walks failed; the message is its outcome."""


def failure_of(error: BaseException) -> str:
    """Return the outcome of a walk that was ended by an error of any provider."""
    chain = _causes(error)
    for cause in chain:
        if isinstance(cause, GivenUpError):
            return str(cause)
    names = [kind.__name__ for e in chain for kind in type(e).__mro__]
    if "LimitExceededError" in names:
        return f"{getattr(error, 'type', 'sample')} limit"
    if any(map(is_unusable_reply, chain)):
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


def reason_of(error: BaseException) -> str:
    """Return the underlying error in one line."""
    chain = _causes(error)
    reason = next((e for e in chain if type(e).__name__ not in _WRAPPERS), chain[-1])
    return _MARKUP.sub("", in_a_line(reason))


def is_ours_to_mend(error: BaseException) -> bool:
    """Return whether a local prerequisite is missing, such as a package or an API key."""
    return any(type(e).__name__ == "PrerequisiteError" for e in _causes(error))


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error and the chain of its causes, which may be circular."""
    chain: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in chain:
        chain.append(at)
        at = at.__cause__ or at.__context__
    return chain


# --- Listener -------------------------------------------------------------------------------------
# Callbacks for the walks that Inspect runs: `run.Keeper`, or none under `inspect eval`.
_NO_LISTENER = SimpleNamespace(
    begins=lambda name: None,
    step=lambda: None,
    failed=lambda error: None,
    ended=lambda trajectory: None,
)
listener: ContextVar[Any] = ContextVar("listener", default=_NO_LISTENER)


# --- Models ---------------------------------------------------------------------------------------
# Open models stay referenced, since Inspect never closes them and their deletion causes warnings.
_open_models: list[Any] = []


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
    inspect = require("inspect_ai.model", extra="lm", feature="Querying language models")
    check_folder(name)
    # The import registers goalmeter/... and goalmeter-local/... with Inspect.
    from goalmeter.agents import inspect_providers as providers

    try:
        options = dict(asking.options)
        model = inspect.get_model(name, base_url=server.base_url, memoize=False, **options)
    except (GoalmeterError, MissingExtraError):
        raise
    except Exception as cause:  # each provider has its own errors
        raise InvalidParameterError(
            f"cannot query the model {name!r}: {reason_of(cause)}; expected a model name of "
            f"Inspect, PROVIDER/NAME"
        ) from cause
    if not name.startswith(f"{providers.LOCAL}/"):
        _open_models.append(model)
    return model


def input_tokens(usage: Any) -> int:
    """Return the number of input tokens of Inspect's usage, including cached tokens."""
    cached = (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)
    return int(usage.input_tokens + cached)


# --- Budget ---------------------------------------------------------------------------------------
_price = partial(option, least=0, most=10**6, group="What it may cost")


@dataclass(frozen=True)
class Budget(JsonFields):
    """Limits on tokens and cost of a run, over all its commands."""

    tokens: int | None = None  # input and output tokens together; None: no limit
    usd: float | None = None  # cost in US dollars, requires both prices; None: no limit
    price_in: float | None = _price("US dollars per million input tokens.")
    price_out: float | None = _price("US dollars per million output tokens, with reasoning.")

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            # The comparison is false for NaN as well.
            if value is not None and not 0 <= value <= float_info.max:
                raise InvalidParameterError(f"{each.name} is {shown(value)}, expected 0 or more")
        prices = (self.price_in, self.price_out)
        if None in prices and (self.usd is not None or prices != (None, None)):
            raise InvalidParameterError(
                "price_in and price_out must be given together, and a budget in usd requires them; "
                "give both in US dollars per million tokens"
            )

    def limits(self, spent: Mapping[str, Any]) -> ExitStack:
        """Return a context with Inspect's limits for the budget that is left after `spent`."""
        from inspect_ai.util import cost_limit, token_limit

        stack = ExitStack()
        if self.tokens is not None:
            stack.enter_context(token_limit(max(0, self.tokens - spent["tokens"])))
        if self.usd is not None:
            stack.enter_context(cost_limit(max(0.0, self.usd - (spent["usd"] or 0.0))))
        return stack

    def set_prices(self, model: str) -> None:
        """Register the prices of a model with Inspect, if they are given."""
        if self.price_in is None or self.price_out is None:
            return
        from inspect_ai.model import ModelCost, ModelInfo, get_model_info, set_model_info

        cost = ModelCost(
            input=self.price_in,
            output=self.price_out,
            input_cache_write=self.price_in,
            input_cache_read=self.price_in,
        )
        info = get_model_info(model) or ModelInfo()
        set_model_info(model, info.model_copy(update={"cost": cost}))


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
    """A command reached its budget before all of its walks had ended."""

    def __init__(self, spent: Mapping[str, Any], budget: Budget, *, ended: int, walks: int) -> None:
        self.spent, self.budget, self.ended, self.walks = spent, budget, ended, walks
        usd = "" if spent["usd"] is None else f", ${spent['usd']:.2f}"
        super().__init__(
            f"budget reached after {spent['tokens']} tokens{usd}: {ended} of {walks} walks have "
            f"ended"
        )

    def to_json(self) -> dict[str, Any]:
        """Return what is known as JSON values; there are no measures of a part of the walks."""
        walks = {"ended": self.ended, "left": self.walks - self.ended, "all": self.walks}
        known = {"walks": walks, "spent": dict(self.spent), "budget": self.budget.to_json()}
        return {"complete": False, "cells": []} | known
