"""What a study asks of a place where trials run: the whole of it, so that a new one is one file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from goalmeter.runs.jobs import Answer, Batch


@dataclass(frozen=True)
class Working:
    """A worker that has a batch now.

    Attributes:
        worker: its name, by which a user recognises it, such as "process 4711".
        batch: the number of the batch.
    """

    worker: str
    batch: int


class Backend(Protocol):
    """Where the trials of a study run, from entering the context to leaving it.

    A study plans, sizes batches, keeps results and resumes; it writes in its own process alone. A
    backend makes batches and nothing else. It never raises for what a trial does: that is a result.
    It may answer in any order, since results go by the number of their batch. What of a batch took
    too long or died with its process is answered as lost, and the study asks for each trial of the
    batch again, alone, until it is clear which of them did it. What was ended from outside, such as
    by a scheduler or with its machine, is answered as "killed", and is asked for again too.
    """

    @property
    def slots(self) -> int:
        """How many batches are made at once."""
        ...

    @property
    def worthwhile(self) -> float:
        """Seconds of work that make a batch worth its way; 0 for one trial at a time."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None:
        """End all that was started, also work that nobody waits for any more."""

    def run(self, batches: Iterator[Batch]) -> Iterator[tuple[int, Answer]]:
        """Make batches, and give the number and the answer of each as it is ready.

        Args:
            batches: taken one by one, as there is room for them, by the thread that iterates: how
                large the next one is depends on what the last ones took. They are numbered from 0.

        Raises:
            GoalmeterError: this place cannot make them, whatever they are.
        """
        ...

    def working(self) -> Sequence[Working]:
        """The workers that have a batch now, for whoever watches: it decides nothing.

        It is called at any time from another thread than the one that iterates over `run`, and only
        reads.
        """
        ...
