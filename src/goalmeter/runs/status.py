"""Status of a run: what its driver writes while it runs, and what any process can read.

The driver writes `Progress.to_json` into status.json once a second. Nothing depends on it: what is
finished is what trials.jsonl holds, and a damaged file counts as none.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

from goalmeter._errors import InvalidFileError, InvalidParameterError, json_text, visible
from goalmeter._files import JsonFields, read_bytes
from goalmeter.runs.progress import FINISHED, RUNNING, STATUS_FORMAT, STOPPED, Progress, in_words
from goalmeter.runs.reading import RUN, STATUS, TRIALS, counted, read_about

LOCK, SOFT_LOCK = ".lock", ".soft-lock"
_EVERY = 1.0  # seconds between two writes
# Beside the driver's own states: it was ended without a word, no driver of a version that writes a
# status has worked on it, nothing is stored yet, or the folder cannot be read.
KILLED, INCOMPLETE, EMPTY, UNREADABLE = "killed", "incomplete", "empty", "unreadable"
_MOST_BYTES = 2**20  # of status.json
_STALE = 30.0  # seconds without a sign of life after which a driver elsewhere counts as gone
_DEEPEST = 6  # levels of folders below the one that is searched

# Number of trials of a run, from what run.json says; None where that is unknown.
Total = Callable[[Mapping[str, Any]], int | None]


# --- Lock -----------------------------------------------------------------------------------------
@contextmanager
def locked(folder: Path, elsewhere: str) -> Iterator[None]:
    """Hold the lock of an existing directory; `elsewhere` advises to use another one."""
    from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

    # Whoever looks at a run holds its lock for an instant, which is no reason to refuse to write.
    lock: BaseFileLock = FileLock(folder / LOCK, timeout=0.2, thread_local=False)
    try:
        try:
            lock.acquire()
        except OSError as cause:  # a file system without locks: the existence of a file is the lock
            if cause.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
                raise
            lock = SoftFileLock(folder / SOFT_LOCK, timeout=0.2, thread_local=False)
            lock.acquire()
    except Timeout as cause:
        raise InvalidParameterError(
            f"another process writes to {folder}; wait for it or end it, or {elsewhere}"
        ) from cause
    except OSError as cause:
        raise InvalidFileError(
            f"{folder} cannot be written: {cause.strerror or cause}; make room, or {elsewhere}"
        ) from cause
    try:
        yield
    finally:
        with suppress(OSError):  # while it is held: whoever waits for it then makes another file
            (folder / LOCK).unlink()
        lock.release()


def is_locked(folder: Path) -> bool | None:
    """Return whether a process holds the lock of a directory; None where that is unknown."""
    try:
        import fcntl

        with (folder / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    except (ImportError, OSError):
        return None
    return False


# --- Driver ---------------------------------------------------------------------------------------
@contextmanager
def heartbeat(beat: Callable[[], None]) -> Iterator[None]:
    """Call a function once a second in a daemon thread; what it raises is ignored."""
    ended = Event()

    def run() -> None:
        while not ended.wait(_EVERY):
            with suppress(Exception):
                beat()

    thread = Thread(target=run, name="goalmeter heartbeat", daemon=True)
    with suppress(RuntimeError):  # the system has no more threads, or Python is about to end
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if thread.ident is not None:
            thread.join()


def write_status(folder: Path, status: Mapping[str, Any]) -> None:
    """Replace status.json atomically, without forcing it to disk; errors are ignored."""
    fresh = folder / f".{STATUS}.{os.getpid()}"
    with suppress(OSError):
        try:
            fresh.write_text(json_text(dict(status), indent=1) + "\n", encoding="utf-8")
            fresh.replace(folder / STATUS)
        finally:
            fresh.unlink(missing_ok=True)


@contextmanager
def reporting_status(folder: Path, progress: Progress) -> Iterator[None]:
    """Write the status of something that stores no trials into a folder, such as a training."""
    has_failed = True
    try:
        with heartbeat(lambda: write_status(folder, progress.to_json())):
            yield
        has_failed = False
    finally:
        progress.end(has_failed)
        write_status(folder, progress.to_json())


# --- Reading --------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Worker(JsonFields):
    """A worker that has trials now."""

    worker: str  # its batch
    trials: tuple[str, ...]  # keys of the first few of them
    count: int  # number of all of them
    seconds: float  # for how long


@dataclass(frozen=True)
class RunStatus(JsonFields):
    """Progress of a run."""

    folder: str  # run directory
    # "running", "finished", "stopped" (its driver ended before all was made), "killed" (ended
    # without a word), "incomplete" (nobody writes it, and no driver wrote a status), "empty"
    # (nothing is stored yet) or "unreadable"
    state: str
    sentence: str  # the same in a sentence, with what can be done
    kind: str = ""  # of the run, as run.json says
    agent: str = ""
    noun: str = "trial"  # what a trial is called
    total: int | None = None  # trials; `done` is counted in the folder; None if unknown
    done: int = 0
    failed: int = 0  # failed trials, as the driver wrote, or else those with failed tries only
    left: int | None = None
    rate: float | None = None  # trials a second of the present or last driver; None if unknown
    left_seconds: float | None = None  # at that rate, while somebody writes it
    seconds: float | None = None  # working time of this driver, when it last wrote
    began: str = ""  # wall times of the driver's first and last write; "" if there are none
    updated: str = ""
    host: str = ""  # where the driver runs, and where the trials do
    pid: int | None = None
    place: str = ""
    version: str = ""  # of goalmeter that writes it, or made it
    workers: int = 0  # how many batches are being made, and the first of them
    working: tuple[Worker, ...] = ()
    size: int = 0  # bytes of its trials


def status_of(folder: str | Path, total: Total = lambda what: None) -> RunStatus:
    """Return the progress of a run; a folder that is no run, or a damaged one, has a state for it.

    `total` tells the number of trials from run.json where no driver has written it.
    """
    folder = Path(folder)
    written = _read_status(folder)
    has_trials = (folder / RUN).exists() or not written  # a training has a status and no trials
    size = 0
    with suppress(OSError):
        size = (folder / TRIALS).stat().st_size
    try:
        about = read_about(folder / RUN) if has_trials else {"what": {}, "made_by": {}}
        stored, tries = counted(folder / TRIALS)
    except InvalidFileError as cause:
        return RunStatus(str(folder), UNREADABLE, _unreadable(folder, cause), size=size)
    what = about["what"]
    done = stored if has_trials else written.get("done", 0)
    # A command with fewer trials than are stored writes less; the run is of all of them.
    counts = [count for count in (total(what), written.get("total")) if count is not None]
    whole = max(*counts, done) if counts else None
    left = None if whole is None else whole - done
    is_written, rate = _is_written_now(folder, written), written.get("rate")
    said = written.get("state")
    if is_written:
        state = RUNNING
    elif left == 0 or (left is None and said == FINISHED):
        state = FINISHED
    elif said in (RUNNING, STOPPED):
        state = KILLED if said == RUNNING else STOPPED
    else:
        state = INCOMPLETE if done else EMPTY
    names = ("noun", "seconds", "began", "updated", "host", "pid", "place")
    status = RunStatus(
        str(folder),
        state,
        "",
        kind=_text(what.get("kind")) if has_trials else f"{written.get('noun')}s",
        agent=_text(what.get("agent") or written.get("name")),
        total=whole,
        done=done,
        failed=max(written.get("failed", 0), tries),
        left=left,
        rate=rate,
        left_seconds=left / rate if is_written and left and rate else None,
        version=written.get("version") or _text(about["made_by"].get("goalmeter")),
        workers=written.get("workers", 0) if is_written else 0,
        working=_workers(written.get("working")) if is_written else (),
        size=size,
        **{name: written[name] for name in names if name in written},
    )
    return replace(status, sentence=_sentence(status))


def runs_below(folder: str | Path, total: Total = lambda what: None) -> list[RunStatus]:
    """Return the runs in a folder and below it, in the order of their names.

    Folders whose name begins with a dot are left out, and links are not followed.
    """
    top = Path(folder)
    try:
        next(top.iterdir(), None)
    except OSError as cause:
        raise InvalidFileError(
            f"{top} cannot be searched: {cause.strerror}; expected a folder with runs"
        ) from cause
    runs = []
    for path, folders, files in os.walk(top):
        level = len(Path(path).relative_to(top).parts)
        folders[:] = sorted(f for f in folders if not f.startswith(".")) if level < _DEEPEST else []
        if RUN in files or STATUS in files:
            runs.append(status_of(path, total))
    return runs


def _read_status(folder: Path) -> dict[str, Any]:
    """Return the valid fields of status.json; none if there is no such file."""

    def is_valid(name: str, value: Any) -> bool:
        if name in ("total", "done", "failed", "pid", "workers"):
            return type(value) is int and 0 <= value < 2**53
        if name in ("rate", "seconds"):
            return type(value) in (int, float) and 0 <= value < float("inf")
        return isinstance(value, list if name == "working" else str)

    with suppress(OSError, ValueError, RecursionError):
        written = json.loads(read_bytes(folder / STATUS, _MOST_BYTES))
        if isinstance(written, dict) and written.get("format") == STATUS_FORMAT:
            return {name: value for name, value in written.items() if is_valid(name, value)}
    return {}


def _workers(written: Any) -> tuple[Worker, ...]:
    with suppress(TypeError, ValueError, KeyError):  # another version's, or damaged
        return tuple(
            Worker(str(w["worker"]), tuple(map(str, w["trials"])), int(w["count"]), +w["seconds"])
            for w in written or ()
        )
    return ()


def _is_written_now(folder: Path, written: Mapping[str, Any]) -> bool:
    """Return whether a process writes the run now: by its lock, or else by the status's age."""
    locked = is_locked(folder)
    is_here = written.get("host") == socket.gethostname()
    if locked or (locked is False and (is_here or not written)):
        return bool(locked)
    # A lock may hold on its own machine only, and some file systems have none.
    with suppress(OSError):
        age = time.time() - (folder / STATUS).stat().st_mtime
        return written.get("state") == RUNNING and abs(age) < _STALE
    return False


def _sentence(status: RunStatus) -> str:
    of = "" if status.total is None else f" of {status.total:,}"
    failed = f", {status.failed:,} failed" if status.failed else ""
    so_far = f"{status.done:,}{of} {visible(status.noun)}s{failed}"
    where = f" on {status.host} as process {status.pid}" if status.pid else ""
    left = status.left_seconds
    more = f", {in_words(left)} left" if left is not None else ""
    again = f"{so_far}; the same command resumes it"
    return {
        RUNNING: f"it is running{where}: {so_far}{more}",
        FINISHED: f"it is finished: {so_far}",
        STOPPED: f"it stopped at {status.updated}: {again}",
        KILLED: f"its process was killed after {status.updated}: {again}",
        EMPTY: "it holds no trial yet, and no process runs; the command that made it starts it",
        INCOMPLETE: f"no process runs: {so_far}; the command that made it resumes it",
    }[status.state]


def _unreadable(folder: Path, cause: InvalidFileError) -> str:
    if not folder.exists():
        return f"{folder} does not exist; expected the folder of a run, as --out named it"
    if folder.is_dir() and not (folder / RUN).exists():
        entries = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        if not entries:
            return f"{folder} is empty, so it is no run; expected a folder that --out made"
        if below := [path.name for path in entries if (path / RUN).exists()]:
            return f"{folder} is no run, and holds {len(below)} of them, such as {below[0]}"
    return str(cause)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
