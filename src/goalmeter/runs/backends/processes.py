"""Process pool on this machine, with a time limit per trial and replacement of dead workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import islice
from math import inf
from multiprocessing.connection import Connection, Pipe, wait
from queue import SimpleQueue
from threading import Thread
from typing import Any, NoReturn

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


class _Worker:
    """A worker process: started when it has a batch, and replaced when it ends."""

    def __init__(self, timeout: float | None, environment: dict[str, str], path: list[str]) -> None:
        self._timeout, self._environment, self._path = timeout, environment, path
        self._process: subprocess.Popen[bytes] | None = None
        self.pipe: Any = None

    def begin(self, number: int, batch: Batch) -> None:
        """Send a batch to the process."""
        self.number, self._batch = number, batch
        self.results: list[JobResult] = []
        self.seconds = 0.0
        self._attempts = 0  # sendings in a row that were not answered
        self._send()

    def _send(self) -> None:
        if self._process is None:
            self.pipe, theirs = Pipe()
            arguments = [json.dumps(self._path), str(theirs.fileno())]
            # A session of its own: Ctrl-C in a terminal reaches this process only, and all that a
            # worker starts can be ended with it.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=2,
                env=os.environ | self._environment,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
            theirs.close()
        self._attempts += 1
        self.deadline = inf  # of a call, by a monotonic clock; imports may take as long as they do
        with suppress(OSError):  # it has ended, which is found when it is looked at
            self.pipe.send(replace(self._batch, each=self._batch.each[len(self.results) :]))

    def look(self) -> bool:
        """Take a message, or the end of the process or of its time; return whether all is made."""
        assert self._process is not None
        has_ended = self._process.poll() is not None
        try:
            if self.pipe.poll():
                if (reply := self.pipe.recv()) is not None:
                    self.results.append(reply[0])
                    self.seconds += reply[1]
                self._attempts = 0
                self.deadline = time.monotonic() + (self._timeout or inf)
            elif has_ended:  # a process that it forked holds the pipe open
                raise EOFError
            elif time.monotonic() >= self.deadline:
                self.end()
                detail = f"no answer within {self._timeout:g} s"
                self.results.append(JobResult(jobs.TIMEOUT, detail=detail))
        except (EOFError, OSError):
            status = self.end(_ENDING)
            words = f"exit status {status}"
            with suppress(ValueError):
                words = f"signal {signal.Signals(-status).name}"
            if self._attempts == _ATTEMPTS:
                raise GoalmeterError(
                    f"a worker process cannot be started: {_ATTEMPTS} attempts ended before they "
                    f"took a job, the last with {words}; what they said is above. Look "
                    f"whether there is memory left, and whether {sys.executable} starts; what is "
                    f"finished is kept where --out names a folder"
                ) from None
            if not self._attempts:
                outcome = jobs.KILLED if -status in _FROM_OUTSIDE else jobs.CRASH
                self.results.append(JobResult(outcome, detail=f"the process ended with {words}"))
        is_whole = len(self.results) == len(self._batch.each)
        if self._process is None and not is_whole:
            self._send()
        return is_whole

    def end(self, patience: float = 0.0) -> int:
        """End the process and all that it started, after some seconds; return its exit status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        self.pipe.close()
        return process.wait()


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Processes(ExitStack):
    """Worker processes of this machine, by default one a core."""

    worthwhile = 0.2  # a message takes less than a thousandth of that

    def __init__(
        self,
        argument: str,
        *,
        trials: int,
        timeout: float | None,
        environment: dict[str, str] | None = None,  # by default as this process
        path: list[str] | None = None,  # of imports, by default as this process
    ) -> None:
        super().__init__()
        count = cores()
        if argument:
            count = whole_in_text(argument, "workers", least=1, most=MOST_WORKERS)
        self.slots = min(count, max(trials, 1))
        settings = (timeout, environment or worker_environment(), path or sys.path)
        self._workers = [_Worker(*settings) for _ in range(self.slots)]
        for worker in self._workers:
            self.callback(worker.end)

    def run(self, batches: Iterator[Batch]) -> Iterator[tuple[int, BatchResult]]:
        """Make batches; an iterator that is left early leaves its batches running."""
        numbered = enumerate(batches)
        idle, busy = self._workers.copy(), list[_Worker]()
        while True:
            for number, batch in islice(numbered, len(idle)):
                busy.append(idle.pop())
                busy[-1].begin(number, batch)
            if not busy:
                return
            patience = min(_CHECK_EVERY, min(w.deadline for w in busy) - time.monotonic())
            wait([worker.pipe for worker in busy], max(patience, 0.0))
            for worker in [worker for worker in busy if worker.look()]:
                busy.remove(worker)
                idle.append(worker)
                yield worker.number, BatchResult(worker.results, worker.seconds)
