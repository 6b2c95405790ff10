"""Reading a run, as it is on disk; `store.py` says what it looks like."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError

RUN, TRIALS = "run.json", "trials.jsonl"
FORMAT = 1


@dataclass(frozen=True)
class StoredRun:
    """A run as it is on disk.

    Attributes:
        folder: where.
        what: what the run is.
        made_by: what it was made with, such as the version; not compared.
        values: key -> value of every finished trial, in the order in which they were finished.
    """

    folder: Path
    what: dict[str, Any]
    made_by: dict[str, Any]
    values: dict[str, Any]


def read_run(folder: str | Path) -> StoredRun:
    """A run as it is now, also while another process fills it.

    Raises:
        InvalidFileError: there is no run, or a line of it is no trial.
    """
    folder = Path(folder)
    about = read_about(folder / RUN)
    values, _ = read_trials(folder / TRIALS)
    return StoredRun(folder, about["what"], about.get("made_by", {}), values)


def read_about(path: Path) -> dict[str, Any]:
    """What run.json says.

    Raises:
        InvalidFileError: it is not there, or not ours.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidFileError(
            f"{path.parent} is no run: it has no {RUN}; expected a folder that --out made"
        ) from None
    except (OSError, UnicodeDecodeError) as cause:
        raise InvalidFileError(f"{path} cannot be read: {cause}") from cause
    try:
        about = json.loads(text)
    except (ValueError, RecursionError) as cause:  # no JSON, too large a number, or too deep
        raise InvalidFileError(
            f"{path} is no JSON: {cause}; restore it, or begin again in another folder"
        ) from cause
    if not (isinstance(about, dict) and isinstance(about.get("what"), dict)):
        raise InvalidFileError(f"{path} does not say what the run is: its 'what' is missing")
    if about.get("format") != FORMAT:
        raise InvalidFileError(
            f"{path} has the format {about.get('format')!r}, expected {FORMAT}; read it with the "
            f"version of goalmeter that made it: {about.get('made_by')}"
        )
    return about


def read_trials(path: Path) -> tuple[dict[str, Any], int]:
    """The values by key, and how many bytes of the file are whole lines.

    Raises:
        InvalidFileError: a whole line is no trial.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}, 0
    except OSError as cause:
        raise InvalidFileError(f"{path} cannot be read: {cause.strerror or cause}") from cause
    whole = data.rfind(b"\n") + 1
    values: dict[str, Any] = {}
    for number, line in enumerate(data[:whole].splitlines(), start=1):
        try:
            trial = json.loads(line)
            values.setdefault(trial["key"], trial["value"])
        except (ValueError, TypeError, KeyError, RecursionError) as cause:
            raise InvalidFileError(
                f"{path}, line {number}: expected a trial, an object with key and value, got "
                f"{line[:60]!r}; remove that line and its trial is played again"
            ) from cause
    return values, whole
