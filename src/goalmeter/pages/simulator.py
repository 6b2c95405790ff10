"""Report of goal-directedness in simulators: intervals, their convergence, and differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from goalmeter._errors import IncompleteRunError
from goalmeter.meg.simulator.measure import KEY, KIND, Measurement
from goalmeter.meg.simulator.result import NO_MAXIMUM
from goalmeter.pages import Texts
from goalmeter.pages.part import Part
from goalmeter.report import Figure, Finding, Link, Section, Table
from goalmeter.report.canvas import BLUE, VERMILION
from goalmeter.report.charts import Curve
from goalmeter.report.numbers import general, nats
from goalmeter.runs.progress import Tell
from goalmeter.runs.reading import another_kind, read_run
from goalmeter.statistics.clusters import Estimate
from goalmeter.statistics.verdicts import Verdict

say = Texts(
    "meg",
    {
        "ends": lambda result: result.ends_in_words(nats),
        "estimate": lambda result: nats(result.value) if result.estimated else "none",
        # What stands in the place of a maximum.
        "scale": lambda result: NO_MAXIMUM if result.maximum is None else "",
        "reference": lambda result: result.reference if result.maximum is None else "",
        "avoids": lambda result: ", by avoiding it (negative rationality)" * (result.signed < 0),
        "ends_of": lambda interval: " to ".join(map(nats, interval)),
    },
)
# Charts of one measurement: more would be a wall that nobody reads.
MOST_CHARTS = 4
_NO_UPPER_END = " An interval without an upper end goes on to the right."


def intervals(measurement: Measurement, name: str) -> Figure:
    """Draw each utility with its interval, joined to the maximum."""
    results = list(measurement.results.values())
    # An end at infinity, where nothing bounds it, is drawn at the end of the picture.
    known = [end for r in results for end in (r.value, r.upper_bound, r.maximum or 0.0)]
    most = max(filter(math.isfinite, known))
    rows, values = [], []
    for r in results:
        estimate = Estimate(r.value, (r.lower, min(r.upper_bound, most)), 0, 0)
        top = None if r.maximum is None else Estimate(r.maximum, None, 0, 0)
        rows.append({"estimate": estimate, "maximum": top})
        kind = "estimated" if r.estimated else "not_estimated"
        scale = "no_maximum" if r.maximum is None else "maximum"
        values.append("".join(say.sentence("simulator_each", each, of=r) for each in (kind, scale)))
    texts = {
        "agent": measurement.agent,
        "level": results[0].level,
        "scale": say.sentence("simulator_each", "scale_" + scale),
        "open": "" if all(math.isfinite(r.upper_bound) for r in results) else _NO_UPPER_END,
        "values": " ".join(values),
    }
    return say.dots("simulator_intervals", name, [r.utility for r in results], rows, **texts)


def tightening(measurement: Measurement, name: str) -> list[Figure]:
    """Draw the estimate and the approximate lower end of each utility over steps."""
    out: list[Figure] = []
    for number, result in enumerate(measurement.results.values()):
        told = [each for each in measurement.tightening if each.utility == result.utility]
        # The last point is what was proven from all steps, with episodes that chose nothing.
        points = [(float(each.steps), each.value, max(each.lower, 0.0)) for each in told]
        points.append((float(sum(result.steps.values())), result.value, result.lower))
        steps, values, lower = zip(*points, strict=True)
        curves = (
            Curve(label="estimate", x=steps, y=values, colour=BLUE, marker="o"),
            Curve(label="lower end", x=steps, y=lower, colour=VERMILION, stroke="--", marker="s"),
        )
        top = result.upper_bound
        levels = {"levels": [(top, "upper end")] if math.isfinite(top) else ()}
        if told and len(out) < MOST_CHARTS:
            texts = {"utility": result.utility, "rows": points}
            out.append(say.curves("tightening", f"{name}-{number}", curves, levels, **texts))
    return out


def load(run: str | Path) -> Measurement:
    """Read a run of `goalmeter meg simulator --out`."""
    stored = read_run(run)
    if stored.what.get("kind") != KIND:
        raise another_kind(run, stored.what.get("kind"), KIND)
    if KEY not in stored.values:
        raise IncompleteRunError(run, stored.what, "1 of 1 measurements")
    return Measurement.from_json(stored.values[KEY], str(run))


def part_of(measurements: Sequence[Measurement], tell: Tell | None = None) -> Part:
    """Return the page part of measurements."""
    numbered = list(enumerate(measurements, start=1))
    tables = [[_results_table(each, n), *short_tables(each)] for n, each in numbered]
    return Part(
        **say("simulator_part"),
        sections=[section for n, each in numbered for section in _sections(each, n)],
        findings=[line for n, each in numbered for line in _findings(each, n)],
        glossary=say("simulator_glossary"),
        tables=tuple(table for of_one in tables for table in of_one),
        runs=[each.to_json() for each in measurements],
    )


def short_tables(measurement: Measurement) -> tuple[Table, ...]:
    """Return the table of differences between utilities, if there are any."""
    rows = measurement.differences
    return (say.table("simulator_differences", rows),) if rows else ()


def _sections(measurement: Measurement, number: int) -> list[Section]:
    name, suffix = f"simulator-{number}", f" ({number})" if number > 1 else ""
    about: dict[str, list[str]] = {}  # note -> the utilities that it is about
    for utility, result in measurement.results.items():
        for note in result.notes:
            about.setdefault(note, []).append(utility)
    first = say.section(
        "simulator_section",
        intervals(measurement, name),
        _results_table(measurement, number),
        short_tables(measurement),
        suffix=suffix,
        points=[f"{', '.join(utilities)}: {note}." for note, utilities in about.items()],
        agent=measurement.agent,
        world=measurement.first.world,
    )
    total = sum(measurement.first.steps.values())
    rows = [(name, n, n / total if total else 0.0) for name, n in measurement.first.steps.items()]
    table = say.table(
        "simulator_steps", rows, total=total, first=measurement.first, made=measurement
    )
    steps = say.section("steps_section", table, suffix=suffix)
    if figures := tightening(measurement, f"{name}-steps"):
        return [first, say.section("tightening_section", figures, suffix=suffix), steps]
    return [first, steps]


def _findings(measurement: Measurement, number: int) -> list[Finding]:
    """The measurement in a few sentences."""
    texts = []
    for result in measurement.results.values():
        kind = "relative" if result.fraction is None else "share"
        kind = kind if result.estimated else "none"
        estimate = say.sentence("simulator_estimate", kind, of=result)
        names = {"agent": measurement.agent, "estimate": estimate}
        texts.append(say.sentence("simulator_found", of=result, **names))
    hows = {Verdict.ABOVE: "more", Verdict.BELOW: "less"}
    texts += [
        f"It is {hows[each.verdict]} directed towards {each.towards} than {each.than}."
        for each in measurement.differences
        if each.verdict in hows
    ]
    link = Link("all utilities", f"simulator-{number}-results")
    return [Finding(text=text, links=(link,)) for text in texts]


def _results_table(measurement: Measurement, number: int) -> Table:
    notes = []
    for name, result in measurement.results.items():
        if result.weights is not None:
            sums = [f"{general(weight, 3)} × {x}" for x, weight in result.weights.items()]
            notes.append(f"{name}: {', '.join(sums)}.")
    rows, anchor = measurement.results.values(), f"simulator-{number}-results"
    names: dict[str, Any] = {"agent": measurement.agent, "first": measurement.first}
    return say.table("simulator_results", rows, anchor=anchor, notes=notes, **names)
