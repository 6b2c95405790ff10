"""Report of sweeps: means by policy and utility, curves over arguments, and failures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from goalmeter.meg.sweeps.plan import POLICY, WORDS
from goalmeter.meg.sweeps.sweep import load as load
from goalmeter.meg.sweeps.table import FAILED, OPEN, Sweep, SweepGroup
from goalmeter.meg.sweeps.worlds import SEED, is_number
from goalmeter.pages import Content, Texts
from goalmeter.pages.part import Part, without
from goalmeter.report import Figure, Finding, Link, Section, Table
from goalmeter.report.charts import STROKES, Curve
from goalmeter.report.numbers import general, nats
from goalmeter.runs.progress import Tell

say = Texts("sweep")
# Sentences of each kind that a table shows, and charts of a sweep: more nobody reads.
MOST_SENTENCES, MOST_CHARTS = 20, 8


# --- Tables ---------------------------------------------------------------------------------------
def summary_table(sweep: Sweep, anchor: str = "") -> Table:
    """Return the table of means by policy and utility."""
    return say.table("summary", sweep.summary, anchor=anchor, heading=sweep.heading)


def failures_table(sweep: Sweep, anchor: str = "") -> Table | None:
    """Return the table of messages of failed and uncertified rows; None for none."""
    rows: list[tuple[str, int, str]] = []
    left = 0
    for status, name in ((FAILED, "failed"), (OPEN, "not certified")):
        said = [(name, times, text) for text, times in sweep.sentences(status).items()]
        rows += said[:MOST_SENTENCES]
        left += len(said[MOST_SENTENCES:])
    notes = [f"{left} sentences that fewer rows say are left out."] if left else []
    return say.table("failures", rows, anchor=anchor, notes=notes) if rows else None


# --- Pictures -------------------------------------------------------------------------------------
def curves(sweep: Sweep, prefix: str) -> tuple[Figure, ...]:
    """Draw a chart for each numeric argument and utility, up to `MOST_CHARTS`."""
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


_Line = list[tuple[float, SweepGroup]]


def _lines(points: Iterable[tuple[str, float, SweepGroup]]) -> dict[str, _Line]:
    """The points of each line, from left to right; those without a place or a value left out."""
    out: dict[str, _Line] = {}
    for label, x, group in points:
        if math.isfinite(x) and math.isfinite(group.value.value):
            out.setdefault(label, []).append((x, group))
    return {label: sorted(line, key=lambda point: point[0]) for label, line in out.items()}


def _chart(name: str, lines: dict[str, _Line], *, x_label: str, caption: str) -> Figure | None:
    """A chart of a few lines, or None where none has two points."""
    several = [(label, line) for label, line in lines.items() if len(line) > 1]
    if not several:
        return None
    shown = several[: len(STROKES)]
    left = len(several) - len(shown)
    curves = [
        Curve.of(
            label,
            [x for x, _ in line],
            [group.value for _, group in line],
            colour=colour,
            stroke=stroke,
            marker="o",
        )
        for (label, line), (colour, stroke) in zip(shown, STROKES, strict=False)
    ]
    values = " ".join(
        f"{label}: "
        + ", ".join(f"{nats(group.value.value)} at {general(x, 3)}" for x, group in line)
        + "."
        for label, line in shown
    )
    more = f" {left} more are in the table alone." if left else ""
    texts = {"caption": caption, "values": values, "left": more}
    return say.curves("curves", name, curves, {"x_label": x_label}, **texts)


# --- Page -----------------------------------------------------------------------------------------
def part_of(sweeps: Sequence[Sweep], tell: Tell | None = None) -> Part:
    """Return the page part of sweeps."""
    return Part(
        **say("part"),
        sections=[section for n, sweep in enumerate(sweeps, start=1) for section in _of(sweep, n)],
        findings=findings(sweeps),
        glossary=say("glossary"),
        tables=tuple(table for sweep in sweeps for table in short_tables(sweep)),
        runs=[without(sweep.to_json(), "rows") for sweep in sweeps],
    )


def short_tables(sweep: Sweep) -> tuple[Table, ...]:
    """Return the tables for a terminal: means and failures."""
    failures = failures_table(sweep)
    return (summary_table(sweep), *(() if failures is None else (failures,)))


def findings(sweeps: Sequence[Sweep]) -> list[Finding]:
    """Return the findings: failures, and the most and the least goal-directed policies."""
    out = []
    for sweep in sweeps:
        failed, uncertified = sweep.counts[FAILED], sweep.counts[OPEN]
        if failed or uncertified:
            text = f"Of {len(sweep)} rows, {failed} failed and {uncertified} are not certified."
            out.append(Finding(text=text))
    for number, sweep in enumerate(sweeps, start=1):
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
            out.append(Finding(text=text, links=(Link("all means", _anchor("summary", number)),)))
    return out


def _of(sweep: Sweep, number: int) -> list[Section]:
    suffix = f" ({number})" if number > 1 else ""
    content: dict[str, Sequence[Content]] = {
        "summary_section": [summary_table(sweep, _anchor("summary", number))],
        "curves_section": curves(sweep, f"sweep-{number}"),
        "failures_section": [failures_table(sweep, _anchor("failures", number))],
    }
    return [
        say.section(name, parts, suffix=suffix) for name, parts in content.items() if any(parts)
    ]


def _anchor(name: str, number: int) -> str:
    """The id of a table of the sweep of that number."""
    return f"sweep-{number}-{name}"
