"""What a run folder holds of walks: those that ended, and what went wrong on the way to them.

A walk is kept under its key when it has ended, and then stands. One that its server failed is kept
as a try under a key of its own, "KEY, failed 1", "KEY, failed 2", ..., so that it can be made again
and nothing is overwritten. Where a walk has not ended yet, its last try counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from goalmeter._errors import GoalmeterError, InvalidFileError, InvalidTrajectoryError
from goalmeter.navigation.inspect.failures import FAILURES
from goalmeter.navigation.inspect.samples import made_of
from goalmeter.navigation.record import Trajectory
from goalmeter.navigation.suites.tasks import Task
from goalmeter.runs import RunStore
from goalmeter.runs.reading import TRIALS


def ended_walks(
    values: Mapping[str, Any],
    wanted: Mapping[str, tuple[Task, int]],
    folder: str | Path,
    lines: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, Trajectory]:
    """The walks that have ended, by their keys.

    Args:
        values: of the run.
        wanted: the walks of its plan, by their keys.
        folder: of the run, for the error.
        lines: numbers of the lines that they stand in, where they are known, for the error.

    Raises:
        InvalidFileError: a line is no trajectory, or not of the walk that its key names.
    """
    return {
        key: _trajectory(values[key], key, walk, folder, lines)
        for key, walk in wanted.items()
        if key in values
    }


def failed_walks(
    values: Mapping[str, Any],
    wanted: Mapping[str, tuple[Task, int]],
    folder: str | Path,
    lines: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, Trajectory]:
    """The last try of each walk that has not ended, by the walk's key.

    Raises:
        InvalidFileError: a line is no trajectory, or not of the walk that its key names.
    """
    out = {}
    for key, walk in wanted.items():
        tries = _tries(values, key)
        if key not in values and tries:
            last = _failed(key, tries)
            out[key] = _trajectory(values[last], last, walk, folder, lines)
    return out


def keep(store: RunStore, key: str, trajectory: Trajectory) -> None:
    """Keep a walk as one that ended, or as a try that failed, by its outcome.

    Raises:
        InvalidFileError: the disk is full, or the like.
    """
    if trajectory.outcome in FAILURES:
        key = _failed(key, _tries(store.values, key) + 1)
    store.add(key, trajectory.to_json())


def failures(trajectories: Iterable[Trajectory]) -> dict[str, int]:
    """How many walks were ended by their server, by outcome."""
    return dict(Counter(t.outcome for t in trajectories if t.outcome in FAILURES))


def _failed(key: str, number: int) -> str:
    return f"{key}, failed {number}"


def _tries(values: Mapping[str, Any], key: str) -> int:
    """How many tries of a walk failed."""
    number = 0
    while _failed(key, number + 1) in values:
        number += 1
    return number


def _trajectory(
    value: Any,
    key: str,
    walk: tuple[Task, int],
    folder: str | Path,
    lines: Mapping[str, int],
) -> Trajectory:
    try:
        read = Trajectory.from_json(value)
        # Tables go by its labels, so in an edited file they could file it under another world.
        if made_of(read) != walk:
            raise InvalidTrajectoryError("its labels, world or cap are those of another walk")
        return read
    except GoalmeterError as cause:
        where = f"{Path(folder) / TRIALS}" + (f", line {lines[key]}" if key in lines else "")
        raise InvalidFileError(
            f"{where}, the walk {key!r}: {cause}; remove its line from {TRIALS} and it is taken "
            f"again"
        ) from cause
