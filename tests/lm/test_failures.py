"""Every way in which asking can fail has a name."""

from __future__ import annotations

import pytest

from goalmeter.navigation.inspect.models import failure_of


class APIStatusError(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__(status_code)
        self.status_code = status_code


class APIConnectionError(Exception):
    pass


class APITimeoutError(APIConnectionError):
    pass


class RemoteProtocolError(Exception):
    pass


class LimitExceededError(Exception):
    type = "token"


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (TimeoutError(), "timeout"),
        (APITimeoutError(), "timeout"),
        (APIStatusError(504), "timeout"),
        (APIConnectionError(), "server unreachable"),
        (ConnectionRefusedError(), "server unreachable"),
        (RemoteProtocolError(), "server unreachable"),
        (APIStatusError(500), "server error"),
        (APIStatusError(503), "server error"),
        (APIStatusError(429), "rate limit"),
        (APIStatusError(400), "request refused"),
        (LimitExceededError(), "token limit"),
        (RuntimeError("odd"), "model error"),
    ],
)
def test_names(error: Exception, name: str) -> None:
    assert failure_of(error) == name
    wrapped = RuntimeError("retried in vain")
    wrapped.__cause__ = error
    if name != "token limit":
        assert failure_of(wrapped) == name


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
        "the request exceeds the available context size. try increasing the context size",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens",
        "The input token count (40000) exceeds the maximum number of tokens allowed (32768).",
    ],
)
def test_a_prompt_that_is_too_long_is_a_context_overflow(message: str) -> None:
    class BadRequestError(Exception):
        status_code = 400

    assert failure_of(BadRequestError(message)) == "context overflow"
    assert failure_of(BadRequestError("no such model")) == "request refused"


def test_a_circle_of_causes_ends() -> None:
    first, second = RuntimeError("one"), TimeoutError("other")
    first.__cause__, second.__cause__ = second, first
    assert failure_of(first) == "timeout"
