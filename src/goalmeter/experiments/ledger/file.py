"""The file that holds the ledger: ledger.toml, its rows and its margins."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from importlib.resources import files
from typing import Any

from goalmeter._errors import InvalidFileError
from goalmeter.experiments.ledger.number import Margin, Number


def margins() -> list[Margin]:
    """Of each kind of number, in the order of the file."""
    return [Margin(**entry) for entry in _file()["margin"]]


def load(prefix: str = "") -> list[Number]:
    """The rows whose id starts with a prefix, in the order of the file, with their margins.

    Raises:
        InvalidFileError: a row of ledger.toml that lacks a field or has an unknown one.
    """
    known = margins()
    rows = []
    for number, entry in enumerate(_file()["number"], start=1):
        ends: dict[str, Any] = {
            name: tuple(entry[name]) for name in ("interval", "published_interval") if name in entry
        }
        try:
            row = Number(**(entry | ends))
        except TypeError as cause:
            name = entry.get("id", f"row {number}")
            raise InvalidFileError(f"ledger.toml, {name}: {cause}") from cause
        margin = next((margin for margin in known if row.id.startswith(margin.rows)), None)
        rows.append(replace(row, margin=margin))
    return [row for row in rows if row.id.startswith(prefix)]


def _file() -> dict[str, list[dict[str, Any]]]:
    text = files("goalmeter.experiments.ledger").joinpath("ledger.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
