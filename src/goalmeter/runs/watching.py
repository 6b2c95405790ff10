"""What a driver says of its run while it fills it: status.json, written about once a second.

    format, version       of this file, and of goalmeter
    name, noun            whose trials they are, and what one is called
    total, done, failed   trials: in all (null where nobody knows yet), finished, of these failed
    steps                 parts of trials, where those are told
    made, seconds, rate   trials that this command has made, in what time, and a second
    left_seconds          at that rate; null while it is not known
    began, updated        wall times, which are shown and nothing else
    host, pid, place      where the driver runs, and where the trials do
    workers, working      how many work, and for the first of them the trials and since when
    state                 "running", "finished" or "stopped"

It decides nothing: what is finished is what trials.jsonl holds. Times are taken from a clock that
nobody sets, so a wall clock that jumps changes no rate.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from goalmeter._text import json_text
from goalmeter.runs.heartbeat import Heartbeat
from goalmeter.runs.progress import Progress
from goalmeter.runs.reading import STATUS

STATUS_FORMAT = 1
RUNNING, FINISHED, STOPPED = "running", "finished", "stopped"
# A status is written every second: what of a thousand workers is said has to be little.
_MOST_WORKERS, _FEW_TRIALS = 100, 3

# The workers that have trials now, each with the keys of those.
AtWork = Callable[[], Iterable[tuple[str, Sequence[str]]]]


class Watched:
    """What is said of a run: made by the driver's thread, and asked by another.

    Args:
        progress: counts the trials.

    Attributes:
        place: where trials run, as it is spelled.
        at_work: who works on what; by default this process, on trials unknown.
        state: as the file has it.
    """

    def __init__(self, progress: Progress) -> None:
        self.place = "here"
        self.at_work: AtWork = lambda: [(f"process {os.getpid()}", ())]
        self.state = RUNNING
        self._progress = progress
        self._began = time.time()
        self._since: dict[tuple[str, str, int], float] = {}

    def ended(self, *error: object) -> None:
        """The run is left: finished if all is there, and else stopped."""
        counted = self._progress
        whole = counted.trials is None or counted.done >= counted.trials
        self.state = FINISHED if whole and not any(error) else STOPPED

    def to_json(self) -> dict[str, Any]:
        """What status.json says now."""
        counted, wall = self._progress, time.time()
        seconds, made = counted.seconds, counted.made
        rate = made / seconds if made and seconds > 0 else None
        left = None
        if rate is not None and counted.trials is not None:
            left = (counted.trials - counted.done) / rate
        working = self._working() if self.state == RUNNING else []
        return {
            "format": STATUS_FORMAT,
            "version": sys.modules["goalmeter"].__version__,
            "name": counted.name,
            "noun": counted.noun,
            "total": counted.trials,
            "done": counted.done,
            "failed": counted.failures,
            "steps": counted.steps,
            "made": made,
            "seconds": round(seconds, 3),
            "rate": rate,
            "left_seconds": left,
            "began": in_utc(self._began),
            "updated": in_utc(wall),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "place": self.place,
            "workers": len(working),
            "working": working[:_MOST_WORKERS],
            "state": self.state,
        }

    def _working(self) -> list[dict[str, Any]]:
        # A place may be ending its workers just now, or be another package's that tells nothing.
        try:
            now_working = [(worker, list(keys)) for worker, keys in self.at_work()]
        except Exception:
            return []
        now, wall = time.monotonic(), time.time()
        before, self._since = self._since, {}
        said = []
        for worker, keys in now_working:
            # A worker that has the same trials as a second ago has not begun anew.
            same = (worker, keys[0] if keys else "", len(keys))
            since = self._since[same] = before.get(same, now)
            said.append(
                {
                    "worker": worker,
                    "trials": {"first": keys[:_FEW_TRIALS], "count": len(keys)},
                    "since": in_utc(wall - (now - since)),
                    "seconds": round(now - since, 1),
                }
            )
        return said


@contextmanager
def told(folder: Path, progress: Progress) -> Iterator[Watched]:
    """Say in a folder how far something is that keeps no trials, until the block is left."""
    watched = Watched(progress)

    def beat() -> None:
        with suppress(OSError):
            write_status(folder, watched.to_json())

    heart = Heartbeat(beat)
    heart.start()
    error: BaseException | None = None
    try:
        yield watched
    except BaseException as raised:
        error = raised
        raise
    finally:
        watched.ended(error)
        heart.stop()
        beat()


def write_status(folder: Path, status: Mapping[str, Any]) -> None:
    """Replace status.json atomically, without forcing it to disk."""
    fresh = folder / f".{STATUS}.{os.getpid()}"
    try:
        fresh.write_text(json_text(dict(status), indent=1) + "\n", encoding="utf-8")
        fresh.replace(folder / STATUS)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise


def in_utc(seconds: float) -> str:
    """A wall time as ISO 8601 has it, in UTC and to the second.

    >>> in_utc(0.0)
    '1970-01-01T00:00:00Z'
    """
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(seconds))
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
