"""Tells how many walks have ended, and what time is left."""

from __future__ import annotations

import time
from collections.abc import Callable

Progress = Callable[[str], None]
# So many walks tell how long one takes.
_FEW = 5
# Seconds between two lines at least.
_OFTEN = 1.0
_STEPS_EVERY = 10.0


class Reporter:
    """Tells of walks as they end, ever more rarely: every tenth of the time so far.

    Args:
        agent: whose walks they are.
        walks: how many there are in all.
        done: how many were there already.
        progress: is told; None tells nobody.
    """

    def __init__(self, agent: str, walks: int, done: int, progress: Progress | None) -> None:
        self._progress = progress
        self._agent = agent
        self._all = walks
        self._before = self._done = done
        self._failed = self._steps = 0
        self._begun = self._told = time.monotonic()
        if progress and done:
            progress(f"{agent}: {done} of {walks} walks were there already")

    def step(self) -> None:
        """A step is decided: said while no walk has ended, which can take models long."""
        self._steps += 1
        if self._progress is None or self._done > self._before:
            return
        now = time.monotonic()
        if now - self._told > max(_STEPS_EVERY, (now - self._begun) / 10):
            self._told = now
            self._progress(f"{self._walks()}, {self._steps} steps so far")

    def failed(self) -> None:
        """A walk was ended by its server, and is to be made again."""
        self._failed += 1

    def ended(self) -> None:
        """A walk has ended."""
        self._done += 1
        now = time.monotonic()
        often_enough = now - self._told < max(_OFTEN, (now - self._begun) / 10)
        if self._progress is None or (often_enough and self._done < self._all):
            return
        self._told = now
        here = self._done - self._before
        left = (now - self._begun) / here * (self._all - self._done)
        # The first walks may have waited for processes to start.
        known = self._done < self._all and here >= _FEW
        time_left = f", {in_words(left)} left" if known else ""
        self._progress(self._walks() + time_left)

    def _walks(self) -> str:
        failed = f", {self._failed} failed on the way" if self._failed else ""
        return f"{self._agent}: {self._done} of {self._all} walks{failed}"


def in_words(seconds: float) -> str:
    """A time as one says it: 12 s, 3 min, 2.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
