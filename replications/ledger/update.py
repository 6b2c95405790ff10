"""Write the numbers of a finished replication into the ledger.

    python -m replications.ledger.update NAME RESULTS.json [LEDGER.toml]

RESULTS.json is what `goalmeter replicate NAME --out OUT` wrote to OUT/results.json. Remarks and
rows of other commands stay as they are. Then: python -m replications.ledger.page docs
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goalmeter import InvalidFileError, InvalidParameterError
from goalmeter.report import write_text
from replications.ledger import PATH, load, say, study_of

# Studies with `ledger_values`: of a row and the results, its values, spelled as TOML, or None.
UPDATED = ("lm-navigation", "lm-representation", "reflection-table-1")


def updated(text: str, name: str, results: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the text of a ledger with the numbers of a replication, and the ids of its rows."""
    if name not in UPDATED or results.get("replication") != name:
        given = {"of": results.get("replication"), "known": ", ".join(UPDATED)}
        raise InvalidFileError(say.sentence("refused", "results", name=name, **given))
    written = []
    for row in load(f"{name}/"):
        # Another command made the numbers of the other rows, from other grids.
        if f"goalmeter replicate {name}" not in row.command:
            continue
        values = study_of(name).ledger_values(row, results)
        if values is not None:
            text = with_row(text, row.id, values)
            written.append(row.id)
    return text, written


def with_row(text: str, row_id: str, values: Mapping[str, str]) -> str:
    """Return the text of a ledger with other values, spelled as TOML, of some keys of a row."""
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
    return text[: place.start()] + block + text[place.end() :]


def main(name: str, results: str, ledger: str = str(PATH)) -> None:
    """Update the ledger, and print which rows were written."""
    given = json.loads(Path(results).read_text("utf-8"))
    text, written = updated(Path(ledger).read_text("utf-8"), name, given)
    write_text(ledger, text)
    print(f"{len(written)} rows: {', '.join(written)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
