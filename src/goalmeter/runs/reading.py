"""Run directories, as anybody can read them.

    run.json        what the run is; it decides whether a run may be continued
    trials.jsonl    a line of JSON for each finished trial: {"key": ..., "value": ...}
    status.json     how far it is, for whoever watches; nothing depends on it
    .lock           while a process writes

A line is written as soon as its trial has ended, and to disk within a second; half a line at the
end is dropped. A key that comes twice counts once, the first time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, shown
from goalmeter._files import read_bytes, reading

RUN, TRIALS, STATUS, FORMAT = "run.json", "trials.jsonl", "status.json", 1
_MOST_BYTES = 2**26  # of run.json; one of a million grids and 100,000 seeds has ten million
_SHOWN = 60  # characters of a line in a message
_TRY = re.compile(r"(.+), failed ([1-9][0-9]{0,8})", re.DOTALL)


@dataclass(frozen=True)
class StoredRun:
    """Stored run directory."""

    folder: Path  # path
    what: dict[str, Any]  # identity of the run
    made_by: dict[str, Any]  # version of goalmeter that made it
    values: dict[str, Any]  # value of every finished trial by key, in the order of trials.jsonl
    lines: dict[str, int]  # number of its line by key, from 1


def read_run(folder: str | Path) -> StoredRun:
    """Read a run; another process may be writing to it."""
    folder = Path(folder)
    about = read_about(folder / RUN)
    values, lines, _ = read_trials(folder / TRIALS)
    return StoredRun(folder, about["what"], about["made_by"], values, lines)


def read_trials(path: Path) -> tuple[dict[str, Any], dict[str, int], int]:
    """Return the values and the line numbers of trials.jsonl by key, and its bytes in all."""
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    size = 0
    for number, (key, value, size) in enumerate(lines_of(path), start=1):  # noqa: B007
        # The first one counts: what somebody has read of a run stays true.
        if key not in values:
            values[key], lines[key] = value, number
    return values, lines, size


def keys_in(folder: str | Path) -> set[str]:
    """Return the keys of the trials in a run directory; empty if there is no run yet."""
    return {key for key, _, _ in lines_of(Path(folder) / TRIALS)}


def another_kind(folder: str | Path, there: object, expected: str) -> InvalidFileError:
    """Return the error for a run of another kind than the one that is expected."""
    return InvalidFileError(
        f"{folder} is a run of {shown(there)}, expected {expected!r}; choose another folder"
    )


def read_about(path: Path) -> dict[str, Any]:
    """Read run.json."""
    try:
        data = read_bytes(path, _MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidFileError(
            f"{path.parent} is not a run: it has no {RUN}; expected a folder that --out made"
        ) from None
    except OSError as cause:
        raise InvalidFileError(f"{path} cannot be read: {cause}") from cause
    try:
        about = json.loads(data.decode())
    except (ValueError, RecursionError) as cause:  # no JSON, too large a number, or too deep
        raise InvalidFileError(
            f"{path} is no JSON: {cause}; restore it, or begin again in another folder"
        ) from cause
    if not (isinstance(about, dict) and isinstance(about.get("what"), dict)):
        raise InvalidFileError(f"{path} does not say what the run is: its 'what' is missing")
    made_by = about.get("made_by")
    if about.get("format") != FORMAT:
        raise InvalidFileError(
            f"{path} has the format {shown(about.get('format'))}, expected {FORMAT}; read it with "
            f"the version of goalmeter that made it: {shown(made_by)}"
        )
    return about | {"made_by": made_by if isinstance(made_by, dict) else {}}


def lines_of(path: Path) -> Iterator[tuple[str, Any, int]]:
    """Give the key, value and end (in bytes) of each whole line; half a line is left out."""
    decode = json.JSONDecoder().raw_decode  # in half the time of json.loads
    end = 0
    try:
        with reading(path) as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return
                try:
                    text = line.decode().strip()
                    trial, length = decode(text)
                    key, value = trial["key"], trial["value"]
                    is_trial = isinstance(key, str) and length == len(text)
                except (ValueError, RecursionError, TypeError, KeyError):
                    is_trial = False
                if not is_trial:
                    raise InvalidFileError(
                        f"{path}, line {number}: expected a trial, an object with key and value, "
                        f"got {line.rstrip()[:_SHOWN]!r}; remove that line and its trial is played "
                        f"again"
                    )
                end += len(line)
                yield key, value, end
    except FileNotFoundError:
        return
    except OSError as cause:
        raise InvalidFileError(f"{path} cannot be read: {cause.strerror or cause}") from cause


def tries_in(stored: Collection[str]) -> list[tuple[str, int]]:
    """Return the trial and the number of each failed try among keys ("maze, failed 2")."""
    # Most runs have none: to look for the word takes no time beside the expression.
    tries = (_TRY.fullmatch(key) for key in stored if ", failed " in key)
    return [(match[1], int(match[2])) for match in tries if match]
