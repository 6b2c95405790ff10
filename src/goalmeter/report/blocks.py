"""What a report is made of: findings, and sections of text, tables and figures.

Instruments and experiments describe what they found in these blocks; how a block looks is the
business of `goalmeter.report.page` (HTML) and `goalmeter.report.terminal`. All text is plain
text: it is escaped wherever it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from goalmeter._errors import InvalidParameterError

_MANY, _LONG = 6, 32  # columns, and characters of a row's name, that fit into the page


@dataclass(frozen=True)
class Column:
    """The head of a column.

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
    """One cell; `share` in [0, 1] draws a bar of that length below the text."""

    text: str
    share: float | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table; the first cell of each row is the row's name.

    Attributes:
        caption: what the table holds, in a few words.
        columns: heads, as `Column` or just the title of a numeric column.
        rows: one cell for each column, as `Cell` or just its text.
        meaning: one sentence that says what the numbers mean.
        notes: what a reader of the numbers needs besides.
        anchor: the table's id on the page, from which its rows have theirs; "" for none.
    """

    caption: str
    columns: tuple[Column | str, ...]
    rows: tuple[tuple[Cell | str, ...], ...]
    meaning: str
    notes: tuple[str, ...] = ()
    anchor: str = ""

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise InvalidParameterError(
                    f"row {number} of table {self.caption!r} has {len(row)} cells, "
                    f"expected {len(self.columns)}, one for each column"
                )

    @property
    def heads(self) -> tuple[Column, ...]:
        """The columns, all as `Column`."""
        return tuple(Column(c) if isinstance(c, str) else c for c in self.columns)

    @property
    def dense(self) -> bool:
        """Whether there is so much in a row that it is set close."""
        longest = max((len(row[0].text) for row in self.cells if row), default=0)
        return len(self.columns) > _MANY or longest > _LONG

    @property
    def groups(self) -> tuple[tuple[str, int], ...]:
        """Groups from left to right with the number of their columns; () if there are none."""
        # Neighbours only: a group that comes again later gets a second head.
        runs = [(name, len(list(run))) for name, run in groupby(self.heads, lambda c: c.group)]
        return tuple(runs) if any(name for name, _ in runs) else ()

    @property
    def cells(self) -> tuple[tuple[Cell, ...], ...]:
        """The rows, all as `Cell`."""
        return tuple(tuple(Cell(c) if isinstance(c, str) else c for c in row) for row in self.rows)

    @property
    def row_anchors(self) -> tuple[str, ...]:
        """An id for each row, all different; "" for each where the table has no anchor."""
        if not self.anchor:
            return ("",) * len(self.rows)
        return tuple(anchors([f"{self.anchor} {row[0].text}" for row in self.cells]))

    def row_anchor(self, name: str) -> str:
        """The id of the first row of that name, or of the table where there is none."""
        # Reversed, so that of rows of one name the first stays.
        by_name = {row[0].text: n for n, row in reversed(list(enumerate(self.cells)))}
        return self.row_anchors[by_name[name]] if name in by_name else self.anchor


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture: inline SVG, the same in words for those who cannot see it, and a caption.

    `wide` gives the picture a row of its own; others stand side by side where there is room.
    """

    svg: str
    alt: str
    caption: str
    wide: bool = False

    @property
    def name(self) -> str:
        """The name the picture was drawn under, which all ids in its SVG begin with."""
        match = re.search(r'id="([\w-]+?)-figure_1"', self.svg)
        return match.group(1) if match else "figure"


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a report, which a reader can fold.

    Attributes:
        title: its heading.
        text: paragraphs.
        tables: shown after the text.
        figures: shown after the tables.
        points: a list of remarks at the end.
        figures_first: show them before the tables.
        anchor: its id on the page; made from the title if it is "".
    """

    title: str
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    points: tuple[str, ...] = ()
    figures_first: bool = False
    anchor: str = ""


@dataclass(frozen=True)
class Link:
    """Words that lead to a place on the same page: the id of a section, a table or a row."""

    text: str
    to: str


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a report comes to, in a sentence, with the places where its numbers stand.

    Attributes:
        text: the sentence.
        lead: the same in a few words, before it.
        links: to the numbers behind it.
    """

    text: str
    lead: str = ""
    links: tuple[Link, ...] = ()

    @property
    def plain(self) -> str:
        """Lead and sentence, for where nothing can be clicked."""
        return f"{self.lead} {self.text}".strip()


def anchors(titles: Sequence[str]) -> list[str]:
    """An id for each title, all different."""
    out: list[str] = []
    for number, title in enumerate(titles, start=1):
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
        out.append(f"{slug}-{number}" if slug in out else slug)
    return out
