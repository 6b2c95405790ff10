"""The ledger as a page of documentation: a summary by verdict, then a table for each source.

python -m goalmeter.experiments.ledger.page > docs/ledger.md
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from goalmeter.experiments.ledger import (
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
from goalmeter.statistics.verdicts import Interval, Verdict
from goalmeter.statistics.welch import FEWEST, TOO_FEW

# Experiment -> how the summary names it.
EXPERIMENTS = {
    "example-1": "MEG: Example 1 and the naive plug-in",
    "meg-cliffworld": "MEG: CliffWorld",
    "reflection-table-1": "self-reflection: Table 1",
    "tempting-button": "self-reflection: the tempting button",
    "lm-navigation": "language models: behaviour",
    "lm-representation": "language models: maps, decoded maps and plans",
}
# Verdict -> the columns of the summary count it by.
_COLUMNS = (
    "same or equal",
    "bound holds",
    "above or below",
    "cannot be told",
    "not compared",
    NOT_RUN,
    NOT_YET,
)
_COUNTED = {
    AS_PRINTED: "same or equal",
    Verdict.EQUAL: "same or equal",
    HOLDS: "bound holds",
    VIOLATED: "above or below",
    Verdict.ABOVE: "above or below",
    Verdict.BELOW: "above or below",
    f"{Verdict.ABOVE} the reference": "above or below",
    f"{Verdict.BELOW} the reference": "above or below",
    Verdict.UNTOLD: "cannot be told",
    TOO_FEW: "cannot be told",
    NOT_COMPARED: "not compared",
    NOT_RUN: NOT_RUN,
    NOT_YET: NOT_YET,
}


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
        "Made from `src/goalmeter/experiments/ledger/ledger.toml` by "
        "`python -m goalmeter.experiments.ledger.page > docs/ledger.md`; do not edit by hand.",
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
            f"| {EXPERIMENTS[name]} | {' | '.join(str(found[c]) for c in _COLUMNS)} "
            f"| {found.total()} |"
            for name, found in by_experiment.items()
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
        "of the kind stands for it (`goalmeter.experiments.lm_navigation.spread`); shares of walks "
        "have Wilson's interval. Intervals of both sides are combined by Zou and Donner's method.",
        "",
        "| margin | rows | why |",
        "|---|---|---|",
        *(
            f"| ±{f'{margin.within:g} {margin.unit}'.rstrip()} | `{margin.rows}` "
            f"| {margin.reason} |"
            for margin in known
        ),
    ]


def _numbers(rows: Sequence[Number]) -> list[str]:
    """A table of rows of one relation; columns that none of them fills are left out."""
    intervals = any(row.interval for row in rows)
    theirs = any(row.published_interval for row in rows)
    heads = [
        ("setting", "---"),
        ("published", "---:"),
        *([("95% interval", "---:")] if theirs else []),
        ("ours", "---:"),
        *([("95% interval", "---:")] if intervals else []),
        ("tolerance", "---:"),
        ("cost", "---"),
        ("verdict", "---"),
        ("remark", "---"),
    ]
    lines = ["| " + " | ".join(h for h, _ in heads) + " |", f"|{'|'.join(a for _, a in heads)}|"]
    for row in rows:
        cells = [
            row.setting,
            row.published,
            *([_ends(row.published_interval)] if theirs else []),
            f"{row.ours:g}" if row.ran else "–",
            *([_ends(row.interval)] if intervals else []),
            f"{row.tolerance:g}" if row.ran else "–",
            row.cost,
            row.verdict,
            row.remark,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _estimates(rows: Sequence[Number]) -> list[str]:
    lines = [
        "| setting | published, as printed | standard error | ours | standard error | seeds "
        "| tolerance | cost | verdict | remark |",
        "|---|---:|---:|---:|---:|---:|---:|---|---|---|",
    ]
    for row in rows:
        ours, tolerance = "– | – | –", "–"
        if row.ran:
            ours = f"{row.ours:+.6f} | {row.error:.6f} | {row.seeds}"
            tolerance = f"{row.tolerance:g}"
        printed = row.published
        if row.corrected is not None:
            printed += f" (their data: {row.corrected:+.6f})"
        lines.append(
            f"| {row.setting} | {printed} | {row.published_error:.6f} | {ours} "
            f"| {tolerance} | {row.cost} | {verdict_text(row)} "
            f"| {f'{row.remark} {row.found}'.strip()} |"
        )
    return lines


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
