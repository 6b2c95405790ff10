"""Run directories that are being written: every finished trial, and cached stages."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

from goalmeter._errors import InvalidFileError, InvalidParameterError, json_text, visible
from goalmeter._files import LOCK, SOFT_LOCK, locked, write_text
from goalmeter.runs.progress import Progress, Tell, heartbeat
from goalmeter.runs.reading import FORMAT, RUN, STATUS, TRIALS, read_about, read_trials

_FEW, _SHOWN = 4, 60  # differences that a message names, and characters of each value


def made_here() -> dict[str, str]:
    """Return the versions that this process uses, to be recorded with a run."""
    # By way of sys.modules, since this layer does not import the package above it.
    return {"goalmeter": sys.modules["goalmeter"].__version__}


class RunStore:
    """Run directory opened for writing, as a context manager.

    A missing directory is created, the same run is resumed, and a run without trials is replaced.
    Only one process at a time can write a run. `what` identifies the run, as JSON values; those of
    `grows` are lists, and the run then has the elements of both lists. `elsewhere` is the advice of
    errors on using another directory, `noun` the word for a trial.

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
        elsewhere: str = "choose another folder (--out)",
        noun: str = "trial",
    ) -> None:
        self.folder = Path(folder)
        self.values: dict[str, Any] = {}  # of every finished trial, by key
        self.lines: dict[str, int] = {}  # numbers of the lines that were there
        self._elsewhere, self._grows, self._noun = elsewhere, grows, noun
        self._what: dict[str, Any] = json.loads(json.dumps(dict(what)))  # as it will be read
        self._file = self._size = 0  # descriptor of the trials, and bytes of their whole lines
        self._broken: OSError | None = None  # error of the heartbeat

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            try:
                _refuse_foreign(self.folder, self._elsewhere)
                self.folder.mkdir(parents=True, exist_ok=True)
                opening.enter_context(locked(self.folder, self._elsewhere))
                flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
                self._file = os.open(self.folder / TRIALS, flags, 0o644)
                opening.callback(os.close, self._file)
                self.values, self.lines, self._size = read_trials(self.folder / TRIALS)
                self._agree()
                if os.fstat(self._file).st_size != self._size:
                    os.ftruncate(self._file, self._size)
            except OSError as cause:
                raise self._unwritable(cause) from cause
            # How many there will be is known by a study only; of stages, when the last one is made.
            self.progress = Progress(str(self._what["kind"]), self._noun, None, len(self.values))
            opening.push(self._end)
            opening.enter_context(heartbeat(self._beat))
            self._open = opening.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def add(self, key: str, value: Any) -> None:
        """Store a finished trial; a stored one is not replaced."""
        if key not in self.values:
            self.values[key] = json.loads(self.write(key, value))["value"]
            self.progress.ended()

    def write(self, key: str, value: Any) -> bytes:
        """Write the line of a trial atomically and return it."""
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
        self._size += len(text)
        return text

    def _beat(self) -> None:
        try:
            os.fsync(self._file)
        except OSError as cause:
            self._broken = cause
        self.progress.write(self.folder)

    def _end(self, *error: object) -> None:
        self.progress.end(*error)
        self._beat()
        if self._broken is not None and not any(error):  # an error on its way says more
            raise self._unwritable(self._broken) from self._broken

    def _unwritable(self, cause: OSError) -> InvalidFileError:
        return InvalidFileError(
            f"{self.folder} cannot be written: {cause.strerror or cause}; what was finished is "
            f"kept, make room or {self._elsewhere}"
        )

    def _agree(self) -> None:
        """Write what the run is, or check that it is the same; without trials it is replaced."""
        path = self.folder / RUN
        about = read_about(path) if path.exists() else None
        what, made_by = self._what, made_here()
        if about is not None and self.values:
            stored, made_by = about["what"], about["made_by"]
            grown = {}
            for key in self._grows:
                old = stored.get(key, [])
                if isinstance(old, list) and (key in stored or key in what):
                    known = set(map(json_text, old))
                    grown[key] = old + [n for n in what.get(key, []) if json_text(n) not in known]
            what = what | grown
            differ = [
                f"{visible(key)} is {_short(stored.get(key))} there, and {_short(what.get(key))} "
                f"here"
                for key in {**stored, **what}
                if key not in grown and stored.get(key) != what.get(key)
            ]
            if differ:
                more = [f"{len(differ) - _FEW} more differ"] if len(differ) > _FEW else []
                raise InvalidParameterError(
                    f"{self.folder} holds another run: {'; '.join(differ[:_FEW] + more)}; "
                    f"{self._elsewhere}, or use the same options"
                )
        about_now = {"format": FORMAT, "what": what, "made_by": made_by}
        # A run that is continued unchanged keeps its file byte for byte.
        if about_now != about:
            write_text(path, json_text(about_now, indent=1) + "\n")


def _short(value: Any) -> str:
    text = "not given" if value is None else json_text(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _refuse_foreign(folder: Path, elsewhere: str) -> None:
    """Raise an error unless a directory is missing, empty, or a run, finished or just begun."""
    if folder.exists() and not folder.is_dir():
        raise InvalidFileError(f"{folder} is a file; {elsewhere}")
    foreign = [
        path.name
        for path in sorted(folder.glob("*"))
        if not (path.name == TRIALS and path.stat().st_size == 0)
        and not path.name.startswith((STATUS, LOCK, SOFT_LOCK, f".{RUN}.", f".{STATUS}."))
    ]
    # Looked for last, as another command may begin the same run meanwhile.
    if foreign and not (folder / RUN).exists():
        raise InvalidFileError(
            f"{folder} holds {foreign[0]!r} and no {RUN}, so it is not a run; {elsewhere}"
        )


class Stages(RunStore):
    """Run of stages, each of which may depend on the results of earlier ones."""

    def __init__(
        self, folder: str | Path, what: Mapping[str, Any], *, tell: Tell | None = None, **more: Any
    ) -> None:
        super().__init__(folder, what, noun="stage", **more)
        self.tell: Tell = tell or (lambda line: None)

    def value(self, key: str, make: Callable[[], Any]) -> Any:
        """Return the JSON value of a stage; compute and store it if it is missing."""
        if key not in self.values:
            self.tell(f"{self.progress.name}: {key}")
            outer = self.progress.working
            self.progress.working = {"stage": (time.monotonic(), [key])}
            try:
                made = make()
            finally:
                self.progress.working = outer
            self.add(key, made)
        return self.values[key]
