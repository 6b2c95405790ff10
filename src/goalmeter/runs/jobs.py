"""What is asked of a worker and what it answers: plain JSON, since both cross between processes.

Only functions of goalmeter itself can be named, so a message can ask for nothing else.
"""

from __future__ import annotations

import importlib
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from traceback import extract_tb
from typing import Any

from goalmeter import _errors
from goalmeter._errors import GoalmeterError, MissingExtraError
from goalmeter._text import visible

OK = "ok"
REFUSED = "refused"
FAILED = "exception"
TIMEOUT = "timeout"
CRASH = "crash"
KILLED = "killed"

_FUNCTION = re.compile(r"(goalmeter(?:\.[A-Za-z]\w*)+):([A-Za-z]\w*)")
# Frames of goalmeter, Python and installed packages: an error is placed at the user's own line.
_NOT_THE_USERS = (str(Path(__file__).resolve().parents[1]), str(Path(os.__file__).parent), "<")
_LONGEST = 300  # characters of an error that are kept


@dataclass(frozen=True)
class Batch:
    """One function of goalmeter, and the arguments of each call: what a worker does in one go.

    Attributes:
        function: "goalmeter.package.module:function", which returns something that JSON can hold;
            or the function itself, which this process alone can call, and which returns anything.
        each: the arguments that each call has to itself, by keyword.
        common: the arguments that all calls share; they cross between processes once a batch.
        files: paths of the files that the calls read, with their SHA-256, as the process that asks
            sees them; another machine has to be given them.
    """

    function: str | Callable[..., Any]
    each: Sequence[Mapping[str, Any]]
    common: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values, for a batch whose function has a name.

        Raises:
            ValueError: the function is there itself, which no other process can be told.
        """
        if not isinstance(self.function, str):
            raise ValueError(f"{self.function!r} has no name by which a worker could find it")
        return {
            "function": self.function,
            "each": [dict(arguments) for arguments in self.each],
            "common": dict(self.common),
            "files": dict(self.files),
        }


@dataclass(frozen=True)
class JobResult:
    """What came of one call.

    Attributes:
        outcome: "ok"; "refused" for an error that the user can mend; "exception" for any other;
            "timeout" or "crash" where the process that ran it had to be ended, or ended itself;
            "killed" where somebody else ended it, or its machine went, which says nothing about
            the call.
        value: what the function returned, for "ok".
        detail: the error in a line, for the others.
        error: the name of the error's class, for "refused" and "exception".
        cause: the error itself, where it was raised in this process.
    """

    outcome: str
    value: Any = None
    detail: str = ""
    error: str = ""
    cause: BaseException | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; the error itself stays where it was raised."""
        return {name: value for name, value in vars(self).items() if name != "cause"}

    def refusal(self, where: str = "") -> Exception:
        """The error that a refused call raised, of the class that it had.

        Args:
            where: what stands before its message, such as the name of a trial.
        """
        # MissingExtraError is no GoalmeterError, so the class is looked up by its name.
        kind: type[Exception] = getattr(_errors, self.error, GoalmeterError)
        return kind(f"{where}{self.detail}")


@dataclass(frozen=True)
class Answer:
    """What came of a batch.

    Attributes:
        results: one for each call, in the order of the batch; empty where the batch was lost.
        seconds: that the calls took together, where they were made.
        lost: "timeout", "crash" or "killed", of the process that had the batch; which of its calls
            did it is not known.
    """

    results: Sequence[JobResult] = ()
    seconds: float = 0.0
    lost: JobResult | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "results": [result.to_json() for result in self.results],
            "seconds": self.seconds,
            "lost": None if self.lost is None else self.lost.to_json(),
        }

    @classmethod
    def from_json(cls, value: Any) -> Answer:
        """The answer that `to_json` was of.

        Raises:
            ValueError, TypeError, KeyError: the value is no answer.
        """
        results = [JobResult(**result) for result in value["results"]]
        lost = None if value["lost"] is None else JobResult(**value["lost"])
        return cls(results, float(value["seconds"]), lost)


def prepare(batch: Batch) -> None:
    """Import what a batch needs of goalmeter, which is no part of any trial's time.

    What is wrong with the function's name is left to `call`.
    """
    if isinstance(batch.function, str) and (named := _FUNCTION.fullmatch(batch.function)):
        with suppress(ImportError):
            importlib.import_module(named[1])


def call(batch: Batch, *, keep_interrupts: bool = False) -> Answer:
    """Make the calls of a batch here and now; whatever one of them raises is its outcome.

    Args:
        batch: what to call.
        keep_interrupts: whether KeyboardInterrupt is an outcome too. In a worker it can only come
            from the code that is called; elsewhere it is the user who ends the process.
    """
    named = None
    if isinstance(batch.function, str) and (named := _FUNCTION.fullmatch(batch.function)) is None:
        raise ValueError(
            f"a job asks for {batch.function!r}, expected a public function of goalmeter, spelled "
            f"goalmeter.module:function"
        )

    def one_call(arguments: Mapping[str, Any]) -> JobResult:
        try:
            function: Any = batch.function
            if named is not None:
                function = getattr(importlib.import_module(named[1]), named[2])
            return JobResult(OK, function(**batch.common, **arguments))
        except (GoalmeterError, MissingExtraError) as error:
            return JobResult(REFUSED, detail=str(error), error=type(error).__name__, cause=error)
        # The code that is called may be anybody's, and raise anything.
        except BaseException as error:
            if not (keep_interrupts or isinstance(error, (Exception, SystemExit))):
                raise
            return JobResult(
                FAILED, detail=in_a_line(error), error=type(error).__name__, cause=error
            )

    begun = time.perf_counter()
    results = [one_call(arguments) for arguments in batch.each]
    return Answer(results, time.perf_counter() - begun)


def in_a_line(error: BaseException) -> str:
    """An error in a line, with the place in the user's code that it came from.

    >>> in_a_line(ValueError("no   good"))
    'ValueError: no good'
    """
    try:
        words = visible(" ".join(str(error).split()))
    except Exception:  # the error is of a class of the user's
        words = "(it cannot be printed)"
    if len(words) > _LONGEST:
        words = f"{words[:_LONGEST]} …"
    places = [
        f" ({visible(Path(frame.filename).name)}, line {frame.lineno})"
        for frame in extract_tb(error.__traceback__)
        if not frame.filename.startswith(_NOT_THE_USERS) and "site-packages" not in frame.filename
    ]
    return f"{type(error).__name__}: {words}".rstrip(": ") + (places[-1] if places else "")
