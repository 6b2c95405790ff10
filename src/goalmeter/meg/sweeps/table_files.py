"""The rows of a sweep as a table in a file, written as they are read: CSV, or Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from goalmeter._errors import MissingExtraError
from goalmeter._files import replacing
from goalmeter._text import encodable
from goalmeter.meg.sweeps.result import Sweep

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
