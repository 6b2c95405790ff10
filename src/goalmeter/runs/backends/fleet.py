"""Workers on other machines, as the process that asks sees them: who has which batches.

What carries text to them and back is the subclass's. Each has a batch, and a second one on its way
where batches are short, so that it never waits for an answer to cross; nothing else is in memory.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from goalmeter._errors import GoalmeterError
from goalmeter.runs.backends.hosted import Setup, answered
from goalmeter.runs.backends.protocol import Working
from goalmeter.runs.jobs import KILLED, Answer, Batch, JobResult

# Seconds: where a worker takes longer than this for a batch, a second one would only lie there.
_SHORT = 2.0
# Starts in a row that may fail before one worker has taken a batch.
_ATTEMPTS = 6


@dataclass(eq=False)
class Member:
    """One worker.

    Attributes:
        name: by which a user recognises it.
        batches: numbers of those that it has, the one that it makes first.
        ready: whether it has said that it takes batches.
        short: whether its last batch took little time.
    """

    name: str
    batches: deque[int] = field(default_factory=deque)
    ready: bool = False
    short: bool = False


class Fleet(ABC):
    """A `Backend` of such workers, from entering the context to leaving it.

    Attributes:
        slots: how many there are to be.
        worthwhile: see `Backend`.
        members: those that there are.
    """

    slots: int
    worthwhile: float

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout
        self._failed = 0
        self._started = False
        self.members: list[Member] = []

    @abstractmethod
    def start(self, setup: str) -> None:
        """Start workers, which all are told the same, see `hosted.Setup`."""

    @abstractmethod
    def ask(self, member: Member, number: int, batch: str) -> None:
        """Send a batch to a worker that is ready."""

    @abstractmethod
    def hear(self) -> Iterator[tuple[int, Answer]]:
        """Wait a while for something to happen; the answers that came, by `took` and `lost`."""

    def run(self, batches: Iterator[Batch]) -> Iterator[tuple[int, Answer]]:
        """Make batches, and give the number and the answer of each as it is ready.

        An iterator that is left early leaves its batches running: leave the context too.
        """
        numbered = enumerate(batches)
        waiting = deque([first] if (first := next(numbered, None)) is not None else [])
        if waiting and not self._started:
            self._started = True
            self.start(Setup.of(waiting[0][1].files, self._timeout).to_text())
        while self._share_out(waiting, numbered):
            yield from self.hear()

    def working(self) -> Sequence[Working]:
        """The workers that have a batch now."""
        # Copies, since another thread goes on.
        return [
            Working(member.name, number)
            for member in tuple(self.members)
            for number in tuple(member.batches)[:1]
        ]

    def _share_out(
        self, waiting: deque[tuple[int, Batch]], numbered: Iterator[tuple[int, Batch]]
    ) -> bool:
        """Give batches to those who can take one; whether there is any answer to wait for."""
        # Whoever has none comes first.
        for member in sorted(self.members, key=lambda each: len(each.batches)):
            while member.ready and len(member.batches) < (2 if member.short else 1):
                taken = waiting.popleft() if waiting else next(numbered, None)
                if taken is None:
                    break
                number, batch = taken
                member.batches.append(number)
                self.ask(member, number, json.dumps(batch.to_json()))
        busy = any(member.batches for member in self.members)
        # While workers start, nobody knows yet whether there is a batch for them.
        if not busy and not waiting and (following := next(numbered, None)) is not None:
            waiting.append(following)
        return busy or bool(waiting)

    # --- What a subclass says of its workers ------------------------------------------------------
    def took(self, member: Member, number: int, text: str) -> tuple[int, Answer]:
        """A worker has answered a batch with this text."""
        answer = answered(text)
        member.batches.remove(number)
        member.short = answer.seconds < _SHORT
        self._failed = 0
        return number, answer

    def lost(
        self, member: Member, detail: str, *, counts: bool = True
    ) -> Iterator[tuple[int, Answer]]:
        """A worker has gone with all that it had; whoever says so starts another.

        Args:
            member: it.
            detail: what became of it.
            counts: whether it was a start of its own, if it had not started.
        """
        self.members.remove(member)
        if not member.ready:
            self._failed += counts
            if self._failed >= _ATTEMPTS and not any(each.ready for each in self.members):
                raise GoalmeterError(
                    f"no worker starts: {self._failed} ended before they took a batch, the last "
                    f"of which is {member.name}: {detail}; what is finished is kept where --out "
                    f"names a folder"
                )
        yield from self.given_up(member, detail)

    def given_up(self, member: Member, detail: str) -> Iterator[tuple[int, Answer]]:
        """What a worker had has come to nothing."""
        while member.batches:
            yield member.batches.popleft(), Answer(lost=JobResult(KILLED, detail=detail))
