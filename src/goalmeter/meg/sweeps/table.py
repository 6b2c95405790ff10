"""Results of a sweep: rows as columns, summaries with intervals, and CSV or Parquet files."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from itertools import chain, islice, product
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from goalmeter._errors import InvalidFileError, MissingExtraError, encodable, shown
from goalmeter._files import json_value, replacing
from goalmeter._types import FloatArray
from goalmeter.meg.result import json_number
from goalmeter.meg.sweeps.plan import SweepPlan
from goalmeter.meg.sweeps.worlds import spelled
from goalmeter.report.numbers import nats, percent
from goalmeter.report.tables import data_frame, html_table, text_table
from goalmeter.statistics.clusters import Estimate, estimate

CERTIFIED, OPEN, FAILED = "certified", "open", "failed"
_STATUSES = {name[0]: name for name in (CERTIFIED, OPEN, FAILED)}
NUMBERS = ("value", "upper_bound", "maximum", "rationality", "bound_size")
_TEXTS = ("method", "note")


# --- Rows as columns ------------------------------------------------------------------------------
class WorldFacts(NamedTuple):
    """Size of a world, and the digest of its arrays."""

    states: int
    actions: int
    horizon: int | None  # decisions; None for the infinite problem
    discount: float
    digest: str  # see `worlds.world_digest`


class SweepValues(NamedTuple):
    """The measured numbers of one row; NaN where it failed."""

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


# A chunk keeps its rows column by column, each of them one text with a cell for each row:
#   worlds           the `WorldFacts` of each world as a list; None for one that could not be made
#   value, ...       the `NUMBERS`, NaN in rows that failed
#   status           the first letters
#   method, note     places in `words`, which has each sentence once
Columns = Mapping[str, Any]


def columns_of(worlds: Sequence[WorldFacts | None], rows: Sequence[SweepValues]) -> Columns:
    """Return the columns of some rows, which are JSON."""
    cells = dict(zip(SweepValues._fields, zip(*rows, strict=True), strict=True))
    words: dict[str, int] = {}
    out: dict[str, Any] = {"worlds": [None if world is None else list(world) for world in worlds]}
    out |= {name: " ".join(repr(float(number)) for number in cells[name]) for name in NUMBERS}
    for name in _TEXTS:
        out[name] = " ".join(str(words.setdefault(text, len(words))) for text in cells[name])
    return out | {"status": "".join(status[0] for status in cells["status"]), "words": list(words)}


def rows_of(columns: Columns) -> Iterator[tuple[WorldFacts | None, SweepValues]]:
    """Yield every row, and its world."""
    facts = [None if entry is None else _facts(*entry) for entry in columns["worlds"]]
    each = len(columns["status"]) // len(facts)
    numbers = (map(float, columns[name].split()) for name in NUMBERS)
    texts = ([columns["words"][int(place)] for place in columns[name].split()] for name in _TEXTS)
    rows = zip(columns["status"], *numbers, *texts, strict=True)
    for row, (letter, *values) in enumerate(rows):
        yield facts[row // each], SweepValues(_STATUSES[letter], *values)


def _facts(states: Any, actions: Any, horizon: Any, discount: Any, name: Any) -> WorldFacts:
    decisions = None if horizon is None else int(horizon)
    return WorldFacts(int(states), int(actions), decisions, float(discount), str(name))


def checked_columns(value: Any, rows: int, worlds: int) -> Columns:
    """Return columns that a run stores, if they are of so many rows and worlds."""
    try:
        found = len(list(rows_of(value))), len(value["worlds"])
        if found != (rows, worlds):
            raise ValueError(f"there are {found[0]} rows in {found[1]} worlds")
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as cause:
        raise InvalidFileError(
            f"its columns are not of {rows} rows in {worlds} worlds, as its key has it: "
            f"{shown(str(cause))}"
        ) from cause
    return cast(Columns, value)


# --- Result ---------------------------------------------------------------------------------------
# Intervals generalise to worlds that were not drawn: Student's t over worlds, none for a single
# world. Rows that failed are counted and enter no mean; values without a certificate are lower
# bounds and enter as such.

# From this number of worlds on, an interval needs no random draws: one more world at an end of the
# range would not move the mean, and Student's t says nearly the same.
_CROWD = 1000
JSON_ROWS = 10_000  # longer tables are left out of JSON
_NOTES_IN_TEXT, _NOTES_IN_JSON = 3, 100
_GROUP_IN_JSON = ("policy", "utility", "value", "fraction", "measured", "not_certified", "failed")
_FACTS = ("states", "actions", "horizon", "discount")
_RESULTS = ("value", "upper_bound", "maximum", "fraction", "rationality", "bound_size")


@dataclass(frozen=True)
class SweepGroup:
    """Means over worlds, for one policy and one utility."""

    policy: str
    utility: str
    policy_arguments: Mapping[str, Any]
    value: Estimate  # MEG in nats
    fraction: Estimate  # share of the maximum
    measured: int  # number of rows with a value
    not_certified: int  # number of these
    failed: int  # number of rows without a value
    at: tuple[str, Any] | None  # an argument that these worlds share; None for all worlds

    def value_in_words(self) -> str:
        """Return the mean in nats, with its interval in brackets if it has one."""
        ends = self.value.interval and ", ".join(map(nats, self.value.interval))
        return nats(self.value.value) + (f" [{ends}]" if ends else "")


@dataclass(frozen=True)
class SweepRow:
    """A policy in a world, measured towards a utility."""

    world: str  # name, unique among worlds with arguments
    policy: str
    utility: str  # "unknown state" for the best of all utilities over states
    world_arguments: Mapping[str, Any]
    policy_arguments: Mapping[str, Any]
    utility_arguments: Mapping[str, Any]
    measured: SweepValues  # the numbers and the method; NaN where the row failed
    facts: WorldFacts | None  # of the world; None where it could not be made


@dataclass(frozen=True, eq=False)
class Sweep:
    """MEG of policies × utilities × worlds."""

    plan: SweepPlan
    chunks: Sequence[Columns] = field(repr=False)  # results, in the order of the rows

    def __len__(self) -> int:
        return self.plan.rows

    @property
    def rows(self) -> Iterator[SweepRow]:
        """Every row in order: all of the first world, policy by policy and utility by utility."""
        plan = self.plan
        measured = chain.from_iterable(map(rows_of, self.chunks))
        for world in range(plan.worlds):
            source, number = plan.place(world)
            name, arguments = source.label(number), source.arguments(number)
            for policy, utility in product(plan.policies, plan.utilities):
                facts, values = next(measured)
                labels = name, policy.label, utility.label
                given = arguments, policy.arguments, utility.arguments
                yield SweepRow(*labels, *given, values, facts)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the table's columns; arguments are `world.NAME`, `policy.NAME`, ..."""
        each: dict[str, list[Mapping[str, Any]]] = {
            "world": [source.arguments(0) for source in self.plan.sources],
            "policy": [choice.arguments for choice in self.plan.policies],
            "utility": [choice.arguments for choice in self.plan.utilities],
        }
        arguments = [
            f"{key}.{name}" for key, items in each.items() for item in items for name in item
        ]
        names = ("row", *each, *dict.fromkeys(arguments), *_FACTS, *_RESULTS)
        return (*names, "status", "method", "notes", "world_digest")

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield every row by the names of `columns`; None if missing, lists and such as text."""
        blank: dict[str, Any] = dict.fromkeys(self.columns)
        for number, row in enumerate(self.rows):
            out = blank | {"row": number}
            for prefix in ("world", "policy", "utility"):
                out[prefix] = getattr(row, prefix)
                for name, value in getattr(row, f"{prefix}_arguments").items():
                    is_plain = isinstance(value, (int, float, str)) or value is None
                    out[f"{prefix}.{name}"] = value if is_plain else spelled(value)
            if row.facts is not None:
                out |= {name: getattr(row.facts, name) for name in _FACTS}
                out["world_digest"] = row.facts.digest
            out |= {"status": row.measured.status, "notes": row.measured.note or None}
            if row.measured.status != FAILED:
                out |= {name: getattr(row.measured, name) for name in (*_RESULTS, "method")}
            yield out

    def argument_values(self, column: str) -> list[Any]:
        """Return the values of the arguments in a column; empty for other columns."""
        prefix, _, name = column.partition(".")
        if prefix == "world":
            made = [source for source in self.plan.sources if source.generator]
            return [value for source in made for value in source.axes.get(name, ())]
        choices = {"policy": self.plan.policies, "utility": self.plan.utilities}.get(prefix, ())
        return [choice.arguments[name] for choice in choices if name in choice.arguments]

    def _numbers(self, name: str) -> FloatArray:
        return np.array([float(text) for chunk in self.chunks for text in chunk[name].split()])

    @cached_property
    def values(self) -> FloatArray:
        """The value of each row in nats, shape (rows,); NaN of one that failed."""
        return self._numbers("value")

    @cached_property
    def summary(self) -> list[SweepGroup]:
        """Means over worlds, for each policy and utility."""
        return self._grouped({None: slice(None)})

    def by_argument(self, name: str) -> list[SweepGroup]:
        """Return a group for each policy, utility and value of an argument that worlds have."""
        worlds: dict[Any, list[int]] = {}
        for world in range(self.plan.worlds):
            source, number = self.plan.place(world)
            arguments = source.arguments(number)
            if name in arguments:
                worlds.setdefault(arguments[name], []).append(world)
        return self._grouped({(name, value): worlds[value] for value in sorted(worlds)})

    def _grouped(self, worlds: Mapping[tuple[str, Any] | None, Any]) -> list[SweepGroup]:
        plan = self.plan
        shape = (plan.worlds, len(plan.policies), len(plan.utilities))
        value, maximum = self.values.reshape(shape), self._numbers("maximum").reshape(shape)
        # Where no decision can matter, the share is 0, as in a single result.
        defined = (maximum > 0) | np.isnan(maximum)
        share = np.minimum(np.divide(value, maximum, out=np.zeros(shape), where=defined), 1.0)
        status = np.array([letter for chunk in self.chunks for letter in chunk["status"]]).reshape(
            shape
        )
        out = []
        every = product(enumerate(plan.policies), enumerate(plan.utilities), worlds.items())
        for (p, policy), (u, utility), (at, members) in every:
            letters = status[members, p, u].tolist()
            has_value = status[members, p, u] != FAILED[0]
            mean = estimate(value[members, p, u][has_value])
            if mean.interval is not None:  # Student's t may go below 0, MEG does not
                low, high = mean.interval
                mean = replace(mean, interval=(max(low, 0.0), high))
            shares = share[members, p, u][has_value]
            fraction = estimate(shares, bounds=(0.0, 1.0), paired=len(shares) > _CROWD)
            counts = len(shares), letters.count(OPEN[0]), letters.count(FAILED[0])
            names = policy.label, utility.label, policy.arguments
            out.append(SweepGroup(*names, mean, fraction, *counts, at))
        return out

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of rows of each status, in the order of `STATUSES`."""
        letters = "".join(chunk["status"] for chunk in self.chunks)
        return {name: letters.count(letter) for letter, name in _STATUSES.items()}

    def sentences(self, status: str) -> dict[str, int]:
        """Return the notes of rows with a status and their counts, the most frequent first."""
        counts: Counter[str] = Counter()
        for chunk in self.chunks:
            notes = zip(chunk["note"].split(), chunk["status"], strict=True)
            words = (chunk["words"][int(note)] for note, letter in notes if letter == status[0])
            counts.update(words)
        return dict(counts.most_common())

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON; `rows` is None where there are more than 10,000."""
        records = self.records() if len(self) <= JSON_ROWS else ()
        rows = [
            {k: json_number(v) if isinstance(v, float) else v for k, v in record.items()}
            for record in records
        ]
        return {
            "worlds": self.plan.worlds,
            "policies": [choice.label for choice in self.plan.policies],
            "utilities": [choice.label for choice in self.plan.utilities],
            "counts": {"rows": len(self), **self.counts},
            "failures": dict(islice(self.sentences(FAILED).items(), _NOTES_IN_JSON)),
            "summary": [
                {name: json_value(getattr(group, name)) for name in _GROUP_IN_JSON}
                for group in self.summary
            ],
            "rows": rows or None,
        }

    def to_pandas(self) -> Any:
        """Return `records` as a pandas data frame."""
        return data_frame(list(self.records()))

    @property
    def heading(self) -> str:
        """The caption of a table of this sweep."""
        plan = self.plan
        policies, utilities, worlds = len(plan.policies), len(plan.utilities), plan.worlds
        return (
            f"MEG of {policies} {'policy' if policies == 1 else 'policies'} towards {utilities} "
            f"{'utility' if utilities == 1 else 'utilities'} in {worlds} world{'s' * (worlds != 1)}"
        )

    def notes(self) -> list[str]:
        """Return what a reader of the means needs: negative, uncertified and failed rows."""
        out = []
        below = int(((self._numbers("rationality") < 0) & (self.values > 1e-9)).sum())
        if below:
            out.append(
                f"{below} of {len(self)} rows have a negative rationality: the policy does worse "
                f"than the reference, and the means count the absolute value."
            )
        if self.counts[OPEN]:
            out.append(
                f"{self.counts[OPEN]} of {len(self)} rows are not certified: their value is a "
                f"lower bound, and counts as such."
            )
        if self.counts[FAILED]:
            notes = [f"{times}: {text}" for text, times in self.sentences(FAILED).items()]
            left = len(notes) - _NOTES_IN_TEXT
            more = f"; and {left} other sentence{'s' * (left > 1)}" if left > 0 else ""
            words = "; ".join(notes[:_NOTES_IN_TEXT])
            out.append(f"{self.counts[FAILED]} of {len(self)} rows failed ({words}{more}).")
        return out

    def _cells(self) -> Sequence[Sequence[str]]:
        rows = [("policy", "utility", "worlds", "MEG, mean", "share of maximum", "failed")]
        for group in self.summary:
            numbers = str(group.measured), group.value_in_words(), percent(group.fraction.value)
            rows.append((group.policy, group.utility, *numbers, str(group.failed)))
        return rows

    def _repr_html_(self) -> str:
        heads, *rows = self._cells()
        return html_table(self.heading, heads, rows, self.notes())

    def __str__(self) -> str:
        return "\n".join([text_table(self.heading, self._cells()), *self.notes()])


# --- Table files ----------------------------------------------------------------------------------
def write_csv(sweep: Sweep, path: str | Path) -> Path:
    """Write the rows as CSV in UTF-8, with all digits, "inf", and nothing for missing values."""
    with replacing(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(sweep.columns)
        for record in sweep.records():
            lines.writerow([encodable(v) if isinstance(v, str) else v for v in record.values()])
        text.flush()
        text.detach()  # `replacing` closes the file
    return Path(path)


_ROWS_IN_MEMORY = 20_000  # rows of a Parquet group


def write_parquet(sweep: Sweep, path: str | Path) -> Path:
    """Write the rows as Parquet, a column of arguments in the type that all of them have."""
    arrow, parquet = require_parquet()
    schema = arrow.schema([(name, _type(arrow, sweep, name)) for name in sweep.columns])
    texts = [name for name in sweep.columns if schema.field(name).type == arrow.string()]
    with replacing(path) as file, parquet.ParquetWriter(file, schema) as writer:
        records = sweep.records()
        while group := list(islice(records, _ROWS_IN_MEMORY)):
            for record in group:
                cells = {name: record[name] for name in texts if record[name] is not None}
                record |= {name: encodable(str(value)) for name, value in cells.items()}
            writer.write_table(arrow.Table.from_pylist(group, schema=schema))
    return Path(path)


def require_parquet() -> tuple[Any, Any]:
    """Return pyarrow and its Parquet module, or raise how to install them."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":  # installed but broken
            raise
        raise MissingExtraError(
            "a Parquet file needs the package 'pyarrow', which is not installed; install it with: "
            "pip install pyarrow, or write a CSV file"
        ) from error


def _type(arrow: Any, sweep: Sweep, name: str) -> Any:
    if name in ("row", "states", "actions", "horizon"):
        return arrow.int64()
    if name == "discount" or name in _RESULTS:
        return arrow.float64()
    values = sweep.argument_values(name)
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return arrow.bool_()
    if kinds == {int} and all(abs(value) < 2**63 for value in values):
        return arrow.int64()
    return arrow.float64() if kinds and kinds <= {int, float} else arrow.string()
