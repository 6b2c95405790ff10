"""One case: a command of goalmeter in a folder, and what is wrong with how it ended."""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from goalmeter import cli

# A result; something that the user can mend; a result with failures in it.
FINE = (0, 2, 3)
# Seconds of computing, of which a step of training takes 15 on a slow machine, and of waiting.
CPU_SECONDS, SECONDS = 60.0, 240.0
LONGEST_LINE = 2000  # characters of an error
MEBIBYTES = 1024  # of memory that a case may ask for beyond what was there before it


class TooLongError(BaseException):
    """A case took longer than it may; not an Exception, so that nothing takes it for another."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    arguments: tuple[str, ...]
    status: object
    out: str
    err: str
    seconds: float

    def complaints(self) -> list[str]:
        """What is wrong with it, in words; nothing if it is as it should be."""
        message = self.out + self.err
        result = []
        if self.status not in FINE:
            result.append(f"exit status {self.status!r}, expected one of {FINE}")
        if "Traceback (most recent call last)" in message:
            result.append("a traceback")
        if "more memory than there is" in message:
            result.append(f"more than {MEBIBYTES} MiB of memory")
        if odd := sorted({c for c in message if not (c.isprintable() or c == "\n")}):
            result.append(f"characters that steer a terminal: {odd!r}")
        lines = [line for line in self.err.splitlines() if line.startswith("goalmeter: ")]
        if self.status == 2 and len(lines) != 1 and "Usage: " not in self.err:
            result.append(f"{len(lines)} lines that say what is wrong, expected one")
        if self.status == 2 and lines and not self.err.rstrip("\n").endswith(lines[-1]):
            result.append("an error of several lines")
        if (longest := max(map(len, self.err.splitlines()), default=0)) > LONGEST_LINE:
            result.append(f"a line of {longest} characters")
        if self.status in (0, 3) and "--json" in self.arguments:
            try:
                json.loads(self.out)
            except ValueError as error:
                result.append(f"no JSON on standard output: {error}")
        return result


def run(arguments: Sequence[str], folder: Path) -> Ended:
    """Run `goalmeter ARGUMENTS` in this process, in a folder, within limits of time and memory."""
    out, err = io.StringIO(), io.StringIO()
    begun = time.process_time()
    status: object = "none: it returned"
    before = sys.argv, Path.cwd()
    sys.argv = ["goalmeter", *arguments]
    os.chdir(folder)
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            _limited(CPU_SECONDS, SECONDS),
            _bounded(MEBIBYTES),
        ):
            cli.main()
    except SystemExit as ended:
        status = 0 if ended.code is None else ended.code
    except TooLongError:
        status = f"none: it ran for more than {CPU_SECONDS:g} s"
    except BaseException as error:
        status = f"none: {type(error).__name__}: {str(error)[:200]}"
    finally:
        sys.argv = before[0]
        os.chdir(before[1])
    seconds = time.process_time() - begun
    return Ended(tuple(arguments), status, out.getvalue(), err.getvalue(), seconds)


@contextlib.contextmanager
def _limited(cpu: float, wall: float) -> Iterator[None]:
    def late(number: int, frame: FrameType | None) -> None:
        raise TooLongError

    signal.signal(signal.SIGPROF, late)
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_PROF, cpu)
    signal.setitimer(signal.ITIMER_REAL, wall)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def _bounded(mebibytes: int) -> Iterator[None]:
    """No more memory than this beyond what the process has: MemoryError, not a dead machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    statm = Path("/proc/self/statm")  # in pages; other systems have no such file, and no limit here
    if statm.exists():
        size = int(statm.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + mebibytes * 2**20, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
