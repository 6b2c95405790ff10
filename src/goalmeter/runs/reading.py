"""Read and validate the records of a run directory."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from goalmeter._errors import InvalidFileError, shown
from goalmeter._files import read_bytes, reading
from goalmeter._names import did_you_mean


@dataclass(frozen=True)
class Field:
    """Valid values of a field of a record, in words and as a test, and whether it is required."""

    expected: str
    accepts: Callable[[Any], bool]
    required: bool = True


def check_record(
    value: Any, fields: Mapping[str, Field], where: str, *, others: bool = False
) -> dict[str, Any]:
    """Return a record with valid fields; `others` says whether it may have further fields."""
    if not isinstance(value, Mapping):
        raise InvalidFileError(f"{where}: got {shown(value)}, expected an object of JSON")
    for name, key in fields.items():
        if name not in value:
            if key.required:
                raise InvalidFileError(f"{where}: {name} is missing, expected {key.expected}")
        elif not key.accepts(value[name]):
            raise InvalidFileError(
                f"{where}: {name} is {shown(value[name])}, expected {key.expected}"
            )
    if not others and (unknown := [name for name in value if name not in fields]):
        hint = did_you_mean(unknown[0], fields, quoted=True) or ";"
        raise InvalidFileError(
            f"{where}: there is no field {shown(unknown[0])}{hint} expected {', '.join(fields)}"
        )
    return dict(value)


def is_whole(value: Any, least: int, most: int) -> bool:
    """Return whether a value is an integer in a range; true and false are not."""
    return type(value) is int and least <= value <= most


def is_number(value: Any, most: float) -> bool:
    """Return whether a value is a number of at most some finite size."""
    return type(value) in (int, float) and bool(abs(value) <= most)


def whole(least: int, most: int, *, or_null: bool = False, required: bool = True) -> Field:
    """Return a field for an integer in a range."""
    words = f"a whole number from {least} to {most}" + " or null" * or_null
    return Field(words, lambda v: (or_null and v is None) or is_whole(v, least, most), required)


def word(*known: str, required: bool = True) -> Field:
    """Return a field for one of some words."""
    return Field(f"one of {', '.join(map(repr, known))}", lambda value: value in known, required)


def listed(what: str, accepts: Callable[[Any], bool], *, most: int) -> Field:
    """Return a field for a list of different hashable values, which `what` names in words."""

    def fits(value: Any) -> bool:
        is_list = isinstance(value, list) and 1 <= len(value) <= most
        return is_list and all(map(accepts, value)) and len(set(value)) == len(value)

    return Field(f"a list of 1 to {most} different {what}", fits)


# --- Runs -----------------------------------------------------------------------------------------
RUN, TRIALS = "run.json", "trials.jsonl"
FORMAT = 1
# Of run.json; one of a million grids and a hundred thousand seeds has ten.
MOST_BYTES = 2**26
_AT_ONCE = 500  # lines that are read together, in half the time
_SHOWN = 60  # characters of a line in a message
_TRY = re.compile(r"(.+), failed ([1-9][0-9]{0,8})", re.DOTALL)


@dataclass(frozen=True)
class StoredRun:
    """A run directory."""

    folder: Path  # path
    what: dict[str, Any]  # identity of the run
    made_by: dict[str, Any]  # version of goalmeter that made it
    values: dict[str, Any]  # value of every finished trial by key, in the order of trials.jsonl
    lines: Mapping[str, int] = field(default_factory=dict)  # number of its line by key, from 1


class Line(NamedTuple):
    """A whole line of trials.jsonl: its number of bytes, its key and its value."""

    size: int
    key: str
    value: Any


def read_run(folder: str | Path) -> StoredRun:
    """Read a run, also while another process writes to it."""
    folder = Path(folder)
    about = read_about(folder / RUN)
    values, lines, _ = read_trials(folder / TRIALS)
    return StoredRun(folder, about["what"], about["made_by"], values, lines)


def read_trials(path: Path) -> tuple[dict[str, Any], dict[str, int], int]:
    """Return the values and the line numbers of trials.jsonl by key, and its bytes in all."""
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    size = 0
    for number, line in enumerate(lines_of(path), start=1):
        size += line.size
        # The first one counts: what somebody has read of a run stays true.
        if line.key not in values:
            values[line.key], lines[line.key] = line.value, number
    return values, lines, size


def keys_in(folder: str | Path) -> set[str]:
    """Return the keys that a run directory holds; none where there is no run yet."""
    return {line.key for line in lines_of(Path(folder) / TRIALS)}


def another_kind(folder: str | Path, there: object, expected: str) -> InvalidFileError:
    """Return the error for a run of another kind than the one that is expected."""
    return InvalidFileError(
        f"{folder} is a run of {shown(there)}, expected {expected!r}; choose another folder"
    )


def read_about(path: Path) -> dict[str, Any]:
    """Read run.json."""
    try:
        about = json.loads(read_bytes(path, MOST_BYTES).decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidFileError(
            f"{path.parent} is no run: it has no {RUN}; expected a folder that --out made"
        ) from None
    except OSError as cause:
        raise InvalidFileError(f"{path} cannot be read: {cause}") from cause
    except InvalidFileError:  # it is no file, or too large
        raise
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


def lines_of(path: Path) -> Iterator[Line]:
    """Give the whole lines of trials.jsonl; half a line at the end is left out."""
    number = 1
    try:
        with reading(path) as file, without_collections():
            while texts := [text for text in islice(file, _AT_ONCE) if text.endswith(b"\n")]:
                for text, trial in zip(texts, _trials(texts, path, number), strict=True):
                    yield Line(len(text), trial["key"], trial["value"])
                number += len(texts)
    except FileNotFoundError:
        return
    except OSError as cause:
        raise InvalidFileError(f"{path} cannot be read: {cause.strerror or cause}") from cause


def _trials(texts: list[bytes], path: Path, number: int) -> list[dict[str, Any]]:
    """Return the trials of some lines, of which the first has this number."""
    with suppress(ValueError, RecursionError):
        trials: list[Any] = json.loads(b"[" + b",".join(texts) + b"]")
        if len(trials) == len(texts) and all(map(_is_trial, trials)):
            return trials
    if len(texts) > 1:  # which of them is it?
        return [t for n, text in enumerate(texts, number) for t in _trials([text], path, n)]
    raise InvalidFileError(
        f"{path}, line {number}: expected a trial, an object with key and value, got "
        f"{texts[0].rstrip()[:_SHOWN]!r}; remove that line and its trial is played again"
    )


def _is_trial(trial: Any) -> bool:
    return isinstance(trial, dict) and isinstance(trial.get("key"), str) and "value" in trial


@contextmanager
def without_collections() -> Iterator[None]:
    """Disable garbage collection, which takes half of the time of reading a million values."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def try_key(key: str, number: int) -> str:
    """Return the key of a failed try of a trial, such as "maze, failed 2"."""
    return f"{key}, failed {number}"


def tries_in(stored: Collection[str]) -> list[tuple[str, int]]:
    """Return the trial and the number of each failed try among the keys of a run."""
    # Most runs have none: to look for the word takes no time beside the expression.
    tries = (_TRY.fullmatch(key) for key in stored if ", failed " in key)
    return [(match[1], int(match[2])) for match in tries if match]
