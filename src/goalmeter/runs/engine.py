"""Run a study: distribute the remaining trials, store results and failures, and resume."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
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
from goalmeter.runs.reading import TRIALS, StoredRun, keys_of, try_key, without_collections
from goalmeter.runs.status import Watched
from goalmeter.runs.store import RunStore, made_here

# --- Results --------------------------------------------------------------------------------------
# A result is kept under the key of its trial, and then stands. One that failed and is to be made
# again is kept as a try under a key beside it, "KEY, failed 1", "KEY, failed 2", ..., so that
# nothing is overwritten. Where a trial has not succeeded yet, its last try counts.

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


# --- Engine ---------------------------------------------------------------------------------------
_MOST = 1000  # trials of a batch, whatever they cost
_REMEMBERED = 15  # batches whose costs are looked at
# So many batches are left for each worker, so that none works long after the others are through.
_ROUNDS_LEFT = 4
# Times that a trial is made again whose process somebody else ended. Whoever ends them at random
# moments misses one of these; what is short of memory every time does not.
_AGAIN = 5


def carry_out(
    study: Study[T],
    *,
    on: str | Backend = HERE,
    timeout: float | None = None,
    out: str | Path | None = None,
    progress: Tell | None = None,
) -> dict[str, T]:
    """The result of every trial of a study, by its key and in its order.

    The results are the same wherever, in what order and in which batches they are made, and however
    often this is interrupted and called again, as far as the function's results depend on nothing
    but its arguments.

    Args:
        study: what is to be known.
        on: where its trials run, as `backends.registry` spells it; or a backend, for these trials.
        timeout: seconds that a trial may take, which is then a batch of its own; None for as long
            as it takes. A backend that is given itself has to know it too.
        out: run folder that keeps every result as soon as it is there; what it holds is not made
            again. None keeps nothing.
        progress: told now and then how many trials have ended, and what time is left.

    Raises:
        InvalidParameterError: there is no such place, or it cannot do what is asked of it; or `out`
            holds another run.
        InvalidFileError: the folder cannot be used, or a line of it is no result.
        GoalmeterError: a trial came to nothing, and the study has nothing to put in its place.
        MissingExtraError: a trial needs a package that is not installed.
    """
    with Results(study, out, tell=progress) as results:
        if left := results.left:
            asked: dict[int, list[str]] = {}
            with _place(study, on, len(left), timeout) as backend:
                results.watched.place = on if isinstance(on, str) else type(on).__name__
                results.watched.at_work = lambda: [
                    (working.worker, asked.get(working.batch, ())) for working in backend.working()
                ]
                _ask_first(study, backend)
                for key, result in _made(study, left, backend, asked, alone=timeout is not None):
                    results.keep(key, result)
        return results.by_key()


def check(
    study: Study[Any],
    *,
    on: str = HERE,
    timeout: float | None = None,
    out: str | Path | None = None,
) -> None:
    """Raise what `carry_out` would raise before its first trial; `out` is made if need be."""
    with _place(study, on, 1, timeout) as backend:
        _ask_first(study, backend)
    with Results(study, out):
        pass


def _place(
    study: Study[Any], on: str | Backend, trials: int, timeout: float | None
) -> AbstractContextManager[Backend]:
    if not isinstance(on, str):
        return on
    if callable(study.function) and on != HERE:
        raise InvalidParameterError(
            f"{study.name} can be asked in this process only, since what makes its {study.noun}s "
            f"has no name by which another process could find it"
        )
    return opened(on, trials=trials, timeout=timeout)


def _ask_first(study: Study[Any], backend: Backend) -> None:
    """Raise what the study's check gives, if it does not pass."""
    if study.check is None:
        return
    kills = Kills()
    results: Sequence[JobResult] = ()
    for _ in range(1 + _AGAIN):
        for _, answer in backend.run(iter([replace(study.check, files=study.files)])):
            lost = None if answer.lost is None else kills.judged("", answer.lost)
            results = answer.results if lost is None else [lost]
        if results:
            break
    for result in results:
        if result.outcome == REFUSED:
            raise result.cause or result.refusal()
        if result.outcome != OK:
            raise InvalidFileError(
                f"{study.name} cannot be made: {result.outcome}, {result.detail}"
                f"{'; ' * bool(study.check_advice)}{study.check_advice}"
            )


def _made(
    study: Study[T],
    keys: list[str],
    backend: Backend,
    asked: dict[int, list[str]],
    *,
    alone: bool,
) -> Iterator[tuple[str, T]]:
    """The results of some trials, as they are ready; `alone` makes each a batch of its own.

    The keys of the batches that are being made are in `asked`, by number.
    """
    size = BatchSize(backend.slots, 0.0 if alone else backend.worthwhile)
    kills = Kills()
    waiting = keys[::-1]  # the next one last, where a list is short to pop

    def batches() -> Iterator[Batch]:
        for number in count():
            if not waiting:
                return
            asked[number] = [waiting.pop() for _ in range(size.next(len(waiting)))]
            yield study.batch(asked[number])

    while waiting:
        suspects: list[str] = []
        for number, answer in backend.run(batches()):
            batch = asked.pop(number)
            if answer.lost is None:
                size.took(len(batch), answer.seconds)
                for key, result in zip(batch, answer.results, strict=True):
                    yield key, _result(study, key, result)
            elif len(batch) == 1 or answer.lost.outcome == KILLED:
                for key in batch:
                    if (judged := kills.judged(key, answer.lost)) is None:
                        suspects.append(key)
                    else:
                        yield key, _result(study, key, judged)
            else:
                suspects += batch
        if unanswered := len(waiting) + sum(map(len, asked.values())):
            raise GoalmeterError(
                f"{study.name}: {unanswered} {study.noun}s came to nothing, since "
                f"{type(backend).__name__} ended without an answer to them; the same command goes "
                f"on from what is kept"
            )
        # If one trial of a lost batch did it, it answers for itself alone, and the others end.
        waiting += reversed(suspects)
        size = BatchSize(backend.slots, 0.0)


class Kills:
    """Counts how often each trial was in a process that somebody else ended."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def judged(self, key: str, lost: JobResult) -> JobResult | None:
        """What came of a trial whose batch was lost; None if it is to be made again.

        Args:
            key: of the trial.
            lost: how its process ended, as the backend saw it.
        """
        if lost.outcome != KILLED:
            return lost
        self._counts[key] += 1
        if self._counts[key] <= _AGAIN:
            return None
        return JobResult(
            CRASH, detail=f"{lost.detail}, each of {1 + _AGAIN} times that it was made"
        )


class BatchSize:
    """Learns what a trial costs, and says how many make a batch.

    What a trial's result is does not depend on the batch that it is in, so neither this clock nor
    the number of workers can change a number.

    Args:
        slots: batches that are made at once.
        worthwhile: seconds of work that make a batch worth its way; 0 for one trial at a time.
    """

    def __init__(self, slots: int, worthwhile: float) -> None:
        self._slots = slots
        self._worthwhile = worthwhile
        self._costs: deque[float] = deque(maxlen=_REMEMBERED)

    def took(self, trials: int, seconds: float) -> None:
        """A batch has ended."""
        # Each trial would count alike, but the first batches of a worker pay for its imports: of
        # whole batches the median leaves those out.
        self._costs.append(seconds / trials)

    def next(self, left: int) -> int:
        """Trials of the next batch, at least 1, where `left` have none yet."""
        if not self._costs or not self._worthwhile:
            return 1
        by_cost = self._worthwhile / max(median(self._costs), self._worthwhile / _MOST)
        fair = left / (self._slots * _ROUNDS_LEFT)
        return max(1, int(min(by_cost, fair)))


def _result(study: Study[T], key: str, result: JobResult) -> T:
    """The result of a trial, or what the study puts in its place."""
    if result.outcome == OK:
        return study.result(key, result.value)
    if study.instead is not None:
        return study.instead(key, result)
    if result.outcome == REFUSED:
        # The only trial needs no name beside that of the study.
        which = f", the {study.noun} {key!r}" if len(study.trials) > 1 else ""
        raise result.refusal(f"{study.name}{which}: ") from result.cause
    if result.cause is not None:
        raise result.cause
    raise GoalmeterError(
        f"{study.name}: the {study.noun} {key!r} ended with {result.outcome}: {result.detail}; "
        f"what is finished is kept where --out names a folder, and the same command goes on from "
        f"there"
    )
