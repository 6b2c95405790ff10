"""Jobs in worker processes: as many at once as asked for, none of which can harm the others.

A worker speaks lines of JSON over pipes. A job that takes too long is ended with its process, which
is then replaced; so is a process that dies, which is an outcome of the job that it had. Results
come as they are ready; what they are depends neither on how many workers there are nor on which of
them ran what, as far as the jobs themselves do not: workers have one thread for numerics, one
seed for Python's hashes, and the import path of this process.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from queue import Empty, SimpleQueue
from types import TracebackType

from goalmeter._arguments import MOST_WORKERS, whole
from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter.runs.jobs import CRASH, TIMEOUT, Job, JobResult, call
from goalmeter.runs.process import WorkerProcess, status_in_words

_AGAIN = 2  # times that a worker is started once more which ended before it took a job
_LOOK_EVERY = 1.0  # seconds; how often workers are looked at, besides when they speak


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_jobs(
    jobs: Sequence[Job], *, workers: int = 1, timeout: float | None = None
) -> Generator[tuple[int, JobResult]]:
    """Run jobs, and give the number and result of each as it is ready.

    Close the iterator (`contextlib.closing`) to end the workers before all is done.

    Args:
        jobs: what to run.
        workers: how many processes; 0 runs the jobs in this process, one after the other.
        timeout: seconds that a job may take; None for as long as it takes.

    Raises:
        InvalidParameterError: fewer than 0 workers, a timeout that is not positive, or one without
            a process to end.
    """
    if workers == 0:
        if timeout is not None:
            raise InvalidParameterError(
                f"timeout is {timeout} with workers=0, but a job in this process cannot be "
                f"ended; expected workers=1 or more"
            )
        yield from ((index, call(job)) for index, job in enumerate(jobs))
        return
    with Workers(min(workers, len(jobs)) or 1, timeout) as pool, closing(pool.run(jobs)) as done:
        yield from done


class Workers:
    """Worker processes, from entering the context to leaving it.

    Args:
        count: how many, at least 1; they all start at once.
        timeout: seconds that a job may take; None for as long as it takes.

    Raises:
        InvalidParameterError: no workers, or a timeout that is not positive.
    """

    def __init__(self, count: int, timeout: float | None = None) -> None:
        whole(count, "workers", least=1, most=MOST_WORKERS)
        if timeout is not None and not timeout > 0:
            raise InvalidParameterError(
                f"timeout is {timeout}, expected a number of seconds above 0, or None"
            )
        self._count = count
        self._timeout = timeout
        self._workers: list[WorkerProcess] = []
        self._heard: SimpleQueue[tuple[WorkerProcess, str | None]] = SimpleQueue()

    def __enter__(self) -> Workers:
        try:
            for _ in range(self._count):
                self._workers.append(WorkerProcess(self._heard))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def run(self, jobs: Sequence[Job]) -> Generator[tuple[int, JobResult]]:
        """Run jobs, and give the number and result of each as it is ready.

        An iterator that is left early leaves its jobs running: leave the context too.

        Raises:
            GoalmeterError: no worker process can be started; some were tried in vain.
        """
        waiting = deque(range(len(jobs)))
        left = len(jobs)
        for worker in self._workers:
            self._give(worker, jobs, waiting)
        while left:
            worker, line = self._hear()
            if worker not in self._workers:
                continue  # the last words of one that was replaced
            index = worker.job
            try:
                result = self._replace(worker) if line is None else worker.understand(line)
            except (ValueError, TypeError):  # the job wrote into a pipe that is not its own
                result = self._replace(worker)
            if index is not None and result is not None:
                left -= 1
                yield index, result
            for idle in self._workers:
                self._give(idle, jobs, waiting)

    def _give(self, worker: WorkerProcess, jobs: Sequence[Job], waiting: deque[int]) -> None:
        if not waiting or not worker.ready or worker.job is not None:
            return
        index = waiting.popleft()
        if not worker.ask(index, jobs[index], self._timeout):
            waiting.appendleft(index)  # it is dead, of which we shall hear

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

    def _replace(self, worker: WorkerProcess) -> JobResult | None:
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
            another = WorkerProcess(self._heard, worker.attempt + 1)
            self._workers[self._workers.index(worker)] = another
            return None
        self._workers[self._workers.index(worker)] = WorkerProcess(self._heard)
        if worker.late:
            return JobResult(TIMEOUT, detail=f"no answer within {self._timeout:g} s")
        return JobResult(CRASH, detail=f"the process ended with {status_in_words(status)}")
