"""The part of a page that made results give, and where to look in it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from report.drawn import texts

from goalmeter.pages.part import Part, all_findings
from goalmeter.pages.representation.page import part_of_results
from goalmeter.report import Table, write_report
from goalmeter.representation.result import Representation

from . import made


def part_of(*results: Representation) -> Part:
    """What a page shows of some results."""
    return part_of_results(results, lambda line: None)


@cache
def whole() -> Part:
    """Two models with everything, drawn once: pictures take long."""
    return part_of(made.result(), made.unused())


def page_of(folder: Path, *results: Representation) -> tuple[Path, str]:
    """The page of some results: its path and its text."""
    part = part_of(*results)
    path = write_report(
        folder / "page.html",
        part.title,
        part.sections,
        lede=part.lede,
        findings=all_findings([part]),
        glossary=part.glossary,
    )
    return path, path.read_text(encoding="utf-8")


def table(part: Part, caption: str) -> Table:
    """The one table whose caption begins so."""
    (only,) = (t for s in part.sections for t in s.tables if t.caption.startswith(caption))
    return only


def cells(shown: Table) -> dict[str, list[str]]:
    """The rows of a table by their name."""
    return {row[0].text: [cell.text for cell in row[1:]] for row in shown.cells}


def titles(part: Part) -> list[str]:
    """The titles of all sections."""
    return [section.title for section in part.sections]


def heat(part: Part, word: str) -> list[str]:
    """All texts of a picture by its name."""
    (figure,) = (f for s in part.sections for f in s.figures if word == f.name)
    return texts(figure.svg)
