"""Slurm backend: jobs whose workers process batches through a shared directory."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
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
from goalmeter.runs.backends.fleet import Fleet, HostedWorker, Member, place_here
from goalmeter.runs.jobs import Answer, check_timeout, options_of

# --- Mailbox --------------------------------------------------------------------------------------
# setup.json              what all workers are told, see `hosted.Setup`
#     driver                  a number that the driver counts on while it lives
#     asks/WORKER/N.json      batch N, for one worker
#     answers/WORKER.N.json   what came of it; WORKER.ready.json stands at its beginning
#
# A file takes its name when it is whole, so nobody reads half of one. What is read once is removed.
# Folders are listed, since a listing asks the server of a shared file system, where a look for one
# name may be answered from a memory that is half a minute old.

READY = "ready"
_ENDING = ".json"
_HALF = "."  # stands before the name of a file that is being written


@dataclass(frozen=True)
class Mailbox:
    """Such a folder, from both sides."""

    folder: Path

    def make(self, setup: str) -> None:
        """Make it, and say what all workers are told."""
        for name in ("asks", "answers"):
            (self.folder / name).mkdir(parents=True)
        self._write(self.folder / "setup.json", setup)

    def setup(self) -> str:
        """What all workers are told."""
        return (self.folder / "setup.json").read_text(encoding="utf-8")

    # --- The driver's side ------------------------------------------------------------------------
    def beat(self, count: int) -> None:
        """Say that the driver lives."""
        with suppress(OSError):  # workers are patient
            self._write(self.folder / "driver", str(count))

    def ask(self, worker: str, number: int, batch: str) -> None:
        """Hand a batch to a worker."""
        self._write(self.folder / "asks" / worker / f"{number}{_ENDING}", batch)

    def answers(self) -> Iterator[tuple[str, str, str]]:
        """Each answer once: of which worker, to which batch (or `READY`), and its text."""
        answers = self.folder / "answers"
        for name in sorted(os.listdir(answers)):  # noqa: PTH208  # of names alone
            worker, _, number = name.removesuffix(_ENDING).rpartition(".")
            if name[0] != _HALF and name.endswith(_ENDING):
                text = (answers / name).read_text(encoding="utf-8")
                (answers / name).unlink()
                yield worker, number, text

    # --- A worker's side --------------------------------------------------------------------------
    def heart(self) -> str:
        """What the driver has counted to; "" if the folder has gone."""
        with suppress(OSError):
            return (self.folder / "driver").read_text(encoding="utf-8")
        return ""

    def begin(self, worker: str) -> None:
        """Make the folder in which a worker is asked."""
        (self.folder / "asks" / worker).mkdir(exist_ok=True)

    def asked(self, worker: str) -> list[tuple[int, str]]:
        """Batches for a worker, in their order, each once."""
        folder = self.folder / "asks" / worker
        names = os.listdir(folder)  # noqa: PTH208
        numbers = sorted(int(name.removesuffix(_ENDING)) for name in names if name[0].isdigit())
        batches = []
        for number in numbers:
            file = folder / f"{number}{_ENDING}"
            batches.append((number, file.read_text(encoding="utf-8")))
            file.unlink()
        return batches

    def answer(self, worker: str, number: int | str, text: str) -> None:
        """Say what came of a batch."""
        self._write(self.folder / "answers" / f"{worker}.{number}{_ENDING}", text)

    def _write(self, file: Path, text: str) -> None:
        half = file.with_name(f"{_HALF}{file.name}")
        with half.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            # Other machines would see the name before the content.
            os.fsync(stream.fileno())
        half.replace(file)


# --- Slurm job ------------------------------------------------------------------------------------
_SOONEST, _LATEST = 0.01, 0.5  # seconds between two looks into the mailbox
# Seconds without a sign of the driver until a job leaves; each worker goes by its own clock.
PATIENCE = 120.0


def serve(folder: str, names: list[str], patience: float = PATIENCE) -> None:
    """Serve a mailbox by some workers, until it is gone or nobody counts in it.

    Args:
        folder: of the mailbox.
        names: of the workers, each of which has a core.
        patience: seconds without a sign of the driver after which they leave.
    """
    # What submitit does at these signals keeps a job that was cancelled or preempted.
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGCONT", "SIGUSR1", "SIGUSR2", "SIGINT"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    mailbox = Mailbox(Path(folder))
    leave = threading.Event()
    workers = [
        threading.Thread(target=_work, args=(mailbox, name, leave), daemon=True) for name in names
    ]
    for worker in workers:
        worker.start()
    last, seen = "", time.monotonic()
    while any(worker.is_alive() for worker in workers) and not leave.wait(min(1.0, patience / 4)):
        heart = mailbox.heart()
        if heart and heart != last:
            last, seen = heart, time.monotonic()
        if not mailbox.folder.is_dir() or time.monotonic() - seen > patience:
            leave.set()
    for worker in workers:
        worker.join(timeout=1.0)


def _work(mailbox: Mailbox, name: str, leave: threading.Event) -> None:
    worker = None
    try:
        mailbox.begin(name)
        try:
            worker = _start(mailbox)
        except GoalmeterError as error:
            mailbox.answer(name, READY, json.dumps({"refused": str(error)}))
            return
        job = os.environ.get("SLURM_JOB_ID", "")
        if array := os.environ.get("SLURM_ARRAY_JOB_ID", ""):
            job = f"{array}_{os.environ.get('SLURM_ARRAY_TASK_ID', '')}"
        mailbox.answer(name, READY, json.dumps(place_here() | {"job": job}))
        pause = _SOONEST
        while not leave.wait(pause):
            # The longer there was nothing, the less often is it looked.
            pause = min(1.2 * pause, _LATEST)
            for number, batch in mailbox.asked(name):
                mailbox.answer(name, number, worker.answer(batch))
                pause = _SOONEST
    except OSError:  # the driver has taken the mailbox away
        return
    finally:
        if worker is not None:
            worker.close()


# Workers of one job share its working folder, which each of them would move to.
_STARTING = threading.Lock()


def _start(mailbox: Mailbox) -> HostedWorker:
    with _STARTING:
        return HostedWorker(mailbox.setup())


# --- Slurm ----------------------------------------------------------------------------------------
# slurm                             eight jobs of one core, for an hour each
#         slurm:partition=cpu,jobs=20,cores=4,time=4:00:00,memory=8G,account=NAME,qos=NAME,constrain
#     t=NAME
#     slurm:folder=PATH                 where the mailbox is made, on a file system that all nodes
#                                       share; default .goalmeter-slurm in the working folder
#     slurm:cluster=local               jobs are processes of this machine, to try a command out
#
# A job that reaches its limit of time, is preempted or cancelled is submitted again.

_OF_SLURM = ("partition", "account", "qos", "constraint")
_OPTIONS = (*_OF_SLURM, "time", "memory", "jobs", "cores", "folder", "cluster")
_CLUSTERS = ("slurm", "local")
_TIME = re.compile(r"(?:(\d{1,3})-)?(\d{1,4})(?::(\d{1,2}))?(?::(\d{1,2}))?")
_MEMORY = re.compile(r"\d{1,6}[KMGT]?B?", re.IGNORECASE)
_BEAT_EVERY = 5.0  # seconds
_LEAVING = 10.0  # seconds that jobs of this machine have to leave by themselves
_SLURM_SOONEST, _SLURM_LATEST = 0.01, 0.2  # seconds between two looks into the mailbox
_LOOK_AT_JOBS = {"slurm": 15.0, "local": 1.0}  # seconds; Slurm is asked by a program of its own


def slurm(argument: str, *, trials: int, timeout: float | None) -> SlurmJobs:
    """Jobs of Slurm, as `registry.opened` asks for them."""
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
    asked = {
        "timeout_min": minutes(options.get("time", "1:00:00")),
        "cpus_per_task": cores,
        **{f"slurm_{name}": options[name] for name in _OF_SLURM if name in options},
    }
    if memory:
        asked["slurm_mem"] = memory.upper().removesuffix("B")
    require("submitit", extra="slurm", feature="Running trials in jobs of Slurm")
    if cluster == "slurm" and shutil.which("sbatch") is None:
        raise InvalidParameterError(
            "there is no program sbatch, so this machine submits no jobs to Slurm; run it on a "
            "login node, or try slurm:cluster=local"
        )
    folder = Path(options.get("folder", ".goalmeter-slurm"))
    jobs = min(jobs, math.ceil(max(trials, 1) / cores))
    return SlurmJobs(cluster, jobs, cores, asked, folder, timeout)


def minutes(text: str) -> int:
    """A time as Slurm writes it, in minutes, rounded up.

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


@dataclass(eq=False)
class SlurmWorker(Member):
    """A worker, what the mailbox calls it, and its job."""

    key: str = ""
    job: Any = None


class SlurmJobs(Fleet):
    """Workers in jobs of Slurm.

    Args:
        cluster: "slurm", or "local" for processes of this machine in the place of jobs.
        jobs: how many there are at once.
        cores: of each, which has as many workers.
        asked: what is asked of Slurm, as submitit names it.
        folder: below which the mailbox is made.
        timeout: seconds that a batch may take; None for as long as it takes.
    """

    worthwhile = 2.0  # seconds; a batch crosses a shared file system in some tenths of one

    def __init__(
        self,
        cluster: str,
        jobs: int,
        cores: int,
        asked: dict[str, Any],
        folder: Path,
        timeout: float | None,
    ) -> None:
        super().__init__(timeout)
        self.slots = jobs * cores
        self._cluster, self._jobs, self._cores, self._asked = cluster, jobs, cores, asked
        self._parent = folder
        self._submitted: list[Any] = []
        self._count = 0
        self._ending = threading.Event()
        self._looked = 0.0

    def __enter__(self) -> Self:
        try:
            self._parent.mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(prefix="run-", dir=self._parent)).resolve()
        except OSError as cause:
            raise InvalidFileError(
                f"{self._parent} cannot be written: {cause.strerror or cause}; name another with "
                f"slurm:folder=PATH, on a file system that all nodes share"
            ) from cause
        self._mailbox = Mailbox(self._folder / "mail")
        return self

    def __exit__(self, *error: object) -> None:
        self._ending.set()
        self.members.clear()
        shutil.rmtree(self._mailbox.folder, ignore_errors=True)  # at which workers leave
        end = time.monotonic() + _LEAVING
        if self._cluster == "local":
            self._let_leave(end)
        for job in self._submitted:
            with suppress(Exception):  # it has ended, or Slurm is away
                if self._cluster != "local" or not job.done():
                    job.cancel(check=False)
        self._submitted.clear()
        while self._folder.exists():  # a job that ends may write a line into its log meanwhile
            shutil.rmtree(self._folder, ignore_errors=True)
            if time.monotonic() > end + 1.0:
                break
            time.sleep(0.02)
        with suppress(OSError):  # another run has its mailbox there
            self._parent.rmdir()

    def _let_leave(self, end: float) -> None:
        """Wait for jobs of this machine, which would complain of being cancelled; then end them."""
        # Where the mailbox cannot be removed they stay, and are told by the signal that submitit
        # hands on without a word.
        told = end - _LEAVING / 2
        while time.monotonic() < end and not all(job.done() for job in self._submitted):
            if time.monotonic() > told:
                told = end
                for job in [job for job in self._submitted if not job.done()]:
                    with suppress(OSError, ValueError):
                        os.kill(int(job.job_id), signal.SIGTERM)
            time.sleep(0.02)

    def start(self, setup: str) -> None:
        """Make the mailbox and submit all jobs at once, as an array."""
        submitit = require("submitit", extra="slurm", feature="Running trials in jobs of Slurm")
        try:
            self._mailbox.make(setup)
            self._executor = submitit.AutoExecutor(
                folder=self._folder / "jobs", cluster=self._cluster
            )
            self._executor.update_parameters(name="goalmeter", **self._asked)
            self._mailbox.beat(0)
            threading.Thread(target=self._beat, daemon=True).start()
            keys = [self._keys() for _ in range(self._jobs)]
            with self._executor.batch():
                jobs = [self._job(each) for each in keys]
        except (OSError, RuntimeError, submitit.core.utils.FailedJobError) as cause:
            raise GoalmeterError(f"Slurm takes no job: {' '.join(str(cause).split())}") from cause
        for each, job in zip(keys, jobs, strict=True):
            self._join(each, job)

    def _keys(self) -> list[str]:
        self._count += 1
        return [f"job{self._count}-{core}" for core in range(self._cores)]

    def _job(self, keys: list[str]) -> Any:
        return self._executor.submit(serve, str(self._mailbox.folder), keys, PATIENCE)

    def _join(self, keys: list[str], job: Any) -> None:
        self._submitted.append(job)
        name = f"slurm job {job.job_id}"
        self.members += [SlurmWorker(name, key=key, job=job) for key in keys]

    def _beat(self) -> None:
        count = 0
        while not self._ending.wait(_BEAT_EVERY):
            count += 1
            self._mailbox.beat(count)

    def ask(self, member: Member, number: int, batch: str) -> None:
        """Send a batch to a worker that is ready."""
        assert isinstance(member, SlurmWorker)
        try:
            self._mailbox.ask(member.key, number, batch)
        except OSError as cause:
            raise self._gone(cause) from cause

    def hear(self) -> Iterator[tuple[int, Answer]]:
        """Wait a while for something to happen; the answers that came."""
        end, pause = time.monotonic() + 1.0, _SLURM_SOONEST
        while not (answers := self._read()) and time.monotonic() < end:
            time.sleep(pause)
            pause = min(1.5 * pause, _SLURM_LATEST)
        ended = self._ended_jobs()
        if ended:  # their last words, which came before their end
            answers += self._read()
        by_key = {member.key: member for member in self.members if isinstance(member, SlurmWorker)}
        for key, number, text in answers:
            member = by_key.get(key)
            if member is None:
                continue
            if number == READY:
                yield from self._greeted(member, json.loads(text))
            elif int(number) in member.batches:
                yield self.took(member, int(number), text)
        for job in ended:
            yield from self._replace(job)

    def _read(self) -> list[tuple[str, str, str]]:
        try:
            return list(self._mailbox.answers())
        except OSError as cause:
            raise self._gone(cause) from cause

    def _greeted(self, member: SlurmWorker, said: dict[str, Any]) -> Iterator[tuple[int, Answer]]:
        if "refused" in said:
            raise GoalmeterError(f"a job of Slurm cannot be used: {said['refused']}")
        member.name = f"slurm job {said['job'] or member.job.job_id} on {said['host']}"
        # Slurm itself starts a job again that it has preempted.
        yield from self.given_up(member, f"Slurm started the job {member.job.job_id} again")
        member.ready = True

    def _ended_jobs(self) -> list[Any]:
        now = time.monotonic()
        if now - self._looked < _LOOK_AT_JOBS[self._cluster]:
            return []
        self._looked = now
        return [job for job in self._submitted if job.done()]

    def _replace(self, job: Any) -> Iterator[tuple[int, Answer]]:
        self._submitted.remove(job)
        detail = f"the Slurm job {job.job_id} ended ({job.state}{self._last_words(job)})"
        workers = [each for each in self.members if isinstance(each, SlurmWorker)]
        of_job = [worker for worker in workers if worker.job is job]
        for number, member in enumerate(of_job):
            yield from self.lost(member, detail, counts=number == 0)
        keys = self._keys()
        self._join(keys, self._job(keys))

    def _last_words(self, job: Any) -> str:
        with suppress(Exception):  # there may be no log
            lines = (job.stderr() or "").strip().splitlines()
            return f": {lines[-1]}" if lines else ""
        return ""

    def _gone(self, cause: OSError) -> GoalmeterError:
        return GoalmeterError(
            f"the mailbox {self._mailbox.folder} cannot be used: {cause.strerror or cause}; what "
            f"is finished is kept where --out names a folder, and the same command goes on"
        )
