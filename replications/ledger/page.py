"""The ledger as a page of documentation: a summary by verdict, then a table for each source.

python -m replications.ledger.page > docs/ledger.md
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from goalmeter.statistics import Verdict
from replications import ledger
from replications.common import FEWEST, Interval
from replications.ledger import Margin, Number, load, margins, say

# Column of the summary -> the verdicts that it counts.
_COLUMNS: dict[str, list[str]] = say.declared("verdicts")
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
    counted = ((n, {c: of[c] for c in _COLUMNS} | {"all": of.total()}) for n, of in counts.items())
    within = ((f"±{margin.within:g} {margin.unit}".rstrip(), margin) for margin in known)
    lines = [*texts["head"], *_table("summary", counted)]
    lines += [*texts["rules"], *_table("margins", within)]
    # Neighbouring rows that share these stand in one table, below one source and command.
    shared = attrgetter("quantity", "source", "command", "relation")
    for (quantity, source, command, relation), group in groupby(rows, key=shared):
        how = f"Command: `{command}`." if command else "Not computed yet, by any command."
        title = f"## {quantity[0].upper()}{quantity[1:]}"
        table = _table("estimates" if relation == "estimate" else "numbers", map(_values, group))
        lines += ["", title, "", f"Source: {source}. {how}", "", *table]
    return "\n".join(lines) + "\n"


def _table(entry: str, rows: Iterable[Any]) -> list[str]:
    table = say.table(entry, rows)
    rules = ("---:" if head.numeric else "---" for head in table.heads)
    heads = [head.full for head in table.heads]
    lines = [heads, *([cell.text for cell in row] for row in table.cells)]
    head, *body = (f"| {' | '.join(line)} |" for line in lines)
    return [head, f"|{'|'.join(rules)}|", *body]


def _values(row: Number) -> dict[str, Any]:
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
    } | {n: getattr(row, n) if row.ran else None for n in ("ours", "error", "seeds", "tolerance")}


def _ends(interval: Interval | None) -> str | None:
    return None if interval is None else f"{interval[0]:g} to {interval[1]:g}"


if __name__ == "__main__":
    import sys

    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # whatever the locale is
    sys.stdout.write(markdown(load(), margins()))
