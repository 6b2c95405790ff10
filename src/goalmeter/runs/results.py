"""The results of a study, kept as they come in: those that were there, and tries that failed.

A result is kept under the key of its trial, and then stands. One that failed and is to be made
again is kept as a try under a key beside it, "KEY, failed 1", "KEY, failed 2", ..., so that nothing
is overwritten. Where a trial has not succeeded yet, its last try counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Generic, Self, TypeVar

from goalmeter._errors import GoalmeterError, IncompleteRunError, InvalidFileError
from goalmeter.runs.keys import keys_of, try_key
from goalmeter.runs.progress import Progress, Tell
from goalmeter.runs.reading import TRIALS, StoredRun, without_collections
from goalmeter.runs.store import RunStore, made_here
from goalmeter.runs.study import Study
from goalmeter.runs.watching import Watched

T = TypeVar("T")


class Results(Generic[T]):
    """The results of a study, from entering the context to leaving it.

    Only this process writes them, wherever the trials are made.

    Args:
        study: whose they are.
        out: run folder that keeps them, and whose results are there already; None keeps nothing.
        tell: is told how many there are.
        taken_over: results from elsewhere, kept first; those in the folder stand before them.

    Attributes:
        ended: the results by their keys, in the order in which they came.
        watched: what status.json says of them; to be told where they are made and by whom.

    Raises:
        InvalidFileError: the folder cannot be used, or a line of it is no result.
        InvalidParameterError: it holds another run, or another process fills it.
    """

    def __init__(
        self,
        study: Study[T],
        out: str | Path | None = None,
        *,
        tell: Tell | None = None,
        taken_over: Mapping[str, T] | None = None,
    ) -> None:
        self.ended: dict[str, T] = {}
        self._failed: dict[str, T] = {}
        self._study = study
        self._tell = tell
        self._taken_over = taken_over or {}
        self._progress = Progress(study.name, study.noun, 0, 0, 0, None)
        self.watched = Watched(self._progress)
        self._store = None
        if out is not None:
            self._store = RunStore(out, study.what, grows=study.grows, made_by=made_here())

    def __enter__(self) -> Self:
        if self._store is not None:
            self._store.__enter__()
        try:
            self._begin()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.watched.ended(*error)
        if self._store is not None:
            self._store.__exit__(*error)

    def _begin(self) -> None:
        study, store = self._study, self._store
        if store is not None:
            stored = StoredRun(store.folder, dict(study.what), {}, store.values, store.lines)
            self.ended, self._failed = ended_and_failed(stored, study)
            # The results themselves are held; a million values beside them would be twice as much.
            store.forget()
        for key, result in self._taken_over.items():
            self.keep(key, result)
        failed = sum(map(study.is_failure, self.ended.values()))
        done = len(self.ended)
        self._progress = Progress(
            study.name, study.noun, len(study.trials), done, failed, self._tell
        )
        self.watched = Watched(self._progress)
        if store is not None:
            store.status = self.watched.to_json

    @property
    def left(self) -> list[str]:
        """Keys of the trials that have no result yet, or only tries that failed, in order."""
        return [key for key in self._study.trials if key not in self.ended]

    def keep(self, key: str, result: T) -> None:
        """Keep a result, or a try that failed; a trial that has ended stays as it is.

        Raises:
            InvalidFileError: the disk is full, or the like; all earlier results are kept.
        """
        if key in self.ended:
            return
        is_failure = self._study.is_failure(result)
        is_try = is_failure and self._study.tries_again
        # Kept before it counts: a full disk leaves the trial to be made again.
        if self._store is not None:
            number = _number_of_tries(self._store.lines, key) + 1 if is_try else 0
            self._store.add(try_key(key, number) if is_try else key, self._study.to_json(result))
        (self._failed if is_try else self.ended)[key] = result
        if is_failure:
            self._progress.failed()
        if not is_try:
            self._progress.ended()

    def step(self) -> None:
        """A part of a trial is done; told where whole trials take long."""
        self._progress.step()

    def by_key(self) -> dict[str, T]:
        """Every result there is, in the order of the study; where none ended, the last try."""
        every = self._failed | self.ended
        return {key: every[key] for key in self._study.trials if key in every}


def stored_results(run: StoredRun, study: Study[T]) -> dict[str, T]:
    """The results of a study that a folder holds, in its order; where none ended, the last try.

    Args:
        run: the folder, as it was read.
        study: what it is of.

    Raises:
        IncompleteRunError: not all are there.
        InvalidFileError: a line is not the result that its key names.
    """
    ended, failed = ended_and_failed(run, study)
    every = failed | ended
    if missing := sum(key not in every for key in study.trials):
        total, trials = len(study.trials), f"{study.noun}s"
        raise IncompleteRunError(run.folder, run.what, missing=missing, total=total, trials=trials)
    return {key: every[key] for key in study.trials}


def ended_and_failed(run: StoredRun, study: Study[T]) -> tuple[dict[str, T], dict[str, T]]:
    """The results in a folder, and the last tries of trials that have none, by the trials' keys."""
    ended: dict[str, T] = {}
    failed: dict[str, T] = {}
    with without_collections():
        for key in study.trials:
            if key in run.values:
                ended[key] = _read(run, study, key, key)
            elif study.tries_again and (tries := _number_of_tries(run.values, key)):
                failed[key] = _read(run, study, key, try_key(key, tries))
    return ended, failed


def keys_in(folder: str | Path) -> Collection[str]:
    """The keys under which a folder holds something; none where there is no run yet.

    Raises:
        InvalidFileError: a line of it is no trial.
    """
    return set(keys_of(Path(folder) / TRIALS))


def _read(run: StoredRun, study: Study[T], key: str, kept_as: str) -> T:
    """One result, or an error that names the line that holds something else."""
    try:
        return study.from_json(key, run.values[kept_as])
    except GoalmeterError as cause:
        line = f", line {run.lines[kept_as]}" if kept_as in run.lines else ""
        raise InvalidFileError(
            f"{run.folder / TRIALS}{line}, the {study.noun} {kept_as!r}: {cause}; remove its line "
            f"from {TRIALS} and it is made again"
        ) from cause


def _number_of_tries(kept: Collection[str], key: str) -> int:
    number = 0
    while try_key(key, number + 1) in kept:
        number += 1
    return number
