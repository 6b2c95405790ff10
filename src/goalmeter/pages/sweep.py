"""Report of sweeps: means by policy and utility, curves over arguments, and failures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from goalmeter._files import is_number
from goalmeter.meg.sweeps.plan import POLICY, SEED, WORDS, WORLD
from goalmeter.meg.sweeps.sweep import FAILED, OPEN, Sweep, SweepGroup
from goalmeter.meg.sweeps.sweep import load as load
from goalmeter.pages import Contents, Part, Texts, without
from goalmeter.report import Figure, Finding, Section, Table
from goalmeter.report.canvas import STROKES
from goalmeter.report.charts import Curve
from goalmeter.report.numbers import general, nats
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clusters import Estimate

say = Texts("sweep", {"in_words": SweepGroup.value_in_words})
# Sentences of each kind that a table shows, and charts of a sweep: more nobody reads.
MOST_SENTENCES, MOST_CHARTS = 20, 8

_Points = list[tuple[str, float, Estimate]]  # the line, the place and the mean of each point


def curves(sweep: Sweep, prefix: str) -> list[Figure]:
    """Draw a chart for each numeric argument and utility, up to `MOST_CHARTS`."""
    told = (*_over_policies(sweep), *_over_worlds(sweep))
    return [chart for each in told if (chart := _chart(prefix, *each))][:MOST_CHARTS]


def _over_policies(sweep: Sweep) -> Iterator[tuple[str, str, str, _Points]]:
    for word, takes in WORDS[POLICY].items():
        for argument in takes.parameters:
            points = [
                (group.utility, float(group.policy_arguments[argument]), group.value)
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
                (group.policy, float(group.at), group.value)
                for group in groups
                if group.utility == utility.label
            ]
            caption = f"MEG towards {utility.label} over the worlds' {name}, by policy."
            yield f"world-{name}-{number}", name, caption, points


def _chart(prefix: str, name: str, argument: str, caption: str, points: _Points) -> Figure | None:
    """A chart of a few lines, or None where none has two points."""
    lines: dict[str, list[tuple[float, Estimate]]] = {}
    for label, x, mean in points:
        if math.isfinite(x) and math.isfinite(mean.value):
            lines.setdefault(label, []).append((x, mean))
    several = [(label, line) for label, line in lines.items() if len(line) > 1]
    drawn, values = [], []
    for (label, line), (colour, stroke) in zip(several, STROKES, strict=False):
        line.sort(key=itemgetter(0))
        xs, means = zip(*line, strict=True)
        drawn.append(Curve.of(label, xs, means, colour=colour, stroke=stroke, marker="o"))
        listed = ", ".join(f"{nats(mean.value)} at {general(x, 3)}" for x, mean in line)
        values.append(f"{label}: {listed}.")
    texts = {"caption": caption, "values": " ".join(values), "left": len(several) - len(drawn)}
    axes = {"x_label": argument}
    return say.curves("curves", f"{prefix}-{name}", drawn, axes, **texts) if drawn else None


def part_of(sweeps: Sequence[Sweep], tell: Tell | None = None) -> Part:
    """Return the page part of sweeps."""
    sections: list[Section] = []
    for number, sweep in enumerate(sweeps, start=1):
        prefix = f"sweep-{number}"
        means, *failures = short_tables(sweep, prefix)
        content: Contents = {"summary_section": [means], "curves_section": curves(sweep, prefix)}
        sections += say.sections({**content, "failures_section": failures}, number=number)
    return Part(
        **say("part"),
        sections=sections,
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
    summary, failures = (prefix and f"{prefix}-{name}" for name in ("summary", "failures"))
    means = say.table("summary", sweep.summary, anchor=summary, heading=sweep.heading)
    return (means, say.table("failures", rows, anchor=failures, left=left)) if rows else (means,)


def findings(sweeps: Sequence[Sweep]) -> list[Finding]:
    """Return the findings: failures, and the most and the least goal-directed policies."""
    out = []
    for sweep in sweeps:
        failed, uncertified = sweep.counts[FAILED], sweep.counts[OPEN]
        if failed or uncertified:
            text = f"Of {len(sweep)} rows, {failed} failed and {uncertified} are not certified."
            out.append(Finding(text=text))
    for number, sweep in enumerate(sweeps, start=1):
        link = {"to": f"sweep-{number}-summary", "words": "all means"}
        for utility in (choice.label for choice in sweep.plan.utilities):
            groups = [g for g in sweep.summary if g.utility == utility and g.measured]
            groups.sort(key=lambda group: -group.value.value)
            if groups:
                least = groups[-1] if len(groups) > 1 else None
                ends: dict[str, Any] = {"utility": utility, "most": groups[0], "least": least}
                out.append(say.finding("found", **link, **ends))
    return out
