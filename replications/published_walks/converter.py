"""Read the published steps of GPT-OSS-20B in rooms with a key and a door.

The files are data/behavioral_probes/trajectory_instances_recomputed_optimal of the repository
SPAR-Telos/reveng: trajectory_failure_modes (.json or .csv) has every step of every trajectory, and
trajectory_probe_instances those that were selected, mostly for failures.

As a converter:
    goalmeter navigate gpt-oss-20b --walks FILE.json
        --converter replications/published_walks/converter.py:walks
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from goalmeter import InvalidFileError

FILE = "trajectory_failure_modes"


class PublishedStep(NamedTuple):
    """One step; sets of actions and classes are as published, None where they are missing."""

    trajectory: str
    number: int
    rows: list[str]  # drawing of the grid before the action
    carrying: bool
    action: str
    optimal: frozenset[str] | None
    legacy: frozenset[str] | None  # by the first version of their planner
    modes: tuple[str, ...]  # names of failures
    selected: bool
    published_class: str
    length: int  # steps of its trajectory
    stored_distance: int  # of a shortest path, as stored with the trajectory


def steps(path: Path) -> Iterator[PublishedStep]:
    """Yield the steps of a file, or of the file of all steps in a folder."""
    path = Path(path)
    if path.is_dir():
        found = [file for kind in ("json", "csv") if (file := path / f"{FILE}.{kind}").is_file()]
        if not found:
            raise InvalidFileError(
                f"{path} has no {FILE}.json or .csv; give the folder that has it"
            )
        path = found[0]
    for number, row in enumerate(_rows(path)):
        try:
            yield _step(row)
        except (KeyError, TypeError, ValueError) as cause:
            raise InvalidFileError(
                f"{path}, step {number}: {type(cause).__name__}: {cause}; expected the fields of "
                f"{FILE}"
            ) from cause


def walks(path: Path) -> Iterator[dict[str, Any]]:
    """Yield complete trajectories as records of `gm.navigation.from_walks`."""
    for each in complete(steps(path)):
        yield {
            "name": each[0].trajectory,
            "grid_id": each[0].trajectory,
            "grid": each[0].rows,
            "carrying": each[0].carrying,
            "actions": [step.action for step in each],
            "states": [{"grid": step.rows, "carrying": step.carrying} for step in each],
        }


def complete(published: Iterator[PublishedStep]) -> Iterator[list[PublishedStep]]:
    """Yield the steps of each trajectory of which none is missing."""
    by_trajectory: dict[str, list[PublishedStep]] = {}
    for step in published:
        by_trajectory.setdefault(step.trajectory, []).append(step)
    for each in by_trajectory.values():
        each.sort(key=lambda step: step.number)
        if [step.number for step in each] == [*range(each[0].length)]:
            yield each


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix != ".csv":
        yield from json.loads(path.read_text(encoding="utf-8"))
        return
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _step(row: dict[str, Any]) -> PublishedStep:
    # Columns of JSON have a name of their own in the CSV.
    values = {name.removesuffix("_json"): value for name, value in row.items()}

    def listed(name: str) -> list[str] | None:
        value = values.get(name)
        return (json.loads(value) if value else None) if isinstance(value, str) else value

    optimal, legacy = (listed(f"{prefix}optimal_actions") for prefix in ("", "legacy_"))
    return PublishedStep(
        trajectory=values["trajectory_id"],
        number=int(values["step_index"]),
        # The first line and the first word of each other line number the columns and the rows.
        rows=["".join(line.split()[1:]) for line in values["grid_text"].splitlines()[1:]],
        carrying=str(values["carrying_key"]) == "True",
        action=values["observed_action"],
        optimal=None if optimal is None else frozenset(optimal),
        legacy=None if legacy is None else frozenset(legacy),
        modes=tuple(listed("failure_modes") or ()),
        selected=str(values["selected_for_probe"]) == "True",
        published_class=values["trajectory_class"],
        length=int(values["trajectory_actual_length"]),
        stored_distance=int(values["stored_astar_distance"]),
    )
