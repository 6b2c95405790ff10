"""Who is told of walks while Inspect makes them; its own logs are written later.

In a run that is a keeper, which keeps each walk as it ends and stops asking a server that has
failed them all.
"""

from __future__ import annotations

import os
from contextvars import ContextVar

from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter.navigation.inspect.failures import (
    BUDGET,
    ERROR,
    GivenUpError,
    is_ours_to_mend,
    reason_of,
)
from goalmeter.navigation.inspect.questions import Account
from goalmeter.navigation.inspect.samples import made_of
from goalmeter.navigation.playing import has_failed
from goalmeter.navigation.record import Step, Trajectory
from goalmeter.runs import Results

# When so many walks in a row were failed by the server, the others of the round are not begun: each
# would wait for its retries in vain.
ENOUGH = 20


class Listener:
    """Hears of each walk, and may refuse that there is another one; this one lets all pass.

    Attributes:
        account: of what is spent; None where nobody counts.
    """

    account: Account | None = None

    def begins(self, name: str) -> None:
        """The walk of this name is about to begin; an error raised here is its end."""

    def half(self, name: str) -> tuple[Step, ...]:
        """The steps that there are of a walk already."""
        return ()

    def step(self) -> None:
        """A step is about to be asked for; an error raised here is the end of its walk."""

    def failed(self, error: Exception) -> None:
        """Asking failed; the walk ends."""

    def ended(self, trajectory: Trajectory) -> None:
        """A walk has ended, in whatever way."""


# Where a task runs by itself, as under `inspect eval`, nobody listens.
listener: ContextVar[Listener] = ContextVar("listener", default=Listener())  # noqa: B039 (no state)


class Keeper(Listener):
    """Writes each walk into a run.

    Args:
        results: of the run, which are told of too.
        account: of what the run spends.

    Attributes:
        heard: names of the walks that have ended in this round, in whatever way.
        why: the last error of a server.
    """

    def __init__(self, results: Results[Trajectory], account: Account) -> None:
        self.heard: set[str] = set()
        self.why = "no reason known"
        self.account: Account = account
        self._results = results
        self._broken: GoalmeterError | None = None
        self._failed_in_a_row = 0
        self._outcome = ""
        self._under_way: dict[str, None] = {}  # in the order in which they began
        # All are asked for by this process, which waits for as many answers as it may.
        results.watched.at_work = lambda: [(f"process {os.getpid()}", list(self._under_way))]

    def next_round(self) -> None:
        """Walks that failed are made again, and the server has another chance."""
        self.heard.clear()
        self._under_way.clear()
        self._failed_in_a_row = 0

    def raise_broken(self) -> None:
        """Raise here what ended the run, which Inspect would take for the end of walks.

        That is a full disk or the like, or something without which the model cannot be asked.
        """
        if broken := self._broken or self.account.broken:
            raise broken

    def begins(self, name: str) -> None:
        """Ends a walk where it begins if the server is given up, or the budget is reached."""
        self._under_way[name] = None
        self._end_if_broken()
        if self.account.reached:
            raise GivenUpError(BUDGET)
        if self._failed_in_a_row >= ENOUGH:
            raise GivenUpError(self._outcome)

    def half(self, name: str) -> tuple[Step, ...]:
        """What an earlier command left of a walk when its budget was reached."""
        walk = self.account.ledger.half.get(name)
        return () if walk is None else walk.steps

    def step(self) -> None:
        """End a walk that could not be kept, or not be asked for."""
        self._end_if_broken()
        self._results.step()

    def failed(self, error: Exception) -> None:
        """Remember what a server failed of."""
        if not isinstance(error, GivenUpError):
            self.why = reason_of(error)
        if is_ours_to_mend(error):
            self._broken = InvalidParameterError(f"the model cannot be asked: {self.why}")

    def ended(self, trajectory: Trajectory) -> None:
        """Keep a walk."""
        if self._broken is not None or self.account.broken is not None:
            return
        name = made_of(trajectory).name
        self._under_way.pop(name, None)
        try:
            if trajectory.outcome == BUDGET:
                # Not begun, it is no more than it was.
                if trajectory.steps:
                    self.account.ledger.keep_half(trajectory)
                return
            self._results.keep(name, trajectory)
        except GoalmeterError as error:
            self._broken = error
            return
        self.heard.add(name)
        self._failed_in_a_row = self._failed_in_a_row + 1 if has_failed(trajectory) else 0
        self._outcome = trajectory.outcome

    def _end_if_broken(self) -> None:
        if self._broken is not None or self.account.broken is not None:
            # Not the error itself, whose traceback would grow with each walk.
            raise GivenUpError(ERROR)
