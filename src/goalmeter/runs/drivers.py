"""What the driver of a run said last, and whether it still fills the run.

Anybody may have edited status.json, and a driver may have been ended at any moment: what is read of
it is only shown, and each field that is not what it should be is as if it had not been said.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError
from goalmeter._files import read_bytes, reading
from goalmeter._json import JsonFields
from goalmeter.runs.owner import OWNER, STALE, is_alive
from goalmeter.runs.reading import STATUS, TRIALS
from goalmeter.runs.watching import RUNNING, STATUS_FORMAT

_MOST_BYTES = 2**20  # of status.json, which says little


@dataclass(frozen=True)
class Worker(JsonFields):
    """A worker that has trials now.

    Attributes:
        worker: its name.
        trials: keys of the first few.
        count: how many it has.
        since: wall time, as the driver said it.
        seconds: since then, when the driver last spoke.
    """

    worker: str
    trials: tuple[str, ...]
    count: int
    since: str
    seconds: float


def said_of(folder: Path) -> dict[str, Any]:
    """What status.json says, field by field as it should be; empty if there is none, or no such."""
    with suppress(OSError, ValueError, RecursionError, InvalidFileError):
        said = json.loads(read_bytes(folder / STATUS, _MOST_BYTES))
        if isinstance(said, dict) and said.get("format") == STATUS_FORMAT:
            fields = {name: said.get(name) for name in said if _is_so(name, said[name])}
            return fields | {"working": _workers(said.get("working"))}
    return {}


_NUMBERS = ("total", "done", "failed", "made", "pid", "workers")
_TEXTS = ("name", "noun", "began", "updated", "host", "place", "version", "state")


def _is_so(name: str, value: Any) -> bool:
    if name in _NUMBERS:
        return type(value) is int and 0 <= value < 2**53
    if name in ("rate", "seconds", "left_seconds"):
        return type(value) in (int, float) and 0 <= value < float("inf")
    return name in _TEXTS and isinstance(value, str)


def _workers(said: Any) -> tuple[Worker, ...]:
    workers = []
    for entry in said if isinstance(said, list) else ():
        with suppress(TypeError, KeyError, ValueError):
            keys = tuple(map(str, entry["trials"]["first"]))
            count, seconds = int(entry["trials"]["count"]), float(entry["seconds"])
            workers.append(Worker(str(entry["worker"]), keys, count, str(entry["since"]), seconds))
    return tuple(workers)


def is_filled_now(folder: Path, said: Mapping[str, Any]) -> bool:
    """Whether a process fills the run now."""
    locked = _locked(folder / TRIALS)
    if locked:
        return True
    is_here = said.get("host") == socket.gethostname()
    if locked is False and (is_here or not said):
        return False
    # A lock may hold on its own machine only, and some file systems have none.
    if said.get("state") != RUNNING:
        return _is_fresh(folder / OWNER)
    if is_here and is_alive(said.get("pid")) is False:
        return False
    return _is_fresh(folder / STATUS)


def _locked(path: Path) -> bool | None:
    """Whether a process holds the lock of a file; None where that cannot be told."""
    try:
        import fcntl

        with reading(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError, InvalidFileError):
        return None
    return False


def _is_fresh(path: Path) -> bool:
    with suppress(OSError):
        return abs(time.time() - path.stat().st_mtime) < STALE
    return False
