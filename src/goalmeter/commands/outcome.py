"""Outcomes of commands: tables, a JSON object, a report; and cost forecasts for `--dry-run`."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import goalmeter
from goalmeter import _errors
from goalmeter.report import Column, Finding, Section, Table, write_report, write_text
from goalmeter.report.numbers import DASH, storage
from goalmeter.runs.forecast import Forecast, Span
from goalmeter.runs.progress import in_words

__all__ = ["Outcome", "json_text", "provenance", "shown", "write_outcome"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of a command, as tables and as JSON."""

    tables: tuple[Table, ...]  # the results
    json: dict[str, Any]
    report: Path | None = None  # path of the page, if one was written
    text: str = ""  # shown before the tables
    # error message on what failed, so that results are missing; "" if nothing did
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
    tables: Iterable[Table] | None = None,  # for a terminal, by default all of the page's
    text: str = "",
    figures: bool = True,
) -> Outcome:
    """Write report.html, results.json and figures/*.svg of an experiment into a folder."""
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


def shown(forecasts: Sequence[Forecast]) -> Outcome:
    """Return forecasts as a table, a column each, and as JSON."""
    columns = [_texts(forecast) for forecast in forecasts]
    heads = dict.fromkeys(head for column in columns for head in column)
    cells = [(head, *(column.get(head) for column in columns)) for head in heads]
    notes = dict.fromkeys(
        (f"{f.name}: " if len(forecasts) > 1 else "") + sentence
        for f in forecasts
        for sentence in f.assumed
    )
    table = Table(
        caption="Planned trials and estimated cost",
        columns=tuple(Column(name, numeric=False) for name in ("", *(f.name for f in forecasts))),
        rows=tuple(tuple(cell or DASH for cell in row) for row in cells if any(row[1:])),
        meaning="Estimates under the assumptions below; no trial is stored.",
        notes=tuple(notes),
    )
    return Outcome(tables=(table,), json={"forecasts": [f.to_json() for f in forecasts]})


def _texts(f: Forecast) -> dict[str, str]:
    return {
        "a trial is a": f.noun,
        "trials": _count(f.trials),
        "kept already": _count(f.kept),
        "left": _count(f.left),
        **{name: _count(number) for name, number in f.counted.items()},
        "made at once": f"{f.slots} ({f.place})" if f.place else str(f.slots),
        "calls": _span(f.calls, _count),
        "prompt tokens": _span(f.prompt_tokens, _count),
        "output tokens": _span(f.output_tokens, _count),
        "output tokens at most": "" if f.output_cap is None else _count(f.output_cap),
        "US dollars": _span(f.usd, "{:,.2f}".format),
        "time": _span(f.hours, lambda h: "under 1 s" if 0 < h * 3600 < 1 else in_words(h * 3600)),
        "disk": _span(f.disk, lambda size: storage(round(size))),
    }


def _count(value: float) -> str:
    return f"{round(value):,}"


def _span(span: Span | None, number: Callable[[float], str]) -> str:
    ends = [] if span is None else [number(span.least), number(span.most)]
    return " to ".join(dict.fromkeys(ends))
