"""The text of ledger.toml with other values in a row; remarks, order and comments stay."""

from __future__ import annotations

import re
from collections.abc import Mapping

from goalmeter._errors import InvalidParameterError


def block_of(text: str, row_id: str) -> re.Match[str]:
    """Where a row stands.

    Raises:
        InvalidParameterError: the text has no such row.
    """
    block = re.compile(rf'\[\[number\]\]\nid = "{re.escape(row_id)}"\n(?:(?!\[\[).*\n)*')
    place = block.search(text)
    if place is None:
        raise InvalidParameterError(f"the ledger has no row {row_id!r}")
    return place


def with_values(lines: str, values: Mapping[str, str]) -> str:
    """The lines of a row with other values, as TOML writes them, where it has such keys."""
    for key, value in values.items():
        lines = re.sub(rf"^{key} = .*$", f"{key} = {value}", lines, flags=re.MULTILINE)
    return lines
