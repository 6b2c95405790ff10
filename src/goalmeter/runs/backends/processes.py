"""Process pool on this machine, with a time limit per trial and replacement of dead workers."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, NoReturn, Self

from goalmeter._errors import MOST_WORKERS, GoalmeterError, whole, whole_in_text
from goalmeter._streams import prepare_worker
from goalmeter.runs.jobs import (
    CRASH,
    KILLED,
    TIMEOUT,
    Batch,
    BatchResult,
    JobResult,
    Working,
    calls,
    check_timeout,
    in_flight,
    prepare,
)

# --- Inside of a worker ---------------------------------------------------------------------------
# A worker receives batches as lines of JSON on standard input and sends a line for each call. The
# code that it runs may be anybody's: what that prints goes to standard error, and what it reads is
# empty, because the pipes of the protocol are moved out of its way.
READY, BEGUN = "ready", "begun"


def main() -> NoReturn:
    """Make batches until the other end of standard input is closed."""
    prepare_worker()
    # Whoever sends the keyboard's signal ends this process: no code in it raised an exception.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    requests, replies = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    batches: SimpleQueue[str] = SimpleQueue()
    _send(replies, READY)
    # A thread waits for batches, so that a worker whose parent is gone ends at once.
    Thread(target=_receive, args=(requests, batches), daemon=True).start()
    while True:
        batch = Batch(**json.loads(batches.get()))
        prepare(batch)
        _send(replies, BEGUN)
        for result, seconds in calls(batch, keep_interrupts=True):
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):  # the user's code may have closed it
                    stream.flush()
            _send(replies, [result.to_json(), seconds])


def _receive(requests: int, batches: SimpleQueue[str]) -> None:
    with os.fdopen(requests, encoding="utf-8") as lines:
        for line in lines:
            batches.put(line)
    with suppress(OSError):  # what it started ends with it, as it leads its session
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


def _send(replies: int, value: object) -> None:
    unsent = f"{json.dumps(value)}\n".encode()
    try:
        while unsent:
            unsent = unsent[os.write(replies, unsent) :]
    except OSError:  # nobody reads any more
        os._exit(0)


# --- Worker processes -----------------------------------------------------------------------------
# The same import path as here, so that the same goalmeter is found, however this process found it.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); del sys.argv[1:]; "
    "from goalmeter.runs.backends.processes import main; main()"
)
# Threads change the order of sums and so their last bits; hashes change the order of sets. What a
# user has set stays.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}
_ATTEMPTS = 6  # starts in a row that may fail
_CHECK_EVERY = 1.0  # seconds; how often it is checked whether a silent process has ended
_ENDING = 1.0  # seconds that a process may take to end after it has closed its pipes
# What a shell, a scheduler or a machine short of memory ends a process with; a process that fails
# by itself has other signals.
_FROM_OUTSIDE = frozenset({"SIGKILL", "SIGTERM", "SIGHUP", "SIGINT"})


@dataclass(frozen=True)
class Surroundings:
    """Environment variables and import path of a worker: its numbers could depend on them."""

    environment: Mapping[str, str]
    path: Sequence[str]

    @classmethod
    def of_this_process(cls) -> Surroundings:
        """Return what this process gives to its workers."""
        environment = {name: os.environ.get(name, usual) for name, usual in _ENVIRONMENT.items()}
        return cls(environment, tuple(sys.path))


class WorkerProcess:
    """A worker process that is started when it is first needed, and replaced when it ends.

    Args:
        timeout: seconds that a call may take; None for no limit.
        surroundings: environment of the process; None for that of this process's workers.

    Attributes:
        batch: number of the batch that it has now, for `working`.
    """

    def __init__(self, timeout: float | None, surroundings: Surroundings | None = None) -> None:
        self.batch: int | None = None
        self._timeout = timeout
        self._around = surroundings or Surroundings.of_this_process()
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._starting = Lock()
        self._closed = False

    @property
    def name(self) -> str:
        """Name for whoever watches."""
        process = self._process  # read once, since another thread replaces it
        return "starting process" if process is None else f"process {process.pid}"

    def make(self, batch: Batch) -> BatchResult:
        """Make a batch; a call that takes too long or ends the process has that as its result."""
        results: list[JobResult] = []
        total = 0.0
        while len(results) < len(batch.each) and not self._closed:
            self._started()
            if self._process is None:
                break
            try:
                self._send(replace(batch, each=batch.each[len(results) :]))
                if self._reply(None) != BEGUN:
                    raise ValueError
                while len(results) < len(batch.each):
                    result, seconds = self._reply(self._timeout)
                    results.append(JobResult(**result))
                    total += seconds
            except TimeoutError:
                self.end()
                detail = f"no answer within {self._timeout:g} s"
                results.append(JobResult(TIMEOUT, detail=detail))
            except EOFError:
                results.append(self._lost())
            except (ValueError, TypeError):  # the call wrote into a pipe that is not its own
                self.end()
                results.append(JobResult(CRASH, detail="it sent an invalid reply, and was ended"))
        return BatchResult(results, total)

    def close(self) -> None:
        """Kill the process and start no other; the thread that waits for it then returns."""
        with self._starting:
            self._closed = True
            if self._process is not None:
                _kill(self._process)

    def end(self) -> int:
        """End the process and all that it started; return its exit status."""
        process, self._process, self._buffer = self._process, None, b""
        if process is None:
            return 0
        _kill(process)
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        return process.wait()

    def _started(self) -> None:
        """Start a process unless there is one."""
        status = 0
        for _ in range(_ATTEMPTS):
            with self._starting:
                if self._process is not None or self._closed:
                    return
                # A session of its own: Ctrl-C in a terminal reaches this process only, and all that
                # a worker starts can be ended with it.
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _PROGRAM, json.dumps(self._around.path)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=os.environ | self._around.environment,
                    start_new_session=True,
                )
            try:
                self._reply(None)
            except (EOFError, ValueError):  # a machine short of memory may spare the next one
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(_ENDING)
                status = self.end()
        if not (self._closed or self._process):
            raise GoalmeterError(
                f"a worker process cannot be started: {_ATTEMPTS} attempts ended before they took "
                f"a job, the last with {_in_words(status)}; what they said is above. Look whether "
                f"there is memory left, and whether {sys.executable} starts; what is finished is "
                f"kept where --out names a folder"
            )

    def _send(self, batch: Batch) -> None:
        assert self._process is not None and self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, which the next reply tells
            self._process.stdin.write(json.dumps(batch.to_json()).encode() + b"\n")
            self._process.stdin.flush()

    def _reply(self, timeout: float | None) -> Any:
        """Return the next line of the process; raise EOFError at its end."""
        process = self._process
        assert process is not None and process.stdout is not None
        poll, end = select.poll(), float("inf") if timeout is None else time.monotonic() + timeout
        poll.register(process.stdout, select.POLLIN)
        while b"\n" not in self._buffer:
            wait = min(_CHECK_EVERY, max(end - time.monotonic(), 0.0))
            if poll.poll(1000 * wait):
                chunk = os.read(process.stdout.fileno(), 2**20)
                if not chunk:
                    raise EOFError
                self._buffer += chunk
            elif time.monotonic() >= end:
                raise TimeoutError
            elif process.poll() is not None:  # a process that it forked holds the pipe open
                raise EOFError
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def _lost(self) -> JobResult:
        """Return the result of the call during which the process ended."""
        assert self._process is not None
        try:
            self._process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            self.end()
            return JobResult(CRASH, detail="it closed its pipes, and was ended")
        status = self.end()
        killed = status < 0 and _in_words(status).removeprefix("signal ") in _FROM_OUTSIDE
        detail = f"the process ended with {_in_words(status)}"
        return JobResult(KILLED if killed else CRASH, detail=detail)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _in_words(status: int) -> str:
    """Return how a process ended."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


# --- Pool -----------------------------------------------------------------------------------------
def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processes(argument: str, *, trials: int, timeout: float | None) -> Processes:
    """Open "processes:N"; by default one process for each core."""
    count = whole_in_text(argument, "workers", least=1, most=MOST_WORKERS) if argument else cores()
    return Processes(min(count, max(trials, 1)), timeout)


class Processes:
    """Worker processes of this machine, each with a thread that feeds it.

    Results depend neither on the number of workers nor on which of them makes what: workers have
    one thread for numerics, one seed for Python's hashes and the import path of this process.

    Args:
        count: number of workers, at least 1.
        timeout: seconds that a trial may take; None for no limit.
    """

    worthwhile = 0.2  # a line through a pipe takes less than a thousandth of that

    def __init__(self, count: int, timeout: float | None = None) -> None:
        self.slots = whole(count, "workers", least=1, most=MOST_WORKERS)
        check_timeout(timeout)
        self._workers = [WorkerProcess(timeout) for _ in range(self.slots)]
        self._idle = self._workers.copy()

    def __enter__(self) -> Self:
        self._threads = ThreadPoolExecutor(self.slots, "goalmeter worker")
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._workers:
            worker.close()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.end()

    def run(self, batches: Iterator[Batch]) -> Iterator[tuple[int, BatchResult]]:
        """Make batches; an iterator that is left early leaves its batches running."""
        return in_flight(
            batches, self.slots, lambda *numbered: self._threads.submit(self._make, *numbered)
        )

    def _make(self, number: int, batch: Batch) -> BatchResult:
        worker = self._idle.pop()  # there are as many workers as threads
        worker.batch = number
        try:
            return worker.make(batch)
        finally:
            worker.batch = None
            self._idle.append(worker)

    def working(self) -> Sequence[Working]:
        """Return the processes that have a batch now."""
        busy = [(worker.name, worker.batch) for worker in self._workers]
        return [Working(name, batch) for name, batch in busy if batch is not None]
