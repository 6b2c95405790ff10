"""The ledger as a page of documentation: a summary by verdict, then a table for each source.

python -m replications.ledger.page > docs/ledger.md
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from goalmeter.statistics import Verdict
from goalmeter.statistics.verdicts import FEWEST, TOO_FEW, Interval
from replications.ledger import (
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

# Experiment -> how the summary names it.
EXPERIMENTS = {
    "example-1": "MEG: Example 1 and the naive plug-in",
    "meg-cliffworld": "MEG: CliffWorld",
    "reflection-table-1": "self-reflection: Table 1",
    "tempting-button": "self-reflection: the tempting button",
    "lm-navigation": "language models: behaviour",
    "lm-representation": "language models: maps, decoded maps and plans",
}
# Column of the summary -> the verdicts that it counts.
_COLUMNS: dict[str, tuple[str, ...]] = {
    "same or equal": (AS_PRINTED, Verdict.EQUAL),
    "bound holds": (HOLDS,),
    "above or below": (
        VIOLATED,
        *(
            f"{side}{of}"
            for side in (Verdict.ABOVE, Verdict.BELOW)
            for of in ("", " the reference")
        ),
    ),
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
    """The ledger as a page of documentation."""
    lines = [
        "# Published numbers and ours",
        "",
        "Made from `replications/ledger/ledger.toml` by "
        "`python -m replications.ledger.page > docs/ledger.md`; do not edit by hand.",
        "",
        *_summary(rows),
        "",
        "A row is *stale* when its command no longer gives our value to within the tolerance. "
        "Cheap rows are recomputed by every run of the tests, slow ones by hand.",
        "",
        "## How a verdict is reached",
        "",
        *_rules(known),
    ]

    # Neighbouring rows that share these stand in one table, below one source and command.
    def head(row: Number) -> tuple[str, str, str, str]:
        return row.quantity, row.source, row.command, row.relation

    for (quantity, source, command, relation), group in groupby(rows, key=head):
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


def _summary(rows: Sequence[Number]) -> list[str]:
    by_experiment = counts(rows)
    total = sum(by_experiment.values(), Counter())
    return [
        f"{len(rows)} rows, in the order of the papers: {total[NOT_YET]} are of numbers that no "
        f"command computes yet, {total[NOT_RUN]} of numbers whose command was not run. Some "
        "published numbers have more than one row, beside several of ours.",
        "",
        f"| rows by verdict | {' | '.join(_COLUMNS)} | all |",
        f"|---|{'---:|' * (len(_COLUMNS) + 1)}",
        *(
            f"| {EXPERIMENTS[name]} | {' | '.join(str(count[c]) for c in _COLUMNS)} "
            f"| {count.total()} |"
            for name, count in by_experiment.items()
        ),
        f"| all | {' | '.join(str(total[c]) for c in _COLUMNS)} | {total.total()} |",
    ]


def _rules(known: Sequence[Margin]) -> list[str]:
    return [
        f"- Exact numbers: *{AS_PRINTED}* if ours rounds to the printed one; else ours is *above* "
        "or *below* it, or it *cannot be told* where ours lies within the printed ±. "
        f"*{HOLDS.capitalize()}*: the published number, a lower bound, is not above ours.",
        "- All others are judged by the 95% interval of the difference and a margin that is stated "
        "beforehand. *Equal within* the margin: the whole interval lies within it (two one-sided "
        "tests of equivalence, each at 2.5%). *Above*, *below*: the interval lies on one side of "
        f"0. *{str(Verdict.UNTOLD).capitalize()}*: everything else. Averages over fewer than "
        f"{FEWEST} seeds of ours are too few for any.",
        "- *Above* and *below* say where **ours** stands; *above* and *below the reference* where "
        "the **published** agent stands beside a reference agent of ours.",
        "- Estimates: Welch's t interval; z is the difference in its standard errors. Where the "
        "print is a mistake, ours is compared with the authors' data, and apart from that with the "
        "print.",
        "- Published means over grids came without a spread. How the compass varies between grids "
        "of the kind stands for it (`replications.lm_navigation.measurements`); "
        "shares of walks "
        "have Wilson's interval. Intervals of both sides are combined by Zou and Donner's method.",
        "- Intervals of what is decoded from the mouse are of an earlier method, which let an "
        "unseen grid weigh as much as the average one; they are too narrow where grids are of "
        "unequal size ([statistics.md](statistics.md)).",
        "",
        "| margin | rows | why |",
        "|---|---|---|",
        *(
            f"| ±{f'{margin.within:g} {margin.unit}'.rstrip()} | `{margin.rows}` "
            f"| {margin.reason} |"
            for margin in known
        ),
    ]


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
