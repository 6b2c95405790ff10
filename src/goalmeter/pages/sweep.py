"""Report of sweeps: means by policy and utility, curves over arguments, and failures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from goalmeter.meg.sweeps.plan import POLICY, WORDS
from goalmeter.meg.sweeps.sweep import load
from goalmeter.meg.sweeps.table import FAILED, OPEN, Sweep
from goalmeter.meg.sweeps.table import SweepGroup as Group
from goalmeter.meg.sweeps.worlds import SEED, is_number
from goalmeter.pages import prose
from goalmeter.pages.part import Part
from goalmeter.report import Figure, Finding, Link, Section, Table
from goalmeter.report.charts import STROKES, Curve, curve_chart
from goalmeter.report.numbers import general, nats
from goalmeter.report.tables import column, share_bar, table_of, words

# --- Tables ---------------------------------------------------------------------------------------
say = partial(prose, "sweep")  # the texts of the page
# Sentences of each kind that a table shows.
MOST_SENTENCES = 20


class Said(NamedTuple):
    """A sentence and the rows that say it."""

    status: str
    rows: int
    sentence: str


def summary_table(sweep: Sweep, anchor: str = "") -> Table:
    """A row for each policy and utility."""
    texts = say("summary")
    return table_of(
        sweep.summary,
        [
            words("policy", lambda group: group.policy),
            words("utility", lambda group: group.utility),
            column("MEG, nats", Group.value_in_words, answer=True),
            column("share of maximum", lambda group: group.fraction, share_bar),
            column("worlds", lambda group: group.measured),
            column("not certified", lambda group: group.open),
            column("failed", lambda group: group.failed),
        ],
        caption=sweep.heading,
        meaning=texts["meaning"],
        notes=texts["notes"],
        anchor=anchor,
    )


def failures_table(sweep: Sweep, anchor: str = "") -> Table | None:
    """What rows say that failed or are not certified; None if there are none."""
    rows: list[Said] = []
    left = 0
    for status, name in ((FAILED, "failed"), (OPEN, "not certified")):
        said = [Said(name, times, text) for text, times in sweep.sentences(status).items()]
        rows += said[:MOST_SENTENCES]
        left += len(said[MOST_SENTENCES:])
    if not rows:
        return None
    notes = [f"{left} sentences that fewer rows say are left out."] if left else []
    return table_of(
        rows,
        [
            words("rows that", lambda row: row.status),
            column("rows", lambda row: row.rows),
            words("say", lambda row: row.sentence),
        ],
        **say("failures"),
        notes=notes,
        anchor=anchor,
    )


def failures_in_words(sweeps: Sequence[Sweep]) -> list[str]:
    """How many rows failed or are not certified, a sentence for each sweep that has some."""
    out = []
    for sweep in sweeps:
        counts = sweep.counts
        if counts[FAILED] or counts[OPEN]:
            out.append(
                f"Of {len(sweep)} rows, {counts[FAILED]} failed and {counts[OPEN]} are not "
                f"certified."
            )
    return out


# --- Pictures -------------------------------------------------------------------------------------
# Charts of a sweep: more would be a wall that nobody reads.
MOST_CHARTS = 8


def curves(sweep: Sweep, prefix: str) -> tuple[Figure, ...]:
    """A chart for each numeric argument and each utility, as many as can be read."""
    return (*_over_policies(sweep, prefix), *_over_worlds(sweep, prefix))[:MOST_CHARTS]


def _over_policies(sweep: Sweep, prefix: str) -> Iterable[Figure]:
    for word, arguments in WORDS[POLICY].items():
        for argument in arguments:
            groups = [
                (float(group.policy_arguments[argument]), group)
                for group in sweep.summary
                if argument in group.policy_arguments and group.policy.startswith(f"{word}(")
            ]
            by_utility = _lines((group.utility, x, group) for x, group in groups)
            if drawn := _chart(
                f"{prefix}-{word}",
                by_utility,
                x_label=argument,
                caption=f"MEG of {word} policies over {argument}, by utility.",
            ):
                yield drawn


def _over_worlds(sweep: Sweep, prefix: str) -> Iterable[Figure]:
    for entry in sweep.columns:
        values = sweep.argument_values(entry) if entry.startswith("world.") else []
        name = entry.partition(".")[2]
        if name == SEED or len(set(map(str, values))) < 2 or not all(map(is_number, values)):
            continue
        groups = sweep.by_argument(name)
        for number, utility in enumerate(sweep.plan.utilities):
            lines = _lines(
                (group.policy, float(group.at[1]), group)
                for group in groups
                if group.utility == utility.label and group.at is not None
            )
            if drawn := _chart(
                f"{prefix}-world-{name}-{number}",
                lines,
                x_label=name,
                caption=f"MEG towards {utility.label} over the worlds' {name}, by policy.",
            ):
                yield drawn


_Line = list[tuple[float, Group]]


def _lines(points: Iterable[tuple[str, float, Group]]) -> dict[str, _Line]:
    """The points of each line, from left to right; those without a place or a value left out."""
    out: dict[str, _Line] = {}
    for label, x, group in points:
        if math.isfinite(x) and math.isfinite(group.value.value):
            out.setdefault(label, []).append((x, group))
    return {label: sorted(line, key=lambda point: point[0]) for label, line in out.items()}


def _chart(name: str, lines: dict[str, _Line], *, x_label: str, caption: str) -> Figure | None:
    """A chart of a few lines, or None where none has two points."""
    several = {label: line for label, line in lines.items() if len(line) > 1}
    if not several:
        return None
    shown = dict(list(several.items())[: len(STROKES)])
    left = len(several) - len(shown)
    drawn = []
    for (label, line), (colour, stroke) in zip(shown.items(), STROKES, strict=False):
        ends = [group.value.interval or (group.value.value,) * 2 for _, group in line]
        drawn.append(
            Curve(
                label=label,
                x=[x for x, _ in line],
                y=[group.value.value for _, group in line],
                low=[low for low, _ in ends],
                high=[high for _, high in ends],
                colour=colour,
                stroke=stroke,
                marker="o",
            )
        )
    return Figure(
        svg=curve_chart(name, drawn, x_label=x_label, y_label="MEG, nats", limits=(0.0, None)),
        alt=f"{caption} {_in_words(shown)}",
        caption=f"{caption}{f' {left} more are in the table alone.' if left else ''}",
    )


def _in_words(lines: dict[str, _Line]) -> str:
    return " ".join(
        f"{label}: "
        + ", ".join(f"{nats(group.value.value)} at {general(x, 3)}" for x, group in line)
        + "."
        for label, line in lines.items()
    )


# --- Page -----------------------------------------------------------------------------------------
def part_of_runs(runs: Sequence[str | Path], tell: Callable[[str], None]) -> Part:
    """What runs of `goalmeter meg sweep --out` have to say; see `pages.part`."""
    sweeps = []
    for run in runs:
        tell(f"reading {run}")
        sweeps.append(load(run))
    return part_of(sweeps)


def part_of(sweeps: Sequence[Sweep]) -> Part:
    """What sweeps have to say, one after the other."""
    return Part(
        **say("part"),
        sections=[section for n, sweep in enumerate(sweeps, start=1) for section in _of(sweep, n)],
        findings=findings(sweeps),
        glossary=say("glossary"),
        tables=tuple(table for sweep in sweeps for table in short_tables(sweep)),
        runs=[
            {key: value for key, value in sweep.to_json().items() if key != "rows"}
            for sweep in sweeps
        ],
    )


def short_tables(sweep: Sweep) -> tuple[Table, ...]:
    """The tables for a terminal: means, and what failed."""
    failures = failures_table(sweep)
    return (summary_table(sweep), *(() if failures is None else (failures,)))


def findings(sweeps: Sequence[Sweep]) -> list[Finding]:
    """The page in a few sentences: what went wrong, and the most and the least goal-directed."""
    out = [Finding(text=line) for line in failures_in_words(sweeps)]
    for number, sweep in enumerate(sweeps, start=1):
        table = summary_table(sweep, _anchor("summary", number))
        for utility in sweep.plan.utilities:
            groups = [
                group
                for group in sweep.summary
                if group.utility == utility.label and group.measured
            ]
            if not groups:
                continue
            ranked = sorted(groups, key=lambda group: -group.value.value)
            said = [f"{group.policy} {group.value_in_words()}" for group in (ranked[0], ranked[-1])]
            # Which is the higher one in truth, intervals of the same worlds side by side do not
            # tell: the sentence says what was measured.
            text = f"Towards {utility.label}, mean MEG in nats: {said[0]}"
            text += f" (the highest), {said[1]} (the lowest)." if len(ranked) > 1 else "."
            link = Link("all means", table.anchor)
            out.append(Finding(text=text, links=(link,)))
    return out


def _of(sweep: Sweep, number: int) -> list[Section]:
    prefix = f"sweep-{number}"
    suffix = f" ({number})" if number > 1 else ""
    table = summary_table(sweep, _anchor("summary", number))
    out = [Section(tables=(table,), **_titled("summary_section", suffix))]
    if figures := curves(sweep, prefix):
        out.append(Section(figures=figures, **_titled("curves_section", suffix)))
    failures = failures_table(sweep, _anchor("failures", number))
    if failures is not None:
        out.append(Section(tables=(failures,), **_titled("failures_section", suffix)))
    return out


def _titled(name: str, suffix: str) -> dict[str, Any]:
    texts = say(name)
    return texts | {"title": f"{texts['title']}{suffix}"}


def _anchor(name: str, number: int) -> str:
    """The id of a table of the sweep of that number."""
    return f"sweep-{number}-{name}"
