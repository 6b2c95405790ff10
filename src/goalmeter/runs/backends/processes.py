"""Process pool on this machine, with a time limit per trial and replacement of dead workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from multiprocessing.connection import Connection, Pipe
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, NoReturn, Self

from goalmeter._errors import MOST_WORKERS, GoalmeterError, whole_in_text
from goalmeter._streams import prepare_worker
from goalmeter.runs import jobs
from goalmeter.runs.jobs import Batch, BatchResult, JobResult, calls, function_of


# A worker receives batches on a pipe. It sends a message when the imports of a batch are over, and
# for each call. What a user's code prints goes to standard error.
def main(pipe_number: int) -> NoReturn:
    """Make batches until the other end of the pipe is closed."""
    prepare_worker()
    # Whoever sends the keyboard's signal ends this process: no code in it raised an exception.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    pipe = Connection(pipe_number)
    batches: SimpleQueue[Batch] = SimpleQueue()
    # A thread waits for batches, so that a worker whose parent is gone ends at once.
    Thread(target=_receive, args=(pipe, batches), daemon=True).start()
    while True:
        batch = batches.get()
        with suppress(Exception):  # which the calls raise too
            function_of(batch)
        pipe.send(None)
        for result, seconds in calls(batch, keep_interrupts=True):
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):  # the user's code may have closed it
                    stream.flush()
            pipe.send((replace(result, cause=None), seconds))


def _receive(pipe: Connection, batches: SimpleQueue[Batch]) -> None:
    with suppress(EOFError, OSError):
        while True:
            batches.put(pipe.recv())
    with suppress(OSError):  # what it started ends with it, as it leads its session
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


# The same import path as here, so that the same goalmeter is found, however this process found it.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); number = int(sys.argv[2]); "
    "del sys.argv[1:]; from goalmeter.runs.backends.processes import main; main(number)"
)
# Threads change the order of sums and so their last bits; hashes change the order of sets. What a
# user has set stays.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_ENVIRONMENT = dict.fromkeys(_THREADS, "1") | {"PYTHONHASHSEED": "0"}
_ATTEMPTS = 6  # starts in a row that may fail: a machine short of memory may spare the next one
_CHECK_EVERY = 1.0  # seconds; how often it is checked whether a silent process has ended
_ENDING = 1.0  # seconds that a process may take to end after it has closed its pipe
# What a shell, a scheduler or a machine short of memory ends a process with; a process that fails
# by itself has other signals.
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def worker_environment() -> dict[str, str]:
    """Return the environment variables of workers that numbers could depend on."""
    return {name: os.environ.get(name, usual) for name, usual in _ENVIRONMENT.items()}


class WorkerProcess:
    """A worker process that is started when it is first needed, and replaced when it ends."""

    def __init__(
        self,
        timeout: float | None,
        environment: Mapping[str, str] | None = None,
        path: Sequence[str] | None = None,
    ) -> None:
        self._timeout = timeout
        self._environment = worker_environment() if environment is None else environment
        self._path = list(sys.path if path is None else path)
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Any = None
        self._starting = Lock()
        self._closed = False

    def make(self, batch: Batch) -> BatchResult:
        """Make a batch; a call that takes too long or ends the process has that as its result."""
        results: list[JobResult] = []
        total = 0.0
        while left := batch.each[len(results) :]:
            if not self._begin(replace(batch, each=left)):
                break
            try:
                for _ in left:
                    result, seconds = self._reply(self._timeout)
                    results.append(result)
                    total += seconds
            except TimeoutError:
                self.end()
                detail = f"no answer within {self._timeout:g} s"
                results.append(JobResult(jobs.TIMEOUT, detail=detail))
            except (EOFError, OSError):
                status = self.end(_ENDING)
                outcome = jobs.KILLED if -status in _FROM_OUTSIDE else jobs.CRASH
                detail = f"the process ended with {_in_words(status)}"
                results.append(JobResult(outcome, detail=detail))
        return BatchResult(results, total)

    def close(self) -> None:
        """Kill the process and start no other; the thread that waits for it then returns."""
        with self._starting:
            self._closed = True
            if self._process is not None:
                _kill(self._process)

    def end(self, patience: float = 0.0) -> int:
        """End the process and all that it started, after some seconds; return its exit status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        _kill(process)
        self._pipe.close()
        return process.wait()

    def _begin(self, batch: Batch) -> bool:
        """Send a batch and wait until its imports are over; False after `close`."""
        status = 0
        for _ in range(_ATTEMPTS):
            with self._starting:
                if self._closed:
                    return False
                if self._process is None:
                    self._start()
            try:
                self._pipe.send(batch)
                self._reply(None)
                return True
            except (EOFError, OSError):
                status = self.end(_ENDING)
        raise GoalmeterError(
            f"a worker process cannot be started: {_ATTEMPTS} attempts ended before they took a "
            f"job, the last with {_in_words(status)}; what they said is above. Look whether there "
            f"is memory left, and whether {sys.executable} starts; what is finished is kept where "
            f"--out names a folder"
        )

    def _start(self) -> None:
        self._pipe, theirs = Pipe()
        arguments = [json.dumps(self._path), str(theirs.fileno())]
        # A session of its own: Ctrl-C in a terminal reaches this process only, and all that a
        # worker starts can be ended with it.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=2,
            env=os.environ | dict(self._environment),
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()

    def _reply(self, timeout: float | None) -> Any:
        """Return the next message of the process; raise EOFError at its end."""
        assert self._process is not None
        end = float("inf") if timeout is None else time.monotonic() + timeout
        while not self._pipe.poll(min(_CHECK_EVERY, max(end - time.monotonic(), 0.0))):
            if time.monotonic() >= end:
                raise TimeoutError
            if self._process.poll() is not None:  # a process that it forked holds the pipe open
                raise EOFError
        return self._pipe.recv()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _in_words(status: int) -> str:
    with suppress(ValueError):
        return f"signal {signal.Signals(-status).name}"
    return f"exit status {status}"


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Processes:
    """Worker processes of this machine, each with a thread that feeds it; by default one a core."""

    worthwhile = 0.2  # a message takes less than a thousandth of that

    def __init__(self, argument: str, *, trials: int, timeout: float | None) -> None:
        count = cores()
        if argument:
            count = whole_in_text(argument, "workers", least=1, most=MOST_WORKERS)
        self.slots = min(count, max(trials, 1))
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

        def make(batch: Batch) -> BatchResult:
            worker = self._idle.pop()  # there are as many workers as threads
            try:
                return worker.make(batch)
            finally:
                self._idle.append(worker)

        numbered = enumerate(batches)
        pending: dict[Future[BatchResult], int] = {}
        while True:
            for number, batch in islice(numbered, self.slots - len(pending)):
                pending[self._threads.submit(make, batch)] = number
            if not pending:
                return
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                yield pending.pop(future), future.result()
