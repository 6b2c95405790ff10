"""Tables of outcomes, in any of the forms that users have, as indices of states."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import (
    InvalidFileError,
    InvalidParameterError,
    InvalidTrajectoryError,
)
from goalmeter._names import unknown_name
from goalmeter._types import IntArray
from goalmeter.causal.network import CausalBayesianNetwork


def columns_of(
    network: CausalBayesianNetwork, names: Sequence[str], data: Any
) -> dict[str, IntArray]:
    """The states of some variables in every row of a table, as indices, [N] each."""
    columns = {x: _indices(network, x, _column(data, x)) for x in dict.fromkeys(names)}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise InvalidTrajectoryError(
            f"the columns of the table have {sorted(lengths)} rows, expected as many in each, "
            f"and at least one"
        )
    return columns


def _column(data: Any, name: str) -> list[Any]:
    if isinstance(data, (str, Path)):
        data = read_csv(data)
    columns = list(data) if isinstance(data, Mapping) else list(getattr(data, "columns", []))
    if not columns:
        raise InvalidTrajectoryError(
            f"the table is {type(data).__name__}, expected a pandas or polars frame, "
            f"{{column: values}}, or the path of a CSV file"
        )
    if columns.count(name) > 1:
        raise InvalidTrajectoryError(
            f"the table has {columns.count(name)} columns named {name!r}, expected each name once"
        )
    if name not in columns:
        raise unknown_name(name, columns, "the table's column", InvalidTrajectoryError)
    return list(data[name])


def _indices(network: CausalBayesianNetwork, x: str, values: Sequence[Any]) -> IntArray:
    known: dict[Any, int] = {}
    out = np.empty(len(values), dtype=np.int64)
    # A column has many rows and few states: each is looked up once.
    for row, value in enumerate(values):
        try:
            if value not in known:
                known[value] = network.index(x, value)
        except (InvalidParameterError, TypeError) as error:
            raise InvalidTrajectoryError(f"row {row} of the table: {error}") from None
        out[row] = known[value]
    return out


def read_csv(path: str | Path) -> dict[str, list[str]]:
    """A CSV file with a head line, as {column: values}."""
    try:
        # Spreadsheets put a byte order mark in front.
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            lines = list(csv.reader(file))
    except FileNotFoundError:
        raise InvalidFileError(f"{path}: there is no such file; check the path") from None
    except (OSError, UnicodeDecodeError, csv.Error) as cause:
        raise InvalidFileError(f"{path} cannot be read as CSV: {cause}") from cause
    lines = [line for line in lines if line]
    if len(lines) < 2:
        raise InvalidFileError(
            f"{path} has {len(lines)} lines, expected a line of column names and at least one row"
        )
    head = [name.strip() for name in lines[0]]
    twice = next((name for name in head if head.count(name) > 1), None)
    if twice is not None:
        raise InvalidFileError(
            f"{path} has two columns named {twice!r}, expected each name once; remove or rename one"
        )
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(head):
            raise InvalidFileError(
                f"{path}: line {number} has {len(line)} values, expected {len(head)}, one for each "
                f"column"
            )
    return {name: [line[i].strip() for line in lines[1:]] for i, name in enumerate(head)}
