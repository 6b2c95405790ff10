"""Slurm backend: batches run as jobs of arrays of submitit; docs/scale.md has its options.

The trials of a job that fails, is preempted or reaches its limit of time are made again.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Iterator
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
from goalmeter.runs.backends.processes import WorkerProcess
from goalmeter.runs.backends.remote import options_of, setup_of, worker_here
from goalmeter.runs.jobs import Batch, BatchResult

_OF_SLURM = ("partition", "account", "qos", "constraint")
_OURS = ("time", "memory", "jobs", "cores", "folder", "cluster")
_LEAVING = 10.0  # seconds that jobs have to end
_LOOK_EVERY = {"slurm": 2.0, "local": 0.05}  # seconds


def minutes(text: str) -> int:
    """Return a time as Slurm writes it, such as "2-00" or "1:30:00", in minutes, rounded up."""
    days, dash, rest = text.rpartition("-")
    parts = [days or "0", *rest.split(":")]
    if len(parts) > 4 or not all(part.isdecimal() and len(part) < 5 for part in parts):
        raise InvalidParameterError(
            f"time is {shown(text)}, expected minutes, or DAYS-HOURS:MINUTES:SECONDS without what "
            f"is not needed, such as 4:00:00"
        )
    units = (86_400, 3600, 60, 1) if dash or len(parts) == 4 else (86_400, 60, 1)
    seconds = sum(int(part) * unit for part, unit in zip(parts, units, strict=False))
    if seconds <= 0:
        raise InvalidParameterError(f"time is {shown(text)}, expected more than nothing")
    return math.ceil(seconds / 60)


def make_batches(setup: str, batches: list[Batch]) -> list[BatchResult] | str:
    """Make batches in a job, one on each core; text says why this node cannot be used."""
    try:
        workers = [worker_here(setup) for _ in batches]
    except GoalmeterError as error:
        return str(error)
    with ThreadPoolExecutor(len(batches)) as threads:
        results = list(threads.map(WorkerProcess.make, workers, batches))
    for worker in workers:
        worker.end()
    return results


class SlurmJobs:
    """Jobs of Slurm, each of which makes a batch on each of its cores."""

    def __init__(self, argument: str, *, trials: int, timeout: float | None) -> None:
        options = options_of(argument, "slurm", (*_OF_SLURM, *_OURS))
        self._cluster = options.get("cluster", "slurm")
        if self._cluster not in _LOOK_EVERY:
            raise InvalidParameterError(
                f"cluster is {shown(self._cluster)}, expected {' or '.join(_LOOK_EVERY)}"
            )
        cores = whole_in_text(options.get("cores", "1"), "cores", least=1, most=MOST_WORKERS)
        jobs = whole_in_text(options.get("jobs", "8"), "jobs", least=1, most=MOST_WORKERS // cores)
        # As submitit names them.
        self._requested: dict[str, Any] = {"cpus_per_task": cores}
        self._requested["timeout_min"] = minutes(options.get("time", "1:00:00"))
        self._requested |= {f"slurm_{name}": options[name] for name in _OF_SLURM if name in options}
        if memory := options.get("memory"):
            self._requested["slurm_mem"] = memory.upper().removesuffix("B")
        self._submitit: Any = require("submitit", extra="slurm", feature="Running trials in Slurm")
        if self._cluster == "slurm" and shutil.which("sbatch") is None:
            raise InvalidParameterError(
                "there is no program sbatch, so this machine submits no jobs to Slurm; run it on a "
                "login node, or try slurm:cluster=local"
            )
        self._cores, self._jobs = cores, min(jobs, math.ceil(max(trials, 1) / cores))
        self._parent, self._timeout = Path(options.get("folder", ".goalmeter-slurm")), timeout
        self.slots = self._jobs * cores
        # A job waits in the queue, and each starts processes of its own.
        self.worthwhile = 120.0 if self._cluster == "slurm" else 2.0
        self._running: dict[Any, list[tuple[int, Batch]]] = {}
        self._setup = ""

    def __enter__(self) -> Self:
        try:
            self._parent.mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(prefix="run-", dir=self._parent)).resolve()
            self._executor = self._submitit.AutoExecutor(self._folder, cluster=self._cluster)
        except OSError as cause:
            raise InvalidFileError(
                f"{self._parent} cannot be written: {cause.strerror or cause}; name another with "
                f"slurm:folder=PATH, on a file system that all nodes share"
            ) from cause
        self._executor.update_parameters(name="goalmeter", **self._requested)
        return self

    def __exit__(self, *error: object) -> None:
        for job in self._running:
            with suppress(Exception):  # it has ended, or Slurm cannot be reached
                job.cancel(check=False)
        end = time.monotonic() + _LEAVING
        with suppress(Exception):
            while not all(job.done() for job in self._running) and time.monotonic() < end:
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
            if parts:  # the jobs of an array
                self._setup = self._setup or setup_of(parts[0][0][1].files, self._timeout)
                asked = [[batch for _, batch in part] for part in parts]
                try:
                    jobs = self._executor.map_array(make_batches, [self._setup] * len(parts), asked)
                except (OSError, RuntimeError, self._submitit.core.utils.FailedJobError) as cause:
                    words = " ".join(str(cause).split())
                    raise GoalmeterError(f"Slurm takes no job: {words}") from cause
                self._running |= zip(jobs, parts, strict=True)
            if not self._running:
                return
            for job in [job for job in self._running if job.done()]:
                yield from self._results(job)
            time.sleep(_LOOK_EVERY[self._cluster])

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
        yield from zip((number for number, _ in part), results, strict=True)
