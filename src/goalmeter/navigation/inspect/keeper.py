"""Keeps walks of a language model as they end, and gives a server up that fails all of them."""

from __future__ import annotations

from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter.navigation.inspect.failures import (
    ERROR,
    FAILURES,
    GivenUpError,
    is_ours_to_mend,
    reason_of,
)
from goalmeter.navigation.inspect.samples import made_of
from goalmeter.navigation.kept import keep
from goalmeter.navigation.progress import Reporter
from goalmeter.navigation.record import Trajectory
from goalmeter.runs import RunStore

# When so many walks in a row were failed by the server, the others of the round are not begun: each
# would wait for its retries in vain.
ENOUGH = 20


class Keeper:
    """A listener that writes each walk into a run.

    Args:
        store: the run.
        report: is told as well.

    Attributes:
        heard: names of the walks that have ended in this round, in whatever way.
        why: the last error of a server.
    """

    def __init__(self, store: RunStore, report: Reporter) -> None:
        self.heard: set[str] = set()
        self.why = "no reason known"
        self._store = store
        self._report = report
        self._broken: GoalmeterError | None = None
        self._failed_in_a_row = 0
        self._outcome = ""

    def next_round(self) -> None:
        """Walks that failed are made again, and the server has another chance."""
        self.heard.clear()
        self._failed_in_a_row = 0

    def raise_broken(self) -> None:
        """Raise here what ended the run, which Inspect would take for the end of walks.

        Raises:
            InvalidFileError: the disk is full, or the like.
            InvalidParameterError: something is missing without which the model cannot be asked.
        """
        if self._broken is not None:
            raise self._broken

    def begins(self) -> None:
        """End a walk where it begins if the server is given up."""
        self._end_if_broken()
        if self._failed_in_a_row >= ENOUGH:
            raise GivenUpError(self._outcome)

    def step(self) -> None:
        """End a walk that could not be kept, or not be asked for."""
        self._end_if_broken()
        self._report.step()

    def failed(self, error: Exception) -> None:
        """Remember what a server failed of."""
        if not isinstance(error, GivenUpError):
            self.why = reason_of(error)
        if is_ours_to_mend(error):
            self._broken = InvalidParameterError(f"the model cannot be asked: {self.why}")

    def ended(self, trajectory: Trajectory) -> None:
        """Keep a walk."""
        if self._broken is not None:
            return
        name = made_of(trajectory).name
        try:
            keep(self._store, name, trajectory)
        except GoalmeterError as error:
            self._broken = error
            return
        self.heard.add(name)
        if trajectory.outcome in FAILURES:
            self._failed_in_a_row += 1
            self._outcome = trajectory.outcome
            self._report.failed()
        else:
            self._failed_in_a_row = 0
            self._report.ended()

    def _end_if_broken(self) -> None:
        if self._broken is not None:
            # Not the error itself, whose traceback would grow with each walk.
            raise GivenUpError(ERROR)
