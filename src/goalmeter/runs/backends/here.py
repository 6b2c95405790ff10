"""This process: one trial after the other, which may be calls of functions that have no name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import Self

from goalmeter._errors import InvalidParameterError
from goalmeter._text import json_text
from goalmeter.runs.jobs import Answer, Batch, call


class Here:
    """Makes trials in this process."""

    slots = 1
    worthwhile = 0.0  # nothing is on its way, so each trial is kept as soon as it has ended

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def run(self, batches: Iterator[Batch]) -> Iterator[tuple[int, Answer]]:
        """The answer of each batch, in order; an interrupt of this process goes through."""
        for number, batch in enumerate(batches):
            answer = call(batch)
            if not callable(batch.function):
                # As if they had come from another process, where a tuple arrives as a list.
                sent = [replace(r, value=json.loads(json_text(r.value))) for r in answer.results]
                answer = replace(answer, results=sent)
            yield number, answer


def here(argument: str, *, trials: int, timeout: float | None) -> Here:
    """This process, as `registry.opened` asks for it.

    Raises:
        InvalidParameterError: a limit of time, which nothing could enforce; or an argument.
    """
    if argument:
        raise InvalidParameterError(f"'here:{argument}' is this process; expected 'here' alone")
    if timeout is not None:
        raise InvalidParameterError(
            f"timeout is {timeout} for trials in this process, which cannot be ended; expected "
            f"processes, such as processes:1"
        )
    return Here()
