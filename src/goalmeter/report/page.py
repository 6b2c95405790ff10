"""Report blocks (findings, sections, tables, figures) and one self-contained HTML page of them.

Styles and pictures are inside the page; its content security policy allows no script. All text is
escaped; only the pictures of `goalmeter.report.canvas` are inserted as markup.
"""

from __future__ import annotations

import platform
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import InvalidFileError, InvalidParameterError, require, visible
from goalmeter._files import check_writable, write_text
from goalmeter.report.canvas import as_variables, styles

# --- Blocks ---------------------------------------------------------------------------------------
# All text is plain text: it is escaped wherever it is shown.


@dataclass(frozen=True)
class Column:
    """Heading of a column.

    `numeric` cells are set to the right. Neighbouring columns of the same `group` share a head
    above their own. The `answer` is the column that answers the table's question; it is set bold,
    and belongs beside the row's name, so that a small window shows it without scrolling.
    """

    title: str
    numeric: bool = True
    group: str = ""
    answer: bool = False

    @property
    def full(self) -> str:
        """The title with its group, for where there is one line of heads only."""
        return f"{self.group}: {self.title}" if self.group else self.title


@dataclass(frozen=True)
class Cell:
    """Table cell; `share` in [0, 1] draws a bar of that length below the text."""

    text: str
    share: float | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """Table; the first cell of each row is the row's name.

    A column may be given as the title of a numeric column, a cell as its text.
    """

    caption: str
    columns: tuple[Column | str, ...]
    rows: tuple[tuple[Cell | str, ...], ...]
    meaning: str  # one sentence that says what the numbers mean
    notes: tuple[str, ...] = ()
    anchor: str = ""  # the table's id on the page, from which its rows have theirs; "" for none

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise InvalidParameterError(
                    f"row {number} of table {self.caption!r} has {len(row)} cells, "
                    f"expected {len(self.columns)}, one for each column"
                )

    @property
    def heads(self) -> tuple[Column, ...]:
        """Columns, each as a `Column`."""
        return tuple(Column(c) if isinstance(c, str) else c for c in self.columns)

    @property
    def groups(self) -> tuple[tuple[str, int], ...]:
        """Groups from left to right with the number of their columns; () if there are none."""
        # Neighbours only: a group that comes again later gets a second head.
        runs = [(name, len(list(run))) for name, run in groupby(self.heads, lambda c: c.group)]
        return tuple(runs) if any(name for name, _ in runs) else ()

    @property
    def cells(self) -> tuple[tuple[Cell, ...], ...]:
        """Rows, with each cell as a `Cell`."""
        return tuple(tuple(Cell(c) if isinstance(c, str) else c for c in row) for row in self.rows)

    @property
    def row_anchors(self) -> tuple[str, ...]:
        """An id for each row, all different; "" for each where the table has no anchor."""
        if not self.anchor:
            return ("",) * len(self.rows)
        return tuple(anchors([f"{self.anchor} {row[0].text}" for row in self.cells]))

    def row_anchor(self, name: str) -> str:
        """Return the id of the first row of that name, or of the table if there is none."""
        names = [row[0].text for row in self.cells]
        return self.row_anchors[names.index(name)] if name in names else self.anchor


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Picture: inline SVG, its text alternative for screen readers, and a caption.

    `wide` gives the picture a row of its own; others stand side by side where there is room.
    """

    svg: str
    alt: str
    caption: str
    wide: bool = False

    @property
    def name(self) -> str:
        """Name of the picture; all ids in its SVG begin with it."""
        match = re.search(r'id="([\w-]+?)-figure_1"', self.svg)
        return match[1] if match else "figure"


@dataclass(frozen=True, kw_only=True)
class Section:
    """Section of a report, which a reader can fold."""

    title: str
    text: tuple[str, ...] = ()  # paragraphs
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    points: tuple[str, ...] = ()  # a list of remarks at the end
    figures_first: bool = False  # before the tables
    anchor: str = ""  # its id on the page; made from the title if it is ""


@dataclass(frozen=True)
class Link:
    """Link to a section, a table or a row of the same page, by its id."""

    text: str
    to: str


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Conclusion of a report in one sentence, with links to its numbers.

    The `lead` summarises it in a few words and precedes it.
    """

    text: str
    lead: str = ""
    links: tuple[Link, ...] = ()

    @property
    def plain(self) -> str:
        """Lead and sentence without links."""
        return f"{self.lead} {self.text}".strip()


def anchors(titles: Sequence[str]) -> list[str]:
    """An id for each title, all different."""
    out: list[str] = []
    for number, title in enumerate(titles, start=1):
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
        out.append(f"{slug}-{number}" if slug in out else slug)
    return out


# --- Page -----------------------------------------------------------------------------------------
# Sections fold as `details`, all open at first, so that a link, a search and a printer find
# everything in any browser; colours follow the scheme of the reader, light or dark.
_FEATURE = "Writing a report"


def require_report_extra() -> None:
    """Raise MissingExtraError now if a report could not be written later."""
    require("jinja2", extra="report", feature=_FEATURE)
    require("matplotlib", extra="report", feature=_FEATURE)


def provenance(command: str) -> list[str]:
    """Return how a page was made; without a date, so that the same run gives the same page."""
    return [
        f"Made by goalmeter {sys.modules['goalmeter'].__version__} with the command {command}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}.",
        "All numbers in full precision, with notes: results.json beside this page.",
    ]


def check_replaceable(path: str | Path) -> None:
    """Refuse to write a report over a file that is no HTML page."""
    check_writable(path)
    if Path(path).is_file():
        with Path(path).open("rb") as file:
            start = file.read(200).lower().lstrip()
        if start and not start.startswith((b"<!doctype html", b"<html")):
            raise InvalidFileError(
                f"{path} exists and is no HTML page, so it is not replaced; choose another --out"
            )


def write_report(
    path: str | Path,
    title: str,
    sections: Sequence[Section],
    *,
    lede: str = "",
    findings: Sequence[Finding | str] = (),
    glossary: Mapping[str, str] | None = None,
    provenance: Sequence[str] = (),
) -> Path:
    """Write a report atomically; an existing file is kept if anything fails.

    The `lede` is a paragraph below the title, `glossary` says what terms mean, and `provenance`, in
    the foot, how the page was made. Findings may lead to the numbers behind them.
    """
    texts = {"lede": lede, "glossary": glossary or {}, "provenance": provenance}
    return write_text(path, render(title, sections, findings, **texts))


def render(
    title: str, sections: Sequence[Section], findings: Sequence[Finding | str] = (), **texts: Any
) -> str:
    """The page as text; see `write_report`."""
    placed = list(zip(anchors([s.anchor or s.title for s in sections]), sections, strict=True))
    sentences = [Finding(text=line) if isinstance(line, str) else line for line in findings]
    _check(placed, sentences)
    # Declared once a page: pictures share most of their colours.
    light, dark = styles(figure.svg for section in sections for figure in section.figures)
    texts = {"light": light, "dark": dark, "lede": "", "glossary": {}, "provenance": (), **texts}
    template = environment("goalmeter.report").get_template("template.html")
    return str(template.render(title=title, sections=placed, findings=sentences, **texts))


def environment(*packages: str) -> Any:
    """Return the engine of pages, with templates from packages: all text is escaped."""
    jinja2 = require("jinja2", extra="report", feature=_FEATURE)
    engine = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(name, "") for name in packages]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_spelled_out,
    )
    engine.filters |= {"themed": as_variables, "spelled_out": _spelled_out, "code": _code}
    return engine


def _spelled_out(value: Any) -> Any:
    """A value as the template shows it; what is markup already stays as it is."""
    # The engine makes markup harmless, but lets through marks that turn a line around, characters
    # without width, and codes of a terminal.
    is_plain = isinstance(value, str) and not hasattr(value, "__html__")
    return visible(value, lines=True) if is_plain else value


def _code(text: str) -> str:
    """Escaped text with what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", str(text))


def _check(sections: Sequence[tuple[str, Section]], findings: Sequence[Finding]) -> None:
    """Refuse ids that are there twice and links to nowhere, which nobody would notice."""
    tables = [table for _, section in sections for table in section.tables if table.anchor]
    places = Counter(anchor for anchor, _ in sections)
    places.update(name for table in tables for name in (table.anchor, *table.row_anchors))
    if twice := sorted(name for name, count in places.items() if count > 1):
        raise InvalidParameterError(
            f"{twice[0]!r} is the id of {places[twice[0]]} places on the page, expected one: give "
            "the sections and tables other anchors"
        )
    for link in (link for finding in findings for link in finding.links):
        if link.to not in places:
            raise InvalidParameterError(
                f"the link {link.text!r} leads to {link.to!r}, expected the id of a section, a "
                f"table or a row on the page: one of {', '.join(places)}"
            )
