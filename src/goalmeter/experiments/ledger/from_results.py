"""The results of a replication put into the ledger, beside the published numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError
from goalmeter._files import write_text
from goalmeter.experiments.ledger.file import PATH, load, with_row
from goalmeter.experiments.ledger.number import Number

# Of a row: its values, spelled as TOML; None where the results have nothing for it.
ValuesOf = Callable[[Number], Mapping[str, str] | None]


def with_results(
    text: str, results: Mapping[str, Any], name: str, prefix: str, values_of: ValuesOf
) -> tuple[str, list[str]]:
    """The text of a ledger with the numbers of a replication, and the ids of the rows written.

    Args:
        text: of the ledger.
        results: as the replication wrote them.
        name: of the replication.
        prefix: of the ids of its rows.
        values_of: what is written into a row; its other keys stay as they are.
    """
    if results.get("replication") != name:
        raise InvalidFileError(
            f"the results are of {results.get('replication')!r}, expected {name!r}: give the "
            f"results.json that `goalmeter replicate {name}` wrote"
        )
    written = []
    for row in load(prefix):
        values = values_of(row)
        if values is not None:
            text = with_row(text, row.id, **values)
            written.append(row.id)
    return text, written


def in_percent(estimate: Mapping[str, Any] | None) -> dict[str, str] | None:
    """`ours`, `interval` and `seeds` of an estimate of a share; None of one without an interval.

    Args:
        estimate: JSON values of an `Estimate`; None if the results lack it.
    """
    if estimate is None or estimate["interval"] is None:
        return None
    low, high = (100 * end for end in estimate["interval"])
    return {
        "ours": f"{100 * estimate['value']:.5g}",
        "interval": f"[{low:.2f}, {high:.2f}]",
        "seeds": str(estimate["clusters"]),
    }


def put_into_ledger(
    arguments: Sequence[str],
    updated: Callable[[str, dict[str, Any]], tuple[str, list[str]]],
) -> None:
    """Read results, write the ledger, and say which rows were written.

    Args:
        arguments: the file of the results, and that of the ledger unless it is our own.
        updated: the text of a ledger with these results, and the ids of the rows written.
    """
    results, target = [*map(Path, arguments), PATH][:2]
    text, written = updated(target.read_text("utf-8"), json.loads(results.read_text("utf-8")))
    write_text(target, text)
    print(f"{len(written)} rows: {', '.join(written)}")
