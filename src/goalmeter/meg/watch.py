"""A long search watched: what it has so far, how it goes on, and when it has to end.

A search tells its `Watch` of every step; the watch keeps the best so far, passes progress on, and
raises `TimeIsUp` from within the search's own loops once the time is over. What was reached is then
still there, with the bound that was proven for it.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from goalmeter._errors import InvalidParameterError

if TYPE_CHECKING:
    from goalmeter.meg.result import MegResult

# A terminal is told of a search that lasts, at most so often, seconds.
FIRST_WORD, NEXT_WORD = 5.0, 5.0

# From this part of a timeout on, a search also looks for bounds on its way.
_BOUND_FROM = 0.1

# What ended a search, as a note says it.
STOPPED_BY = {"timeout": "the timeout", "interrupt": "an interrupt"}

Best = TypeVar("Best")


@dataclass(frozen=True)
class Progress:
    """Where a search is.

    Attributes:
        stage: what is being done, in words.
        step: steps of this stage so far.
        value: the best value so far, nats; a lower bound on MEG.
        upper_bound: the bound so far, nats; proven.
        elapsed: seconds since the search began.
        left: seconds that it may still take at most: until the timeout, or until the last step
            that this stage may take at the pace so far. Most searches end long before.
    """

    stage: str
    step: int
    value: float
    upper_bound: float
    elapsed: float
    left: float

    def __str__(self) -> str:
        return (
            f"{self.stage}, step {self.step}: MEG {self.value:.6g} nats so far, at most "
            f"{self.upper_bound:.6g}; {duration(self.elapsed)} gone, "
            f"{duration(self.left)} left at most"
        )


Listener = Callable[[Progress], None]


class TimeIsUp(Exception):
    """Ends a search whose time is over; nobody outside this room sees it."""


class FitInterrupted(KeyboardInterrupt):
    """A search was interrupted at the keyboard; `result` is the best so far, with its bound.

    It is a `KeyboardInterrupt`, so a loop over many policies ends as well unless it is caught.
    """

    def __init__(self, result: MegResult) -> None:
        super().__init__(
            f"interrupted; the best so far is in the attribute `result`: MEG at least "
            f"{result.value:.6g} nats and at most {result.upper_bound:.6g}"
        )
        self.result = result


class Watch(Generic[Best]):
    """The time, the listener (None for silence) and the best so far of one search.

    After the timeout, in seconds from now, `check` raises; without one never.
    """

    def __init__(self, progress: Listener | None = None, timeout: float | None = None) -> None:
        number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
        if timeout is not None and not (number and timeout > 0):
            raise InvalidParameterError(
                f"timeout is {timeout!r}, expected a positive number of seconds, or None"
            )
        self.best: Best | None = None
        self._value, self._upper = -math.inf, math.inf
        self._progress = progress
        self._begun = time.monotonic()
        self._deadline = math.inf if timeout is None or timeout > 1e9 else self._begun + timeout
        self._stage, self._stage_begun = "", self._begun

    @property
    def elapsed(self) -> float:
        """Seconds since the search began."""
        return time.monotonic() - self._begun

    @property
    def left(self) -> float | None:
        """Seconds until the timeout, negative after it; None without one."""
        return None if math.isinf(self._deadline) else self._deadline - time.monotonic()

    @property
    def bound_is_due(self) -> bool:
        """Whether a bound on the way is worth its time: the search may be ended or is told of."""
        if math.isfinite(self._deadline):
            return self.elapsed > _BOUND_FROM * (self._deadline - self._begun)
        return self._progress is not None and self.elapsed > FIRST_WORD

    def check(self) -> None:
        """Raise `TimeIsUp` if it is; called from the innermost loops, so it must cost nothing."""
        if time.monotonic() > self._deadline:
            raise TimeIsUp

    def end(self) -> None:
        """The search is over: what is worked out of its best is not to be interrupted any more."""
        self._deadline = math.inf

    def tell(
        self, best: Best, value: float, upper_bound: float, *, stage: str, step: int, of: int
    ) -> None:
        """Keep what the search would return if it ended here, and tell the listener.

        `step` steps of the stage are done, `of` it may take at most; value and bound are in nats. A
        search that begins anew is not better than what came before until its value is.
        """
        if self.best is None or value >= self._value:
            self.best, self._value, self._upper = best, value, upper_bound
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._stage_begun = stage, now
        if self._progress is not None:
            pace = (now - self._stage_begun) / max(step, 1)
            left = max(min(pace * (of - step), self._deadline - now), 0.0)
            elapsed = now - self._begun
            self._progress(Progress(stage, step, self._value, self._upper, elapsed, left))


def listener(progress: Listener | bool | None) -> Listener | None:
    """What a caller's `progress` argument means (see `goalmeter.meg.unknown_utility`)."""
    # Nobody reads a log while it is written: at a terminal or in a notebook somebody does.
    if progress is None:
        progress = sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)
    if progress is False:
        return None
    if progress is True:
        return slowly(lambda line: print(line, file=sys.stderr, flush=True))
    if not callable(progress):
        raise InvalidParameterError(
            f"progress is {progress!r}, expected a function of one argument, True or False"
        )
    return progress


def slowly(tell: Callable[[str], None]) -> Listener:
    """A listener that tells a line now and then, and nothing of a search that is soon over."""
    due = FIRST_WORD

    def hear(progress: Progress) -> None:
        nonlocal due
        if progress.elapsed >= due:
            due = progress.elapsed + NEXT_WORD
            tell(str(progress))

    return hear


def duration(seconds: float) -> str:
    """Seconds in words that a waiting person can use."""
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
