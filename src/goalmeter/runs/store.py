"""Run directories: the request, every finished trial, and cached stages.

    run.json        what the run is; it decides whether a run may be continued
    trials.jsonl    a line of JSON for each finished trial: {"key": ..., "value": ...}
    status.json     how far it is, for whoever watches; nothing depends on it
    .lock           while a process writes

A line is written as soon as its trial has ended, and to disk within a second; half a line at the
end is dropped. A key that comes twice counts once, the first time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

from goalmeter._errors import InvalidFileError, InvalidParameterError, json_text, shown, visible
from goalmeter._files import write_text
from goalmeter.runs.progress import Progress, Tell
from goalmeter.runs.reading import FORMAT, RUN, STATUS, TRIALS, lines_of, read_about
from goalmeter.runs.status import LOCK, SOFT_LOCK, heartbeat, locked, write_status

ELSEWHERE = "choose another folder (--out)"
_FEW, _SHOWN = 4, 60  # differences that a message names, and characters of each value


def made_here() -> dict[str, str]:
    """Return what a run is made with in this process, to be recorded with it."""
    # By way of sys.modules, since this layer does not import the package above it.
    return {"goalmeter": sys.modules["goalmeter"].__version__}


class RunStore:
    """A run directory that is being written, from entering the context to leaving it.

    A directory that does not exist is made; the same run is continued; a run without a single trial
    is replaced. Only one process at a time can write a run. `what` is its identity, as JSON values,
    of which those of `grows` are lists that may have become longer: the run is then of what both
    lists have. `elsewhere` is how errors advise to use another directory.

    Raises:
        InvalidFileError: the directory holds something else, or cannot be written.
        InvalidParameterError: it holds another run, or another process writes to it.
    """

    def __init__(
        self,
        folder: str | Path,
        what: Mapping[str, Any],
        *,
        grows: Collection[str] = (),
        elsewhere: str = ELSEWHERE,
    ) -> None:
        self.folder = Path(folder)
        self.values: dict[str, Any] = {}  # of every finished trial, unless `forget` was called
        self.lines: dict[str, int] = {}  # number of the line of each
        self.progress: Progress | None = None  # source of status.json; None writes none
        self._elsewhere, self._grows = elsewhere, grows
        self._what: dict[str, Any] = json.loads(json.dumps(dict(what)))  # as it will be read
        self._file = -1
        self._number = self._size = 0  # of the last line, and bytes up to its end
        self._keeps_values = True
        self._broken: OSError | None = None  # error of the heartbeat
        self._open = ExitStack()

    def __enter__(self) -> Self:
        _refuse_foreign(self.folder, self._elsewhere)
        with ExitStack() as opening:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                opening.enter_context(locked(self.folder, self._elsewhere))
                flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
                file = os.open(self.folder / TRIALS, flags, 0o644)
                opening.callback(os.close, file)
                for line in lines_of(self.folder / TRIALS):
                    self._count(*line)
                self._agree()
                if os.fstat(file).st_size != self._size:
                    os.ftruncate(file, self._size)
            except OSError as cause:
                raise self._unwritable(cause) from cause
            self._file = file
            opening.enter_context(heartbeat(self._beat))
            self._open = opening.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        if self.progress is not None:
            self.progress.end(*error)
        with self._open:
            self._beat()
            if self._broken is not None and not any(error):  # an error on its way says more
                raise self._unwritable(self._broken) from self._broken

    def add(self, key: str, value: Any) -> None:
        """Store a finished trial; a stored one stays as it is."""
        if key in self.lines:
            return
        text = json_text({"key": key, "value": value}).encode() + b"\n"
        try:
            broken, self._broken = self._broken, None
            if broken is not None:
                raise broken
            unwritten = text
            while unwritten:  # a disk that is nearly full takes a part of the line only
                unwritten = unwritten[os.write(self._file, unwritten) :]
        except OSError as cause:
            # Half a line would make one line of itself and the next trial.
            with suppress(OSError):
                os.ftruncate(self._file, min(self._size, os.fstat(self._file).st_size))
            raise self._unwritable(cause) from cause
        self._count(text, key, json.loads(text)["value"] if self._keeps_values else None)

    def forget(self) -> None:
        """Hold no values in memory any more, neither those that are there nor those to come."""
        self.values, self._keeps_values = {}, False

    def _count(self, text: bytes, key: str, value: Any) -> None:
        self._size += len(text)
        self._number += 1
        if self._keeps_values:
            self.values.setdefault(key, value)
        self.lines.setdefault(key, self._number)

    def _beat(self) -> None:
        if self._file >= 0:
            try:
                os.fsync(self._file)
            except OSError as cause:
                self._broken = cause
        if self.progress is not None:
            write_status(self.folder, self.progress.to_json())

    def _unwritable(self, cause: OSError) -> InvalidFileError:
        return InvalidFileError(
            f"{self.folder} cannot be written: {cause.strerror or cause}; what was finished is "
            f"kept, make room or {self._elsewhere}"
        )

    def _agree(self) -> None:
        """Write what the run is, or check that it is the same; without trials it is replaced."""
        path = self.folder / RUN
        made_by = made_here()
        about = read_about(path) if path.exists() else None
        if about is not None and self.values:
            stored, asked, made_by = about["what"], dict(self._what), about["made_by"]
            for key in self._grows:
                if isinstance(stored.get(key), list) and key in asked:
                    known = set(map(json_text, stored[key]))
                    new = [item for item in asked[key] if json_text(item) not in known]
                    asked[key] = stored[key] + new
            differ = [
                f"{visible(key)} is {_short(stored.get(key))} there, and {_short(asked.get(key))} "
                f"here"
                for key in {**stored, **asked}
                if stored.get(key) != asked.get(key)
                and (key not in self._grows or not isinstance(stored.get(key, []), list))
            ]
            if differ:
                more = [f"{len(differ) - _FEW} more differ"] if len(differ) > _FEW else []
                raise InvalidParameterError(
                    f"{self.folder} holds another run: {'; '.join(differ[:_FEW] + more)}; "
                    f"{self._elsewhere}, or use the same options"
                )
            self._what = asked
        about_now = {"format": FORMAT, "what": self._what, "made_by": made_by}
        # A run that is continued unchanged keeps its file byte for byte.
        if about_now != about:
            write_text(path, json_text(about_now, indent=1) + "\n")


def _short(value: Any) -> str:
    try:
        text = "not given" if value is None else json_text(value)
    except (ValueError, RecursionError):
        text = shown(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _refuse_foreign(folder: Path, elsewhere: str) -> None:
    """Raise an error unless a directory is missing, empty, or a run, finished or just begun."""
    if folder.exists() and not folder.is_dir():
        raise InvalidFileError(f"{folder} is a file; {elsewhere}")
    if not folder.exists() or (folder / RUN).exists():
        return
    foreign = [
        path.name
        for path in sorted(folder.iterdir())
        if not (path.name == TRIALS and path.stat().st_size == 0)
        and not path.name.startswith((STATUS, LOCK, SOFT_LOCK, f".{RUN}.", f".{STATUS}."))
    ]
    # Another command may have begun the same run after the first look.
    if foreign and not (folder / RUN).exists():
        raise InvalidFileError(
            f"{folder} holds {foreign[0]!r} and no {RUN}, so it is no run; {elsewhere}"
        )


class Stages(RunStore):
    """A run of stages: which of them are needed is known only when those before are finished."""

    progress: Progress

    def __init__(
        self, folder: str | Path, what: Mapping[str, Any], *, tell: Tell | None = None, **more: Any
    ) -> None:
        super().__init__(folder, what, **more)
        self.tell: Tell = tell or (lambda line: None)

    def __enter__(self) -> Self:
        super().__enter__()
        # How many there will be is known when the last one is made.
        self.progress = Progress(str(self._what["kind"]), "stage", None, len(self.lines))
        return self

    def value(self, key: str, make: Callable[[], Any]) -> Any:
        """Return the JSON value of a stage; make and store it if need be."""
        if key not in self.values:
            self.tell(f"{self.progress.name}: {key}")
            outer = self.progress.working
            self.progress.working = {"stage": (time.monotonic(), [key])}
            try:
                made = make()
            finally:
                self.progress.working = outer
            self.keep(key, made)
        return self.values[key]

    def kept(self, key: str) -> Any:
        """Return the JSON value of a finished stage; None of another."""
        return self.values.get(key)

    def keep(self, key: str, value: Any) -> None:
        """Store the JSON value of a stage; a stored one stays as it is."""
        if key not in self.lines:
            self.add(key, value)
            self.progress.ended()
