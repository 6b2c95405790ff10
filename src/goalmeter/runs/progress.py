"""Progress messages of trials."""

from __future__ import annotations

import time
from collections.abc import Callable

Tell = Callable[[str], None]
# Trials that the time left is estimated from; the first ones may have waited for processes.
_FEW = 5
# Seconds between two messages at least, and between two messages about steps.
_OFTEN, _STEPS_EVERY = 1.0, 10.0


class Progress:
    """Progress of trials: a message after every tenth of the time so far.

    Args:
        name: whose trials they are; every message begins with it.
        noun: what a trial is called, in the singular.
        trials: number of trials; None where unknown, and then there are no messages.
        done: trials that were stored already.
        failed: how many of those failed.
        tell: progress callback, or None.

    Attributes:
        done: trials that have ended.
        failures: trials that failed.
        steps: finished parts of trials.
    """

    def __init__(
        self, name: str, noun: str, trials: int | None, done: int, failed: int, tell: Tell | None
    ) -> None:
        self._tell = None if trials is None else tell
        self.name, self.noun, self.trials = name, noun, trials
        self._before = self.done = done
        self.failures, self.steps = failed, 0
        self._begun = self._told = time.monotonic()
        if tell is not None and done:
            tell(f"{name}: {done} of {trials} {noun}s were there already")

    @property
    def made(self) -> int:
        """Trials that have ended since the start."""
        return self.done - self._before

    @property
    def seconds(self) -> float:
        """Seconds since the start, by a monotonic clock."""
        return time.monotonic() - self._begun

    def step(self) -> None:
        """Count a part of a trial; there are messages only while no trial has ended."""
        self.steps += 1
        if self._tell is None or self.done > self._before:
            return
        now = time.monotonic()
        if now - self._told > max(_STEPS_EVERY, (now - self._begun) / 10):
            self._told = now
            self._tell(f"{self._so_far()}, {self.steps} steps so far")

    def failed(self) -> None:
        """Count a failed trial; `ended` says that it is not made again."""
        self.failures += 1

    def ended(self) -> None:
        """Count a trial that has ended."""
        self.done += 1
        if self._tell is None or self.trials is None:
            return
        now = time.monotonic()
        too_soon = now - self._told < max(_OFTEN, (now - self._begun) / 10)
        if too_soon and self.done < self.trials:
            return
        self._told = now
        left = (now - self._begun) / self.made * (self.trials - self.done)
        is_known = self.done < self.trials and self.made >= _FEW
        self._tell(self._so_far() + (f", {in_words(left)} left" if is_known else ""))

    def _so_far(self) -> str:
        failed = f", {self.failures} failed" if self.failures else ""
        return f"{self.name}: {self.done} of {self.trials} {self.noun}s{failed}"


def in_words(seconds: float) -> str:
    """Return a time in words.

    >>> [in_words(seconds) for seconds in (12.4, 240, 9000)]
    ['12 s', '4 min', '2.5 h']
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
