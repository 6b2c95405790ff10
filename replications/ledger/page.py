"""The ledger as a page of documentation, with a CSV file of everything that is known of each row.

python -m replications.ledger.page docs    # writes docs/ledger.md and docs/results/ledger.csv
"""

from __future__ import annotations

import csv
import io
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from goalmeter.report import write_text
from replications import ledger
from replications.common import FEWEST, Interval
from replications.ledger import Margin, Number, load, margins, say

PAGE, DATA = "ledger.md", "results/ledger.csv"
# Column of the summary -> the verdicts that it counts.
_COLUMNS: dict[str, list[str]] = say.declared("verdicts")
_COUNTED = {verdict: column for column, verdicts in _COLUMNS.items() for verdict in verdicts}
NumberedRow = tuple[int, Number]
_DIGITS = 5  # significant ones of a number of ours that is not an average


def markdown(rows: Sequence[Number], known: Sequence[Margin]) -> str:
    """Return the ledger as a page of documentation."""
    papers = say.declared("papers")
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        name = say.declared("experiments")[_experiment(row)]
        counts.setdefault(name, Counter())[_COUNTED[row.counted]] += 1
    counts["all"] = sum(counts.values(), Counter())
    numbered = list(enumerate(rows, 1))
    values: dict[str, Any] = {"n": len(rows), "data": DATA, "few": FEWEST}
    values["rows"] = {row.id: row for row in rows}
    texts = say("page", **values)
    counted = ((n, {c: of[c] for c in _COLUMNS} | {"all": of.total()}) for n, of in counts.items())
    within = ((f"±{margin.within:g} {margin.unit}".rstrip(), margin) for margin in known)
    lines = [*texts["head"], *_table("summary", counted)]
    for name, paper in papers.items():
        of_paper = [(n, r) for n, r in numbered if _experiment(r) in paper["experiments"]]
        if of_paper:
            summary = say.filled(paper["summary"], values | _tallies(r for _, r in of_paper))
            lines += ["", f"## {name}", "", *(f"- {point}" for point in summary)]
            lines += [*_tables(of_paper), *_details(of_paper)]
    return "\n".join([*lines, *texts["rules"], *_table("margins", within), ""])


def _experiment(row: Number) -> str:
    return row.id.partition("/")[0]


def _tallies(rows: Iterable[Number]) -> dict[str, Any]:
    """Count the rows of a paper by verdict, for each experiment and relation."""
    of: dict[str, Counter[str]] = {"all": Counter()}
    for row in rows:
        for name in ("all", _experiment(row), row.relation):
            of.setdefault(name, Counter())[row.counted] += 1
    return {"of": of}


def _tables(numbered: Sequence[NumberedRow]) -> Iterator[str]:
    """A table for neighbouring rows of one quantity."""
    for quantity, group in groupby(numbered, key=lambda each: each[1].quantity):
        yield from ("", f"### {quantity[0].upper()}{quantity[1:]}", "")
        yield from _table("numbers", (_values(*each) for each in group))


def _details(numbered: Sequence[NumberedRow]) -> Iterator[str]:
    """Sources, commands, remarks and inconclusive differences of a paper, by row."""
    first, last = numbered[0][0], numbered[-1][0]
    commands = _by_rows(numbered, lambda row: [(row.source, row.command)])
    remarks = _by_rows(numbered, lambda row: [*row.remarks, *filter(None, [row.needs])])
    differences = [
        {"n": n, "row": row, "now": _difference(row), "exact": _difference(row.if_exact)}
        for n, row in numbered
        if row.undecided in (ledger.PRINT, ledger.OURS)
    ]
    yield from ("", f"<details><summary>{say.line('details', first=first, last=last)}</summary>")
    yield from ("", *_table("commands", commands))
    yield from ("", *(f"- *{rows}*: {remark}" for rows, remark in remarks))
    if differences:
        yield from ("", say.line("undecided"), "", *_table("differences", differences))
    yield from ("", "</details>")


def _difference(row: Number) -> str:
    return _ends(row.difference_interval(row.theirs))


def _by_rows(
    numbered: Sequence[NumberedRow], texts_of: Callable[[Number], Iterable[Any]]
) -> list[tuple[str, Any]]:
    """Return each text of some rows once, behind the numbers of its rows."""
    rows: dict[Any, list[int]] = {}
    for n, row in numbered:
        for text in texts_of(row):
            rows.setdefault(text, []).append(n)
    return [(_runs(of), text) for text, of in rows.items()]


def _runs(numbers: Sequence[int]) -> str:
    """Return increasing numbers as text: 1–3, 5."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _table(entry: str, rows: Iterable[Any]) -> list[str]:
    table = say.table(entry, rows)
    rules = ("---:" if head.numeric else "---" for head in table.heads)
    heads = [head.full for head in table.heads]
    lines = [heads, *([cell.text for cell in row] for row in table.cells)]
    head, *body = (f"| {' | '.join(line)} |" for line in lines)
    return [head, f"|{'|'.join(rules)}|", *body]


def _values(n: int, row: Number) -> dict[str, Any]:
    data = "" if row.corrected is None else say.line("data", value=row.corrected)
    theirs = row.published_interval
    return {
        "n": n,
        "setting": row.setting,
        "published": row.published + data + (f" [{_ends(theirs)}]" if theirs else ""),
        "ours": _ours(row) if row.ran else None,
        "verdict": _verdict(row),
        "new_mazes": say.line("new_mazes", row=row) if row.on_new_mazes else None,
    }


def _ours(row: Number) -> str:
    if row.relation == "estimate":
        return say.line("estimate", row=row)
    value = f"{row.ours:.{_DIGITS}g}"
    return value if row.interval is None else f"{row.ours:.4g} [{_ends(row.interval)}]"


def _verdict(row: Number) -> str:
    """The verdict, why there is none, and where the print is a mistake the verdict on it."""
    verdict = row.verdict
    if row.undecided:
        verdict += ": " + say.declared("undecided")[row.undecided]
    if not row.ran or not row.verdict_on_print:
        return verdict
    return say.line("misprint", row=row, verdict=verdict)


def _ends(interval: Interval | None) -> str:
    return "" if interval is None else ", ".join(f"{end:.3g}" for end in interval)


# --- The data -------------------------------------------------------------------------------------
def csv_text(rows: Sequence[Number]) -> str:
    """Return every row with all its fields and verdicts as CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _FIELDS, lineterminator="\n")
    writer.writeheader()
    for n, row in enumerate(rows, 1):
        fields = {name: getattr(row, name) for name in _FIELDS if hasattr(row, name)}
        fields |= {
            "row": n,
            "remarks": " ".join(row.remarks),
            "margin": None if row.margin is None else row.margin.within,
            "difference": row.difference_interval(row.theirs) if row.ran else None,
        }
        writer.writerow({k: _cell(v) for k, v in fields.items() if v or k not in _COUNTS})
    return out.getvalue()


_FIELDS = (
    *("row", "id", "quantity", "setting", "published", "published_interval", "published_error"),
    *("published_seeds", "corrected", "ours", "interval", "error", "seeds", "difference", "z"),
    *("margin", "verdict", "verdict_on_print", "undecided", "on_new_mazes", "cells", "errors"),
    *(
        "ours_by_maze",
        "relation",
        "tolerance",
        "cost",
        "command",
        "needs",
        "source",
        "remarks",
        "found",
    ),
)

# Of these 0 is no number: the row has none.
_COUNTS = ("published_error", "published_seeds", "seeds", "cells")


def _cell(value: Any) -> Any:
    if isinstance(value, tuple):
        return " ".join(f"{number:.6g}" for number in value)
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return "" if missing else value


def write(folder: str | Path) -> None:
    """Write the page and its data into a folder of documentation."""
    rows = load()
    write_text(Path(folder) / PAGE, markdown(rows, margins()))
    write_text(Path(folder) / DATA, csv_text(rows))


if __name__ == "__main__":
    write(*sys.argv[1:])
