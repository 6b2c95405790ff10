"""Sweeps as a part of a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from goalmeter.meg.sweeps.measure import load
from goalmeter.meg.sweeps.result import Sweep
from goalmeter.pages.part import Part
from goalmeter.pages.sweep.pictures import curves
from goalmeter.pages.sweep.tables import failures_in_words, failures_table, say, summary_table
from goalmeter.report import Finding, Link, Section, Table


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
