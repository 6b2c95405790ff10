"""A command in a process of its own, forked from this one, which has imported goalmeter once.

Importing takes longer than most of the runs here, so a process that began afresh would mostly be
hit while it imports. The workers that a command starts are begun afresh, as always.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NoReturn

# In the environment of every process that a command starts: those of a killed one are known by it.
_MARK = "GOALMETER_SOAK"
_PIPE_BYTES = 2**20  # the largest pipe that any user may ask for
_LONG = 900.0  # seconds for a command that nothing disturbs
_LEAVES_WITHIN = 40.0  # seconds for the workers of a killed command to see that it is gone


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        status: its exit status, or minus the number of the signal that killed it; None if it hung
            and was ended here.
        out: what it printed.
        err: what it told: progress and errors.
    """

    status: int | None
    out: str
    err: str

    def complaints(self) -> list[str]:
        """What is wrong with it: it is to end with a result, by a kill, or with one sentence."""
        errors = [line for line in self.err.splitlines() if line.startswith("goalmeter: ")]
        if self.status is None:
            return []  # a hang is counted by itself
        # Loggers of other packages tell of a full disk in their own way, and go on.
        ours = self.err.split("--- Logging error ---")[0].split("Exception ignored in")[0]
        if "Traceback (most recent call last)" in ours:
            return [f"a traceback: {self.err[-1500:]!r}"]
        if self.status == 2 and len(errors) != 1:
            return [f"{len(errors)} sentences that say what is wrong, expected one: {self.err!r}"]
        if self.status not in (0, 2, -signal.SIGKILL):
            return [f"exit status {self.status}, expected 0 or 2: {self.err[-1500:]!r}"]
        return []


def learnt(words: Sequence[str], folder: Path, first: Callable[[], None]) -> Ended:
    """Run a command, and import here what it imported, so that the next ones need not."""
    listed = folder / ".modules"

    def note() -> None:
        first()
        atexit.register(lambda: listed.write_text("\n".join(sys.modules)))

    ended = Command(words, folder, note).ended(_LONG)
    if listed.exists():
        for name in listed.read_text().split():
            if name not in sys.modules and not name.startswith("__"):
                with suppress(Exception):  # names that only some other module can import
                    import_module(name)
    return ended


class Command:
    """`goalmeter WORDS` in a folder, from its start on.

    Args:
        words: what follows `goalmeter`.
        folder: where it is typed.
        first: called in the new process before anything else, such as to spoil what it uses.

    Attributes:
        pid: of the process.
        seconds: that it took, once it is over.
    """

    def __init__(
        self, words: Sequence[str], folder: Path, first: Callable[[], None] = lambda: None
    ) -> None:
        self.began = time.monotonic()
        pipes = [os.pipe() for _ in range(2)]
        self.pid = os.fork()
        if self.pid == 0:
            _become(words, folder, first, [write for _, write in pipes])
        self._pipes = [read for read, _ in pipes]
        self._said = [b"", b""]
        for read, write in pipes:
            os.close(write)
            os.set_blocking(read, False)
        self._status: int | None = None
        self.seconds = 0.0

    def is_over(self) -> bool:
        """Whether it has ended by now."""
        self._listen()
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
                self.seconds = time.monotonic() - self.began
                self._listen()
        return self._status is not None

    def wait(self, seconds: float) -> bool:
        """Wait for its end for so long; whether it came."""
        until = time.monotonic() + seconds
        while not self.is_over():
            left = until - time.monotonic()
            if left <= 0:
                return False
            select.select([], [], [], min(left, 0.003))
        return True

    def kill(self) -> bool:
        """kill -9 of the command alone; whether that is what ended it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.wait(_LEAVES_WITHIN)
        return self._status == -signal.SIGKILL

    def ended(self, limit: float) -> Ended:
        """How it ended; one that takes longer than `limit` seconds hangs, and is ended here."""
        over = self.wait(limit)
        if not over:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.kill()
        for read in self._pipes:
            os.close(read)
        out, err = (said.decode("utf-8", "replace") for said in self._said)
        return Ended(self._status if over else None, out, err)

    def _listen(self) -> None:
        for number, read in enumerate(self._pipes):
            with suppress(BlockingIOError, OSError):
                while piece := os.read(read, _PIPE_BYTES):
                    self._said[number] += piece


def _become(
    words: Sequence[str], folder: Path, first: Callable[[], None], streams: Sequence[int]
) -> NoReturn:
    status = 70  # of no command
    try:
        os.setsid()
        os.chdir(folder)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, stream in enumerate((nothing, *streams)):
            if hasattr(fcntl, "F_SETPIPE_SZ") and number:
                fcntl.fcntl(stream, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            os.dup2(stream, number)
        os.closerange(3, 1024)
        os.environ[_MARK] = _mark()
        atexit._clear()  # what the process that was forked would do at its end is its own
        sys.argv = ["goalmeter", *words]
        first()
        from goalmeter import cli

        cli.main()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0
    finally:
        with suppress(BaseException):
            atexit._run_exitfuncs()
        with suppress(BaseException):
            sys.stdout.flush()
        os._exit(status)


def _mark() -> str:
    return f"of {os.getsid(0)}"


def descendants(pid: int) -> list[int]:
    """The living processes that a process has started, and that those have."""
    parents = dict(_processes())
    known, new = list[int](), [pid]
    while new:
        new = [child for child, parent in parents.items() if parent in new]
        known += new
    return [process for process in known if not _is_a_tracker(process)]


def _is_a_tracker(pid: int) -> bool:
    """Whether a process only cleans up behind others, as one of multiprocessing does."""
    with suppress(OSError):
        return b"resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def left_behind(command: Command) -> list[int]:
    """Processes of a command that outlive it, after they had the time to see that it is gone."""
    until = time.monotonic() + _LEAVES_WITHIN
    while (left := _marked(command.pid)) and time.monotonic() < until:
        time.sleep(0.01)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return left


def _marked(pid: int) -> list[int]:
    mark = f"{_MARK}=of {pid}".encode()
    marked = []
    for process, _ in _processes():
        with suppress(OSError):
            if mark in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                marked.append(process)
    return marked


def _processes() -> Iterator[tuple[int, int]]:
    """Every living process and its parent; one that has ended and is not yet waited for is none."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with suppress(OSError):
            # The name of a program, in parentheses, may hold anything.
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                yield int(folder.name), int(parent)
