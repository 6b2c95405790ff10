"""Jobs, studies and the interface of execution backends, which exchange JSON values."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from traceback import extract_tb
from typing import Any, Generic, Protocol, TypeVar

from goalmeter import _errors
from goalmeter._errors import GoalmeterError, MissingExtraError, json_text, shortened, visible

OK, REFUSED, FAILED = "ok", "refused", "exception"
TIMEOUT, CRASH, KILLED = "timeout", "crash", "killed"
T = TypeVar("T")

# A worker calls functions of goalmeter and of its replications only.
_FUNCTION = re.compile(r"(goalmeter|replications)(\.[A-Za-z]\w*)+:[A-Za-z]\w*")
# Frames of goalmeter, Python and installed packages: an error is placed at the user's own line.
_NOT_THE_USERS = (str(Path(__file__).resolve().parents[1]), str(Path(os.__file__).parent), "<")


@dataclass(frozen=True)
class Batch:
    """Function of goalmeter and the arguments of several calls, made by one worker."""

    # "goalmeter.package.module:function", whose result is a JSON value; or the function itself,
    # which only this process can call and which may return anything
    function: str | Callable[..., Any]
    each: Sequence[Mapping[str, Any]]  # keyword arguments of each call
    common: Mapping[str, Any] = field(default_factory=dict)  # those that all calls share
    files: Mapping[str, str] = field(default_factory=dict)  # SHA-256 by path; they travel along


@dataclass(frozen=True)
class JobResult:
    """Result of one call."""

    # "ok"; "refused" for an error that the user can fix; "exception" for any other; "timeout" or
    # "crash" where the worker process was ended or ended by itself; "killed" where somebody else
    # ended it or its machine was lost: such a call is repeated
    outcome: str
    value: Any = None  # return value, for "ok"
    detail: str = ""  # error message in one line, for the others
    error: str = ""  # name of the error's class, for "refused" and "exception"
    # the error itself, where it was raised in this process
    cause: BaseException | None = field(default=None, compare=False, repr=False)

    def refusal(self, where: str = "") -> Exception:
        """Return the error of a refused call, with its own class and `where` before its message."""
        # MissingExtraError is no GoalmeterError, so the class is looked up by its name.
        kind: type[Exception] = getattr(_errors, self.error, GoalmeterError)
        return kind(f"{where}{self.detail}")


@dataclass(frozen=True)
class BatchResult:
    """Results of the calls of a batch, in order, and their total duration in seconds."""

    results: Sequence[JobResult]
    seconds: float = 0.0

    @classmethod
    def killed(cls, batch: Batch, detail: str) -> BatchResult:
        """Return the result of a batch that was lost with its worker."""
        return cls([JobResult(KILLED, detail=detail)] * len(batch.each))


def function_of(batch: Batch) -> Callable[..., Any]:
    """Return the function of a batch, imported."""
    if callable(batch.function):
        return batch.function
    if not _FUNCTION.fullmatch(batch.function):
        raise ValueError(f"a job asks for {batch.function!r}, expected goalmeter.module:function")
    function: Callable[..., Any] = resolve_name(batch.function)
    return function


def calls(batch: Batch, *, keep_interrupts: bool = False) -> Iterator[tuple[JobResult, float]]:
    """Make the calls of a batch in this process; give each result and the seconds that it took."""
    for arguments in batch.each:
        begun = time.perf_counter()
        try:
            value = function_of(batch)(**batch.common, **arguments)
            # The same from every process: a tuple as a list.
            is_named = isinstance(batch.function, str)
            result = JobResult(OK, json.loads(json_text(value)) if is_named else value)
        except (GoalmeterError, MissingExtraError) as error:
            result = JobResult(REFUSED, None, str(error), type(error).__name__, error)
        except BaseException as error:  # the code that is called may raise anything
            # In a worker only that code raises KeyboardInterrupt; elsewhere the user does.
            if not (keep_interrupts or isinstance(error, (Exception, SystemExit))):
                raise
            result = JobResult(FAILED, None, in_a_line(error), type(error).__name__, error)
        yield result, time.perf_counter() - begun


def in_a_line(error: BaseException) -> str:
    """Return an error in one line, with the place in the user's code that raised it."""
    try:
        words = shortened(visible(" ".join(str(error).split())))
    except Exception:  # the error is of a class of the user's
        words = "(it cannot be printed)"
    place = ""
    for frame in extract_tb(error.__traceback__):
        path = frame.filename
        if not path.startswith(_NOT_THE_USERS) and "site-packages" not in path:
            place = f" ({visible(Path(path).name)}, line {frame.lineno})"
    return f"{type(error).__name__}: {words}".rstrip(": ") + place


@dataclass(frozen=True)
class Study(Generic[T]):
    """Function and the arguments of its trials: plain data, complete before anything runs."""

    name: str  # whose trials they are, in progress messages and errors
    # as in `Batch`; a named function returns JSON values, a function itself the result
    function: str | Callable[..., T]
    trials: Mapping[str, Mapping[str, Any]]  # keyword arguments by key, in the order of the results
    common: Mapping[str, Any] = field(default_factory=dict)  # those that all trials share
    files: Mapping[str, str] = field(default_factory=dict)  # as in `Batch`
    noun: str = "trial"  # what a trial is called, in the singular
    what: Mapping[str, Any] = field(default_factory=dict)  # identity of the run, see `RunStore`
    grows: Collection[str] = ()  # keys of `what` whose lists may become longer; see `RunStore`
    # makes a result of a key and JSON values, which anybody may have edited; raises
    # GoalmeterError if they are not the result of that key
    from_json: Callable[[str, Any], T] = lambda key, value: value
    to_json: Callable[[T], Any] = lambda result: result  # makes JSON values of a result
    is_failure: Callable[[T], bool] = lambda result: False  # whether a result counts as failed
    tries_again: bool = False  # whether failed results are stored as tries only and made again
    # makes the result of a trial that was refused, failed, timed out or crashed; None ends the
    # study with an error, and all earlier results are stored
    instead: Callable[[str, JobResult], T] | None = None
    check: Batch | None = None  # made first; what is wrong with it is wrong with all trials
    check_advice: str = ""  # how to fix what `check` fails at

    def batch(self, keys: Collection[str]) -> Batch:
        """Return the batch of some trials."""
        return Batch(self.function, [self.trials[key] for key in keys], self.common, self.files)


class Backend(AbstractContextManager["Backend"], Protocol):
    """Backend that runs the trials of a study, as a context manager.

    The study plans, sizes batches, stores results and resumes, and only its own process writes. A
    backend runs batches. A failure of a trial is a result, not an exception.
    """

    slots: int  # batches that are made at once
    worthwhile: float  # seconds of work that make a batch worth sending; 0 for one trial at a time

    def run(self, batches: Iterator[Batch]) -> Iterator[tuple[int, BatchResult]]:
        """Run batches, and yield the number (from 0) and the result of each when it is ready.

        The iterating thread takes `batches` one by one when there is room for them: the size of the
        next one depends on the duration of the last ones. A `GoalmeterError` means that this
        backend cannot run any batch. Leaving the context ends running batches.
        """
