"""What a command hands back: tables for people, one JSON object for programs, a report."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import goalmeter
from goalmeter import _text
from goalmeter.report import Finding, Section, Table, write_report, write_text


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Tables and JSON say the same.

    `text` is shown before the tables; `report` is the path of the page, if one was written.
    `incomplete` says, in a line to be told as an error, what failed so that the numbers say nothing
    or not all; "" if nothing did.
    """

    tables: tuple[Table, ...]
    json: dict[str, Any]
    report: Path | None = None
    text: str = ""
    incomplete: str = ""


def json_text(value: dict[str, Any]) -> str:
    """One JSON object on one line; infinities become "inf" and "-inf", NaN null."""
    return _text.json_text(_plain(value), allow_nan=False)


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

    `title`, `lede`, `sections`, `findings` and `glossary` are the page's, and `command`, as it was
    typed, stands at its foot. results.json holds `result`; the outcome's JSON has the paths of both
    files besides. `tables`, by default all of the page's, are for a terminal, `text` before them.
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
    """How a page was made, for its foot. No date, so that the same run gives the same page."""
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
