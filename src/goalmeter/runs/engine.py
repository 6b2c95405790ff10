"""Carrying a study out: what is left of it is shared out, kept as it ends, and gone on with."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from goalmeter._errors import GoalmeterError, InvalidFileError, InvalidParameterError
from goalmeter.runs.backends.protocol import Backend
from goalmeter.runs.backends.registry import HERE, opened
from goalmeter.runs.jobs import CRASH, KILLED, OK, REFUSED, Batch, JobResult
from goalmeter.runs.progress import Tell
from goalmeter.runs.results import Results
from goalmeter.runs.study import Study

T = TypeVar("T")
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
