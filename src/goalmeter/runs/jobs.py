"""Jobs, studies and the interface of execution backends.

A study is a set of trials with keys. A backend receives batches of jobs and returns their
results; both are plain JSON, because they cross process boundaries.
"""

from __future__ import annotations

import importlib
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from traceback import extract_tb
from typing import Any, Generic, Protocol, Self, TypeVar

from goalmeter import _errors
from goalmeter._errors import (
    GoalmeterError,
    InvalidParameterError,
    MissingExtraError,
    shown,
    visible,
)
from goalmeter._names import did_you_mean

# --- Jobs -----------------------------------------------------------------------------------------
# Only functions of goalmeter itself can be named, so a message can ask for nothing else.

OK = "ok"
REFUSED = "refused"
FAILED = "exception"
TIMEOUT = "timeout"
CRASH = "crash"
KILLED = "killed"

_FUNCTION = re.compile(r"((?:goalmeter|replications)(?:\.[A-Za-z]\w*)+):([A-Za-z]\w*)")
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


# --- Study ----------------------------------------------------------------------------------------
T = TypeVar("T")


@dataclass(frozen=True)
class Study(Generic[T]):
    """One function and the trials that it is called for: plain data, made before anything runs.

    Attributes:
        name: whose trials they are, as in progress and errors.
        function: "goalmeter.package.module:function", which gives a result as JSON values; or the
            function itself, which this process alone can call, and which gives the result.
        trials: by the key under which each is kept, in the order of the results: the arguments that
            it has to itself, by keyword.
        common: the arguments that all trials share.
        files: paths of the files that a trial reads, with their SHA-256: other machines get them.
        noun: what a trial is called, in the singular; its plural has an s.
        what: what tells the run from others, as JSON values; see `RunStore`.
        grows: keys of `what` with lists that may become longer; see `RunStore`.
        from_json: makes a result of a key and of JSON values, which may come from a file that
            anybody edited.

            Raises GoalmeterError if they are no result, or not that of the key.
        to_json: makes JSON values of a result.
        is_failure: whether a result counts as failed.
        tries_again: whether failed results are kept as tries only, to be made again.
        instead: the result of a trial whose call was refused, failed, took too long or died with
            its process. None ends the study there with an error; all before it is kept.
        check: asked before the first trial; what is wrong with it is wrong with all of them.
        check_advice: how to mend what `check` fails at, after a semicolon.
    """

    name: str
    function: str | Callable[..., T]
    trials: Mapping[str, Mapping[str, Any]]
    common: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    noun: str = "trial"
    what: Mapping[str, Any] = field(default_factory=dict)
    grows: Collection[str] = ()
    from_json: Callable[[str, Any], T] = lambda key, value: value
    to_json: Callable[[T], Any] = lambda result: result
    is_failure: Callable[[T], bool] = lambda result: False
    tries_again: bool = False
    instead: Callable[[str, JobResult], T] | None = None
    check: Batch | None = None
    check_advice: str = ""

    def batch(self, keys: Collection[str]) -> Batch:
        """Some of the trials, as a worker is asked for them."""
        return Batch(self.function, [self.trials[key] for key in keys], self.common, self.files)

    def result(self, key: str, value: Any) -> T:
        """The result that a call gave: a function itself gives it, a named one its JSON values."""
        return value if callable(self.function) else self.from_json(key, value)


# --- Protocol -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Working:
    """A worker that has a batch now.

    Attributes:
        worker: its name, by which a user recognises it, such as "process 4711".
        batch: the number of the batch.
    """

    worker: str
    batch: int


class Backend(Protocol):
    """Where the trials of a study run, from entering the context to leaving it.

    A study plans, sizes batches, keeps results and resumes; it writes in its own process alone. A
    backend makes batches and nothing else. It never raises for what a trial does: that is a result.
    It may answer in any order, since results go by the number of their batch. What of a batch took
    too long or died with its process is answered as lost, and the study asks for each trial of the
    batch again, alone, until it is clear which of them did it. What was ended from outside, such as
    by a scheduler or with its machine, is answered as "killed", and is asked for again too.
    """

    @property
    def slots(self) -> int:
        """How many batches are made at once."""
        ...

    @property
    def worthwhile(self) -> float:
        """Seconds of work that make a batch worth its way; 0 for one trial at a time."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None:
        """End all that was started, also work that nobody waits for any more."""

    def run(self, batches: Iterator[Batch]) -> Iterator[tuple[int, Answer]]:
        """Make batches, and give the number and the answer of each as it is ready.

        Args:
            batches: taken one by one, as there is room for them, by the thread that iterates: how
                large the next one is depends on what the last ones took. They are numbered from 0.

        Raises:
            GoalmeterError: this place cannot make them, whatever they are.
        """
        ...

    def working(self) -> Sequence[Working]:
        """The workers that have a batch now, for whoever watches: it decides nothing.

        It is called at any time from another thread than the one that iterates over `run`, and only
        reads.
        """
        ...


# --- Options --------------------------------------------------------------------------------------
# Commas inside of square brackets belong to a value: exclude=node[1,2].
_PART = re.compile(r"(?:\[[^\]]*\]|[^,\[])+")


def options_of(
    argument: str, place: str, known: Collection[str], *, first: str = ""
) -> dict[str, str]:
    """The options that a spelling of a place has behind its colon.

    Args:
        argument: what stands there.
        place: name of the place, for errors.
        known: names that an option may have.
        first: the option that the first part is, if it has no name; "" for none.

    >>> options_of("10.0.0.5:6379,cpus=8", "ray", ["address", "cpus"], first="address")
    {'address': '10.0.0.5:6379', 'cpus': '8'}
    """
    options: dict[str, str] = {}
    for number, part in enumerate(_PART.findall(argument)):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals and first and number == 0:
            name, value = first, name
        if name in known and not value:
            raise InvalidParameterError(
                f"{place}:{argument} has {name} without a value, expected {name}=VALUE"
            )
        if name not in known:
            raise InvalidParameterError(
                f"{place}:{argument} has {shown(part)}"
                f"{did_you_mean(name, known) or ';'} expected NAME=VALUE with commas between them, "
                f"of {', '.join(known)}"
            )
        if name in options:
            raise InvalidParameterError(f"{place}:{argument} has {name} twice; leave one out")
        options[name] = value
    return options


def check_timeout(timeout: float | None) -> None:
    """Raise if a limit of time for a batch is none."""
    if timeout is not None and not timeout > 0:
        raise InvalidParameterError(
            f"timeout is {timeout}, expected a number of seconds above 0, or None"
        )
