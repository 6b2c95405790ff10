"""How far a run is, as anybody can see who can read its folder, whether or not somebody fills it.

What is finished is counted from trials.jsonl. Whether somebody fills the run is told by its lock,
and where that cannot be asked (another machine's, or a file system without locks) by the age of
what the driver last said, in status.json. The rest is shown as the driver said it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError
from goalmeter._json import JsonFields
from goalmeter._text import visible
from goalmeter.runs.drivers import Worker, is_filled_now, said_of
from goalmeter.runs.keys import counted
from goalmeter.runs.progress import in_words
from goalmeter.runs.reading import RUN, STATUS, TRIALS, read_about
from goalmeter.runs.watching import FINISHED, RUNNING, STOPPED

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
