"""A job and what came of it: plain JSON, since jobs cross from process to process.

Only functions of goalmeter itself can be named, so a message can ask for nothing else.
"""

from __future__ import annotations

import importlib
import os
import re
from dataclasses import asdict, dataclass, field
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

_FUNCTION = re.compile(r"(goalmeter(?:\.[A-Za-z]\w*)+):([A-Za-z]\w*)")
# Frames of goalmeter, Python and installed packages: an error is told at the user's own line.
_OTHERS = (str(Path(__file__).resolve().parents[1]), str(Path(os.__file__).parent), "<")
_LONGEST = 300  # characters of an error that are kept


@dataclass(frozen=True)
class Job:
    """A function of goalmeter and its arguments.

    Attributes:
        function: "goalmeter.package.module:function"; it returns something that JSON can hold.
        arguments: by keyword, as JSON values.
    """

    function: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class JobResult:
    """What came of a job.

    Attributes:
        outcome: "ok"; "refused" for an error that the user can mend; "exception" for any other;
            "timeout" or "crash" where the process that ran it had to be, or was, ended.
        value: what the function returned, for "ok".
        detail: the error in a line, for the others.
        error: the name of the error's class, for "refused" and "exception".
    """

    outcome: str
    value: Any = None
    detail: str = ""
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)

    def raise_refusal(self) -> None:
        """Raise here what the user can mend, if that is what came of the job.

        Raises:
            GoalmeterError: of the class that was raised there.
        """
        if self.outcome == REFUSED:
            raise getattr(_errors, self.error, GoalmeterError)(self.detail)


def call(job: Job) -> JobResult:
    """Run a job here and now; whatever it raises is its outcome.

    Interrupting this process is not: KeyboardInterrupt goes through.

    Raises:
        ValueError: the job names no function of goalmeter.
    """
    named = _FUNCTION.fullmatch(job.function)
    if named is None:
        raise ValueError(
            f"a job asks for {job.function!r}, expected a public function of goalmeter, spelled "
            f"goalmeter.module:function"
        )
    try:
        value = getattr(importlib.import_module(named[1]), named[2])(**job.arguments)
    except (GoalmeterError, MissingExtraError) as error:
        return JobResult(REFUSED, detail=str(error), error=type(error).__name__)
    except (Exception, SystemExit) as error:
        return JobResult(FAILED, detail=said(error), error=type(error).__name__)
    return JobResult(OK, value)


def said(error: BaseException) -> str:
    """An error in a line, with the place in the user's code that it came from.

    >>> said(ValueError("no   good"))
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
        if not frame.filename.startswith(_OTHERS) and "site-packages" not in frame.filename
    ]
    return f"{type(error).__name__}: {words}".rstrip(": ") + (places[-1] if places else "")
