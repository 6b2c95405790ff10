"""Report pages: sections, tables, figures and prose of each instrument.

`prose` reads the texts of an instrument (`meg.toml`); `goalmeter.pages.part` joins the
instruments of a page.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

# --- Pages ----------------------------------------------------------------------------------------


# --- Prose ----------------------------------------------------------------------------------------
# Each instrument has a file of texts. A table in it has the texts of one section or
# table, by the names that `Section` and `Table` have for them, with {names} for what is put in.


def prose(instrument: str, name: str, **values: object) -> dict[str, Any]:
    """The texts of that name, with the values put in; lists of texts as tuples."""
    return {
        key: text.format(**values)
        if isinstance(text, str)
        else tuple(line.format(**values) for line in text)
        for key, text in _read(instrument)[name].items()
    }


@cache
def _read(instrument: str) -> dict[str, dict[str, Any]]:
    path = files("goalmeter.pages").joinpath(f"{instrument}.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))
