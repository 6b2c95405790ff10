"""The ledger as a page of documentation: a summary by verdict, then a table for each source.

python -m replications.ledger.page > docs/ledger.md
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from goalmeter.statistics import Verdict
from replications import ledger
from replications.common import FEWEST, TOO_FEW, Interval
from replications.ledger import Margin, Number, load, margins, say

_SIDES = [f"{side}{of}" for side in ("above", "below") for of in ("", " the reference")]
# Column of the summary -> the verdicts that it counts.
_COLUMNS: dict[str, Sequence[str]] = {
    "same or equal": (ledger.AS_PRINTED, Verdict.EQUAL),
    "bound holds": (ledger.HOLDS,),
    "above or below": (ledger.VIOLATED, *_SIDES),
    "cannot be told": (Verdict.UNTOLD, TOO_FEW),
    "not compared": (ledger.NOT_COMPARED,),
    ledger.NOT_RUN: (ledger.NOT_RUN,),
    ledger.NOT_YET: (ledger.NOT_YET,),
}
_COUNTED = {verdict: column for column, verdicts in _COLUMNS.items() for verdict in verdicts}


def markdown(rows: Sequence[Number], known: Sequence[Margin]) -> str:
    """Return the ledger as a page of documentation."""
    names = say.declared("experiments")
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        name = names[row.id.partition("/")[0]]
        counts.setdefault(name, Counter())[_COUNTED[row.counted]] += 1
    total = counts["all"] = sum(counts.values(), Counter())
    texts = say(
        "page",
        rows=len(rows),
        not_yet=total[ledger.NOT_YET],
        not_run=total[ledger.NOT_RUN],
        as_printed=ledger.AS_PRINTED,
        holds=ledger.HOLDS.capitalize(),
        untold=str(Verdict.UNTOLD).capitalize(),
        fewest=FEWEST,
    )
    lines = [
        *texts["head"],
        _line("rows by verdict", *_COLUMNS, "all"),
        f"|---|{'---:|' * (len(_COLUMNS) + 1)}",
        *(
            _line(n, *map(count.__getitem__, _COLUMNS), count.total())
            for n, count in counts.items()
        ),
        *texts["rules"],
        _line("margin", "rows", "why"),
        "|---|---|---|",
    ]
    for margin in known:
        within = f"±{margin.within:g} {margin.unit}".rstrip()
        lines.append(_line(within, f"`{margin.rows}`", margin.reason))
    # Neighbouring rows that share these stand in one table, below one source and command.
    shared = attrgetter("quantity", "source", "command", "relation")
    for (quantity, source, command, relation), group in groupby(rows, key=shared):
        how = f"Command: `{command}`." if command else "Not computed yet, by any command."
        title = f"## {quantity[0].upper()}{quantity[1:]}"
        lines += ["", title, "", f"Source: {source}. {how}", "", *_table(relation, list(group))]
    return "\n".join(lines) + "\n"


def _table(relation: str, rows: Sequence[Number]) -> list[str]:
    entry = "estimates" if relation == "estimate" else "numbers"
    table = say.table(entry, map(_values, rows))
    rules = ("---:" if head.numeric else "---" for head in table.heads)
    heads = [head.full for head in table.heads]
    lines = [heads, *([cell.text for cell in row] for row in table.cells)]
    head, *body = (_line(*line) for line in lines)
    return [head, f"|{'|'.join(rules)}|", *body]


def _line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _values(row: Number) -> dict[str, Any]:
    ran = {name: getattr(row, name) for name in ("ours", "error", "seeds", "tolerance")}
    # The verdict on an estimate has its z; where the print is a mistake, there is that on it, too.
    z = "" if math.isnan(row.z) else f", z = {row.z:+.2f}"
    verdict = f"{row.verdict}{z}"
    if row.corrected is not None and z:
        verdict = f"their data: {verdict}; the print: {row.verdict_on_print}"
    data = "" if row.corrected is None else f" (their data: {row.corrected:+.6f})"
    return {
        "row": row,
        "printed": row.published + data,
        "theirs": _ends(row.published_interval),
        "interval": _ends(row.interval),
        "verdict": verdict,
        "remark": f"{row.remark} {row.found}".strip(),
    } | {name: value if row.ran else None for name, value in ran.items()}


def _ends(interval: Interval | None) -> str | None:
    return None if interval is None else f"{interval[0]:g} to {interval[1]:g}"


if __name__ == "__main__":
    import sys

    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # whatever the locale is
    sys.stdout.write(markdown(load(), margins()))
