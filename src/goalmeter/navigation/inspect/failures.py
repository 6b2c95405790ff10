"""What ended a walk early, by name.

timeout               no answer in time, however often was asked
server unreachable    no connection, or one that broke: the server died
server error          it answered with an error of its own (5xx), or without any content
rate limit            it had too much to do (429)
request refused       it did not accept the question (other 4xx)
time limit, token limit, ...   a limit that was set for the whole walk
token cap             the walk's own allowance of tokens is used up
context overflow      the prompt, with room for an answer, is longer than the model's context
budget                the run has spent what it was allowed, and goes on with a larger budget
model error           anything else that went wrong in asking
error                 something went wrong outside of the questions

Limits are part of how a model is asked, its context is part of the model, and the walk has ended.
The others are failures of the server or of the way to it: the walk can be made again. One that the
budget ended goes on where it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from goalmeter.runs.jobs import in_a_line

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
