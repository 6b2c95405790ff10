"""Put the numbers of the mouse into the ledger, beside those of the paper.

    python -m goalmeter.experiments.lm_representation.update_ledger RESULTS.json [LEDGER.toml]

Reads what `goalmeter replicate lm-representation --out OUT` left in OUT/results.json, and writes
`ours`, `interval`, `seeds`, `command` and `cost` of the rows that it has; everything else stays as
it is. Then make the page anew: python -m goalmeter.experiments.ledger.page > docs/ledger.md
"""

from __future__ import annotations

import sys
from typing import Any

from goalmeter.experiments.ledger.from_results import in_percent, put_into_ledger, with_results
from goalmeter.experiments.ledger.number import Number
from goalmeter.experiments.lm_representation.compute import LEDGER_PREFIX, NAME


def updated(text: str, results: dict[str, Any]) -> tuple[str, list[str]]:
    """The text of a ledger with the numbers of a replication, and the ids of its rows."""

    def values(row: Number) -> dict[str, str] | None:
        ours = results["numbers"].get(row.id.removeprefix(LEDGER_PREFIX))
        shares = in_percent(ours)
        if shares is None:
            return None
        return shares | {
            # A share of nothing has no digits of its own.
            "tolerance": "0.005" if ours["value"] > 0.005 else "0.0001",
            "command": f'"goalmeter replicate {NAME}"',
            "cost": '"slow"',
        }

    return with_results(text, results, NAME, LEDGER_PREFIX, values)


def main(arguments: list[str]) -> None:
    """Update the ledger; says which rows it wrote."""
    put_into_ledger(arguments, updated)


if __name__ == "__main__":
    main(sys.argv[1:])
