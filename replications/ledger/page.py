"""The ledger as a page of documentation: a summary by verdict, then a table for each source.

python -m replications.ledger.page > docs/ledger.md
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from goalmeter.statistics import Verdict
from replications.kinds import FEWEST, TOO_FEW, Interval
from replications.ledger.rows import (
    AS_PRINTED,
    HOLDS,
    NOT_COMPARED,
    NOT_RUN,
    NOT_YET,
    VIOLATED,
    Margin,
    Number,
    load,
    margins,
)
from replications.prose import Texts

say = Texts("ledger")
_SIDES = [f"{side}{of}" for side in ("above", "below") for of in ("", " the reference")]
# Column of the summary -> the verdicts that it counts.
_COLUMNS: dict[str, Sequence[str]] = {
    "same or equal": (AS_PRINTED, Verdict.EQUAL),
    "bound holds": (HOLDS,),
    "above or below": (VIOLATED, *_SIDES),
    "cannot be told": (Verdict.UNTOLD, TOO_FEW),
    "not compared": (NOT_COMPARED,),
    NOT_RUN: (NOT_RUN,),
    NOT_YET: (NOT_YET,),
}
_COUNTED = {verdict: column for column, verdicts in _COLUMNS.items() for verdict in verdicts}


def counts(rows: Iterable[Number]) -> dict[str, Counter[str]]:
    """Experiment -> how many of its rows have each verdict, by the columns of the summary."""
    out: dict[str, Counter[str]] = {}
    for row in rows:
        out.setdefault(row.id.partition("/")[0], Counter())[_COUNTED[row.counted]] += 1
    return out


def markdown(rows: Sequence[Number], known: Sequence[Margin]) -> str:
    """Return the ledger as a page of documentation."""
    by_experiment = counts(rows)
    total = sum(by_experiment.values(), Counter())
    names = say.declared("experiments")
    summary = [(names[name], count) for name, count in by_experiment.items()]
    texts = say(
        "page",
        rows=len(rows),
        not_yet=total[NOT_YET],
        not_run=total[NOT_RUN],
        as_printed=AS_PRINTED,
        holds=HOLDS.capitalize(),
        untold=str(Verdict.UNTOLD).capitalize(),
        fewest=FEWEST,
    )
    lines = [
        *texts["head"],
        f"| rows by verdict | {' | '.join(_COLUMNS)} | all |",
        f"|---|{'---:|' * (len(_COLUMNS) + 1)}",
        *(
            f"| {name} | {' | '.join(str(count[c]) for c in _COLUMNS)} | {count.total()} |"
            for name, count in [*summary, ("all", total)]
        ),
        *texts["rules"],
        "| margin | rows | why |",
        "|---|---|---|",
        *(
            f"| ±{f'{margin.within:g} {margin.unit}'.rstrip()} | `{margin.rows}` "
            f"| {margin.reason} |"
            for margin in known
        ),
    ]
    # Neighbouring rows that share these stand in one table, below one source and command.
    shared = attrgetter("quantity", "source", "command", "relation")
    for (quantity, source, command, relation), group in groupby(rows, key=shared):
        how = f"Command: `{command}`." if command else "Not computed yet, by any command."
        lines += [
            "",
            f"## {quantity[0].upper()}{quantity[1:]}",
            "",
            f"Source: {source}. {how}",
            "",
            *(_estimates if relation == "estimate" else _numbers)(list(group)),
        ]
    return "\n".join(lines) + "\n"


# A column: its head, whether its cells are set to the right, and the cell of a row.
_Columns = Sequence[tuple[str, bool, Callable[[Number], str]]]


def _table(rows: Sequence[Number], columns: _Columns) -> list[str]:
    return [
        f"| {' | '.join(head for head, _, _ in columns)} |",
        f"|{'|'.join('---:' if right else '---' for _, right, _ in columns)}|",
        *(f"| {' | '.join(cell(row) for _, _, cell in columns)} |" for row in rows),
    ]


def _if_ran(spec: str, field: str) -> Callable[[Number], str]:
    return lambda row: format(getattr(row, field), spec) if row.ran else "–"


def _numbers(rows: Sequence[Number]) -> list[str]:
    """A table of rows of one relation; intervals that none of them has are left out."""
    theirs = ("95% interval", True, lambda row: _ends(row.published_interval))
    ours = ("95% interval", True, lambda row: _ends(row.interval))
    columns: _Columns = [
        ("setting", False, lambda row: row.setting),
        ("published", True, lambda row: row.published),
        *([theirs] if any(row.published_interval for row in rows) else []),
        ("ours", True, _if_ran("g", "ours")),
        *([ours] if any(row.interval for row in rows) else []),
        ("tolerance", True, _if_ran("g", "tolerance")),
        ("cost", False, lambda row: row.cost),
        ("verdict", False, lambda row: row.verdict),
        ("remark", False, lambda row: row.remark),
    ]
    return _table(rows, columns)


def _estimates(rows: Sequence[Number]) -> list[str]:
    columns: _Columns = [
        ("setting", False, lambda row: row.setting),
        ("published, as printed", True, _printed),
        ("standard error", True, lambda row: f"{row.published_error:.6f}"),
        ("ours", True, _if_ran("+.6f", "ours")),
        ("standard error", True, _if_ran(".6f", "error")),
        ("seeds", True, _if_ran("", "seeds")),
        ("tolerance", True, _if_ran("g", "tolerance")),
        ("cost", False, lambda row: row.cost),
        ("verdict", False, verdict_text),
        ("remark", False, lambda row: f"{row.remark} {row.found}".strip()),
    ]
    return _table(rows, columns)


def _printed(row: Number) -> str:
    data = "" if row.corrected is None else f" (their data: {row.corrected:+.6f})"
    return row.published + data


def verdict_text(row: Number) -> str:
    """The verdict on an estimate with its z; where the print is a mistake, on it as well."""
    text = row.verdict if math.isnan(row.z) else f"{row.verdict}, z = {row.z:+.2f}"
    if row.corrected is None or math.isnan(row.z):
        return text
    return f"their data: {text}; the print: {row.verdict_on_print}"


def _ends(interval: Interval | None) -> str:
    return "–" if interval is None else f"{interval[0]:g} to {interval[1]:g}"


if __name__ == "__main__":
    import sys

    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # whatever the locale is
    sys.stdout.write(markdown(load(), margins()))
