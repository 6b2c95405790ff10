"""Standard streams that may be closed or full."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


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
    """Prepare the standard streams of this process; streams that replaced Python's are kept."""
    _open_closed()
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(_Output(1, "w", closefd=False))
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Patient(2, "w", closefd=False))
    for stream in (sys.stdout, sys.stderr):  # names and tables hold Greek letters
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def prepare_worker() -> None:
    """Let the code that a worker runs print, even if the streams are closed."""
    _open_closed()
    sys.stdout = _text(_Patient(1, "w", closefd=False))
    sys.stderr = _text(_Patient(2, "w", closefd=False))


def leave(status: int) -> NoReturn:
    """Exit without another attempt to write to standard output."""
    with suppress(OSError, ValueError):  # somebody else's stream has no number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)


def _open_closed() -> None:
    # Otherwise a file that is opened later gets the number of a closed stream.
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
