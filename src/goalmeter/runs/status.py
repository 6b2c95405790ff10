"""Status of a run: what its driver writes while it runs, and what any process can read."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

from goalmeter._errors import InvalidFileError, json_text, visible
from goalmeter._files import JsonFields, read_bytes
from goalmeter.runs.lock import is_locked
from goalmeter.runs.progress import Progress, in_words
from goalmeter.runs.reading import RUN, STATUS, TRIALS, counted, read_about

# --- Driver ---------------------------------------------------------------------------------------
# status.json:
#     format, version       of this file, and of goalmeter
#     name, noun            whose trials they are, and what one is called
#     total, done, failed   trials: in all (null where unknown), finished, of these failed
#     steps                 parts of trials, where those are counted
#     made, seconds, rate   trials that this command has made, in what time, and a second
#     left_seconds          at that rate; null where unknown
#     began, updated        wall times, which are shown and nothing else
#     host, pid, place      where the driver runs, and where the trials do
#     workers, working      how many work, and for the first of them the trials and since when
#     state                 "running", "finished" or "stopped"
#
# Nothing depends on it: what is finished is what trials.jsonl holds.

STATUS_FORMAT = 1
RUNNING, FINISHED, STOPPED = "running", "finished", "stopped"
_EVERY = 1.0  # seconds between two writes
# What is written of a thousand workers has to be little.
_MOST_WORKERS, _FEW_TRIALS = 100, 3

# The workers that have trials now, each with the keys of those.
AtWork = Callable[[], Iterable[tuple[str, Sequence[str]]]]


class Heartbeat:
    """Calls a function once a second, from `start` to `stop`, in a daemon thread.

    What the function raises is ignored, and where no thread can be started it is not called.
    """

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._ended = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin; the first call comes after a second."""
        thread = Thread(target=self._run, name="goalmeter heartbeat", daemon=True)
        with suppress(RuntimeError):  # the system has no more threads, or Python is about to end
            thread.start()
            self._thread = thread

    def stop(self) -> None:
        """End, and wait for a call that has begun."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._ended.wait(_EVERY):
            with suppress(Exception):
                self._beat()


class Watched:
    """Source of status.json: set by the driver's thread, and read by another.

    Attributes:
        place: where trials run, as it is spelled.
        at_work: who works on what; by default this process, on trials unknown.
        state: as in the file.
    """

    def __init__(self, progress: Progress) -> None:
        self.place = "here"
        self.at_work: AtWork = lambda: [(f"process {os.getpid()}", ())]
        self.state = RUNNING
        self._progress = progress
        self._began = time.time()
        self._since: dict[tuple[str, str, int], float] = {}

    def ended(self, *error: object) -> None:
        """Set the state: finished if all trials are there, otherwise stopped."""
        progress = self._progress
        whole = progress.trials is None or progress.done >= progress.trials
        self.state = FINISHED if whole and not any(error) else STOPPED

    def to_json(self) -> dict[str, Any]:
        """Return the content of status.json now."""
        progress = self._progress
        seconds, made = progress.seconds, progress.made
        rate = made / seconds if made and seconds > 0 else None
        left = None
        if rate is not None and progress.trials is not None:
            left = (progress.trials - progress.done) / rate
        working = self._working() if self.state == RUNNING else []
        return {
            "format": STATUS_FORMAT,
            "version": sys.modules["goalmeter"].__version__,
            "name": progress.name,
            "noun": progress.noun,
            "total": progress.trials,
            "done": progress.done,
            "failed": progress.failures,
            "steps": progress.steps,
            "made": made,
            "seconds": round(seconds, 3),
            "rate": rate,
            "left_seconds": left,
            "began": in_utc(self._began),
            "updated": in_utc(time.time()),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "place": self.place,
            "workers": len(working),
            "working": working[:_MOST_WORKERS],
            "state": self.state,
        }

    def _working(self) -> list[dict[str, Any]]:
        # A backend may be ending its workers just now, or be another package's that tells nothing.
        try:
            at_work = [(worker, list(keys)) for worker, keys in self.at_work()]
        except Exception:
            return []
        now, wall = time.monotonic(), time.time()
        before, self._since = self._since, {}
        working = []
        for worker, keys in at_work:
            # A worker that has the same trials as a second ago has not begun anew.
            same = (worker, keys[0] if keys else "", len(keys))
            since = self._since[same] = before.get(same, now)
            working.append(
                {
                    "worker": worker,
                    "trials": {"first": keys[:_FEW_TRIALS], "count": len(keys)},
                    "since": in_utc(wall - (now - since)),
                    "seconds": round(now - since, 1),
                }
            )
        return working


@contextmanager
def reporting_status(folder: Path, progress: Progress) -> Iterator[Watched]:
    """Write the status of something that stores no trials into a folder, such as a training."""
    watched = Watched(progress)

    def beat() -> None:
        with suppress(OSError):
            write_status(folder, watched.to_json())

    heart = Heartbeat(beat)
    heart.start()
    error: BaseException | None = None
    try:
        yield watched
    except BaseException as raised:
        error = raised
        raise
    finally:
        watched.ended(error)
        heart.stop()
        beat()


def write_status(folder: Path, status: Mapping[str, Any]) -> None:
    """Replace status.json atomically, without forcing it to disk."""
    fresh = folder / f".{STATUS}.{os.getpid()}"
    try:
        fresh.write_text(json_text(dict(status), indent=1) + "\n", encoding="utf-8")
        fresh.replace(folder / STATUS)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise


def in_utc(seconds: float) -> str:
    """Return a wall time in ISO 8601, in UTC and to the second.

    >>> in_utc(0.0)
    '1970-01-01T00:00:00Z'
    """
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(seconds))
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


# --- Reading --------------------------------------------------------------------------------------
# Anybody may have edited status.json, and a driver may have been ended at any moment: its content
# is only shown, and a field that is not what it should be is ignored. Finished trials are counted
# in trials.jsonl. Whether somebody writes the run is told by its lock, and where that is unknown
# (another machine's, or a file system without locks) by the age of status.json.

# Beside the driver's own states: it was ended without a word, no driver of a version that writes a
# status has worked on it, nothing is stored yet, or the folder cannot be read.
KILLED, INCOMPLETE, EMPTY, UNREADABLE = "killed", "incomplete", "empty", "unreadable"
_MOST_BYTES = 2**20  # of status.json
_STALE = 30.0  # seconds without a sign of life after which a driver elsewhere counts as gone
_DEEPEST = 6  # levels of folders below the one that is searched

# Number of trials of a run, from what run.json says; None where that is unknown.
Total = Callable[[Mapping[str, Any]], int | None]


@dataclass(frozen=True)
class Worker(JsonFields):
    """A worker that has trials now.

    Attributes:
        worker: its name.
        trials: keys of the first few.
        count: how many it has.
        since: wall time, as the driver wrote it.
        seconds: since then, when the driver last wrote.
    """

    worker: str
    trials: tuple[str, ...]
    count: int
    since: str
    seconds: float


@dataclass(frozen=True)
class RunStatus(JsonFields):
    """Progress of a run.

    Attributes:
        folder: run directory.
        state: "running", "finished", "stopped" (its driver ended before all was made), "killed"
            (ended without a word), "incomplete" (nobody writes it, and no driver wrote a status),
            "empty" (nothing is stored yet) or "unreadable".
        sentence: the same in a sentence, with what can be done.
        kind: of the run; "" where it cannot be read.
        agent: whose trials they are; "" where unknown.
        noun: what a trial is called.
        total: trials in all; None where unknown.
        done: finished trials, counted in the folder.
        failed: failed trials, as the driver wrote, or else those with failed tries only.
        left: remaining trials; None where `total` is.
        rate: trials a second of the present or last driver; None if unknown.
        left_seconds: time left at that rate, while somebody writes it; None if unknown.
        seconds: working time of this driver, when it last wrote.
        began, updated: wall times of the driver's first and last write; "" if there are none.
        host, pid, place: where the driver runs, and where the trials do.
        version: of goalmeter that writes it, or made it.
        workers: how many work now.
        working: the first of them.
        size: bytes of its trials.
    """

    folder: str
    state: str
    sentence: str
    kind: str = ""
    agent: str = ""
    noun: str = "trial"
    total: int | None = None
    done: int = 0
    failed: int = 0
    left: int | None = None
    rate: float | None = None
    left_seconds: float | None = None
    seconds: float | None = None
    began: str = ""
    updated: str = ""
    host: str = ""
    pid: int | None = None
    place: str = ""
    version: str = ""
    workers: int = 0
    working: tuple[Worker, ...] = ()
    size: int = 0


def status_of(folder: str | Path, total: Total = lambda what: None) -> RunStatus:
    """Return the progress of a run; a folder that is no run, or a damaged one, has a state for it.

    `total` tells the number of trials from run.json where no driver has written it. A run of a
    million trials takes about a second, since values are not read.
    """
    folder = Path(folder)
    written = _read_status(folder)
    try:
        about = read_about(folder / RUN)
        trials = counted(folder / TRIALS)
    except InvalidFileError as cause:
        if not (folder / RUN).exists() and written:  # a training, which stores no trials
            return _status(
                folder,
                written,
                kind=f"{written.get('noun')}s",
                agent=written.get("name") or "",
                total=written.get("total"),
                done=written.get("done") or 0,
                failed=written.get("failed") or 0,
            )
        return RunStatus(str(folder), UNREADABLE, _unreadable(folder, cause), size=_size(folder))
    what = about["what"]
    # A command with fewer trials than are stored writes less; the run is of all of them.
    counts = [count for count in (total(what), written.get("total")) if count is not None]
    status = _status(
        folder,
        written,
        kind=_text(what.get("kind")),
        agent=_text(what.get("agent") or written.get("name")),
        total=max(*counts, trials.done) if counts else None,
        done=trials.done,
        failed=max(written.get("failed") or 0, trials.tries),
    )
    return replace(status, version=status.version or _text(about["made_by"].get("goalmeter")))


def _status(
    folder: Path, written: Mapping[str, Any], *, total: int | None, done: int, **counted: Any
) -> RunStatus:
    """Return the status of a run of which so much is counted, and this was written."""
    is_written = _is_written_now(folder, written)
    left = None if total is None else max(total - done, 0)
    names = ("began", "updated", "host", "place", "version")
    texts: dict[str, Any] = {name: written.get(name) or "" for name in names}
    rate = written.get("rate")
    status = RunStatus(
        str(folder),
        _state(is_written, written, left, done),
        "",
        total=total,
        done=done,
        left=left,
        left_seconds=left / rate if is_written and left and rate else None,
        size=_size(folder),
        noun=written.get("noun") or "trial",
        rate=rate,
        seconds=written.get("seconds"),
        pid=written.get("pid"),
        workers=(written.get("workers") or 0) if is_written else 0,
        working=written.get("working", ()) if is_written else (),
        **counted,
        **texts,
    )
    return replace(status, sentence=_sentence(status))


def runs_below(folder: str | Path, total: Total = lambda what: None) -> list[RunStatus]:
    """Return the runs in a folder and below it, in the order of their names.

    Folders whose name begins with a dot are left out, and links are not followed.
    """
    top = Path(folder)
    try:
        with os.scandir(top):
            pass
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
    with suppress(OSError, ValueError, RecursionError, InvalidFileError):
        written = json.loads(read_bytes(folder / STATUS, _MOST_BYTES))
        if isinstance(written, dict) and written.get("format") == STATUS_FORMAT:
            fields = {name: value for name, value in written.items() if _is_valid(name, value)}
            return fields | {"working": _workers(written.get("working"))}
    return {}


def _is_valid(name: str, value: Any) -> bool:
    if name in ("total", "done", "failed", "made", "pid", "workers"):
        return type(value) is int and 0 <= value < 2**53
    if name in ("rate", "seconds", "left_seconds"):
        return type(value) in (int, float) and 0 <= value < float("inf")
    texts = ("name", "noun", "began", "updated", "host", "place", "version", "state")
    return name in texts and isinstance(value, str)


def _workers(written: Any) -> tuple[Worker, ...]:
    workers = []
    for entry in written if isinstance(written, list) else ():
        with suppress(TypeError, KeyError, ValueError):
            keys = tuple(map(str, entry["trials"]["first"]))
            count, seconds = int(entry["trials"]["count"]), float(entry["seconds"])
            workers.append(Worker(str(entry["worker"]), keys, count, str(entry["since"]), seconds))
    return tuple(workers)


def _is_written_now(folder: Path, written: Mapping[str, Any]) -> bool:
    """Return whether a process writes the run now."""
    locked = is_locked(folder)
    is_here = written.get("host") == socket.gethostname()
    if locked or (locked is False and (is_here or not written)):
        return bool(locked)
    # A lock may hold on its own machine only, and some file systems have none.
    with suppress(OSError):
        age = time.time() - (folder / STATUS).stat().st_mtime
        return written.get("state") == RUNNING and abs(age) < _STALE
    return False


# --- In words -------------------------------------------------------------------------------------
def _state(is_written: bool, written: Mapping[str, Any], left: int | None, done: int) -> str:
    if is_written:
        return RUNNING
    said = written.get("state")
    if left == 0 or (left is None and said == FINISHED):
        return FINISHED
    if said in (RUNNING, STOPPED):
        return KILLED if said == RUNNING else STOPPED
    return INCOMPLETE if done else EMPTY


def _sentence(status: RunStatus) -> str:
    of = "" if status.total is None else f" of {status.total:,}"
    failed = f", {status.failed:,} failed" if status.failed else ""
    so_far = f"{status.done:,}{of} {visible(status.noun)}s{failed}"
    match status.state:
        case "running":
            where = f" on {status.host} as process {status.pid}" if status.pid else ""
            left = status.left_seconds
            more = f", {in_words(left)} left" if left is not None else ""
            return f"it is running{where}: {so_far}{more}"
        case "finished":
            return f"it is finished: {so_far}"
        case "stopped":
            return f"it stopped at {status.updated}: {so_far}; the same command resumes it"
        case "killed":
            return (
                f"its process was killed after {status.updated}: {so_far}; the same command "
                f"resumes it"
            )
        case "empty":
            return "it holds no trial yet, and no process runs; the command that made it starts it"
    return f"no process runs: {so_far}; the command that made it resumes it"


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


def _size(folder: Path) -> int:
    with suppress(OSError):
        return (folder / TRIALS).stat().st_size
    return 0
