"""Texts of a study's page, from its file texts.toml; files of a study without a page."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from goalmeter.commands.outcome import Outcome, json_text
from goalmeter.report import Table, in_markdown, write_text


def prose(study: str, name: str, /, **values: object) -> dict[str, Any]:
    """Return the texts of one table, figure or section, by its arguments; lists as tuples.

    `values` are put in where a text has their names in braces.
    """
    return {
        key: tuple(line.format(**values) for line in text)
        if isinstance(text, list)
        else text.format(**values)
        for key, text in data(study, name).items()
    }


def data(study: str, name: str) -> dict[str, Any]:
    """Return a table of the file as it is."""
    table: dict[str, Any] = _read(study)[name]
    return table


@cache
def _read(study: str) -> dict[str, Any]:
    path = Path(__file__).parent / study / "texts.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def write_tables(out: Path, tables: Sequence[Table], result: dict[str, Any]) -> Outcome:
    """Write results.json and, as Markdown, tables.md; return the outcome of the command."""
    write_text(out / "tables.md", in_markdown(tables))
    file = write_text(out / "results.json", json_text(result) + "\n")
    return Outcome(tables=tuple(tables), json=result | {"results": str(file.resolve())})
