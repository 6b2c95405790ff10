"""Reports of finished runs, and tables of their progress and expected cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, shortened
from goalmeter.pages import Part, Texts, joined
from goalmeter.report import Table
from goalmeter.report.numbers import DASH, percent, storage
from goalmeter.runs.forecast import Forecast, Span
from goalmeter.runs.progress import in_words
from goalmeter.runs.reading import RUN, read_about
from goalmeter.runs.status import UNREADABLE, RunStatus

_LONGEST = 60  # characters of a trial's key, or of a reason, in a table


def _span(number: Callable[[float], str]) -> Callable[[Span | None], str]:
    """A format of spans: both ends, or one if they read the same."""
    return lambda span: (
        " to ".join(dict.fromkeys(map(number, (span.least, span.most)))) if span else DASH
    )


def _done(run: RunStatus | None) -> str:
    if run is None:
        return DASH
    if run.total is None:
        return f"{run.done:,}"
    share = f" ({percent(run.done / run.total, 0)})" if run.total else ""
    return f"{run.done:,} of {run.total:,}{share}"


def _where(run: RunStatus) -> str:
    process = f"(process {run.pid} on {run.host})" if run.pid else ""
    return f"{run.place} {process}".strip()


def _rate(a_second: float) -> str:
    for times, unit in ((1, "a second"), (60, "a minute")):
        if a_second * times >= 1:
            return f"{a_second * times:.3g} {unit}"
    return f"{a_second * 3600:.3g} an hour"


say = Texts(
    "commands",
    {
        "counts": _span(lambda number: f"{round(number):,}"),
        "dollars": _span("{:,.2f}".format),
        "hours": _span(lambda h: "under 1 s" if 0 < h * 3600 < 1 else in_words(h * 3600)),
        "sizes": _span(lambda size: storage(round(size))),
        "size": storage,
        "time": lambda seconds: DASH if seconds is None else in_words(seconds),
        "done": _done,
        "rate": _rate,
        "where": _where,
    },
)


def forecast_table(forecasts: Sequence[Forecast]) -> Table:
    """Return forecasts as a table with a column each."""
    notes = dict.fromkeys(
        (f"{f.name}: " if len(forecasts) > 1 else "") + sentence
        for f in forecasts
        for sentence in f.assumed
    )
    return say.upright("forecast", [f.name for f in forecasts], forecasts, notes=notes)


def status_table(run: RunStatus) -> Table:
    """Return what is known of a run, a line each."""
    return say.upright("run", ["value"], [run], run=run)


def runs_table(runs: Sequence[RunStatus], caption: str) -> Table:
    """Return a line for each run, with what is wrong with unreadable ones."""
    unreadable = [run for run in runs if run.state == UNREADABLE]
    notes = [f"{run.folder}: {shortened(run.sentence, 4 * _LONGEST)}" for run in unreadable]
    # What is empty, and the count of a run that cannot be read, is a dash.
    known = [{name: value or None for name, value in vars(run).items()} for run in runs]
    counted = [None if run in unreadable else run for run in runs]
    rows = zip(known, runs, counted, strict=True)
    return say.table("runs", rows, notes=notes, caption=caption)


def workers_tables(runs: Sequence[RunStatus]) -> list[Table]:
    """Return the table of trials that are being made, if there are any."""
    rows = []
    for run in runs:
        for worker in run.working:
            more = worker.count - len(worker.trials)
            keys = ", ".join(shortened(key, _LONGEST) for key in worker.trials)
            trials = keys + (f" and {more} more" if more > 0 else "")
            rows.append((run.folder, worker.worker, trials, in_words(worker.seconds)))
    hidden = sum(run.workers for run in runs) - len(rows)
    notes = [f"{hidden} more batches"] if hidden > 0 else []
    return [say.table("at_work", rows, notes=notes)] if rows else []


# --- Reports --------------------------------------------------------------------------------------
# Kinds of runs that have a page: their modules have `load(run)` and `part_of(loaded runs, tell)`.
INSTRUMENTS = ("reflection", "navigation", "sweep", "simulator")


def part_of_runs(runs: Sequence[str | Path], tell: Callable[[str], None]) -> Part:
    """Load runs of any kinds of `INSTRUMENTS`; return their content, joined by kind."""
    kinds: dict[str, list[int]] = {}  # numbers of the runs of each kind, in the order given
    for number, run in enumerate(runs):
        kind = read_about(Path(run) / RUN)["what"].get("kind")
        if kind not in INSTRUMENTS:
            known = ", ".join(map(repr, INSTRUMENTS))
            raise InvalidFileError(f"{run} is a run of {kind!r}, expected one of {known}")
        kinds.setdefault(kind, []).append(number)
    parts: list[Part] = []
    about: list[dict[str, Any]] = [{} for _ in runs]
    for kind, numbers in kinds.items():
        # Imported by name, so that a page of one instrument does not load the others.
        module, loaded = import_module(f"goalmeter.pages.{kind}"), []
        given = [runs[n] for n in numbers]
        for run in given:
            tell(f"reading {run}")
            loaded.append(module.load(run))
        made = [module.part_of(loaded, tell)]
        if kind == "navigation":
            made.append(import_module("goalmeter.pages.representation").part_of_runs(given, tell))
        for part in filter(None, made):
            parts.append(part)
            for number, more in zip(numbers, part.runs, strict=True):
                about[number] |= more
    title = parts[0].title if len(kinds) == 1 else "How agents do: measured runs"
    return replace(joined(parts), title=title, runs=about)


def page_of(part: Part) -> dict[str, Any]:
    """Return what `write_report` takes of a part."""
    names = ("title", "sections", "lede", "findings", "glossary")
    return {name: getattr(part, name) for name in names}
