"""Ray and Slurm backends, whose workers compute what this machine would: docs/notes/scale.md."""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import socket
import sys
import tempfile
import time
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
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
from goalmeter._files import digest
from goalmeter._names import did_you_mean
from goalmeter.runs.backends.processes import Processes, worker_environment
from goalmeter.runs.jobs import Batch, BatchResult
from goalmeter.runs.store import made_here


def options_of(
    argument: str, place: str, known: Collection[str], *, first: str = ""
) -> dict[str, str]:
    """Return the options behind the colon of a place; `first` names a first part without a name."""
    options: dict[str, str] = {}
    for number, part in enumerate(argument.split(",") if argument else ()):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals and first and number == 0:
            name, value = first, name
        if name not in known or not value or name in options:
            raise InvalidParameterError(
                f"{place}:{argument} has {shown(part)}{did_you_mean(name, known) or ';'} expected "
                f"NAME=VALUE once each, with commas between them, of {', '.join(known)}"
            )
        options[name] = value
    return options


# --- Workers on other machines --------------------------------------------------------------------
def setup_of(files: Mapping[str, str], timeout: float | None) -> str:
    """Return what a remote worker needs before its first batch, as JSON; the files travel along."""
    contents = {}
    for path, known in files.items():
        if digest(path) != known:
            raise InvalidFileError(f"{path} has changed since this began; start the run again")
        contents[path] = known, b64encode(Path(path).read_bytes()).decode()
    # Relative paths begin in the working folder.
    return json.dumps([version(), str(Path.cwd()), worker_environment(), timeout, contents])


def make_batches(setup: str, batches: list[Batch]) -> list[BatchResult] | str:
    """Make batches on another machine, one on each core; text says why it cannot be used."""
    try:
        results = dict(_workers(setup, len(batches)).run(iter(batches)))
    except GoalmeterError as error:
        return str(error)
    return [results[number] for number in range(len(batches))]


def workers_here(setup: str, count: int) -> Processes:
    """Return worker processes of this machine, which a driver on another machine set up."""
    wanted, folder, environment, timeout, files = json.loads(setup)
    if version() != wanted:
        raise GoalmeterError(
            f"{socket.gethostname()} has goalmeter {version()}, expected {wanted} as on the "
            f"machine that started the run; install the same there"
        )
    move_to(folder, files)
    # Ray has packages of its own in front, of other versions than ours.
    path = [folder for folder in sys.path if "-packages/ray/" not in folder]
    return Processes(str(count), trials=count, timeout=timeout, environment=environment, path=path)


_workers = lru_cache(maxsize=1)(workers_here)  # for all tasks of a process of Ray


@lru_cache(maxsize=1)
def version() -> str:
    """Return the version of goalmeter with a digest of its source, and that of Python."""
    # In a checkout the number alone does not tell one commit from another.
    package = Path(__file__).resolve().parents[2]
    source = sha256(b"".join(file.read_bytes() for file in sorted(package.rglob("*.py"))))
    python = ".".join(map(str, sys.version_info[:2]))
    return f"{made_here()['goalmeter']} (source {source.hexdigest()[:8]}), Python {python}"


def move_to(folder: str, files: Mapping[str, Sequence[str]]) -> None:
    """Change to the working folder, or to one with copies of the files where it is not shared."""
    if is_shared := Path(folder).is_dir():
        os.chdir(folder)
    missing = [
        path
        for path, (known, _) in files.items()
        if not Path(path).is_file() or digest(path) != known
    ]
    if elsewhere := [path for path in missing if Path(path).is_absolute()]:
        raise InvalidFileError(
            f"{socket.gethostname()} has no {elsewhere[0]} with the same content, and files are "
            f"only sent that lie in the working folder; put it there"
        )
    if missing or not is_shared:
        os.chdir(tempfile.mkdtemp(prefix="goalmeter-"))
        for path, (_, content) in files.items():
            if not Path(path).is_absolute():
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).write_bytes(b64decode(content))


# --- Ray ------------------------------------------------------------------------------------------
class RayCluster:
    """Tasks on a Ray cluster, of one CPU each."""

    worthwhile = 0.3  # seconds; a batch and its results cross in some milliseconds

    def __init__(self, argument: str, *, trials: int, timeout: float | None) -> None:
        options = options_of(argument, "ray", ("address", "cpus"), first="address")
        most = whole_in_text(options.get("cpus", "512"), "cpus", least=1, most=MOST_WORKERS)
        self._address, self._most = options.get("address"), min(most, max(trials, 1))
        self._timeout = timeout
        self._tasks: dict[Any, tuple[int, Batch]] = {}
        self._setup: Any = None
        self._ray: Any = require("ray", extra="ray", feature="Running trials on a Ray cluster")

    def __enter__(self) -> Self:
        """Join a cluster until this process ends, unless it is in one already."""
        # On a busy machine the first process of a cluster takes longer than Ray would wait, and its
        # workers would stand back behind every other process.
        os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "120")
        os.environ.setdefault("RAY_worker_niceness", "0")
        quiet = {"log_to_driver": False, "configure_logging": False, "logging_level": logging.ERROR}
        try:
            if not self._ray.is_initialized():
                self._ray.init(self._address, include_dashboard=False, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as cause:
            wanted = self._address or os.environ.get("RAY_ADDRESS") or "auto"
            words = " ".join(str(cause).split()) or type(cause).__name__
            raise GoalmeterError(
                f"the Ray cluster {shown(wanted)} cannot be joined or started: {words}; look "
                f"whether it runs, with this version of Ray and Python, or use --on processes"
            ) from cause
        cpus = int(self._ray.cluster_resources().get("CPU", 0))
        self.slots = max(1, min(self._most, cpus))
        # A lost task is repeated by the study, which finds the trial that ends its worker.
        self._make = self._ray.remote(num_cpus=1, max_retries=0)(make_batches)
        return self

    def __exit__(self, *error: object) -> None:
        for task in self._tasks:
            with suppress(Exception):  # the cluster itself may be gone
                self._ray.cancel(task, force=True)

    def run(self, batches: Iterator[Batch]) -> Iterator[tuple[int, BatchResult]]:
        """Make batches; an iterator that is left early leaves its tasks running."""
        numbered = enumerate(batches)
        while True:
            for number, batch in islice(numbered, self.slots - len(self._tasks)):
                if self._setup is None:
                    self._setup = self._ray.put(setup_of(batch.files, self._timeout))
                self._tasks[self._make.remote(self._setup, [batch])] = number, batch
            if not self._tasks:
                return
            for task in self._ray.wait([*self._tasks])[0]:
                number, batch = self._tasks.pop(task)
                try:
                    results = self._ray.get(task)
                except self._ray.exceptions.RayTaskError as error:
                    # Nothing that a trial does is an error of its task.
                    last = str(error).strip().splitlines()[-1]
                    raise GoalmeterError(
                        f"a task on the Ray cluster fails: {last}; look whether every node has the "
                        f"same version of goalmeter"
                    ) from error
                except self._ray.exceptions.RayError as error:
                    detail = f"Ray lost the process ({type(error).__name__})"
                    results = [BatchResult.killed(batch, detail)]
                if isinstance(results, str):
                    raise GoalmeterError(f"a node of the Ray cluster cannot be used: {results}")
                yield number, results[0]


# --- Slurm ----------------------------------------------------------------------------------------
# The trials of a job that fails, is preempted or reaches its limit of time are made again.
_OURS = ("time", "jobs", "cores", "folder", "cluster")
_OF_SLURM = {name: f"slurm_{name}" for name in ("partition", "account", "qos", "constraint")}
_OF_SLURM["memory"] = "slurm_mem"
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
        time_limit = minutes(options.get("time", "1:00:00"))
        # As submitit names them.
        self._requested: dict[str, Any] = {"cpus_per_task": cores, "timeout_min": time_limit}
        self._requested |= {name: options[n] for n, name in _OF_SLURM.items() if n in options}
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
                part = self._running.pop(job)
                try:
                    results = job.result()
                except Exception as cause:  # it failed, was cancelled, or reached its time limit
                    last = str(cause).strip().splitlines()[-1:]
                    detail = f"the Slurm job {job.job_id} ended ({': '.join([job.state, *last])})"
                    results = [BatchResult.killed(batch, detail) for _, batch in part]
                if isinstance(results, str):
                    raise GoalmeterError(f"a job of Slurm cannot be used: {results}")
                yield from zip((number for number, _ in part), results, strict=True)
            time.sleep(_LOOK_EVERY[self._cluster])
