"""Processes of this machine: as many at once as asked for, none of which can harm the others.

A worker speaks lines of JSON over pipes. A batch that takes too long is ended with its process,
which is then replaced; so is a process that dies, and the batch that it had is lost. What the
results are depends neither on how many workers there are nor on which of them made what, as far as
the calls themselves do not: workers have one thread for numerics, one seed for Python's hashes, and
the import path of this process.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Self

from goalmeter._arguments import MOST_WORKERS, whole, whole_in_text
from goalmeter._errors import GoalmeterError
from goalmeter.runs.backends.options import check_timeout
from goalmeter.runs.backends.process import (
    Surroundings,
    WorkerProcess,
    is_from_outside,
    status_in_words,
)
from goalmeter.runs.backends.protocol import Working
from goalmeter.runs.jobs import CRASH, KILLED, TIMEOUT, Answer, Batch, JobResult

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
