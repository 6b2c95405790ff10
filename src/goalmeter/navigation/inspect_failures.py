"""What ended a walk early, by name.

timeout               no answer in time, however often was asked
server unreachable    no connection, or one that broke: the server died
server error          it answered with an error of its own (5xx)
rate limit            it had too much to do (429)
request refused       it did not accept the question (other 4xx)
time limit, token limit, ...   a limit that was set for the whole walk
token cap             the walk's own allowance of tokens is used up
model error           anything else that went wrong in asking
"""

from __future__ import annotations

from collections.abc import Iterator

TIMEOUT = "timeout"
UNREACHABLE = "server unreachable"
SERVER_ERROR = "server error"
RATE_LIMIT = "rate limit"
REFUSED = "request refused"
TOKEN_CAP = "token cap"
TIME_LIMIT = "time limit"
MODEL_ERROR = "model error"


def failure_of(error: BaseException) -> str:
    """The name of what an error means.

    Errors of clients are told apart by their names and status codes, since every provider brings
    its own classes.
    """
    chain = list(_causes(error))
    names = [kind.__name__ for e in chain for kind in type(e).__mro__]
    if "LimitExceededError" in names:
        return f"{getattr(error, 'type', 'sample')} limit"
    for cause in chain:
        status = getattr(cause, "status_code", None)
        if isinstance(status, int) and status >= 400:
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


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what it came from."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        at = at.__cause__ or at.__context__
