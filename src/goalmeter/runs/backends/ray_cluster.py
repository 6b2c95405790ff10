"""Ray backend: join or start a cluster, and run batches as tasks; docs/scale.md has its options."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from goalmeter._errors import MOST_WORKERS, GoalmeterError, require, shown, whole_in_text
from goalmeter.runs.backends.processes import WorkerProcess
from goalmeter.runs.backends.remote import options_of, setup_of, worker_here
from goalmeter.runs.jobs import Batch, BatchResult

# Standard output and logging are left to this process.
_QUIET: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
_QUIET["logging_level"] = logging.ERROR


def join(ray: ModuleType, address: str) -> None:
    """Join a cluster until this process ends, unless it is in one already."""
    if ray.is_initialized():
        return
    wanted = address or os.environ.get("RAY_ADDRESS") or "auto"
    try:
        if wanted != "local":
            try:
                ray.init(address=wanted, **_QUIET)
                return
            except ConnectionError:
                if wanted != "auto":
                    raise
        # On a busy machine the first process of a cluster takes longer than Ray would wait, and its
        # workers would stand back behind every other process.
        os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "120")
        os.environ.setdefault("RAY_worker_niceness", "0")
        ray.init(address="local", include_dashboard=False, object_store_memory=2**27, **_QUIET)
    except (ConnectionError, RuntimeError, ValueError) as cause:
        words = " ".join(str(cause).split()) or type(cause).__name__
        raise GoalmeterError(
            f"the Ray cluster {shown(wanted)} cannot be joined or started: {words}; look whether "
            f"it runs, with this version of Ray and Python, or use --on processes"
        ) from cause


@lru_cache(maxsize=1)
def _worker(setup: str) -> WorkerProcess:
    """Return the worker process that makes the batches of all tasks of this process of Ray."""
    import ray

    # Ray has packages of its own in front, of other versions than ours.
    of_ray = str(Path(ray.__file__).parent)
    return worker_here(setup, [folder for folder in sys.path if not folder.startswith(of_ray)])


def make_batch(setup: str, batch: Batch) -> BatchResult:
    """Make a batch in a task."""
    return _worker(setup).make(batch)


class RayCluster:
    """Tasks on a Ray cluster, of one CPU each."""

    worthwhile = 0.3  # seconds; a batch and its results cross in some milliseconds

    def __init__(self, argument: str, *, trials: int, timeout: float | None) -> None:
        options = options_of(argument, "ray", ("address", "cpus"), first="address")
        most = whole_in_text(options.get("cpus", "512"), "cpus", least=1, most=MOST_WORKERS)
        self._address, self._most = options.get("address", ""), min(most, max(trials, 1))
        self._timeout = timeout
        self._tasks: dict[Any, tuple[int, Batch]] = {}
        self._setup: Any = None
        self._ray: Any = require("ray", extra="ray", feature="Running trials on a Ray cluster")

    def __enter__(self) -> Self:
        join(self._ray, self._address)
        cpus = int(self._ray.cluster_resources().get("CPU", 0))
        self.slots = max(1, min(self._most, cpus))
        # A lost task is repeated by the study, which finds the trial that ends its worker.
        self._make = self._ray.remote(num_cpus=1, max_retries=0)(make_batch)
        return self

    def __exit__(self, *error: object) -> None:
        for task in self._tasks:
            with suppress(Exception):  # the cluster itself may be gone
                self._ray.cancel(task, force=True)
        self._tasks.clear()

    def run(self, batches: Iterator[Batch]) -> Iterator[tuple[int, BatchResult]]:
        """Make batches; an iterator that is left early leaves its tasks running."""
        numbered = enumerate(batches)
        while True:
            for number, batch in islice(numbered, self.slots - len(self._tasks)):
                if self._setup is None:
                    self._setup = self._ray.put(setup_of(batch.files, self._timeout))
                self._tasks[self._make.remote(self._setup, batch)] = number, batch
            if not self._tasks:
                return
            for task in self._ray.wait([*self._tasks])[0]:
                number, batch = self._tasks.pop(task)
                try:
                    yield number, self._ray.get(task)
                except self._ray.exceptions.RayTaskError as error:
                    # Nothing that a trial does is an error of its task.
                    last = str(error).strip().splitlines()[-1]
                    raise GoalmeterError(
                        f"a node of the Ray cluster cannot be used: {error.cause}"
                        if isinstance(error.cause, GoalmeterError)
                        else f"a task on the Ray cluster fails: {last}; look whether every node "
                        f"has the same version of goalmeter"
                    ) from error
                except self._ray.exceptions.RayError as error:
                    detail = f"Ray lost the process ({type(error).__name__})"
                    yield number, BatchResult.killed(batch, detail)
