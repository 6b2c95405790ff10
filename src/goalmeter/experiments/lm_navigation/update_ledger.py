"""Put the numbers of reference agents into the ledger.

    python -m goalmeter.experiments.lm_navigation.update_ledger RESULTS.json [LEDGER.toml]

Reads what `goalmeter replicate lm-navigation --out OUT` left in OUT/results.json, and writes
`ours`, `interval` and `seeds` of the rows of reference agents; everything else stays as it is. Then
make the page anew: python -m goalmeter.experiments.ledger.page > docs/ledger.md
"""

from __future__ import annotations

import sys
from typing import Any

from goalmeter.experiments.ledger.from_results import in_percent, put_into_ledger, with_results
from goalmeter.experiments.ledger.number import Number
from goalmeter.experiments.lm_navigation.compute import COMPASS, LEDGER_PREFIX


def updated(text: str, results: dict[str, Any]) -> tuple[str, list[str]]:
    """The text of a ledger with the numbers of a replication, and the ids of its rows."""

    def values(row: Number) -> dict[str, str] | None:
        agent, _, quantity = row.id.removeprefix(LEDGER_PREFIX).partition("/")
        shares = in_percent(results["agents"].get(agent, {}).get(quantity))
        if row.relation != "reference" or shares is None:
            return None
        if agent == COMPASS and quantity.startswith("maze/") and quantity.split("/")[2] == "0":
            # In a room without walls the compass takes shortest ways; ten rooms do not know that.
            return shares | {"interval": "[100.00, 100.00]"}
        return shares

    return with_results(text, results, "lm-navigation", LEDGER_PREFIX, values)


def main(arguments: list[str]) -> None:
    """Update the ledger; says which rows it wrote."""
    put_into_ledger(arguments, updated)


if __name__ == "__main__":
    main(sys.argv[1:])
