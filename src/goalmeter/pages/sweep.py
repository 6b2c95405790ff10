"""Report of sweeps: means by policy and utility, curves over arguments, and failures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from goalmeter.meg.sweeps.plan import POLICY, SEED, WORDS, WORLD
from goalmeter.meg.sweeps.sweep import FAILED, OPEN, Sweep, SweepGroup
from goalmeter.meg.sweeps.sweep import load as load
from goalmeter.pages import Content, Texts
from goalmeter.pages.part import Part, without
from goalmeter.report import Figure, Finding, Link, Section, Table
from goalmeter.report.canvas import STROKES
from goalmeter.report.charts import Curve
from goalmeter.report.numbers import general, nats
from goalmeter.runs.progress import Tell
from goalmeter.runs.reading import is_number

say = Texts("sweep")
# Sentences of each kind that a table shows, and charts of a sweep: more nobody reads.
MOST_SENTENCES, MOST_CHARTS = 20, 8


_Points = list[tuple[str, float, SweepGroup]]  # the line, the place and the mean of each point


def curves(sweep: Sweep, prefix: str) -> list[Figure]:
    """Draw a chart for each numeric argument and utility, up to `MOST_CHARTS`."""
    drawn = [
        figure
        for name, argument, caption, points in (*_over_policies(sweep), *_over_worlds(sweep))
        if (figure := _chart(f"{prefix}-{name}", argument, caption, points)) is not None
    ]
    return drawn[:MOST_CHARTS]


def _over_policies(sweep: Sweep) -> Iterator[tuple[str, str, str, _Points]]:
    for word, takes in WORDS[POLICY].items():
        for argument in takes.parameters:
            points = [
                (group.utility, float(group.policy_arguments[argument]), group)
                for group in sweep.summary
                if argument in group.policy_arguments and group.policy.startswith(f"{word}(")
            ]
            yield word, argument, f"MEG of {word} policies over {argument}, by utility.", points


def _over_worlds(sweep: Sweep) -> Iterator[tuple[str, str, str, _Points]]:
    for entry, values in sweep.arguments.items():
        name = entry.removeprefix(f"{WORLD}.")  # as it is for those of policies and utilities
        numeric = all(is_number(value, math.inf) for value in values)
        if name in (entry, SEED) or len(set(map(str, values))) < 2 or not numeric:
            continue
        groups = sweep.means(name)
        for number, utility in enumerate(sweep.plan.utilities):
            points = [
                (group.policy, float(group.at[1]), group)
                for group in groups
                if group.utility == utility.label and group.at is not None
            ]
            caption = f"MEG towards {utility.label} over the worlds' {name}, by policy."
            yield f"world-{name}-{number}", name, caption, points


def _chart(name: str, argument: str, caption: str, points: _Points) -> Figure | None:
    """A chart of a few lines, or None where none has two points."""
    lines: dict[str, list[tuple[float, SweepGroup]]] = {}
    for label, x, group in points:
        if math.isfinite(x) and math.isfinite(group.value.value):
            lines.setdefault(label, []).append((x, group))
    several = [(label, line) for label, line in lines.items() if len(line) > 1]
    drawn, values = [], []
    for (label, line), (colour, stroke) in zip(several, STROKES, strict=False):
        line.sort(key=lambda point: point[0])
        xs, means = [x for x, _ in line], [group.value for _, group in line]
        drawn.append(Curve.of(label, xs, means, colour=colour, stroke=stroke, marker="o"))
        listed = ", ".join(f"{nats(group.value.value)} at {general(x, 3)}" for x, group in line)
        values.append(f"{label}: {listed}.")
    left = len(several) - len(drawn)
    more = f" {left} more are in the table alone." if left else ""
    texts = {"caption": caption, "values": " ".join(values), "left": more}
    return say.curves("curves", name, drawn, {"x_label": argument}, **texts) if drawn else None


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


def short_tables(sweep: Sweep, prefix: str = "") -> tuple[Table, ...]:
    """Return the tables of means by policy and utility and, if there are any, of failures."""
    rows: list[tuple[str, int, str]] = []
    left = 0
    for status, name in ((FAILED, "failed"), (OPEN, "not certified")):
        said = [(name, times, text) for text, times in sweep.sentences(status).items()]
        rows += said[:MOST_SENTENCES]
        left += len(said[MOST_SENTENCES:])
    notes = [f"{left} sentences that fewer rows say are left out."] if left else []
    anchors = [prefix and f"{prefix}-{name}" for name in ("summary", "failures")]
    summary = say.table("summary", sweep.summary, anchor=anchors[0], heading=sweep.heading)
    failures = say.table("failures", rows, anchor=anchors[1], notes=notes)
    return (summary, failures) if rows else (summary,)


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
            groups = [g for g in sweep.summary if g.utility == utility.label and g.measured]
            if not groups:
                continue
            ranked = sorted(groups, key=lambda group: -group.value.value)
            said = [f"{group.policy} {group.value_in_words()}" for group in (ranked[0], ranked[-1])]
            # Which is the higher one in truth, intervals of the same worlds side by side do not
            # tell: the sentence says what was measured.
            text = f"Towards {utility.label}, mean MEG in nats: {said[0]}"
            text += f" (the highest), {said[1]} (the lowest)." if len(ranked) > 1 else "."
            out.append(Finding(text=text, links=(Link("all means", f"sweep-{number}-summary"),)))
    return out


def _of(sweep: Sweep, number: int) -> Iterable[Section]:
    summary, *failures = short_tables(sweep, f"sweep-{number}")
    content: dict[str, Sequence[Content]] = {
        "summary_section": [summary],
        "curves_section": curves(sweep, f"sweep-{number}"),
        "failures_section": failures,
    }
    for name, parts in content.items():
        if parts:
            yield say.section(name, parts, suffix=f" ({number})" if number > 1 else "")
