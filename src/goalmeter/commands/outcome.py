"""Outcomes of commands: tables, a JSON object, and perhaps a page."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import goalmeter
from goalmeter import _errors
from goalmeter.pages.runs import forecast_table
from goalmeter.report import Finding, Section, Table, write_report, write_text
from goalmeter.runs.forecast import Forecast

__all__ = ["Outcome", "json_text", "planned", "provenance", "write_outcome"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of a command, as tables and as JSON."""

    tables: Sequence[Table]  # the results
    json: dict[str, Any]
    report: Path | None = None  # path of the page, if one was written
    text: str = ""  # shown before the tables
    # error message on what failed, so that results are missing; "" if nothing did
    incomplete: str = ""


def planned(*forecasts: Forecast) -> Outcome:
    """Return what a command would do, and its estimated cost."""
    json = {"forecasts": [forecast.to_json() for forecast in forecasts]}
    return Outcome(tables=[forecast_table(forecasts)], json=json)


def json_text(value: dict[str, Any]) -> str:
    """Return a JSON object on one line; infinities become "inf" and "-inf", NaN null."""
    return _errors.json_text(_plain(value), allow_nan=False)


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
            return None if math.isnan(value) else str(value)
        case _:
            return value


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
    page: dict[str, Any] = {"lede": lede, "findings": findings, "glossary": glossary}
    page["provenance"] = provenance(command)
    report = write_report(folder / "report.html", title, sections, **page).resolve()
    # The page shows the pictures too; as files they can be put into a paper.
    for figure in (f for section in sections for f in section.figures) if figures else ():
        write_text(folder / "figures" / f"{figure.name}.svg", figure.svg + "\n")
    results = write_text(folder / "results.json", json_text(result) + "\n").resolve()
    if tables is None:
        tables = (table for section in sections for table in section.tables)
    json = result | {"report": str(report), "results": str(results)}
    return Outcome(tables=tuple(tables), json=json, report=report, text=text)


def provenance(command: str) -> list[str]:
    """Return how a page was made; without a date, so that the same run gives the same page."""
    return [
        f"Made by goalmeter {goalmeter.__version__} with the command {command}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}.",
        "All numbers in full precision, with notes: results.json beside this page.",
    ]
