"""Outcomes of commands: tables, a JSON object, and perhaps a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._files import strict_json as json_text
from goalmeter.pages.runs import forecast_table
from goalmeter.report import Section, Table, write_report, write_text
from goalmeter.report.page import provenance
from goalmeter.runs.forecast import Forecast

__all__ = ["Outcome", "json_text", "planned", "write_outcome"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of a command, as tables and as JSON."""

    tables: Sequence[Table]  # the results
    json: dict[str, Any]
    report: Path | None = None  # path of the page, if one was written
    text: str = ""  # shown before the tables
    incomplete: str = ""  # what failed, so that results are missing; "" if nothing did
    unmet: str = ""  # which requirements are not met; "" if all are
    is_interrupted: bool = False  # at the keyboard, which is why it is incomplete


def planned(*forecasts: Forecast) -> Outcome:
    """Return what a command would do, and its estimated cost."""
    json = {"forecasts": [forecast.to_json() for forecast in forecasts]}
    return Outcome(tables=[forecast_table(forecasts)], json=json)


def write_outcome(
    out: str | Path,
    title: str,
    sections: Sequence[Section],
    result: dict[str, Any],
    *,
    command: str,
    tables: Iterable[Table] | None = None,  # for a terminal, by default all of the page's
    text: str = "",
    figures: bool = True,
    **page: Any,
) -> Outcome:
    """Write report.html (`page`: fields of `write_report`), results.json and figures/*.svg."""
    folder = Path(out)
    page["provenance"] = provenance(command)
    report = write_report(folder / "report.html", title, sections, **page).resolve()
    # The page shows the pictures too; as files they can be put into a paper.
    for figure in (f for section in sections for f in section.figures if figures):
        write_text(folder / "figures" / f"{figure.name}.svg", figure.svg + "\n")
    results = write_text(folder / "results.json", json_text(result) + "\n").resolve()
    if tables is None:
        tables = (table for section in sections for table in section.tables)
    json = result | {"report": str(report), "results": str(results)}
    return Outcome(tables=tuple(tables), json=json, report=report, text=text)
