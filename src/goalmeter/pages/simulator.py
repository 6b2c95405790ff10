"""Report of goal-directedness in simulators: intervals, their convergence, and differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from goalmeter.meg.simulator.result import NO_MAXIMUM, Measurement
from goalmeter.meg.simulator.result import load as load
from goalmeter.pages import Contents, Part, Texts
from goalmeter.report import Figure, Finding, Section, Table
from goalmeter.report.numbers import general, nats
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clusters import Estimate
from goalmeter.statistics.verdicts import Verdict

say = Texts(
    "meg",
    {
        "ends": lambda result: result.ends_in_words(nats),
        "guaranteed": lambda r: r.ends_in_words(nats, r.guaranteed) if r.guaranteed else "",
        "scale": lambda result: NO_MAXIMUM if result.maximum is None else "",
        "reference": lambda result: result.reference if result.maximum is None else "",
        "avoids": lambda result: ", by avoiding it (negative rationality)" * (result.signed < 0),
        "ends_of": lambda interval: " to ".join(map(nats, interval)),
    },
)
# Charts of one measurement: more would be a wall that nobody reads.
MOST_CHARTS = 4


def intervals(measurement: Measurement, name: str) -> Figure:
    """Draw each utility with its interval, joined to the maximum."""
    results = measurement.utilities
    # An end at infinity, where nothing bounds it, is drawn at the end of the picture.
    known = [end for r in results for end in (r.value, r.upper_bound, r.maximum or 0.0)]
    most = max(filter(math.isfinite, known))
    rows = [
        {
            "of": r,
            "estimate": _exact(r.value, (r.lower, min(r.upper_bound, most))),
            "guaranteed": r.guaranteed
            and _exact(r.value, (r.guaranteed[0], min(r.guaranteed[1], most))),
            "maximum": None if r.maximum is None else _exact(r.maximum),
        }
        for r in results
    ]
    texts = {
        "agent": measurement.agent,
        "level": results[0].level,
        "maximum": rows[-1]["maximum"],
        "is_open": not all(math.isfinite(r.upper_bound) for r in results),
    }
    return say.dots("simulator_intervals", name, [r.utility for r in results], rows, **texts)


def tightening(measurement: Measurement, name: str) -> list[Figure | None]:
    """Draw the estimate and the approximate lower end of each utility over steps."""
    out: list[Figure | None] = []
    for number, result in enumerate(measurement.utilities):
        told = [each for each in measurement.tightening if each.utility == result.utility]
        if told and len(out) < MOST_CHARTS:
            last = (sum(result.steps.values()), result.value, result.lower)
            points = [*((each.steps, each.value, max(each.lower, 0.0)) for each in told), last]
            rows = [(float(n), _exact(value), _exact(lower)) for n, value, lower in points]
            top = result.upper_bound
            levels = {"levels": [(top, "upper end")] if math.isfinite(top) else ()}
            chart = f"{name}-{number}", [steps for steps, *_ in rows], rows, levels
            out.append(say.series("tightening", *chart, utility=result.utility))
    return out


def _exact(value: float, interval: tuple[float, float] | None = None) -> Estimate:
    return Estimate(value, interval, 0, 0)


def part_of(measurements: Sequence[Measurement], tell: Tell | None = None) -> Part:
    """Return the page part of measurements."""
    numbered = list(enumerate(measurements, start=1))
    return Part(
        **say("simulator_part"),
        sections=[section for n, each in numbered for section in _sections(each, n)],
        findings=[line for n, each in numbered for line in _findings(each, n)],
        glossary=say("simulator_glossary"),
        tables=tuple(table for n, each in numbered for table in _tables(each, n)),
        runs=[each.to_json() for each in measurements],
    )


def short_tables(measurement: Measurement) -> tuple[Table, ...]:
    """Return the table of differences between utilities, if there are any."""
    rows = measurement.differences
    return (say.table("simulator_differences", rows),) if rows else ()


def _sections(measurement: Measurement, number: int) -> list[Section]:
    name, first = f"simulator-{number}", measurement.utilities[0]
    about: dict[str, list[str]] = {}  # note -> the utilities that it is about
    for result in measurement.utilities:
        for note in result.notes:
            about.setdefault(note, []).append(result.utility)
    points = [f"{', '.join(utilities)}: {note}." for note, utilities in about.items()]
    total = sum(first.steps.values())
    rows = [(purpose, n, n / total if total else 0.0) for purpose, n in first.steps.items()]
    steps = say.table("simulator_steps", rows, total=total, first=first, made=measurement)
    content: Contents = {
        "simulator_section": [intervals(measurement, name), _tables(measurement, number), points],
        "tightening_section": tightening(measurement, f"{name}-steps"),
        "steps_section": [steps],
    }
    return say.sections(content, agent=measurement.agent, world=first.world, number=number)


def _findings(measurement: Measurement, number: int) -> list[Finding]:
    """The measurement in a few sentences."""
    link = {"to": f"simulator-{number}-results", "words": "all utilities"}
    out = []
    for result in measurement.utilities:
        kind = "relative" if result.fraction is None else "share"
        names: dict[str, Any] = {"agent": measurement.agent, "of": result}
        scale = say.sentence("simulator_scale", kind, **names)
        out.append(say.finding("simulator_found", **link, **names, scale=scale))
    hows = (Verdict.ABOVE, Verdict.BELOW)
    told = [each for each in measurement.differences if each.verdict in hows]
    return out + [say.finding("simulator_differs", each.verdict, **link, of=each) for each in told]


def _tables(measurement: Measurement, number: int) -> tuple[Table, ...]:
    notes = []
    for result in measurement.utilities:
        if result.weights is not None:
            sums = [f"{general(weight, 3)} × {x}" for x, weight in result.weights.items()]
            notes.append(f"{result.utility}: {', '.join(sums)}.")
    rows, anchor = measurement.utilities, f"simulator-{number}-results"
    names: dict[str, Any] = {"agent": measurement.agent, "first": rows[0]}
    results = say.table("simulator_results", rows, anchor=anchor, notes=notes, **names)
    return (results, *short_tables(measurement))
