"""Progress messages, and standard streams that may be closed or full."""

from __future__ import annotations

import errno
import io
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


# --- Streams --------------------------------------------------------------------------------------
class UnwrittenError(Exception):
    """Standard output could not be written; why, in words."""


class _Output(io.FileIO):
    """Standard output: a write that fails raises an error of its own class."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:  # whoever reads has had enough
            raise
        except OSError as cause:
            closed = cause.errno == errno.EBADF
            raise UnwrittenError("it is closed" if closed else str(cause.strerror)) from cause


class _Patient(io.FileIO):
    """Standard error: what cannot be written is lost."""

    def write(self, data: ReadableBuffer, /) -> int:
        with suppress(OSError):
            return super().write(data)
        return memoryview(data).nbytes


def prepare() -> None:
    """Make the standard streams of this process fit for what goalmeter writes.

    Closed ones are held, so that no file that is opened later gets the number of one and what is
    meant for it. Results written to a closed or full standard output raise `UnwrittenError`;
    progress that nobody can hear is dropped. Both are in UTF-8, since names and tables hold Greek
    letters whatever the locale is. Streams that somebody put in the place of Python's stay.
    """
    _hold()
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(_Output(1, "w", closefd=False))
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Patient(2, "w", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def prepare_worker() -> None:
    """Let the code that a worker runs print, whether or not somebody can hear it."""
    _hold()
    sys.stdout = _text(_Patient(1, "w", closefd=False))
    sys.stderr = _text(_Patient(2, "w", closefd=False))


def leave(status: int) -> NoReturn:
    """End, without another attempt at what could not be written to standard output."""
    with suppress(OSError, ValueError):  # somebody else's stream has no number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)


def _hold() -> None:
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # Open for reading only, so that writing to it fails as it did.
            null = os.open(os.devnull, os.O_RDONLY)
            if null != number:
                os.dup2(null, number)
                os.close(null)


def _text(raw: io.FileIO) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=raw.isatty() or raw.fileno() == 2,
    )


# --- Progress -------------------------------------------------------------------------------------
Tell = Callable[[str], None]
# So many trials tell how long one takes; the first ones may have waited for processes to start.
_FEW = 5
# Seconds between two lines at least, and between two lines about steps.
_OFTEN, _STEPS_EVERY = 1.0, 10.0


class Progress:
    """Tells of trials as they end, ever more rarely: every tenth of the time so far.

    Args:
        name: whose trials they are; every line begins with it.
        noun: what a trial is called, in the singular.
        trials: how many there are in all; None where nobody knows, and then nothing is told.
        done: how many were there already.
        failed: how many of those failed.
        tell: is told each line; None tells nobody.

    Attributes:
        name, noun, trials: as given.
        done: how many have ended.
        failures: how many failed.
        steps: parts of trials that are done.
    """

    def __init__(
        self, name: str, noun: str, trials: int | None, done: int, failed: int, tell: Tell | None
    ) -> None:
        self._tell = None if trials is None else tell
        self.name, self.noun, self.trials = name, noun, trials
        self._before = self.done = done
        self.failures, self.steps = failed, 0
        self._begun = self._told = time.monotonic()
        if tell is not None and done:
            tell(f"{name}: {done} of {trials} {noun}s were there already")

    @property
    def made(self) -> int:
        """Trials that have ended since this began to count."""
        return self.done - self._before

    @property
    def seconds(self) -> float:
        """Since then, by a clock that nobody sets."""
        return time.monotonic() - self._begun

    def step(self) -> None:
        """A part of a trial is done: told only while no trial has ended, which can take long."""
        self.steps += 1
        if self._tell is None or self.done > self._before:
            return
        now = time.monotonic()
        if now - self._told > max(_STEPS_EVERY, (now - self._begun) / 10):
            self._told = now
            self._tell(f"{self._so_far()}, {self.steps} steps so far")

    def failed(self) -> None:
        """A trial failed; `ended` says that it is not made again."""
        self.failures += 1

    def ended(self) -> None:
        """A trial has ended."""
        self.done += 1
        if self._tell is None or self.trials is None:
            return
        now = time.monotonic()
        too_soon = now - self._told < max(_OFTEN, (now - self._begun) / 10)
        if too_soon and self.done < self.trials:
            return
        self._told = now
        left = (now - self._begun) / self.made * (self.trials - self.done)
        is_known = self.done < self.trials and self.made >= _FEW
        self._tell(self._so_far() + (f", {in_words(left)} left" if is_known else ""))

    def _so_far(self) -> str:
        failed = f", {self.failures} failed" if self.failures else ""
        return f"{self.name}: {self.done} of {self.trials} {self.noun}s{failed}"


def in_words(seconds: float) -> str:
    """A time as people say it.

    >>> [in_words(seconds) for seconds in (12.4, 240, 9000)]
    ['12 s', '4 min', '2.5 h']
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
