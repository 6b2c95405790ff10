"""Report of goal-directedness in simulators: intervals, their convergence, and differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from goalmeter._errors import IncompleteRunError
from goalmeter.meg.simulator import SimulatorProgress, SimulatorResult
from goalmeter.meg.simulator.measure import KEY, KIND, Difference, Measurement
from goalmeter.meg.simulator.result import NO_MAXIMUM
from goalmeter.pages import prose
from goalmeter.pages.part import Part
from goalmeter.report import Figure, Finding, Link, Section, Table
from goalmeter.report.canvas import BLUE, VERMILION
from goalmeter.report.charts import Curve, RangeBar, curve_chart, range_bars
from goalmeter.report.numbers import general, nats, percent, rationality
from goalmeter.report.tables import column, share_bar, table_of, words
from goalmeter.runs.reading import another_kind, read_run
from goalmeter.statistics.verdicts import Verdict

# --- Simulator pictures ---------------------------------------------------------------------------
# More charts of one measurement would be a wall that nobody reads.
MOST_CHARTS = 4


def intervals(measurement: Measurement, name: str) -> Figure:
    """A bar for each utility, from 0 to the maximum."""
    results = list(measurement.results.values())
    # Without a maximum the pale bar has no length.
    bars = [RangeBar(r.utility, r.value, *r.interval, r.maximum or 0.0) for r in results]
    words = " ".join(
        f"Towards {r.utility}: {r.ends_in_words(nats)}, "
        f"{f'estimate {nats(r.value)}' if r.estimated else 'no estimate'}, "
        f"{NO_MAXIMUM if r.maximum is None else f'of at most {nats(r.maximum)}'}."
        for r in results
    )
    scale = ", on a scale that ends with a fully predictable agent"
    caption = (
        f"MEG of {measurement.agent}: the interval that holds it at "
        f"{percent(measurement.first.level, 0)}"
        f"{scale if measurement.first.maximum is not None else f' ({NO_MAXIMUM})'}."
    )
    if not all(math.isfinite(result.upper_bound) for result in results):
        caption += " An interval without an upper end goes on to the right."
    svg = range_bars(name, bars, x_label="MEG, nats")
    return Figure(svg=svg, alt=f"{caption} {words}", caption=caption, wide=True)


def tightening(measurement: Measurement, name: str) -> tuple[Figure, ...]:
    """For each utility, the estimate and about where its lower end was, over steps."""
    out: list[Figure] = []
    for number, result in enumerate(measurement.results.values()):
        told = [each for each in measurement.tightening if each.utility == result.utility]
        if told and len(out) < MOST_CHARTS:
            out.append(_curves(f"{name}-{number}", told, result))
    return tuple(out)


def _curves(name: str, told: Sequence[SimulatorProgress], result: SimulatorResult) -> Figure:
    # The last point is what was proven from all steps, with episodes that nothing was chosen by.
    steps = [*(float(each.steps) for each in told), float(sum(result.steps.values()))]
    values = [*(each.value for each in told), result.value]
    lower = [*(max(each.lower, 0.0) for each in told), result.lower]
    caption = f"Towards {result.utility}: the estimate, and about where its lower end was."
    words = "; ".join(
        f"{general(step)} steps: {nats(value)}, at least about {nats(low)}"
        for step, value, low in zip(steps, values, lower, strict=True)
    )
    curves = (
        Curve(label="estimate", x=steps, y=values, colour=BLUE, marker="o"),
        Curve(label="lower end", x=steps, y=lower, colour=VERMILION, stroke="--", marker="s"),
    )
    svg = curve_chart(
        name,
        curves,
        x_label="steps of the simulator",
        y_label="MEG, nats",
        levels=[(top, "upper end")] if math.isfinite(top := result.upper_bound) else (),
        limits=(0.0, None),
    )
    return Figure(svg=svg, alt=f"{caption} {words}.", caption=caption)


# --- Simulator page -------------------------------------------------------------------------------
say = partial(prose, "meg")


def part_of_runs(runs: Sequence[str | Path], tell: Callable[[str], None]) -> Part:
    """What runs of `goalmeter meg simulator --out` have to say; see `pages.part`."""
    out = []
    for run in runs:
        tell(f"reading {run}")
        stored = read_run(run)
        if stored.what.get("kind") != KIND:
            raise another_kind(run, stored.what.get("kind"), KIND)
        if KEY not in stored.values:
            raise IncompleteRunError(run, stored.what, missing=1, total=1, trials="measurements")
        out.append(Measurement.from_json(stored.values[KEY], str(run)))
    return part_of(out)


def part_of(measurements: Sequence[Measurement]) -> Part:
    """What measurements have to say, one after the other."""
    return Part(
        **say("simulator_part"),
        sections=[part for n, each in enumerate(measurements, start=1) for part in _of(each, n)],
        findings=[line for n, each in enumerate(measurements, start=1) for line in _said(each, n)],
        glossary=say("simulator_glossary"),
        tables=tuple(
            table
            for n, each in enumerate(measurements, start=1)
            for table in (_results_table(each, _anchor(n)), *short_tables(each))
        ),
        runs=[each.to_json() for each in measurements],
    )


def short_tables(measurement: Measurement) -> tuple[Table, ...]:
    """For a terminal, below the results: how much more MEG is towards one utility than another."""
    differences = measurement.differences
    return (_differences_table(differences),) if differences else ()


def _of(measurement: Measurement, number: int) -> list[Section]:
    name = f"simulator-{number}"
    suffix = f" ({number})" if number > 1 else ""
    out = [
        Section(
            title=f"{measurement.agent} in {measurement.first.world}{suffix}",
            figures=(intervals(measurement, name),),
            figures_first=True,
            tables=(_results_table(measurement, _anchor(number)), *short_tables(measurement)),
            points=_notes(measurement),
            **say("simulator_section"),
        )
    ]
    if figures := tightening(measurement, f"{name}-steps"):
        texts = say("tightening_section")
        out.append(Section(**texts | {"title": texts["title"] + suffix, "figures": figures}))
    table = _steps_table(measurement)
    title = say("steps_section")["title"] + suffix
    return [*out, Section(title=title, tables=(table,))]


def _said(measurement: Measurement, number: int) -> list[Finding]:
    """The measurement in a few sentences."""
    link = Link("all utilities", _anchor(number))
    out = []
    for result in measurement.results.values():
        text = (
            f"MEG of {measurement.agent} towards {result.utility} in {result.world} is "
            f"{result.ends_in_words(nats)} nats at {percent(result.level, 0)}; {_estimate(result)}"
            f"{', by avoiding it (negative rationality)' if result.signed < 0 else ''}. "
            f"The interval assumes that {result.assumes}."
        )
        out.append(Finding(text=text, links=(link,)))
    for difference in measurement.differences:
        if difference.verdict in (Verdict.ABOVE, Verdict.BELOW):
            how = "more" if difference.verdict is Verdict.ABOVE else "less"
            text = f"It is {how} directed towards {difference.towards} than {difference.than}."
            out.append(Finding(text=text, links=(link,)))
    return out


def _estimate(result: SimulatorResult) -> str:
    if result.fraction is None:
        share = f"relative to the {result.reference} ({NO_MAXIMUM})"
    else:
        share = f"{percent(result.fraction)} of the maximum"
    return f"the estimate is {nats(result.value)}, {share}" if result.estimated else "no estimate"


def _results_table(measurement: Measurement, anchor: str) -> Table:
    return table_of(
        measurement.results.values(),
        (
            words("towards", lambda row: row.utility),
            words(
                f"MEG at {percent(measurement.first.level, 0)}, nats",
                lambda row: row.ends_in_words(nats),
            ),
            words("estimate", lambda row: nats(row.value) if row.estimated else "none"),
            words("share of maximum", lambda row: NO_MAXIMUM)
            if measurement.first.maximum is None
            else column("share of maximum", lambda row: row.fraction or 0.0, share_bar),
            words("relative to", lambda row: row.reference)
            if measurement.first.maximum is None
            else column("maximum, nats", lambda row: row.maximum or 0.0, nats),
            column("rationality β", lambda row: row.rationality, rationality),
            words("lower end by", lambda row: row.binding["lower"]),
            words("upper end by", lambda row: row.binding["upper"]),
            words("assumes that", lambda row: row.assumes),
        ),
        caption=f"MEG of {measurement.agent} in {measurement.first.world}",
        notes=_weights(measurement),
        anchor=anchor,
        **say("simulator_results"),
    )


def _differences_table(differences: Sequence[Difference]) -> Table:
    return table_of(
        differences,
        (
            words("towards", lambda row: row.towards),
            words("than towards", lambda row: row.than),
            column("difference, nats", lambda row: row.value, nats, answer=True),
            words("interval", lambda row: " to ".join(map(nats, row.interval))),
            words("so the first is", lambda row: str(row.verdict)),
        ),
        **say("simulator_differences"),
    )


def _steps_table(measurement: Measurement) -> Table:
    first = measurement.first
    total = sum(first.steps.values())
    return table_of(
        first.steps.items(),
        (
            words("purpose", lambda row: row[0]),
            column("steps", lambda row: row[1], lambda count: f"{count:,}"),
            column("share", lambda row: row[1] / total if total else 0.0, share_bar),
        ),
        notes=(
            f"{total:,} steps were taken, of a budget of {measurement.budget:,}, beyond which the "
            f"last episode may go; it ended by {first.stopped}. Method: {first.method}; "
            f"{first.episodes:,} episodes of the agent, "
            f"horizon {measurement.horizon}, seed {measurement.seed}.",
        ),
        **say("simulator_steps"),
    )


def _weights(measurement: Measurement) -> list[str]:
    return [
        f"{name}: "
        + ", ".join(f"{general(w, 3)} × {utility}" for utility, w in result.weights.items())
        + "."
        for name, result in measurement.results.items()
        if result.weights is not None
    ]


def _notes(measurement: Measurement) -> tuple[str, ...]:
    """Every note once, behind the utilities that it is about."""
    about: dict[str, list[str]] = {}
    for name, result in measurement.results.items():
        for note in result.notes:
            about.setdefault(note, []).append(name)
    return tuple(f"{', '.join(names)}: {note}." for note, names in about.items())


def _anchor(number: int) -> str:
    """The id of the table of the measurement of that number."""
    return f"simulator-{number}-results"
