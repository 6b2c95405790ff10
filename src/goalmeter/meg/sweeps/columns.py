"""What was measured of the rows of a chunk: columns, small enough that a million rows are few.

As JSON, a column of numbers is one text with spaces between them, of which Python keeps a tenth of
what it would keep of as many numbers. Sentences, which many rows share, stand in a list once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from goalmeter._errors import InvalidFileError
from goalmeter._text import shown
from goalmeter.meg.result import MegResult
from goalmeter.report.numbers import general
from goalmeter.runs.checks import Field, check_record, text

CERTIFIED, OPEN, FAILED = "certified", "open", "failed"
STATUSES = (CERTIFIED, OPEN, FAILED)
NUMBERS = ("value", "upper_bound", "maximum", "rationality", "bound_size")
_WORDS = ("method", "note")
_BETWEEN = "; "
_RECORD = {
    "worlds": Field("a list", lambda value: isinstance(value, list)),
    **dict.fromkeys((*NUMBERS, *_WORDS), text()),
    "status": text(),
    "words": Field(
        "a list of texts",
        lambda value: isinstance(value, list) and all(isinstance(word, str) for word in value),
    ),
}


@dataclass(frozen=True)
class WorldFacts:
    """What is known of a world once it was made.

    Attributes:
        states: how many.
        actions: how many.
        horizon: decisions; None for the infinite problem.
        discount: in (0, 1].
        digest: of its arrays, see `sources.world_digest`.
    """

    states: int
    actions: int
    horizon: int | None
    discount: float
    digest: str


@dataclass(frozen=True)
class Measured:
    """One row as it was measured; numbers of one that failed are NaN."""

    status: str
    value: float = math.nan
    upper_bound: float = math.nan
    maximum: float = math.nan
    rationality: float = math.nan
    bound_size: float = math.nan
    method: str = ""
    note: str = ""

    @property
    def fraction(self) -> float:
        """Value / maximum, in [0, 1]; 0 where no decision can matter, NaN of a row that failed."""
        if math.isnan(self.value):
            return math.nan
        return min(self.value / self.maximum, 1.0) if self.maximum > 0 else 0.0


@dataclass(frozen=True, eq=False)
class Columns:
    """The rows of a chunk, column by column.

    Attributes:
        worlds: what is known of each world of the chunk; None of one that could not be made.
        record: the columns as JSON values, by name.
    """

    worlds: Sequence[WorldFacts | None]
    record: Mapping[str, Any] = field(repr=False)

    def __len__(self) -> int:
        return len(self.record["status"])

    def numbers(self, name: str) -> list[float]:
        """A column of `NUMBERS`; NaN in rows that failed."""
        return [float(number) for number in self.record[name].split()]

    def statuses(self) -> list[str]:
        """The status of each row."""
        return [_STATUS[letter] for letter in self.record["status"]]

    def words(self, name: str) -> list[str]:
        """The column "method" or "note"."""
        said: list[str] = self.record["words"]
        return [said[int(number)] for number in self.record[name].split()]

    def rows(self) -> list[Measured]:
        """Every row."""
        return [
            Measured(*cells)
            for cells in zip(
                self.statuses(),
                *map(self.numbers, NUMBERS),
                *map(self.words, _WORDS),
                strict=True,
            )
        ]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return dict(self.record)


_STATUS = {status[0]: status for status in STATUSES}


def columns_of(worlds: Sequence[WorldFacts | None], rows: Sequence[Measured]) -> Columns:
    """The columns of some rows."""
    words: dict[str, int] = {}
    record: dict[str, Any] = {
        "worlds": [None if world is None else list(vars(world).values()) for world in worlds]
    }
    for name in NUMBERS:
        record[name] = " ".join(repr(float(getattr(row, name))) for row in rows)
    for name in _WORDS:
        numbers = [words.setdefault(getattr(row, name), len(words)) for row in rows]
        record[name] = " ".join(map(str, numbers))
    record["status"] = "".join(row.status[0] for row in rows)
    return Columns(worlds, record | {"words": list(words)})


def columns_from_json(value: Any, *, rows: int, worlds: int) -> Columns:
    """The columns that `to_json` was of.

    Args:
        value: JSON values, which may come from a file that anybody edited.
        rows: how many there have to be.
        worlds: the same of worlds.
    """
    record = check_record(value, _RECORD, "the rows")
    try:
        facts = [None if entry is None else _facts(*entry) for entry in record["worlds"]]
        out = Columns(facts, record)
        lengths = {len(facts) - worlds, *(len(out.numbers(name)) - rows for name in NUMBERS)}
        lengths |= {len(out.words(name)) - rows for name in _WORDS} | {len(out.statuses()) - rows}
    except (ValueError, TypeError, LookupError, OverflowError) as cause:
        raise InvalidFileError(f"its columns cannot be read: {shown(str(cause))}") from cause
    if lengths != {0}:
        raise InvalidFileError(
            f"its columns are not of {rows} rows in {worlds} worlds, as its key has it"
        )
    return out


def measured(result: MegResult) -> Measured:
    """A row of what was measured."""
    notes = list(result.notes)
    if not result.certified:
        ended = f" when the {result.stopped} ended the search" if result.stopped else ""
        notes.insert(
            0,
            f"the optimum is not certified: the bound was {general(result.gap, 2)} nats above the "
            f"value{ended}",
        )
    return Measured(
        CERTIFIED if result.certified else OPEN,
        result.value,
        result.upper_bound,
        result.maximum,
        result.rationality,
        result.bound_size,
        result.method,
        _BETWEEN.join(notes),
    )


def failed(sentence: str) -> Measured:
    """A row that could not be measured, and why."""
    return Measured(FAILED, note=sentence)


def _facts(
    states: int, actions: int, horizon: int | None, discount: float, digest: str
) -> WorldFacts:
    return WorldFacts(
        int(states),
        int(actions),
        None if horizon is None else int(horizon),
        float(discount),
        digest,
    )
