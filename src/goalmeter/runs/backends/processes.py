"""Process pool on this machine, with a time limit per trial and replacement of dead workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, NoReturn, Self

from goalmeter._errors import MOST_WORKERS, GoalmeterError, whole, whole_in_text
from goalmeter.runs.jobs import (
    CRASH,
    KILLED,
    TIMEOUT,
    Answer,
    Batch,
    JobResult,
    Working,
    call,
    check_timeout,
    prepare,
)
from goalmeter.runs.progress import prepare_worker

# --- Worker ---------------------------------------------------------------------------------------
# The code that it runs may be anybody's. What that prints goes to standard error, and what it
# reads is empty: the pipes of the protocol are moved out of its way. A thread waits for batches,
# so that a worker whose parent has gone ends at once, whatever it is doing.

READY = "ready"
BEGUN = "begun"


def main() -> NoReturn:
    """Serve until the other end of standard input is closed."""
    prepare_worker()
    # No keyboard reaches a session of its own: whoever sends its signal ends this process, which is
    # no exception of the code that runs.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asked, answers = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    batches: SimpleQueue[str] = SimpleQueue()
    # A batch can come from here on, so the time that starting takes counts against none.
    _send(answers, json.dumps(READY))
    Thread(target=_listen, args=(asked, batches), daemon=True).start()
    while True:
        batch = Batch(**json.loads(batches.get()))
        prepare(batch)
        _send(answers, json.dumps(BEGUN))
        _send(answers, json.dumps(_answer(batch)))


def _answer(batch: Batch) -> dict[str, object]:
    # The keyboard's signal ends a worker, so an interrupt is raised by the code itself.
    answer = call(batch, keep_interrupts=True)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # the user's code may have closed it
            stream.flush()
    return answer.to_json()


def _listen(asked: int, batches: SimpleQueue[str]) -> None:
    with os.fdopen(asked, encoding="utf-8") as lines:
        for line in lines:
            batches.put(line)
    os._exit(0)


def _send(answers: int, line: str) -> None:
    unsent = f"{line}\n".encode()
    try:
        while unsent:
            unsent = unsent[os.write(answers, unsent) :]
    except OSError:  # nobody is there to hear it
        os._exit(0)


if __name__ == "__main__":
    main()


# --- Process --------------------------------------------------------------------------------------
# The same import path as here, so that the same goalmeter is found, however this process found it.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); del sys.argv[1:]; "
    "from goalmeter.runs.backends.processes import main; main()"
)
# Threads change the order of sums, and so their last bits; hashes change the order of sets. What a
# user has set stays.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}
_ENDING = 1.0  # seconds that a process may take to end after it has closed its pipes
# What a shell, a scheduler or a machine short of memory ends a process with; a fault of the
# process's own has other signals.
_FROM_OUTSIDE = frozenset({"SIGKILL", "SIGTERM", "SIGHUP", "SIGINT"})


@dataclass(frozen=True)
class Surroundings:
    """What a worker finds around it that its numbers could depend on.

    Attributes:
        environment: variables of the environment.
        path: where Python looks for modules.
    """

    environment: Mapping[str, str]
    path: Sequence[str]

    @classmethod
    def of_this_process(cls) -> Surroundings:
        """Those that this process gives to its workers."""
        environment = {name: os.environ.get(name, usual) for name, usual in _ENVIRONMENT.items()}
        return cls(environment, tuple(sys.path))


class WorkerProcess:
    """One process, the thread that hears it, and the batch that it has.

    Args:
        heard: gets (this, line) for every line that the process says, and (this, None) at its end.
        attempt: which attempt at starting it this is, from 1.
        surroundings: what it finds around it; None for what this process would give it.

    Attributes:
        attempt: the same.
        batch: the number of the batch that it has, or None.
        ready: whether it has said that it takes batches.
        deadline: when its batch will have taken too long, by `time.monotonic`.
        late: whether one did.
        gone: whether it was seen to have ended, and nothing of it was left to hear.
    """

    def __init__(
        self,
        heard: SimpleQueue[tuple[WorkerProcess, str | None]],
        attempt: int = 1,
        surroundings: Surroundings | None = None,
    ) -> None:
        around = surroundings or Surroundings.of_this_process()
        self.attempt = attempt
        self.batch: int | None = None
        self.ready = False
        self.late = False
        self.gone = False
        self.deadline = self._timeout = float("inf")
        # A session of its own: Ctrl-C in a terminal reaches this process only, and all that a
        # worker starts can be ended with it.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, json.dumps(around.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | around.environment,
            encoding="utf-8",
            start_new_session=True,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self._to: IO[str] = self.process.stdin
        self._from: IO[str] = self.process.stdout
        self._listener = Thread(target=self._listen, args=(heard,), daemon=True)
        self._listener.start()

    def _listen(self, heard: SimpleQueue[tuple[WorkerProcess, str | None]]) -> None:
        with suppress(OSError, ValueError):
            for line in self._from:
                # Half a line is the last word of a process that was killed.
                if line.endswith("\n"):
                    heard.put((self, line))
        heard.put((self, None))

    def ask(self, number: int, batch: Batch, timeout: float | None) -> bool:
        """Hand over a batch; False if nobody is there to take it."""
        line = json.dumps(batch.to_json())
        try:
            self._to.write(f"{line}\n")
            self._to.flush()
        except OSError:
            return False
        self.batch = number
        self._timeout = float("inf") if timeout is None else timeout
        return True

    def understand(self, line: str) -> Answer | None:
        """The answer that a line holds, after which the worker is idle.

        None for the greeting, and for the word that it begins with its batch, whose time runs now.
        """
        spoken = json.loads(line)
        if spoken == BEGUN:
            self.deadline = time.monotonic() + self._timeout
            return None
        self.deadline, self.batch = float("inf"), None
        if spoken == READY:
            self.ready = True
            return None
        return Answer.from_json(spoken)

    def kill(self) -> None:
        """End the process and all that it started."""
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()

    def ended_itself(self) -> bool:
        """Whether the process ends without its parent's doing, now that its pipe is closed."""
        # Between its last word and its end pass milliseconds, in which it has no status yet.
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=_ENDING)
            return True
        return False

    def end(self) -> int:
        """Wait for the end and close the pipes; the exit status."""
        status = self.process.wait()
        with suppress(OSError):
            self._to.close()
        self._listener.join(timeout=1.0)
        if not self._listener.is_alive():
            self._from.close()
        return status


def is_from_outside(status: int) -> bool:
    """Whether a process with this exit status was ended by somebody else, as far as can be told."""
    return status < 0 and status_in_words(status).removeprefix("signal ") in _FROM_OUTSIDE


def status_in_words(status: int) -> str:
    """How a process ended."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


# --- Processes ------------------------------------------------------------------------------------
# A worker speaks lines of JSON over pipes. A batch that takes too long is ended with its process,
# which is then replaced; so is a process that dies, and the batch that it had is lost. What the
# results are depends neither on how many workers there are nor on which of them made what, as far
# as the calls themselves do not: workers have one thread for numerics, one seed for Python's
# hashes, and the import path of this process.

_AGAIN = 5  # times that a worker is started once more which ended before it took a batch
_LOOK_EVERY = 1.0  # seconds; how often workers are looked at, besides when they speak


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processes(argument: str, *, trials: int, timeout: float | None) -> Processes:
    """Processes of this machine, as `registry.opened` asks; by default one for each core."""
    count = whole_in_text(argument, "workers", least=1, most=MOST_WORKERS) if argument else cores()
    return Processes(min(count, max(trials, 1)), timeout)


class Processes:
    """Worker processes, from entering the context to leaving it.

    Args:
        count: how many, at least 1; they all start at once.
        timeout: seconds that a batch may take; None for as long as it takes.
        surroundings: what they find around them; None for what this process would give them.
    """

    worthwhile = 0.2  # a line through a pipe takes less than a thousandth of that

    def __init__(
        self,
        count: int,
        timeout: float | None = None,
        surroundings: Surroundings | None = None,
    ) -> None:
        self.slots = whole(count, "workers", least=1, most=MOST_WORKERS)
        check_timeout(timeout)
        self._timeout = timeout
        self._surroundings = surroundings
        self._workers: list[WorkerProcess] = []
        self._heard: SimpleQueue[tuple[WorkerProcess, str | None]] = SimpleQueue()

    def __enter__(self) -> Self:
        try:
            for _ in range(self.slots):
                self._workers.append(self._started())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def _started(self, attempt: int = 1) -> WorkerProcess:
        return WorkerProcess(self._heard, attempt, self._surroundings)

    def run(self, batches: Iterator[Batch]) -> Iterator[tuple[int, Answer]]:
        """Make batches, and give the number and the answer of each as it is ready.

        An iterator that is left early leaves its batches running: leave the context too.
        """
        # Batches that a dead worker could not take stand in front of those to come.
        returned: deque[tuple[int, Batch]] = deque()
        numbered = enumerate(batches)
        while self._share_out(returned, numbered):
            worker, line = self._hear()
            if worker not in self._workers:
                continue  # the last words of one that was replaced
            number = worker.batch
            try:
                answer = self._replace(worker) if line is None else worker.understand(line)
            except (ValueError, TypeError, KeyError):  # the call wrote into a pipe not its own
                answer = self._replace(worker, "it said what is no answer, and was ended")
            if number is not None and answer is not None:
                yield number, answer

    def working(self) -> Sequence[Working]:
        """The processes that have a batch now."""
        # A copy, since workers that die are replaced meanwhile.
        busy = [(worker.process.pid, worker.batch) for worker in tuple(self._workers)]
        return [Working(f"process {pid}", batch) for pid, batch in busy if batch is not None]

    def _share_out(
        self, returned: deque[tuple[int, Batch]], numbered: Iterator[tuple[int, Batch]]
    ) -> bool:
        """Give every idle worker a batch; whether there is any answer to wait for."""
        for worker in self._workers:
            if not worker.ready or worker.batch is not None:
                continue
            taken = returned.popleft() if returned else next(numbered, None)
            if taken is not None and not worker.ask(*taken, self._timeout):
                returned.appendleft(taken)  # it is dead, of which we shall hear
        starting = any(not worker.ready for worker in self._workers)
        busy = any(worker.batch is not None for worker in self._workers)
        # While a worker starts, nobody knows yet whether there is a batch for it.
        if starting and not (busy or returned) and (following := next(numbered, None)):
            returned.append(following)
        return busy or bool(returned)

    def _hear(self) -> tuple[WorkerProcess, str | None]:
        """The next line that a worker says, or None for one that died or took too long."""
        while True:
            deadline = min((worker.deadline for worker in self._workers), default=float("inf"))
            wait = min(max(deadline - time.monotonic(), 0.0), _LOOK_EVERY)
            with suppress(Empty):
                return self._heard.get(timeout=wait) if wait else self._heard.get_nowait()
            now = time.monotonic()
            for worker in self._workers:
                if now >= worker.deadline:
                    worker.late = True
                    return worker, None
                # A process that it forked may hold the pipe open after the worker is gone.
                if worker.process.poll() is not None and self._heard.empty():
                    if worker.gone:  # and its last words were not on their way
                        return worker, None
                    worker.gone = True

    def _replace(self, worker: WorkerProcess, fault: str = "") -> Answer | None:
        """Start another worker in the place of one; what came of the batch that this had.

        `fault` is what it did that it has to be ended for, if it did anything.
        """
        # A signal that is not ours says nothing about the call.
        itself = not (fault or worker.late) and worker.ended_itself()
        worker.kill()
        status = worker.end()
        if not worker.ready:
            # A machine short of memory ends what has just begun; the next one may be spared.
            if worker.attempt > _AGAIN:
                raise GoalmeterError(
                    f"a worker process cannot be started: {worker.attempt} attempts ended before "
                    f"they took a job, the last with {status_in_words(status)}; what they said is "
                    f"above. Look whether there is memory left, and whether {sys.executable} "
                    f"starts; what is finished is kept where --out names a folder"
                )
            another = self._started(worker.attempt + 1)
            self._workers[self._workers.index(worker)] = another
            return None
        self._workers[self._workers.index(worker)] = self._started()
        if worker.late:
            return Answer(lost=JobResult(TIMEOUT, detail=f"no answer within {self._timeout:g} s"))
        if not (itself or fault):
            fault = "it closed its pipes, and was ended"
        detail = f"the process ended with {status_in_words(status)}"
        killed = itself and is_from_outside(status)
        return Answer(lost=JobResult(KILLED if killed else CRASH, detail=fault or detail))
