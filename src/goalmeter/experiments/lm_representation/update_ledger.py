"""Put the numbers of the mouse into the ledger, beside those of the paper.

    python -m goalmeter.experiments.lm_representation.update_ledger RESULTS.json [LEDGER.toml]

Reads what `goalmeter replicate lm-representation --out OUT` left in OUT/results.json, and writes
`ours`, `interval`, `seeds`, `command` and `cost` of the rows that it has; everything else stays as
it is. Then make the page anew: python -m goalmeter.experiments.ledger.page > docs/ledger.md
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError
from goalmeter._files import write_text
from goalmeter.experiments import ledger
from goalmeter.experiments.ledger.file import PATH, with_row
from goalmeter.experiments.lm_representation.compute import LEDGER_PREFIX, NAME


def updated(text: str, results: dict[str, Any]) -> tuple[str, list[str]]:
    """The text of a ledger with the numbers of a replication, and the ids of its rows.

    Raises:
        InvalidFileError: the results are of something else.
    """
    if results.get("replication") != NAME:
        raise InvalidFileError(
            f"the results are of {results.get('replication')!r}, expected {NAME!r}: give the "
            f"results.json that `goalmeter replicate {NAME}` wrote"
        )
    changed = []
    for row in ledger.load(LEDGER_PREFIX):
        ours = results["numbers"].get(row.id.removeprefix(LEDGER_PREFIX))
        if ours is None or ours["interval"] is None:
            continue
        low, high = (100 * end for end in ours["interval"])
        text = with_row(
            text,
            row.id,
            ours=f"{100 * ours['value']:.5g}",
            # A share of nothing has no digits of its own.
            tolerance="0.005" if ours["value"] > 0.005 else "0.0001",
            command=f'"goalmeter replicate {NAME}"',
            cost='"slow"',
            interval=f"[{low:.2f}, {high:.2f}]",
            seeds=str(ours["clusters"]),
        )
        changed.append(row.id)
    return text, changed


def main(arguments: list[str]) -> None:
    """Update the ledger; says which rows it wrote."""
    results, target = [*map(Path, arguments), PATH][:2]
    text, changed = updated(target.read_text("utf-8"), json.loads(results.read_text("utf-8")))
    write_text(target, text)
    print(f"{len(changed)} rows: {', '.join(changed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
