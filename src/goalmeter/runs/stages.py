"""Stages: values that are made one after the other, each from those before, and kept as they come.

Trials of a study are independent, so that they can be made anywhere and in any order. Stages are
not: which of them are needed, and from what, is known only when those before are finished. They
share the store, so nothing that is finished is made again, and another question is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from goalmeter.runs.progress import Progress, Tell
from goalmeter.runs.store import ELSEWHERE, RunStore, made_here
from goalmeter.runs.watching import Watched


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
