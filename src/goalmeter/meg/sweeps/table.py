"""Results of a sweep: rows, records, summaries with intervals, and CSV or Parquet tables."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import MissingExtraError, encodable
from goalmeter._files import replacing
from goalmeter._types import FloatArray
from goalmeter.meg.result import json_number
from goalmeter.meg.sweeps.chunk import (
    FAILED,
    NUMBERS,
    OPEN,
    STATUSES,
    Columns,
    Measured,
    WorldFacts,
)
from goalmeter.meg.sweeps.plan import SweepPlan
from goalmeter.meg.sweeps.worlds import Made, spelled
from goalmeter.report.numbers import nats, percent
from goalmeter.report.tables import data_frame, html_table, text_table
from goalmeter.statistics.clusters import Estimate, estimate

# --- Summary --------------------------------------------------------------------------------------
# An interval speaks of worlds that were not drawn, so it rests on how many were: Student's t, and
# none of a single world. Rows that failed are counted and in no mean; values without a certificate
# are lower bounds and count as such.

# Worlds from which on an interval does without its random draws.
_CROWD = 1000


@dataclass(frozen=True)
class Group:
    """A policy and a utility, over worlds.

    Attributes:
        policy: its name.
        utility: its name.
        policy_arguments: what the policy was made of.
        value: MEG in nats, the mean over worlds.
        fraction: share of the maximum, the mean over worlds.
        measured: rows that have a value.
        open: those among them that are not certified.
        failed: rows that have none.
        at: the argument of the worlds and its value, of worlds that share it; None for all.
    """

    policy: str
    utility: str
    policy_arguments: Mapping[str, Any]
    value: Estimate
    fraction: Estimate
    measured: int
    open: int
    failed: int
    at: tuple[str, Any] | None = None

    def value_in_words(self) -> str:
        """The mean in nats with its interval in brackets, if it has one."""
        if np.isnan(self.value.value):
            return "–"
        text = nats(self.value.value)
        if self.value.interval is None:
            return text
        low, high = self.value.interval
        return f"{text} [{nats(low)}, {nats(high)}]"

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "policy": self.policy,
            "utility": self.utility,
            "value": self.value.to_json(),
            "fraction": self.fraction.to_json(),
            "measured": self.measured,
            "not_certified": self.open,
            "failed": self.failed,
        }


def by_policy_and_utility(plan: SweepPlan, chunks: Sequence[Columns]) -> list[Group]:
    """A group for each policy and utility, over all worlds."""
    table = _Table(plan, chunks)
    return [
        table.group(p, u, slice(None))
        for p in range(len(plan.policies))
        for u in range(len(plan.utilities))
    ]


def by_argument(plan: SweepPlan, chunks: Sequence[Columns], name: str) -> list[Group]:
    """A group for each policy, utility and value of an argument of the worlds.

    Args:
        plan: what was asked for.
        chunks: what was measured.
        name: of the argument; worlds that have none are left out.
    """
    table = _Table(plan, chunks)
    worlds: dict[Any, list[int]] = {}
    for world in range(plan.worlds):
        source, number = plan.place(world)
        arguments = plan.sources[source].arguments(number)
        if name in arguments:
            worlds.setdefault(arguments[name], []).append(world)
    return [
        table.group(p, u, members, (name, value))
        for p in range(len(plan.policies))
        for u in range(len(plan.utilities))
        for value, members in sorted(worlds.items())
    ]


class _Table:
    """Values, shares of the maximum and statuses of all rows, [worlds, policies, utilities]."""

    def __init__(self, plan: SweepPlan, chunks: Sequence[Columns]) -> None:
        self._plan = plan
        shape = (plan.worlds, len(plan.policies), len(plan.utilities))
        self._value = _joined(chunks, "value").reshape(shape)
        maximum = _joined(chunks, "maximum").reshape(shape)
        # Where no decision can matter, the share is 0, as in a single result.
        shares = np.divide(
            self._value, maximum, out=np.zeros(shape), where=(maximum > 0) | np.isnan(maximum)
        )
        self._share: FloatArray = np.minimum(shares, 1.0)
        letters = "".join(chunk.record["status"] for chunk in chunks)
        self._status = np.array(list(letters)).reshape(shape)

    def group(
        self, p: int, u: int, worlds: slice | list[int], at: tuple[str, Any] | None = None
    ) -> Group:
        plan, status = self._plan, self._status[worlds, p, u]
        there = status != FAILED[0]
        policy = plan.policies[p]
        shares = self._share[worlds, p, u][there]
        return Group(
            policy.label,
            plan.utilities[u].label,
            policy.arguments,
            _never_negative(estimate(self._value[worlds, p, u][there])),
            # What one more world at an end would do to the mean is nothing in a crowd, where it
            # would take gigabytes to draw: there Student's t says nearly the same.
            estimate(shares, bounds=(0.0, 1.0), paired=len(shares) > _CROWD),
            int(there.sum()),
            int((status == OPEN[0]).sum()),
            int((~there).sum()),
            at,
        )


def _never_negative(of: Estimate) -> Estimate:
    """An estimate of what cannot be below 0, which Student's t does not know."""
    if of.interval is None:
        return of
    low, high = of.interval
    return replace(of, interval=(max(low, 0.0), high))


def _joined(chunks: Sequence[Columns], name: str) -> FloatArray:
    return np.concatenate([np.array(chunk.numbers(name)) for chunk in chunks])


# --- Records --------------------------------------------------------------------------------------
# Columns in front of the arguments, and behind them.
_NAMES = ("row", "world", "policy", "utility")
_FACTS = ("states", "actions", "horizon", "discount")
_MEASURED = (
    *("value", "upper_bound", "maximum", "fraction", "rationality", "bound_size"),
    *("status", "method", "notes", "world_digest"),
)


def column_names(plan: SweepPlan) -> tuple[str, ...]:
    """The columns of a sweep's table; arguments are `world.NAME`, `policy.NAME`, `utility.NAME`."""
    each = (
        # Every world of a source has the same arguments.
        ("world", [source.arguments(0) for source in plan.sources]),
        ("policy", [choice.arguments for choice in plan.policies]),
        ("utility", [choice.arguments for choice in plan.utilities]),
    )
    arguments = [
        f"{prefix}.{name}"
        for prefix, several in each
        for name in dict.fromkeys(key for item in several for key in item)
    ]
    return (*_NAMES, *arguments, *_FACTS, *_MEASURED)


def records(plan: SweepPlan, chunks: Sequence[Columns]) -> Iterator[dict[str, Any]]:
    """A record for each row, in order, by the names of the columns.

    None is where there is nothing to say, such as for the numbers of a row that failed. Lists and
    other arguments that are no plain value are text.
    """
    blank: dict[str, Any] = dict.fromkeys(column_names(plan))
    chosen = [
        [
            {"policy": policy.label, "utility": utility.label}
            | _arguments("policy", policy.arguments)
            | _arguments("utility", utility.arguments)
            for utility in plan.utilities
        ]
        for policy in plan.policies
    ]
    row = 0
    for chunk, columns in zip(plan.chunks, chunks, strict=True):
        worlds, policies = plan.part(chunk)
        measured = _measured(columns)
        for world, facts in zip(worlds, columns.worlds, strict=True):
            source, number = plan.place(world)
            of_world = blank | {"world": plan.sources[source].label(number)}
            of_world |= _arguments("world", plan.sources[source].arguments(number))
            if facts is not None:
                of_world |= {name: getattr(facts, name) for name in _FACTS}
                of_world["world_digest"] = facts.digest
            for policy in policies:
                for names in chosen[policy]:
                    yield {**of_world, **names, **next(measured), "row": row}
                    row += 1


def _measured(columns: Columns) -> Iterator[dict[str, Any]]:
    """What was measured of each row of a chunk."""
    numbers = [columns.numbers(name) for name in NUMBERS]
    words = (columns.words("method"), columns.words("note"))
    for status, method, note, *values in zip(columns.statuses(), *words, *numbers, strict=True):
        said = {"status": status, "notes": note or None}
        if status == FAILED:
            yield said
            continue
        out = dict(zip(NUMBERS, values, strict=True))
        value, maximum = out["value"], out["maximum"]
        share = min(value / maximum, 1.0) if maximum > 0 else 0.0
        yield {**out, **said, "method": method, "fraction": share}


def _arguments(prefix: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{prefix}.{name}": value
        if isinstance(value, (int, float, str)) or value is None
        else spelled(value)
        for name, value in arguments.items()
    }


# --- Result ---------------------------------------------------------------------------------------
# Longer tables are left out of JSON; files and Python have them.
JSON_ROWS = 10_000
# What failures say in as many words as this: in a note, and in JSON.
_SAID, _SAID_IN_JSON = 3, 100


@dataclass(frozen=True)
class SweepRow:
    """A policy in a world, measured towards a utility.

    Attributes:
        world: its name; all worlds of a sweep that are made by arguments have different ones.
        policy: what was measured.
        utility: towards what; "unknown state" for the best of all utilities over states.
        world_arguments, policy_arguments, utility_arguments: what they were made of.
        measured: the numbers, and how they were obtained; NaN where the row failed.
        facts: of the world; None where it could not be made.
    """

    world: str
    policy: str
    utility: str
    world_arguments: Mapping[str, Any]
    policy_arguments: Mapping[str, Any]
    utility_arguments: Mapping[str, Any]
    measured: Measured
    facts: WorldFacts | None


@dataclass(frozen=True, eq=False)
class Sweep:
    """MEG of policies × utilities × worlds.

    Attributes:
        plan: what was asked for.
        chunks: what was measured, in the order of the rows.
    """

    plan: SweepPlan
    chunks: Sequence[Columns] = field(repr=False)

    def __len__(self) -> int:
        return self.plan.rows

    @property
    def rows(self) -> Iterator[SweepRow]:
        """Every row in order: all of the first world, policy by policy and utility by utility."""
        plan = self.plan
        for chunk, columns in zip(plan.chunks, self.chunks, strict=True):
            worlds, _ = plan.part(chunk)
            for offset, measured in enumerate(columns.rows()):
                cell = plan.cell(chunk.first + offset)
                source, number = plan.place(cell.world)
                policy, utility = plan.policies[cell.policy], plan.utilities[cell.utility]
                yield SweepRow(
                    plan.sources[source].label(number),
                    policy.label,
                    utility.label,
                    plan.sources[source].arguments(number),
                    policy.arguments,
                    utility.arguments,
                    measured,
                    columns.worlds[cell.world - worlds.start],
                )

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the table's columns; arguments are `world.NAME`, `policy.NAME`, ..."""
        return column_names(self.plan)

    def records(self) -> Iterator[dict[str, Any]]:
        """Every row of the table, by the names of `columns`; None where there is nothing to say."""
        return records(self.plan, self.chunks)

    def argument_values(self, column: str) -> list[Any]:
        """The values that the arguments in a column of the table take; none of another column."""
        prefix, _, name = column.partition(".")
        plan = self.plan
        if prefix == "world":
            values = [
                v for s in plan.sources if isinstance(s, Made) for v in s.grid.axes.get(name, ())
            ]
        else:
            choices = {"policy": plan.policies, "utility": plan.utilities}.get(prefix, ())
            values = [c.arguments[name] for c in choices if name in c.arguments]
        return values if name else []

    @cached_property
    def summary(self) -> list[Group]:
        """Means over worlds, for each policy and utility."""
        return by_policy_and_utility(self.plan, self.chunks)

    @cached_property
    def values(self) -> FloatArray:
        """The value of each row, [rows] nats; NaN of one that failed."""
        return np.concatenate([np.array(chunk.numbers("value")) for chunk in self.chunks])

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many rows there are of each status, in the order of `STATUSES`."""
        text = [chunk.record["status"] for chunk in self.chunks]
        return {name: sum(part.count(name[0]) for part in text) for name in STATUSES}

    def sentences(self, status: str) -> dict[str, int]:
        """What rows of a status say and how many say so, most often first."""
        counts: Counter[str] = Counter()
        for chunk in self.chunks:
            if status[0] in chunk.record["status"]:
                counts.update(
                    note
                    for note, is_it in zip(chunk.words("note"), chunk.statuses(), strict=True)
                    if is_it == status
                )
        return dict(counts.most_common())

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; `rows` is None where there are more than 10,000."""
        plan = self.plan
        return {
            "worlds": plan.worlds,
            "policies": [choice.label for choice in plan.policies],
            "utilities": [choice.label for choice in plan.utilities],
            "counts": {"rows": len(self), **self.counts},
            "failures": dict(islice(self.sentences(FAILED).items(), _SAID_IN_JSON)),
            "summary": [group.to_json() for group in self.summary],
            "rows": [_in_json(record) for record in self.records()]
            if len(self) <= JSON_ROWS
            else None,
        }

    def to_pandas(self) -> Any:
        """One row for each of `records`, as a pandas data frame.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return data_frame(list(self.records()))

    @property
    def heading(self) -> str:
        """What was measured, as the heading of a table."""
        plan = self.plan
        return (
            f"MEG of {_count(len(plan.policies), 'policy', 'policies')} towards "
            f"{_count(len(plan.utilities), 'utility', 'utilities')} in "
            f"{_count(plan.worlds, 'world', 'worlds')}"
        )

    def _shown(self) -> tuple[Sequence[str], Sequence[Sequence[str]], list[str]]:
        """Heads, rows and notes of a table of the summary."""
        heads = ("policy", "utility", "worlds", "MEG, mean", "share of maximum", "failed")
        rows = [
            (
                group.policy,
                group.utility,
                str(group.measured),
                group.value_in_words(),
                percent(group.fraction.value),
                str(group.failed),
            )
            for group in self.summary
        ]
        return heads, rows, self.notes()

    def notes(self) -> list[str]:
        """What a reader of the means needs: rows below the reference, not certified, or failed."""
        out = []
        counts = self.counts
        below = sum(
            rationality < 0 and value > 1e-9
            for chunk in self.chunks
            for rationality, value in zip(
                *map(chunk.numbers, ("rationality", "value")), strict=True
            )
        )
        if below:
            out.append(
                f"{below} of {len(self)} rows have a negative rationality: the policy does worse "
                f"than the reference, and the means count the absolute value."
            )
        if counts[OPEN]:
            out.append(
                f"{counts[OPEN]} of {len(self)} rows are not certified: their value is a lower "
                f"bound, and counts as such."
            )
        if counts[FAILED]:
            said = [f"{times}: {text}" for text, times in self.sentences(FAILED).items()]
            left = len(said) - _SAID
            more = f"; and {left} other sentence{'s' * (left > 1)}" if left > 0 else ""
            words = "; ".join(said[:_SAID])
            out.append(f"{counts[FAILED]} of {len(self)} rows failed ({words}{more}).")
        return out

    def _repr_html_(self) -> str:
        """The summary as a notebook shows it; `to_pandas` has the rows."""
        return html_table(self.heading, *self._shown())

    def __str__(self) -> str:
        heads, rows, notes = self._shown()
        return "\n".join([text_table(self.heading, [heads, *rows]), *notes])


def _count(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"


def _in_json(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: json_number(value) if isinstance(value, float) else value
        for name, value in record.items()
    }


# --- Table files ----------------------------------------------------------------------------------
# Rows of a Parquet group: what is in memory at once.
_GROUP = 20_000


def write_csv(sweep: Sweep, path: str | Path) -> Path:
    """Write the rows as CSV, a line each below the names of the columns; returns the path.

    Numbers have all their digits, infinities are "inf" and "-inf", and what there is nothing to say
    of is empty. In UTF-8.
    """
    with replacing(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(sweep.columns)
        for record in sweep.records():
            lines.writerow([_cell(record[name]) for name in sweep.columns])
        text.flush()
        text.detach()  # whoever opened the file closes it
    return Path(path)


def write_parquet(sweep: Sweep, path: str | Path) -> Path:
    """Write the rows as Parquet, as pandas and others read it; returns the path.

    A column of arguments is of integers, numbers or truth values where all of them are, and else
    of text.
    """
    arrow, parquet = _pyarrow()
    schema = arrow.schema([(name, _type(arrow, sweep, name)) for name in sweep.columns])
    with replacing(path) as file, parquet.ParquetWriter(file, schema) as writer:
        for records in _groups(sweep):
            columns = [
                arrow.array([_as(kind, record[name]) for record in records], kind)
                for name, kind in zip(schema.names, schema.types, strict=True)
            ]
            writer.write_table(arrow.table(columns, schema=schema))
    return Path(path)


def require_parquet() -> None:
    """Raise what `write_parquet` would raise where pyarrow is not installed."""
    _pyarrow()


def _pyarrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        # A pyarrow that is there and broken is another mistake, and says so itself.
        if error.name != "pyarrow":
            raise
        raise MissingExtraError(
            "a Parquet file needs the package 'pyarrow', which is not installed; install it with: "
            "pip install pyarrow, or write a CSV file"
        ) from error


def _groups(sweep: Sweep) -> Iterator[Sequence[Mapping[str, Any]]]:
    records = sweep.records()
    while group := list(islice(records, _GROUP)):
        yield group


def _cell(value: Any) -> Any:
    return encodable(value) if isinstance(value, str) else value


# Types of the columns that are not arguments; all others of them are text.
_WHOLE = ("row", "states", "actions", "horizon")
_REAL = (
    *("discount", "value", "upper_bound", "maximum", "fraction"),
    *("rationality", "bound_size"),
)


def _type(arrow: Any, sweep: Sweep, name: str) -> Any:
    if name in _WHOLE:
        return arrow.int64()
    if name in _REAL:
        return arrow.float64()
    values = sweep.argument_values(name)
    kinds = {type(value) for value in values}
    fits = all(type(value) is not int or abs(value) < 2**63 for value in values)
    if kinds == {bool}:
        return arrow.bool_()
    if kinds == {int} and fits:
        return arrow.int64()
    if kinds and kinds <= {int, float}:
        return arrow.float64()
    return arrow.string()


def _as(kind: Any, value: Any) -> Any:
    if value is None or str(kind) != "string":
        return value
    return encodable(value if isinstance(value, str) else str(value))
