"""Run directories: the request, every finished trial, and cached stages."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, InvalidParameterError, json_text, shown
from goalmeter._files import write_text
from goalmeter.runs.lock import OWNER, Heartbeat, OtherOwnerError, Owner, claimed, lock, taken
from goalmeter.runs.progress import Progress, Tell
from goalmeter.runs.reading import FORMAT, RUN, STATUS, TRIALS, differences, read_about, read_trials
from goalmeter.runs.status import Watched, write_status

# --- Store ----------------------------------------------------------------------------------------
# run.json        what the run is, as JSON; it decides whether a run may be continued
#     trials.jsonl    a line of JSON for each finished trial: {"key": ..., "value": ...}
#     status.json     how far it is, for whoever watches; nothing is decided by it
#     owner.json      who fills it, where the file system has no locks
#
# A line is written in one piece as soon as its trial is known to be finished, so a process that
# is killed loses the batches that are being made and no other trial (see `backends`: a batch is a
# long trial, or a fraction of a second of short ones); its last line may be torn, and is then
# dropped. The disk is told to keep the lines once a second, by a thread beside the trials, so a
# machine that fails loses that second. Keys say which trial a line is of; one that comes twice
# counts once, the first time.

# Seconds after which a line that the heartbeat has not seen to is seen to by who adds the next one.
_SYNC_LATEST = 3.0
# What most errors advise: commands that make a run are told where by this option.
ELSEWHERE = "choose another folder (--out)"


def made_here() -> dict[str, str]:
    """What a run is made with in this process, to be recorded with it."""
    # By way of sys.modules, since rooms do not import the root; it has been imported before them.
    return {"goalmeter": sys.modules["goalmeter"].__version__}


class RunStore:
    """A run that is being filled, from entering the context to leaving it.

    A folder that is not there is made; one that holds the same run is continued, and one that holds
    a run without a single trial is taken over. Only one process can fill a run at a time; where the
    file system has no locks, `owner.py` says how far that holds.

    Args:
        folder: of the run.
        what: what the run is, as JSON values; `what["kind"]` names the sort of run.
        grows: keys of `what` with lists that may have become longer: the run then is of what both
            lists have, and keeps all its trials.
        made_by: recorded when the run is made, and not compared.
        elsewhere: what errors advise to use another folder.

    Attributes:
        values: key -> value of every finished trial, unless `forget` was called.
        lines: key -> number of its line, of every finished trial.
        status: gives what status.json says; None writes none. It is called by another thread.

    Raises:
        InvalidFileError: the folder holds something else, or cannot be written.
        InvalidParameterError: it holds another run, or another process fills it.
    """

    def __init__(
        self,
        folder: str | Path,
        what: Mapping[str, Any],
        *,
        grows: Collection[str] = (),
        made_by: Mapping[str, Any] | None = None,
        elsewhere: str = ELSEWHERE,
    ) -> None:
        self.folder = Path(folder)
        self._elsewhere = elsewhere
        self.values: dict[str, Any] = {}
        self.lines: dict[str, int] = {}
        self._what: dict[str, Any] = json.loads(json.dumps(dict(what)))  # as it will be read
        self._grows = grows
        self._made_by = dict(made_by or {})
        self.status: Callable[[], Mapping[str, Any]] | None = None
        self._file = -1
        self._number = self._size = 0  # of the last line, and bytes up to its end
        self._keeps_values = True
        self._unsynced: float | None = None  # since when there is a line that may not be on disk
        self._broken: Exception | None = None  # what the heartbeat met with
        self._owner: Owner | None = None
        self._heart = Heartbeat(self._beat)

    def __enter__(self) -> RunStore:
        _refuse_foreign(self.folder, self._elsewhere)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.folder / TRIALS, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as cause:
            raise self._unwritable(cause) from cause
        try:
            if not lock(self._file, self.folder, self._elsewhere):
                self._claim()
            self.values, self.lines, whole, self._number = read_trials(self.folder / TRIALS)
            self._agree()
            self._tear_off(whole)
            self._size = whole
        except BaseException:
            self._close()
            raise
        self._heart.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._heart.stop()
        try:
            self._sync()
        except OSError as cause:
            # What is on its way out already says more.
            if not any(error):
                raise self._unwritable(cause) from cause
        finally:
            self._tell_status()
            self._close()

    def add(self, key: str, value: Any) -> None:
        """Keep a finished trial; one that is there already stays as it is.

        Raises:
            InvalidFileError: the disk is full, or the like; all earlier trials are kept.
            InvalidParameterError: another process has taken the run over.
        """
        if key in self.lines:
            return
        line = json_text({"key": key, "value": value}) + "\n"
        self._raise_broken()
        try:
            if self._owner is not None:
                self._owner.check_if_long_ago()
            # A disk that is nearly full takes a part of the line only.
            text = unwritten = line.encode()
            while unwritten:
                unwritten = unwritten[os.write(self._file, unwritten) :]
            now = time.monotonic()
            if self._unsynced is None:
                self._unsynced = now
            elif now - self._unsynced > _SYNC_LATEST:
                self._sync()
        except OtherOwnerError as other:
            raise taken(other, self.folder, self._elsewhere) from other
        except OSError as cause:
            # Half a line would make one line of itself and the next trial.
            with suppress(OSError):
                os.ftruncate(self._file, min(self._size, os.fstat(self._file).st_size))
            raise self._unwritable(cause) from cause
        self._size += len(text)
        self._number += 1
        self.lines[key] = self._number
        if self._keeps_values:
            self.values[key] = json.loads(line)["value"]

    def forget(self) -> None:
        """Hold no values in memory any more, neither those that are there nor those to come."""
        self.values, self._keeps_values = {}, False

    # --- What the heartbeat does ------------------------------------------------------------------
    def _beat(self) -> None:
        """Called by another thread: it keeps what went wrong for `add` to raise."""
        try:
            if self._owner is not None:
                self._owner.renew()
            self._sync()
        except OtherOwnerError as other:
            self._broken = taken(other, self.folder, self._elsewhere)
            self.status = None
        except OSError as cause:
            self._broken = self._unwritable(cause)
        self._tell_status()

    def _sync(self) -> None:
        if self._unsynced is None:
            return
        # Before, so that a line that is written meanwhile counts as not yet on disk.
        since, self._unsynced = self._unsynced, None
        try:
            os.fsync(self._file)
        except OSError:
            self._unsynced = since
            raise

    def _tell_status(self) -> None:
        if self.status is not None:
            with suppress(Exception):  # it is there to be looked at, and lost without harm
                write_status(self.folder, self.status())

    def _raise_broken(self) -> None:
        broken, self._broken = self._broken, None
        if broken is not None:
            raise broken

    def _tear_off(self, whole: int) -> None:
        """Leave the bytes of whole lines; the trial of half a line is made again."""
        if os.fstat(self._file).st_size == whole:
            return
        try:
            os.ftruncate(self._file, whole)
        except OSError as cause:
            raise self._unwritable(cause) from cause

    def _claim(self) -> None:
        try:
            self._owner = claimed(self.folder, self._elsewhere)
        except OSError as cause:
            raise self._unwritable(cause) from cause

    def _close(self) -> None:
        if self._owner is not None:
            self._owner.leave()
        os.close(self._file)  # and with it the lock

    def _unwritable(self, cause: OSError) -> InvalidFileError:
        return InvalidFileError(
            f"{self.folder} cannot be written: {cause.strerror or cause}; what was finished is "
            f"kept, make room or {self._elsewhere}"
        )

    def _agree(self) -> None:
        """Write what the run is, or see that it is the same; without trials it is anything."""
        path = self.folder / RUN
        made_by = self._made_by
        about = read_about(path) if path.exists() else None
        # Without a trial there is nothing that could be mixed up: a mistyped name costs no folder.
        if about is not None and self.values:
            stored, made_by = about["what"], about["made_by"]
            _same_kind(self.folder, stored, self._what, self._elsewhere)
            grown = [key for key in self._grows if key in stored and key in self._what]
            for key in grown:
                if not isinstance(stored[key], list):
                    raise InvalidFileError(
                        f"{path}: {key} is {shown(stored[key])}, expected a list; restore it, or "
                        f"begin again in another folder"
                    )
            asked = self._what | {key: _joined(stored[key], self._what[key]) for key in grown}
            keys = [key for key in {**stored, **asked} if stored.get(key) != asked.get(key)]
            if differ := [key for key in keys if key not in self._grows]:
                raise InvalidParameterError(
                    f"{self.folder} holds another run: {differences(stored, asked, differ)}; "
                    f"{self._elsewhere}, or ask for the same"
                )
            self._what = asked
        about_now = {"format": FORMAT, "what": self._what, "made_by": made_by}
        # A run that is continued unchanged keeps its file byte for byte.
        if about_now != about:
            write_text(path, json_text(about_now, indent=1) + "\n")


def _joined(stored: list[Any], asked: list[Any]) -> list[Any]:
    """What either list has, those of the first in front."""
    known = set(map(json_text, stored))
    return [*stored, *(item for item in asked if json_text(item) not in known)]


def _same_kind(
    folder: Path, stored: Mapping[str, Any], asked: Mapping[str, Any], elsewhere: str
) -> None:
    """Raises if the kinds differ: two kinds have nothing in common, so nothing else is told."""
    if stored.get("kind") != asked.get("kind"):
        raise InvalidParameterError(
            f"{folder} holds a run of {shown(stored.get('kind'))}, and this is one of "
            f"{shown(asked.get('kind'))}; {elsewhere}"
        )


def _refuse_foreign(folder: Path, elsewhere: str) -> None:
    """What a run may be made in: nothing, an empty folder, or a run, finished or just begun."""
    if folder.exists() and not folder.is_dir():
        raise InvalidFileError(f"{folder} is a file; {elsewhere}")
    if not folder.exists() or (folder / RUN).exists():
        return
    begun = folder / TRIALS
    foreign = [
        path.name
        for path in sorted(folder.iterdir())
        if not (path == begun and path.stat().st_size == 0) and not _is_beside(path.name)
    ]
    # Another command may have begun the same run after the first look.
    if foreign and not (folder / RUN).exists():
        raise InvalidFileError(
            f"{folder} holds {foreign[0]!r} and no {RUN}, so it is no run; {elsewhere}"
        )


def _is_beside(name: str) -> bool:
    """Whether a file says nothing of what was finished; also one that was being written."""
    beside = (RUN, STATUS, OWNER)
    return name in (STATUS, OWNER) or name.startswith(tuple(f".{file}." for file in beside))


# --- Stages ---------------------------------------------------------------------------------------
# Trials of a study are independent, so that they can be made anywhere and in any order. Stages are
# not: which of them are needed, and from what, is known only when those before are finished. They
# share the store, so nothing that is finished is made again, and another question is refused.


class Stages:
    """A run of stages that is being filled, from entering the context to leaving it.

    Args:
        folder: of the run.
        what: what the run is, as JSON values; `what["kind"]` names the sort of run.
        grows: keys of `what` with lists that may become longer; see `RunStore`.
        tell: told what is being made.
        elsewhere: what errors advise to use another folder.

    Raises:
        InvalidFileError: the folder holds something else, or cannot be written.
        InvalidParameterError: it holds another run, or another process fills it.
    """

    def __init__(
        self,
        folder: str | Path,
        what: Mapping[str, Any],
        *,
        grows: Collection[str] = (),
        tell: Tell | None = None,
        elsewhere: str = ELSEWHERE,
    ) -> None:
        self.folder = Path(folder)
        self.tell: Tell = tell or (lambda line: None)
        self._kind = str(what["kind"])
        self._store = RunStore(folder, what, grows=grows, made_by=made_here(), elsewhere=elsewhere)
        self._making: list[str] = []  # a stage may ask for those before it
        self._progress = Progress(self._kind, "stage", None, 0, 0, None)
        self._watched = Watched(self._progress)

    def __enter__(self) -> Stages:
        self._store.__enter__()
        # How many there will be is known when the last one is made.
        done = len(self._store.lines)
        self._progress = Progress(self._kind, "stage", None, done, 0, None)
        self._watched = Watched(self._progress)
        self._watched.at_work = lambda: [(f"process {os.getpid()}", self._making[-1:])]
        self._store.status = self._watched.to_json
        return self

    def __exit__(self, *error: object) -> None:
        self._watched.ended(*error)
        self._store.__exit__(*error)

    def value(self, key: str, make: Callable[[], Any]) -> Any:
        """The JSON value of a stage: as it is kept, or else made and kept."""
        if key not in self._store.values:
            self.tell(f"{self._kind}: {key}")
            self._making.append(key)
            try:
                made = make()
            finally:
                self._making.pop()
            self.keep(key, made)
        return self._store.values[key]

    def kept(self, key: str) -> Any:
        """The JSON value of a stage that is finished; None of one that is not."""
        return self._store.values.get(key)

    def keep(self, key: str, value: Any) -> None:
        """Keep the JSON value of a stage; one that is there already stays as it is."""
        if key not in self._store.lines:
            self._store.add(key, value)
            self._progress.ended()
