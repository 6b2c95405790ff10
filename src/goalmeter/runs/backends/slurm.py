"""Slurm backend: batches run as jobs of arrays that submitit submits."""

from __future__ import annotations

import json
import math
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Self

from goalmeter._errors import (
    MOST_WORKERS,
    GoalmeterError,
    InvalidFileError,
    InvalidParameterError,
    require,
    shown,
    whole_in_text,
)
from goalmeter.runs.backends.remote import Setup, make_as_text, result_of, worker_here
from goalmeter.runs.jobs import Batch, BatchResult, Working, check_timeout, options_of

# slurm                             up to eight jobs of one core at once, for up to an hour each
# slurm:partition=cpu,jobs=20,cores=4,time=4:00:00,memory=8G,account=NAME,qos=NAME,constraint=NAME
# slurm:folder=PATH                 where submitit writes, on a file system that all nodes share;
#                                   default .goalmeter-slurm in the working folder
# slurm:cluster=local               jobs are processes of this machine, to try a command out
#
# The trials of a job that fails, is preempted or reaches its limit of time are made again.
_OF_SLURM = ("partition", "account", "qos", "constraint")
_OPTIONS = (*_OF_SLURM, "time", "memory", "jobs", "cores", "folder", "cluster")
_CLUSTERS = ("slurm", "local")
_TIME = re.compile(r"(?:(\d{1,3})-)?(\d{1,4})(?::(\d{1,2}))?(?::(\d{1,2}))?")
_MEMORY = re.compile(r"\d{1,6}[KMGT]?B?", re.IGNORECASE)
_LEAVING = 10.0  # seconds that jobs have to end
_LOOK_EVERY = {"slurm": 2.0, "local": 0.05}  # seconds


def opened_jobs(argument: str, *, trials: int, timeout: float | None) -> SlurmJobs:
    """Open "slurm:NAME=VALUE,..."."""
    options = options_of(argument, "slurm", _OPTIONS)
    check_timeout(timeout)
    cluster = options.get("cluster", "slurm")
    if cluster not in _CLUSTERS:
        raise InvalidParameterError(
            f"cluster is {shown(cluster)}, expected {' or '.join(_CLUSTERS)}"
        )
    cores = whole_in_text(options.get("cores", "1"), "cores", least=1, most=MOST_WORKERS)
    jobs = whole_in_text(options.get("jobs", "8"), "jobs", least=1, most=MOST_WORKERS // cores)
    if (memory := options.get("memory")) and not _MEMORY.fullmatch(memory):
        raise InvalidParameterError(f"memory is {shown(memory)}, expected such as 4G, for each job")
    requested = {
        "timeout_min": minutes(options.get("time", "1:00:00")),
        "cpus_per_task": cores,
        **{f"slurm_{name}": options[name] for name in _OF_SLURM if name in options},
    }
    if memory:
        requested["slurm_mem"] = memory.upper().removesuffix("B")
    require("submitit", extra="slurm", feature="Running trials in jobs of Slurm")
    if cluster == "slurm" and shutil.which("sbatch") is None:
        raise InvalidParameterError(
            "there is no program sbatch, so this machine submits no jobs to Slurm; run it on a "
            "login node, or try slurm:cluster=local"
        )
    folder = Path(options.get("folder", ".goalmeter-slurm"))
    jobs = min(jobs, math.ceil(max(trials, 1) / cores))
    return SlurmJobs(cluster, jobs, cores, requested, folder, timeout)


def minutes(text: str) -> int:
    """Return a time as Slurm writes it in minutes, rounded up.

    >>> minutes("90"), minutes("1:30:00"), minutes("2-00"), minutes("10:30")
    (90, 90, 2880, 11)
    """
    matched = _TIME.fullmatch(text)
    if matched is None or (matched[4] and matched[1] and not matched[3]):
        raise InvalidParameterError(
            f"time is {shown(text)}, expected minutes, or DAYS-HOURS:MINUTES:SECONDS without what "
            f"is not needed, such as 4:00:00"
        )
    parts = [int(part) for part in matched.groups()[1:] if part is not None]
    if matched[1] is not None:  # days, and then hours first
        seconds = int(matched[1]) * 86_400 + _sum(parts, (3600, 60, 1))
    else:
        units = {1: (60,), 2: (60, 1), 3: (3600, 60, 1)}[len(parts)]
        seconds = _sum(parts, units)
    if seconds <= 0:
        raise InvalidParameterError(f"time is {shown(text)}, expected more than nothing")
    return math.ceil(seconds / 60)


def _sum(parts: list[int], units: tuple[int, ...]) -> int:
    return sum(part * unit for part, unit in zip(parts, units, strict=False))


def make_batches(setup: str, batches: list[str]) -> list[str] | str:
    """Make batches in a job, one on each core; text says why this node cannot be used."""
    try:
        workers = [worker_here(setup) for _ in batches]
    except GoalmeterError as error:
        return str(error)
    with ThreadPoolExecutor(len(batches)) as threads:
        results = list(threads.map(make_as_text, workers, batches))
    for worker in workers:
        worker.end()
    return results


class SlurmJobs:
    """Jobs of Slurm, each of which makes a batch on each of its cores.

    Args:
        cluster: "slurm", or "local" for processes of this machine in the place of jobs.
        jobs: number of jobs at once.
        cores: of each job.
        requested: what is requested of Slurm, as submitit names it.
        folder: below which submitit writes.
        timeout: seconds that a trial may take; None for no limit.
    """

    def __init__(
        self,
        cluster: str,
        jobs: int,
        cores: int,
        requested: dict[str, Any],
        folder: Path,
        timeout: float | None,
    ) -> None:
        self.slots = jobs * cores
        # A job waits in the queue, and each starts processes of its own.
        self.worthwhile = {"slurm": 120.0, "local": 2.0}[cluster]
        self._cluster, self._jobs, self._cores = cluster, jobs, cores
        self._requested, self._parent, self._timeout = requested, folder, timeout
        self._running: dict[Any, list[tuple[int, Batch]]] = {}

    def __enter__(self) -> Self:
        submitit = require("submitit", extra="slurm", feature="Running trials in jobs of Slurm")
        try:
            self._parent.mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(prefix="run-", dir=self._parent)).resolve()
            self._executor = submitit.AutoExecutor(self._folder, cluster=self._cluster)
        except OSError as cause:
            raise InvalidFileError(
                f"{self._parent} cannot be written: {cause.strerror or cause}; name another with "
                f"slurm:folder=PATH, on a file system that all nodes share"
            ) from cause
        self._executor.update_parameters(name="goalmeter", **self._requested)
        self._setup = ""
        return self

    def __exit__(self, *error: object) -> None:
        for job in self._running:
            with suppress(Exception):  # it has ended, or Slurm cannot be reached
                job.cancel(check=False)
        end = time.monotonic() + _LEAVING
        while not all(map(_is_done, self._running)) and time.monotonic() < end:
            time.sleep(_LOOK_EVERY[self._cluster])
        self._running.clear()
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):  # another run writes there
            self._parent.rmdir()

    def run(self, batches: Iterator[Batch]) -> Iterator[tuple[int, BatchResult]]:
        """Make batches; an iterator that is left early leaves its jobs running."""
        numbered = enumerate(batches)
        while True:
            free = self._jobs - len(self._running)
            parts = [part for _ in range(free) if (part := list(islice(numbered, self._cores)))]
            if parts:
                self._submit(parts)
            if not self._running:
                return
            for job in [job for job in self._running if job.done()]:
                yield from self._results(job)
            time.sleep(_LOOK_EVERY[self._cluster])

    def _submit(self, parts: list[list[tuple[int, Batch]]]) -> None:
        """Submit jobs as one array."""
        submitit = require("submitit", extra="slurm", feature="Running trials in jobs of Slurm")
        self._setup = self._setup or Setup.of(parts[0][0][1].files, self._timeout).to_text()
        texts = [[json.dumps(batch.to_json()) for _, batch in part] for part in parts]
        try:
            jobs = self._executor.map_array(make_batches, [self._setup] * len(parts), texts)
        except (OSError, RuntimeError, submitit.core.utils.FailedJobError) as cause:
            raise GoalmeterError(f"Slurm takes no job: {' '.join(str(cause).split())}") from cause
        self._running |= zip(jobs, parts, strict=True)

    def _results(self, job: Any) -> Iterator[tuple[int, BatchResult]]:
        part = self._running.pop(job)
        try:
            results = job.result()
        except Exception as cause:  # it failed, was cancelled, or reached its limit of time
            last = str(cause).strip().splitlines()[-1:]
            detail = f"the Slurm job {job.job_id} ended ({': '.join([job.state, *last])})"
            yield from ((number, BatchResult.killed(batch, detail)) for number, batch in part)
            return
        if isinstance(results, str):
            raise GoalmeterError(f"a job of Slurm cannot be used: {results}")
        yield from (
            (number, result_of(text)) for (number, _), text in zip(part, results, strict=True)
        )

    def working(self) -> Sequence[Working]:
        """Return the jobs that have been submitted."""
        return [
            Working(f"slurm job {job.job_id}", number)
            for job, part in tuple(self._running.items())
            for number, _ in part
        ]


def _is_done(job: Any) -> bool:
    with suppress(Exception):
        return bool(job.done())
    return True
