"""Progress of trials: messages while they run, and status.json, which is written once a second."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

from goalmeter._errors import GoalmeterError, json_text
from goalmeter._files import write_text
from goalmeter.runs.reading import STATUS

Tell = Callable[[str], None]
STATUS_FORMAT = 1
RUNNING, FINISHED, STOPPED = "running", "finished", "stopped"
_FEW = 5  # trials that the time left is estimated from; the first may have waited for processes
_OFTEN, _STEPS_EVERY = 1.0, 10.0  # seconds between two messages at least; of those about steps
_MOST_BATCHES, _FEW_TRIALS = 100, 3  # what is written of a thousand batches has to be little
_EVERY = 1.0  # seconds between two writes of status.json


@dataclass
class Progress:
    """Progress of trials: a message after every tenth of the time so far."""

    name: str  # whose trials they are; every message begins with it
    noun: str  # what a trial is called, in the singular
    trials: int | None  # number of trials; None where unknown: then there are no messages
    done: int = 0
    failures: int = 0
    tell: Tell | None = None
    steps: int = 0  # finished parts of trials
    state: str = RUNNING
    place: str = "here"
    # Trials that are being made: by batch, since when by a monotonic clock, and keys.
    working: Mapping[str, tuple[float, Sequence[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._before = self.done  # those that were stored already
        self._began = _now()
        self._begun = self._told = time.monotonic()
        if self.tell is not None and self.done:
            self.tell(f"{self.name}: {self.done} of {self.trials} {self.noun}s were there already")

    def step(self) -> None:
        """Count a part of a trial; there are messages only while no trial has ended."""
        self.steps += 1
        if self.done == self._before:
            self._message(_STEPS_EVERY, f", {self.steps} steps so far")

    def ended(self) -> None:
        """Count a trial that has ended."""
        self.done += 1
        left = self._seconds_left(time.monotonic() - self._begun)
        more = f", {in_words(left)} left" if left and self.done - self._before >= _FEW else ""
        self._message(0.0 if self.done == self.trials else _OFTEN, more)

    def end(self, *error: object) -> None:
        """Set the state: finished if all trials are there, otherwise stopped."""
        is_whole = self.trials is None or self.done >= self.trials
        self.state = FINISHED if is_whole and not any(error) else STOPPED

    def write(self, folder: Path) -> None:
        """Replace status.json; errors are ignored."""
        with suppress(GoalmeterError, OSError):
            write_text(folder / STATUS, json_text(self.to_json(), indent=1) + "\n")

    def to_json(self) -> dict[str, Any]:
        """Return the content of status.json, with null for what is unknown."""
        seconds, made = time.monotonic() - self._begun, self.done - self._before
        working = dict(self.working) if self.state == RUNNING else {}
        return {
            "format": STATUS_FORMAT,
            "version": sys.modules["goalmeter"].__version__,
            "name": self.name,
            "noun": self.noun,
            "total": self.trials,
            "done": self.done,
            "failed": self.failures,  # among those that are done
            "steps": self.steps,
            "made": made,  # by this command
            "seconds": round(seconds, 3),
            "rate": made / seconds if made and seconds > 0 else None,  # a second
            "left_seconds": self._seconds_left(seconds),
            "began": self._began,
            "updated": _now(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "place": self.place,
            "workers": len(working),
            "working": [
                {
                    "worker": batch,
                    "trials": list(keys[:_FEW_TRIALS]),
                    "count": len(keys),
                    "seconds": round(time.monotonic() - since, 1),
                }
                for batch, (since, keys) in list(working.items())[:_MOST_BATCHES]
            ],
            "state": self.state,
        }

    def _seconds_left(self, seconds: float) -> float | None:
        made = self.done - self._before
        return seconds / made * (self.trials - self.done) if made and self.trials else None

    def _message(self, often: float, more: str) -> None:
        now = time.monotonic()
        too_soon = now - self._told < max(often, (now - self._begun) / 10)
        if self.tell is None or self.trials is None or (often and too_soon):
            return
        self._told = now
        failed = f", {self.failures} failed" if self.failures else ""
        self.tell(f"{self.name}: {self.done} of {self.trials} {self.noun}s{failed}{more}")


def in_words(seconds: float) -> str:
    """Return a time in words, such as "12 s", "4 min" and "2.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@contextmanager
def heartbeat(beat: Callable[[], None]) -> Iterator[None]:
    """Call a function once a second in a daemon thread; what it raises is ignored."""
    ended = Event()

    def run() -> None:
        while not ended.wait(_EVERY):
            with suppress(Exception):
                beat()

    thread = Thread(target=run, name="goalmeter heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def reporting_status(folder: Path, progress: Progress) -> Iterator[None]:
    """Write the status of something that stores no trials into a folder, such as a training."""
    write = partial(progress.write, folder)
    with ExitStack() as ending:
        ending.callback(write)
        ending.push(progress.end)
        ending.enter_context(heartbeat(write))
        yield
