"""Run a study: distribute the remaining trials, store results and failures, and resume."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Generic, Self, TypeVar

from goalmeter._errors import (
    GoalmeterError,
    IncompleteRunError,
    InvalidFileError,
    InvalidParameterError,
)
from goalmeter.runs.backends.registry import HERE, opened
from goalmeter.runs.jobs import CRASH, KILLED, OK, REFUSED, Backend, Batch, JobResult, Study
from goalmeter.runs.progress import Progress, Tell
from goalmeter.runs.reading import TRIALS, StoredRun, tries_in
from goalmeter.runs.store import RunStore

_MOST, _REMEMBERED = 1000, 15  # trials of a batch; batches whose costs are remembered
# So many batches are left for each worker, so that none works long after the others have ended.
_ROUNDS_LEFT = 4
# Repetitions of a trial whose process somebody else ended. Interruptions at random moments miss one
# of these; a lack of memory misses none.
_AGAIN = 5

T = TypeVar("T")
Running = dict[str, tuple[float, list[str]]]  # trials by batch: since when, and their keys


# A stored result is final. One that failed and is to be made again is stored as a try, under
# "KEY, failed 1", "KEY, failed 2", ..., so that nothing is overwritten. Where a trial has no result
# yet, its last try counts.
class Results(Generic[T]):
    """Results of a study in progress; only this process writes them."""

    def __init__(
        self,
        study: Study[T],
        out: str | Path | None = None,  # run directory, which is read first; None stores nothing
        *,
        tell: Tell | None = None,
        taken_over: Mapping[str, T] | None = None,  # stored first unless `out` has other results
    ) -> None:
        self._results: dict[str, T] = {}
        self._tries: dict[str, int] = {}  # number of the last try of trials that only failed
        self._study, self._tell, self._taken_over = study, tell, taken_over or {}
        self.progress = Progress(study.name, study.noun, 0)
        self._store = None if out is None else RunStore(out, study.what, grows=study.grows)

    def __enter__(self) -> Self:
        study, store = self._study, self._store
        with ExitStack() as opening:
            if store is not None:
                opening.enter_context(store)
                self.read(StoredRun(store.folder, {}, {}, store.values, store.lines))
                # The JSON values of a million results take twice their memory.
                store.values, store.lines = {}, {}
            for key, result in self._taken_over.items():
                self.keep(key, result)
            ended = [result for key, result in self._results.items() if key not in self._tries]
            failed = sum(map(study.is_failure, ended))
            self.progress = Progress(
                study.name, study.noun, len(study.trials), len(ended), failed, self._tell
            )
            if store is not None:
                store.progress = self.progress
            self._open = opening.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def read(self, run: StoredRun) -> None:
        """Read the final results in a run directory, and the last attempts of the other trials."""
        study = self._study
        tries = dict(sorted(tries_in(run.values))) if study.tries_again else {}
        for key in study.trials:
            stored_as = key if key in run.values else f"{key}, failed {tries.get(key, 0)}"
            if stored_as not in run.values:
                continue
            if stored_as != key:
                self._tries[key] = tries[key]
            try:
                self._results[key] = study.from_json(key, run.values[stored_as])
            except GoalmeterError as cause:
                raise InvalidFileError(
                    f"{run.folder / TRIALS}, line {run.lines[stored_as]}, the {study.noun} "
                    f"{stored_as!r}: {cause}; remove its line from {TRIALS} and it is made again"
                ) from cause

    @property
    def left(self) -> list[str]:
        """Keys of the trials without a final result, in order."""
        trials = self._study.trials
        return [key for key in trials if key not in self._results or key in self._tries]

    def keep(self, key: str, result: T) -> None:
        """Store a result or a failed attempt; a final result is not replaced."""
        if key in self._results and key not in self._tries:
            return
        is_failure = self._study.is_failure(result)
        is_try = is_failure and self._study.tries_again
        number = self._tries.get(key, 0) + 1
        # Stored before it counts: a full disk leaves the trial to be made again.
        if self._store is not None:
            stored_as = f"{key}, failed {number}" if is_try else key
            self._store.write(stored_as, self._study.to_json(result))
        self._results[key] = result
        self.progress.failures += is_failure
        if is_try:
            self._tries[key] = number
        else:
            self._tries.pop(key, None)
            self.progress.ended()

    def by_key(self) -> dict[str, T]:
        """Return all results in the order of the study; the last attempt where none is final."""
        return {key: self._results[key] for key in self._study.trials if key in self._results}


def stored_results(run: StoredRun, study: Study[T]) -> dict[str, T]:
    """Return all results of a study from a run directory, in its order.

    Raises:
        IncompleteRunError: some are missing.
        InvalidFileError: a line is not the result that its key names.
    """
    results = Results(study)
    results.read(run)
    every = results.by_key()
    if missing := len(study.trials) - len(every):
        lacks = f"{missing} of {len(study.trials)} {study.noun}s"
        raise IncompleteRunError(run.folder, run.what, lacks)
    return every


def carry_out(
    study: Study[T],
    *,
    on: str | Backend = HERE,  # as `backends.registry` spells it
    timeout: float | None = None,  # seconds that a trial may take
    out: str | Path | None = None,  # run directory; what it holds is not made again
    progress: Tell | None = None,
) -> dict[str, T]:
    """Return the result of every trial of a study by its key, in its order.

    The results do not depend on the backend, the batches, or on how often this is interrupted and
    called again, if the function depends on nothing but its arguments.

    Raises:
        InvalidParameterError: the backend is unknown, or `out` contains another run.
        InvalidFileError: the directory cannot be used, or one of its lines is not a result.
        GoalmeterError: a trial failed, and the study has no substitute result.
    """
    with Results(study, out, tell=progress) as results:
        if left := results.left:
            running: Running = {}
            results.progress.working = running
            results.progress.place = on if isinstance(on, str) else type(on).__name__
            with _place(study, on, len(left), timeout) as backend:
                check_first(study, backend)
                for key, result in _results(left, study.batch, backend, running):
                    results.keep(key, result_in(study, key, result))
        return results.by_key()


def check(
    study: Study[Any],
    *,
    on: str = HERE,
    timeout: float | None = None,
    out: str | Path | None = None,
) -> None:
    """Raise the errors of `carry_out` without a trial; `out` is created if it is missing."""
    with _place(study, on, 1, timeout) as backend:
        check_first(study, backend)
    with Results(study, out):
        pass


def _place(study: Study[Any], on: str | Backend, trials: int, timeout: float | None) -> Backend:
    if not isinstance(on, str):
        return on
    if callable(study.function) and on != HERE:
        raise InvalidParameterError(
            f"{study.name} can be made in this process only, since what makes its {study.noun}s "
            f"has no name by which another process could find it"
        )
    return opened(on, trials=trials, timeout=timeout)


def check_first(study: Study[Any], backend: Backend) -> None:
    """Raise the error of the study's check, if it has one."""
    if study.check is None:
        return
    batch = replace(study.check, files=study.files)
    ((_, result),) = _results([""], lambda keys: batch, backend, {})
    if result.outcome == REFUSED:
        raise result.cause or result.refusal()
    if result.outcome != OK:
        advice = f"; {study.check_advice}" if study.check_advice else ""
        raise InvalidFileError(
            f"{study.name} cannot be made: {result.outcome}, {result.detail}{advice}"
        )


def _results(
    keys: list[str], batch_of: Callable[[list[str]], Batch], backend: Backend, running: Running
) -> Iterator[tuple[str, JobResult]]:
    """Give what came of some trials; `running` holds the batches that are being made."""
    worthwhile = backend.worthwhile
    costs: deque[float] = deque(maxlen=_REMEMBERED)
    waiting = keys[::-1]  # the next one last, where a list is short to pop

    def batches() -> Iterator[Batch]:
        for number in count():
            if not waiting:
                return
            size = batch_size(costs, len(waiting), backend.slots, worthwhile)
            batch = [waiting.pop() for _ in range(size)]
            running[f"batch {number}"] = (time.monotonic(), batch)
            yield batch_of(batch)

    for repetition in range(1 + _AGAIN):
        again: list[str] = []
        for number, made in backend.run(batches()):
            _, batch = running.pop(f"batch {number}")
            costs.append(made.seconds / len(batch))
            for key, result in zip(batch, made.results, strict=True):
                if result.outcome != KILLED:
                    yield key, result
                elif repetition < _AGAIN:
                    again.append(key)
                else:
                    detail = f"{result.detail}, each of {1 + _AGAIN} times that it was made"
                    yield key, JobResult(CRASH, detail=detail)
        if missing := len(waiting) + sum(len(batch) for _, batch in running.values()):
            raise GoalmeterError(
                f"{missing} trials have no result, since {type(backend).__name__} ended without "
                f"one; the same command resumes the run"
            )
        # A trial whose process somebody else ended is made again, in a batch of its own.
        waiting, worthwhile = again[::-1], 0.0
        if not waiting:
            return


def batch_size(costs: Collection[float], left: int, slots: int, worthwhile: float) -> int:
    """Return the number of trials of the next batch, from their seconds in the last ones."""
    # A trial's result does not depend on its batch, so the clock can change no number.
    if not costs or not worthwhile:
        return 1
    # The median leaves out the first batches, which pay for imports.
    by_cost = worthwhile / max(median(costs), worthwhile / _MOST)
    return max(1, int(min(by_cost, left / (slots * _ROUNDS_LEFT))))


def result_in(study: Study[T], key: str, result: JobResult) -> T:
    """Return the result of a trial, or what the study puts in its place."""
    if result.outcome == OK:
        value: T = result.value
        return value if callable(study.function) else study.from_json(key, value)
    if study.instead is not None:
        return study.instead(key, result)
    if result.outcome == REFUSED:
        which = f", the {study.noun} {key!r}" if len(study.trials) > 1 else ""
        raise result.refusal(f"{study.name}{which}: ") from result.cause
    if result.cause is not None:
        raise result.cause
    raise GoalmeterError(
        f"{study.name}: the {study.noun} {key!r} ended with {result.outcome}: {result.detail}; "
        f"finished results are kept where --out names a folder, and the same command resumes there"
    )
