"""The file that holds the ledger, ledger.toml: read, and written again with other values."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.experiments.ledger.number import Margin, Number

PATH = Path(str(files("goalmeter.experiments.ledger").joinpath("ledger.toml")))


def margins() -> list[Margin]:
    """Of each kind of number, in the order of the file."""
    return [Margin(**entry) for entry in _file()["margin"]]


def load(prefix: str = "") -> list[Number]:
    """The rows whose id starts with a prefix, in the order of the file, with their margins.

    Raises:
        InvalidFileError: a row of ledger.toml that lacks a field or has an unknown one.
    """
    return [row for row in _rows() if row.id.startswith(prefix)]


# Pages ask for rows by the hundred, and the file does not change while a process runs.
@cache
def _rows() -> tuple[Number, ...]:
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
    return tuple(rows)


def with_row(text: str, row_id: str, *, found: str | None = None, **values: str) -> str:
    """The text of the ledger with other values, spelled as TOML, of some keys of a row.

    `found` stands below the remark, "" takes it away, and None leaves it as it is.
    """
    # Python's reader of TOML does not write it: remarks, order and comments are to stay.
    pattern = re.compile(rf'\[\[number\]\]\nid = "{re.escape(row_id)}"\n(?:(?!\[\[).*\n)*')
    place = pattern.search(text)
    if place is None:
        raise InvalidParameterError(f"the ledger has no row {row_id!r}")
    block = place.group()
    for key, value in values.items():
        line = f"{key} = {value}"
        # A backslash in the text of a replacement would begin a reference.
        safe = line.replace("\\", r"\\")
        block, count = re.subn(rf"^{key} = .*$", safe, block, flags=re.MULTILINE)
        if not count:
            block = f"{block.rstrip()}\n{line}{block[len(block.rstrip()) :]}"
    if found is not None:
        block = re.sub(r"^found = .*\n", "", block, flags=re.MULTILINE)
        remark = re.search(r"^remark = .*\n", block, flags=re.MULTILINE)
        end = len(block) if remark is None else remark.end()
        told = f"found = {json.dumps(found, ensure_ascii=False)}\n" if found else ""
        block = block[:end] + told + block[end:]
    return text[: place.start()] + block + text[place.end() :]


@cache
def _file() -> dict[str, list[dict[str, Any]]]:
    return tomllib.loads(PATH.read_text(encoding="utf-8"))
