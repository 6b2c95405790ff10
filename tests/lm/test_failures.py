"""Every way in which asking can fail has a name."""

from __future__ import annotations

import pytest

from goalmeter.navigation.inspect_failures import failure_of


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


def test_a_circle_of_causes_ends() -> None:
    one, other = RuntimeError("one"), TimeoutError("other")
    one.__cause__, other.__cause__ = other, one
    assert failure_of(one) == "timeout"
