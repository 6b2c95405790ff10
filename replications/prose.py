"""The prose of a study's page: captions, meanings, notes and paragraphs, in its file texts.toml."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any


def prose(study: str, name: str, **values: object) -> dict[str, Any]:
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
