"""The keys of a run's lines, without their values: what can be told of a million trials at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from goalmeter.runs.reading import no_trial, whole_lines

# How the store writes a line. A quote inside a key has a backslash before it, so that the first of
# these ends the key.
_BEFORE, _BEHIND = b'{"key": "', b'", "value": '
_TRY = re.compile(r"(.+), failed [1-9]\d*", re.DOTALL)


class Counted(NamedTuple):
    """How many trials a run holds.

    Attributes:
        done: trials that have ended.
        tries: trials that have not, and of which there are tries that failed.
    """

    done: int
    tries: int


def keys_of(path: Path) -> Iterator[str]:
    """The keys of the lines of trials.jsonl, in their order; one that comes twice twice.

    Values are not looked at, where a line is as the store writes it.
    """
    for number, line in enumerate(whole_lines(path), start=1):
        end = line.find(_BEHIND)
        if line.startswith(_BEFORE) and end > 0 and line.endswith(b"}\n"):
            key = line[len(_BEFORE) : end]
            if b"\\" not in key:  # most keys are spelled as they are
                try:
                    yield key.decode()
                except UnicodeDecodeError as cause:
                    raise no_trial(path, number, line) from cause
                continue
        try:
            trial = json.loads(line)
            if not isinstance(trial["key"], str) or "value" not in trial:
                raise TypeError("it has no key or no value")
        except (ValueError, TypeError, KeyError, RecursionError) as cause:
            raise no_trial(path, number, line) from cause
        yield trial["key"]


def counted(path: Path) -> Counted:
    """How many trials trials.jsonl holds."""
    keys = set(keys_of(path))
    # Most runs have none: to look for the word takes no time beside the expression.
    tried = [match for key in keys if ", failed " in key and (match := _TRY.fullmatch(key))]
    without = {match[1] for match in tried if match[1] not in keys}
    return Counted(len(keys) - len(tried), len(without))


def try_key(key: str, number: int) -> str:
    """The key of a try that failed, beside that of its trial.

    >>> try_key("maze", 2)
    'maze, failed 2'
    """
    return f"{key}, failed {number}"
