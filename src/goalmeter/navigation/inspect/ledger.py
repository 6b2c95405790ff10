"""What was asked of a model in a run: a file that only grows, of which the spending is recomputed.

`RUN/asked.jsonl` has a line for each event, of three kinds:

    {"calls": 1}                                  a request is about to be sent
    {"input_tokens": 812, "output_tokens": 95}    its answer is here
    {"half": KEY, "walk": {...}}                  the budget ended a walk half-way

What a run has spent is the sum of the lines. A request is written down before it is sent, so one
that was on its way when the process was killed counts as a call; what its answer would have cost
nobody knows. A torn last line is left out.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from goalmeter._errors import GoalmeterError, InvalidFileError
from goalmeter._files import read_bytes
from goalmeter._text import json_text
from goalmeter.navigation.asking.spending import Spent
from goalmeter.navigation.inspect.samples import made_of
from goalmeter.navigation.record import Trajectory

ASKED = "asked.jsonl"
_HALF, _WALK = "half", "walk"
_COUNTS = ("calls", "input_tokens", "output_tokens")


class Ledger:
    """The file of a run, open for more; only the process that fills the run writes it.

    Args:
        folder: of the run, which is there.

    Attributes:
        spent: by all commands so far.
        half: walks that a budget ended half-way, by their keys, the last state of each.
    """

    def __init__(self, folder: str | Path) -> None:
        self._path = Path(folder) / ASKED
        self.spent, self.half, whole = _read(self._path)
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            os.ftruncate(self._file, whole)
        except OSError as cause:
            raise self._unwritable(cause) from cause

    def close(self) -> None:
        """Close the file; the disk is told to keep it."""
        with suppress(OSError):  # of a file system that cannot
            os.fsync(self._file)
        os.close(self._file)

    def called(self) -> None:
        """A request is about to be sent."""
        self._add({"calls": 1})
        self.spent += Spent(calls=1)

    def answered(self, usage: Spent) -> None:
        """An answer has come that took so many tokens."""
        self._add({"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens})
        self.spent += usage

    def keep_half(self, walk: Trajectory) -> None:
        """Keep what there is of a walk; it goes on from there."""
        name = made_of(walk).name
        self._add({_HALF: name, _WALK: walk.to_json()})
        self.half[name] = walk

    def _add(self, event: dict[str, Any]) -> None:
        line = (json_text(event) + "\n").encode()
        try:
            written = os.write(self._file, line)
            if written < len(line):  # a disk that is just full takes a part
                os.ftruncate(self._file, os.fstat(self._file).st_size - written)
                raise OSError("no space left on the disk")
        except OSError as cause:
            raise self._unwritable(cause) from cause

    def _unwritable(self, cause: OSError) -> InvalidFileError:
        return InvalidFileError(
            f"{self._path} cannot be written: {cause.strerror or cause}; make room, and the same "
            f"goes on from what is kept"
        )


def spent_in(folder: str | Path) -> Spent:
    """What the commands that worked on a run have spent."""
    return _read(Path(folder) / ASKED)[0]


def _read(path: Path) -> tuple[Spent, dict[str, Trajectory], int]:
    """The sum of a file, the half walks in it, and how many of its bytes are whole lines."""
    try:
        data = read_bytes(path)
    except FileNotFoundError:
        return Spent(), {}, 0
    except OSError as cause:
        raise InvalidFileError(f"{path} cannot be read: {cause.strerror or cause}") from cause
    whole = data.rfind(b"\n") + 1
    totals, half = dict.fromkeys(_COUNTS, 0), {}
    for number, line in enumerate(data[:whole].split(b"\n")[:-1], start=1):
        try:
            event = json.loads(line)
            if _HALF in event:
                half[str(event[_HALF])] = Trajectory.from_json(event[_WALK])
                continue
            for name, count in event.items():
                if name not in totals or type(count) is not int or count < 0:
                    raise ValueError(f"{name} is {count!r}")
                totals[name] += count
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as cause:
            if isinstance(cause, GoalmeterError):
                raise InvalidFileError(f"{path}, line {number}: {cause}") from cause
            raise InvalidFileError(
                f"{path}, line {number}: expected calls, tokens or half a walk, got "
                f"{line[:60]!r}; remove that line, and what it counted is not counted"
            ) from cause
    return Spent(**totals), half, whole
