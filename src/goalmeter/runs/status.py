"""Status of a run, as any process can read it; a damaged status.json counts as none."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, visible
from goalmeter._files import JsonFields, is_locked, read_bytes
from goalmeter.runs.progress import FINISHED, RUNNING, STATUS_FORMAT, STOPPED, in_words
from goalmeter.runs.reading import RUN, STATUS, TRIALS, keys_in, read_about, tries_in

# Beside the driver's own states: it was ended without a word, no driver of a version that writes a
# status has worked on it, nothing is stored yet, or the folder cannot be read.
KILLED, INCOMPLETE, EMPTY, UNREADABLE = "killed", "incomplete", "empty", "unreadable"
_MOST, _MOST_BYTES = 2**53, 2**20  # numbers in status.json, and its bytes
_STALE = 30.0  # seconds without a sign of life after which a driver elsewhere counts as gone
_DEEPEST = 6  # levels of folders below the one that is searched

# Number of trials of a run, from what run.json says; None where that is unknown.
Total = Callable[[Mapping[str, Any]], int | None]


@dataclass(frozen=True)
class Worker(JsonFields):
    """Worker with trials in progress."""

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
    left_seconds: float | None = None  # as the driver estimates, while somebody writes it
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
    """Return the progress of a run; the state also tells whether it is not a run, or damaged.

    `total` returns the number of trials from run.json if no driver has written it.
    """
    folder = Path(folder)
    written = _written(folder)
    has_trials = (folder / RUN).exists() or not written.state  # of a training there are none
    size = (folder / TRIALS).stat().st_size if (folder / TRIALS).exists() else 0
    try:
        about = read_about(folder / RUN) if has_trials else {"what": {}, "made_by": {}}
        keys = keys_in(folder)
    except InvalidFileError as cause:
        return RunStatus(str(folder), UNREADABLE, _unreadable(folder, cause), size=size)
    what, tries = about["what"], tries_in(keys)
    done = len(keys) - len(tries) if has_trials else written.done
    # A command with fewer trials than are stored writes less; the run is of all of them.
    counts = [count for count in (total(what), written.total) if count is not None]
    whole = max(*counts, done) if counts else None
    left = None if whole is None else whole - done
    state = INCOMPLETE if done else EMPTY
    if is_running := _is_written_now(folder, written):
        state = RUNNING
    elif left == 0 or (left is None and written.state == FINISHED):
        state = FINISHED
    elif written.state in (RUNNING, STOPPED):
        state = KILLED if written.state == RUNNING else STOPPED
    status = replace(
        written,
        state=state,
        kind=_text(what.get("kind")) if has_trials else f"{written.noun}s",
        agent=_text(what.get("agent") or written.agent),
        total=whole,
        done=done,
        failed=max(written.failed, len({key for key, _ in tries} - keys)),
        left=left,
        left_seconds=(written.left_seconds or None) if is_running else None,
        version=written.version or _text(about["made_by"].get("goalmeter")),
        workers=written.workers if is_running else 0,
        working=written.working if is_running else (),
        size=size,
    )
    return replace(status, sentence=_sentence(status))


def runs_below(folder: str | Path, total: Total = lambda what: None) -> list[RunStatus]:
    """Return the runs in a folder and its subfolders, in the order of their names.

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


# What a value of status.json has to be, by the annotation of the field of `RunStatus`.
_KINDS: dict[Any, Any] = {"str": str, "int": int, "int | None": int, "float | None": int | float}


def _written(folder: Path) -> RunStatus:
    """Return what is valid in status.json; the state is "" if there is no such file."""
    written = None
    with suppress(OSError, ValueError, RecursionError):
        written = json.loads(read_bytes(folder / STATUS, _MOST_BYTES))
    if not isinstance(written, dict) or written.get("format") != STATUS_FORMAT:
        written = {}
    values: dict[str, Any] = {"state": "", "agent": _text(written.get("name"))}
    for field in fields(RunStatus):
        value, kind = written.get(field.name), _KINDS.get(field.type, ())
        if isinstance(value, kind) and (kind is str or 0 <= value < _MOST):
            values[field.name] = value
    with suppress(TypeError, ValueError, KeyError):  # another version's, or damaged
        values["working"] = tuple(
            Worker(str(w["worker"]), tuple(map(str, w["trials"])), int(w["count"]), +w["seconds"])
            for w in written["working"]
        )
    return RunStatus(**values | {"folder": str(folder), "sentence": ""})


def _is_written_now(folder: Path, written: RunStatus) -> bool:
    """Return whether a process writes the run now: by its lock, or else by the status's age."""
    is_here = not written.state or written.host == socket.gethostname()
    locked = is_locked(folder)
    if locked or (locked is False and is_here) or written.state != RUNNING:
        return bool(locked)
    # A lock may hold on its own machine only, and some file systems have none.
    with suppress(OSError):
        return abs(time.time() - (folder / STATUS).stat().st_mtime) < _STALE
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
            return f"{folder} is empty, so it is not a run; expected a folder that --out made"
        if below := [path.name for path in entries if (path / RUN).exists()]:
            return f"{folder} is not a run, and holds {len(below)} of them, such as {below[0]}"
    return str(cause)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
