"""Outcomes of commands: tables, a JSON object, a report; and cost forecasts for `--dry-run`."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import goalmeter
from goalmeter import _errors
from goalmeter.report import Column, Finding, Section, Table, write_report, write_text
from goalmeter.report.numbers import DASH, storage

if TYPE_CHECKING:
    from goalmeter.runs.forecast import Forecast, Span

__all__ = ["Outcome", "json_text", "provenance", "shown", "write_outcome"]


# --- Outcome --------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of a command, as tables and as JSON.

    Attributes:
        tables, json: the results.
        report: path of the page, if one was written.
        text: shown before the tables.
        incomplete: error message on what failed, so that results are missing; "" if nothing did.
    """

    tables: tuple[Table, ...]
    json: dict[str, Any]
    report: Path | None = None
    text: str = ""
    incomplete: str = ""


def json_text(value: dict[str, Any]) -> str:
    """Return a JSON object on one line; infinities become "inf" and "-inf", NaN null."""
    return _errors.json_text(_plain(value), allow_nan=False)


def write_outcome(
    out: str | Path,
    title: str,
    sections: Sequence[Section],
    result: dict[str, Any],
    *,
    command: str,
    lede: str,
    findings: Sequence[Finding | str],
    glossary: Mapping[str, str],
    tables: Iterable[Table] | None = None,
    text: str = "",
    figures: bool = True,
) -> Outcome:
    """Write report.html, results.json and figures/*.svg of an experiment into a folder.

    `command` stands at the foot of the page. results.json holds `result`; the outcome's JSON has
    the paths of both files too. `tables` are for a terminal, by default all of the page's.
    """
    folder = Path(out)
    report = write_report(
        folder / "report.html",
        title,
        sections,
        lede=lede,
        findings=findings,
        glossary=glossary,
        provenance=provenance(command),
    ).resolve()
    # The page shows the pictures too; as files they can be put into a paper.
    for figure in (f for section in sections for f in section.figures) if figures else ():
        write_text(folder / "figures" / f"{figure.name}.svg", figure.svg + "\n")
    results = write_text(folder / "results.json", json_text(result) + "\n").resolve()
    if tables is None:
        tables = (table for section in sections for table in section.tables)
    return Outcome(
        tables=tuple(tables),
        json=result | {"report": str(report), "results": str(results)},
        report=report,
        text=text,
    )


def provenance(command: str) -> list[str]:
    """Return how a page was made; without a date, so that the same run gives the same page."""
    return [
        f"Made by goalmeter {goalmeter.__version__} with the command {command}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}.",
        "All numbers in full precision, with notes: results.json beside this page.",
    ]


# JSON has no infinities and no NaN, and many programs do not read Python's spelling of them.
def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case np.ndarray() | np.generic():
            return _plain(value.tolist())
        case float() if not math.isfinite(value):
            return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
        case _:
            return value


# --- Forecasts ------------------------------------------------------------------------------------
def shown(forecasts: Sequence[Forecast]) -> Outcome:
    """Return forecasts as a table, a column each, and as JSON."""
    names = dict.fromkeys(name for forecast in forecasts for name in forecast.counted)
    counted: list[Row] = [(name, partial(_counted, name), _count) for name in names]
    rows = [
        (head, *(_cell(forecast, value, text) for forecast in forecasts))
        for head, value, text in (*_TRIALS, *counted, *_COSTS)
        if any(value(forecast) is not None for forecast in forecasts)
    ]
    notes = dict.fromkeys(
        (f"{f.name}: " if len(forecasts) > 1 else "") + sentence
        for f in forecasts
        for sentence in f.assumed
    )
    heads = tuple(Column(forecast.name, numeric=False) for forecast in forecasts)
    table = Table(
        caption="Planned trials and estimated cost",
        columns=(Column("", numeric=False), *heads),
        rows=tuple(rows),
        meaning="Estimates under the assumptions below; no trial is stored.",
        notes=tuple(notes),
    )
    return Outcome(tables=(table,), json={"forecasts": [f.to_json() for f in forecasts]})


Value = Callable[[Any], Any]


def _cell(forecast: Forecast, value: Value, text: Callable[[Any], str]) -> str:
    return DASH if value(forecast) is None else text(value(forecast))


def _counted(name: str, forecast: Forecast) -> int | None:
    return forecast.counted.get(name)


def _at_once(forecast: Forecast) -> str:
    return f"{forecast.slots} ({forecast.place})" if forecast.place else str(forecast.slots)


def _span(number: Callable[[float], str]) -> Callable[[Span], str]:
    def text(span: Span) -> str:
        least, most = number(span.least), number(span.most)
        return least if least == most else f"{least} to {most}"

    return text


def _count(value: float) -> str:
    return f"{round(value):,}"


def _time(seconds: float) -> str:
    from goalmeter.runs.progress import in_words

    return "under 1 s" if 0 < seconds < 1 else in_words(seconds)


Row = tuple[str, Value, Callable[[Any], str]]
_TRIALS: tuple[Row, ...] = (
    ("a trial is a", lambda f: f.noun, str),
    ("trials", lambda f: f.trials, _count),
    ("kept already", lambda f: f.kept, _count),
    ("left", lambda f: f.left, _count),
)
_COSTS: tuple[Row, ...] = (
    ("made at once", lambda f: f, _at_once),
    ("calls", lambda f: f.calls, _span(_count)),
    ("prompt tokens", lambda f: f.prompt_tokens, _span(_count)),
    ("output tokens", lambda f: f.output_tokens, _span(_count)),
    ("output tokens at most", lambda f: f.output_cap, _count),
    ("US dollars", lambda f: f.usd, _span(lambda usd: f"{usd:,.2f}")),
    ("time", lambda f: f.hours, _span(lambda hours: _time(hours * 3600))),
    ("disk", lambda f: f.disk, _span(lambda size: storage(round(size)))),
)
