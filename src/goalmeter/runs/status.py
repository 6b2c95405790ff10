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
from typing import Any

from goalmeter._errors import InvalidFileError, json_text, visible
from goalmeter._files import JsonFields, read_bytes, reading
from goalmeter.runs.lock import OWNER, STALE, Heartbeat, is_alive
from goalmeter.runs.progress import Progress, in_words
from goalmeter.runs.reading import RUN, STATUS, TRIALS, counted, read_about

# --- Watching -------------------------------------------------------------------------------------
# format, version       of this file, and of goalmeter
#     name, noun            whose trials they are, and what one is called
#     total, done, failed   trials: in all (null where nobody knows yet), finished, of these failed
#     steps                 parts of trials, where those are told
#     made, seconds, rate   trials that this command has made, in what time, and a second
#     left_seconds          at that rate; null while it is not known
#     began, updated        wall times, which are shown and nothing else
#     host, pid, place      where the driver runs, and where the trials do
#     workers, working      how many work, and for the first of them the trials and since when
#     state                 "running", "finished" or "stopped"
#
# It decides nothing: what is finished is what trials.jsonl holds. Times are taken from a clock that
# nobody sets, so a wall clock that jumps changes no rate.

STATUS_FORMAT = 1
RUNNING, FINISHED, STOPPED = "running", "finished", "stopped"
# A status is written every second: what of a thousand workers is said has to be little.
_MOST_WORKERS, _FEW_TRIALS = 100, 3

# The workers that have trials now, each with the keys of those.
AtWork = Callable[[], Iterable[tuple[str, Sequence[str]]]]


class Watched:
    """What is said of a run: made by the driver's thread, and asked by another.

    Args:
        progress: counts the trials.

    Attributes:
        place: where trials run, as it is spelled.
        at_work: who works on what; by default this process, on trials unknown.
        state: as the file has it.
    """

    def __init__(self, progress: Progress) -> None:
        self.place = "here"
        self.at_work: AtWork = lambda: [(f"process {os.getpid()}", ())]
        self.state = RUNNING
        self._progress = progress
        self._began = time.time()
        self._since: dict[tuple[str, str, int], float] = {}

    def ended(self, *error: object) -> None:
        """The run is left: finished if all is there, and else stopped."""
        counted = self._progress
        whole = counted.trials is None or counted.done >= counted.trials
        self.state = FINISHED if whole and not any(error) else STOPPED

    def to_json(self) -> dict[str, Any]:
        """What status.json says now."""
        counted, wall = self._progress, time.time()
        seconds, made = counted.seconds, counted.made
        rate = made / seconds if made and seconds > 0 else None
        left = None
        if rate is not None and counted.trials is not None:
            left = (counted.trials - counted.done) / rate
        working = self._working() if self.state == RUNNING else []
        return {
            "format": STATUS_FORMAT,
            "version": sys.modules["goalmeter"].__version__,
            "name": counted.name,
            "noun": counted.noun,
            "total": counted.trials,
            "done": counted.done,
            "failed": counted.failures,
            "steps": counted.steps,
            "made": made,
            "seconds": round(seconds, 3),
            "rate": rate,
            "left_seconds": left,
            "began": in_utc(self._began),
            "updated": in_utc(wall),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "place": self.place,
            "workers": len(working),
            "working": working[:_MOST_WORKERS],
            "state": self.state,
        }

    def _working(self) -> list[dict[str, Any]]:
        # A place may be ending its workers just now, or be another package's that tells nothing.
        try:
            now_working = [(worker, list(keys)) for worker, keys in self.at_work()]
        except Exception:
            return []
        now, wall = time.monotonic(), time.time()
        before, self._since = self._since, {}
        said = []
        for worker, keys in now_working:
            # A worker that has the same trials as a second ago has not begun anew.
            same = (worker, keys[0] if keys else "", len(keys))
            since = self._since[same] = before.get(same, now)
            said.append(
                {
                    "worker": worker,
                    "trials": {"first": keys[:_FEW_TRIALS], "count": len(keys)},
                    "since": in_utc(wall - (now - since)),
                    "seconds": round(now - since, 1),
                }
            )
        return said


@contextmanager
def told(folder: Path, progress: Progress) -> Iterator[Watched]:
    """Say in a folder how far something is that keeps no trials, until the block is left."""
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
    """A wall time as ISO 8601 has it, in UTC and to the second.

    >>> in_utc(0.0)
    '1970-01-01T00:00:00Z'
    """
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(seconds))
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


# --- Drivers --------------------------------------------------------------------------------------
# Anybody may have edited status.json, and a driver may have been ended at any moment: what is
# read of it is only shown, and each field that is not what it should be is as if it had not been
# said.

_MOST_BYTES = 2**20  # of status.json, which says little


@dataclass(frozen=True)
class Worker(JsonFields):
    """A worker that has trials now.

    Attributes:
        worker: its name.
        trials: keys of the first few.
        count: how many it has.
        since: wall time, as the driver said it.
        seconds: since then, when the driver last spoke.
    """

    worker: str
    trials: tuple[str, ...]
    count: int
    since: str
    seconds: float


def said_of(folder: Path) -> dict[str, Any]:
    """What status.json says, field by field as it should be; empty if there is none, or no such."""
    with suppress(OSError, ValueError, RecursionError, InvalidFileError):
        said = json.loads(read_bytes(folder / STATUS, _MOST_BYTES))
        if isinstance(said, dict) and said.get("format") == STATUS_FORMAT:
            fields = {name: said.get(name) for name in said if _is_so(name, said[name])}
            return fields | {"working": _workers(said.get("working"))}
    return {}


_NUMBERS = ("total", "done", "failed", "made", "pid", "workers")
_TEXTS = ("name", "noun", "began", "updated", "host", "place", "version", "state")


def _is_so(name: str, value: Any) -> bool:
    if name in _NUMBERS:
        return type(value) is int and 0 <= value < 2**53
    if name in ("rate", "seconds", "left_seconds"):
        return type(value) in (int, float) and 0 <= value < float("inf")
    return name in _TEXTS and isinstance(value, str)


def _workers(said: Any) -> tuple[Worker, ...]:
    workers = []
    for entry in said if isinstance(said, list) else ():
        with suppress(TypeError, KeyError, ValueError):
            keys = tuple(map(str, entry["trials"]["first"]))
            count, seconds = int(entry["trials"]["count"]), float(entry["seconds"])
            workers.append(Worker(str(entry["worker"]), keys, count, str(entry["since"]), seconds))
    return tuple(workers)


def is_filled_now(folder: Path, said: Mapping[str, Any]) -> bool:
    """Whether a process fills the run now."""
    locked = _locked(folder / TRIALS)
    if locked:
        return True
    is_here = said.get("host") == socket.gethostname()
    if locked is False and (is_here or not said):
        return False
    # A lock may hold on its own machine only, and some file systems have none.
    if said.get("state") != RUNNING:
        return _is_fresh(folder / OWNER)
    if is_here and is_alive(said.get("pid")) is False:
        return False
    return _is_fresh(folder / STATUS)


def _locked(path: Path) -> bool | None:
    """Whether a process holds the lock of a file; None where that cannot be told."""
    try:
        import fcntl

        with reading(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError, InvalidFileError):
        return None
    return False


def _is_fresh(path: Path) -> bool:
    with suppress(OSError):
        return abs(time.time() - path.stat().st_mtime) < STALE
    return False


# --- Status ---------------------------------------------------------------------------------------
# What is finished is counted from trials.jsonl. Whether somebody fills the run is told by its lock,
# and where that cannot be asked (another machine's, or a file system without locks) by the age of
# what the driver last said, in status.json. The rest is shown as the driver said it.

# Beside the driver's own words: it was ended without a word, nobody has filled the run since it was
# begun by a version that says nothing, nothing is kept yet, or the folder cannot be read.
KILLED, INCOMPLETE, EMPTY, UNREADABLE = "killed", "incomplete", "empty", "unreadable"
_DEEPEST = 6  # levels of folders below the one that is looked through

# How many trials a run asks for, from what run.json says; None where that cannot be told.
Total = Callable[[Mapping[str, Any]], int | None]


@dataclass(frozen=True)
class RunStatus(JsonFields):
    """How far a run is.

    Attributes:
        folder: where it is.
        state: "running", "finished", "stopped" (its driver ended before all was made), "killed"
            (ended without a word), "incomplete" (nobody fills it, and no driver has said anything),
            "empty" (nothing is kept yet) or "unreadable".
        sentence: the same in a sentence, with what can be done.
        kind: of the run; "" where it cannot be read.
        agent: whose trials they are; "" where nobody knows.
        noun: what a trial is called.
        total: trials in all; None where nobody knows.
        done: trials that have ended, counted in the folder.
        failed: trials that failed, as the driver said, or else those of which only failed tries
            are kept.
        left: trials that have not ended; None where `total` is.
        rate: trials a second of the driver that fills it now, or filled it last; None if unknown.
        left_seconds: time left at that rate, while somebody fills it; None if unknown.
        seconds: that this driver has filled it, when it last spoke.
        began, updated: wall times of the driver's first and last words; "" if there are none.
        host, pid, place: where the driver runs, and where the trials do.
        version: of goalmeter that fills it, or made it.
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
    """How far a run is; a folder that is no run, or a damaged one, is a status that says so.

    A run of a million trials takes about a second, since values are not looked at.

    Args:
        folder: of the run.
        total: how many trials a run asks for, as far as that can be told from run.json; a driver
            that has said it is believed too.
    """
    folder = Path(folder)
    try:
        about = read_about(folder / RUN)
        trials = counted(folder / TRIALS)
    except InvalidFileError as cause:
        if not (folder / RUN).exists() and (said := said_of(folder)):
            return _of_driver(folder, said)
        return RunStatus(str(folder), UNREADABLE, _unreadable(folder, cause), size=_size(folder))
    what, said = about["what"], said_of(folder)
    is_filled = is_filled_now(folder, said)
    # A command that asks for less than is there says less; the run is of all of it.
    counts = [count for count in (total(what), said.get("total")) if count is not None]
    trial_count = max(*counts, trials.done) if counts else None
    ended = said.get("state") == FINISHED and trial_count is None
    left = None if trial_count is None else max(trial_count - trials.done, 0)
    status = RunStatus(
        str(folder),
        _state(is_filled, said, left, trials.done, ended),
        "",
        kind=_text(what.get("kind")),
        agent=_text(what.get("agent") or said.get("name")),
        total=trial_count,
        done=trials.done,
        failed=max(said.get("failed") or 0, trials.tries),
        left=left,
        left_seconds=left / said["rate"] if is_filled and left and said.get("rate") else None,
        size=_size(folder),
        **_as_said(said, is_filled),
    )
    if not status.version:
        status = replace(status, version=_text(about["made_by"].get("goalmeter")))
    return replace(status, sentence=_sentence(status))


def _of_driver(folder: Path, said: Mapping[str, Any]) -> RunStatus:
    """What the driver alone says, of something that keeps no trials, such as a training."""
    is_filled = is_filled_now(folder, said)
    total, done = said.get("total"), said.get("done") or 0
    left = None if total is None else max(total - done, 0)
    status = RunStatus(
        str(folder),
        _state(is_filled, said, left, done, ended=False),
        "",
        kind=f"{said.get('noun')}s",
        agent=said.get("name") or "",
        total=total,
        done=done,
        failed=said.get("failed") or 0,
        left=left,
        left_seconds=said.get("left_seconds") if is_filled else None,
        **_as_said(said, is_filled),
    )
    return replace(status, sentence=_sentence(status))


def _as_said(said: Mapping[str, Any], is_filled: bool) -> dict[str, Any]:
    """The fields that are shown as the driver said them."""
    names = ("began", "updated", "host", "place", "version")
    return {name: said.get(name) or "" for name in names} | {
        "noun": said.get("noun") or "trial",
        "rate": said.get("rate"),
        "seconds": said.get("seconds"),
        "pid": said.get("pid"),
        "workers": (said.get("workers") or 0) if is_filled else 0,
        "working": said.get("working", ()) if is_filled else (),
    }


def runs_below(folder: str | Path, total: Total = lambda what: None) -> list[RunStatus]:
    """The runs in a folder and in those below it, in the order of their names.

    Folders whose name begins with a dot are left out, and links are not followed.

    Raises:
        InvalidFileError: it is no folder, or cannot be read.
    """
    top = Path(folder)
    try:
        with os.scandir(top):
            pass
    except OSError as cause:
        raise InvalidFileError(
            f"{top} cannot be looked through: {cause.strerror}; expected a folder with runs"
        ) from cause
    runs = []
    for path, folders, files in os.walk(top):
        level = len(Path(path).relative_to(top).parts)
        folders[:] = sorted(f for f in folders if not f.startswith(".")) if level < _DEEPEST else []
        if RUN in files or STATUS in files:
            runs.append(status_of(path, total))
    return runs


# --- In words -------------------------------------------------------------------------------------
def _state(
    is_filled: bool, said: Mapping[str, Any], left: int | None, done: int, ended: bool
) -> str:
    if is_filled:
        return RUNNING
    if left == 0 or ended:
        return FINISHED
    match said.get("state"):
        case "running":
            return KILLED
        case "stopped":
            return STOPPED
    return INCOMPLETE if done else EMPTY


def _sentence(status: RunStatus) -> str:
    so_far = _so_far(status)
    match status.state:
        case "running":
            where = f" on {status.host} as process {status.pid}" if status.pid else ""
            left = status.left_seconds
            return f"it is being filled{where}: {so_far}" + (
                f", {in_words(left)} left" if left is not None else ""
            )
        case "finished":
            return f"it is finished: {so_far}"
        case "stopped":
            return f"nobody fills it since {status.updated}: {so_far}; the same command goes on"
        case "killed":
            return (
                f"nobody fills it, and its process ended without a word after {status.updated}: "
                f"{so_far}; the same command goes on"
            )
        case "empty":
            return "it holds no trial yet, and nobody fills it; the command that made it begins it"
    return f"nobody fills it: {so_far}; the command that made it goes on"


def _so_far(status: RunStatus) -> str:
    of = "" if status.total is None else f" of {status.total:,}"
    failed = f", {status.failed:,} failed" if status.failed else ""
    return f"{status.done:,}{of} {visible(status.noun)}s{failed}"


def _unreadable(folder: Path, cause: InvalidFileError) -> str:
    if not folder.exists():
        return f"{folder} is not there; expected the folder of a run, as --out named it"
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
