"""Tables: declared as columns; shown in a terminal, a notebook, or Markdown.

`python -m goalmeter.report.tables RUN/tables.md docs/notes/calibration.md` fills the tables of a
document from those of a run, so that no number is typed. Such a table lies between the comments
"<!-- table: CAPTION -->" and "<!-- end of table -->". A third argument WORD selects the tables that
are marked "CAPTION, WORD".
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, SupportsFloat

from goalmeter._errors import InvalidFileError, require, visible
from goalmeter.report.numbers import DASH, EstimateLike, percent
from goalmeter.report.page import Cell, Column, Table

Value = Callable[[Any], Any]
Shown = Callable[[Any], Cell | str]


def _as_text(value: Any) -> Cell | str:
    """A value as its text, or as the cell that it is already."""
    return value if isinstance(value, Cell) else str(value)


class ColumnOf(NamedTuple):
    """Column of a table: its heading, its value of a row, and the format of that value."""

    head: Column
    value: Value
    shown: Shown = _as_text


def column(title: str, value: Value, shown: Shown = _as_text, *, answer: bool = False) -> ColumnOf:
    """Return a column of numbers.

    `value` returns the value of a row, None for an empty cell; `shown` formats it.
    """
    return ColumnOf(Column(title, answer=answer), value, shown)


def words(title: str, value: Value, shown: Shown = _as_text, *, answer: bool = False) -> ColumnOf:
    """Return a column of words; arguments as of `column`."""
    return ColumnOf(Column(title, numeric=False, answer=answer), value, shown)


def share_bar(share: float | EstimateLike) -> Cell:
    """A share in percent, with a bar of its length; of an estimate with its interval too."""
    length = float(share) if isinstance(share, SupportsFloat) else share.value
    return Cell(percent(share), share=length)


def table_of(
    rows: Iterable[Any],
    columns: Sequence[ColumnOf],
    *,
    caption: str,
    meaning: str,
    notes: Iterable[str] = (),
    anchor: str = "",
) -> Table:
    """Return a table with one row per item; see `Table` for its texts."""
    lines = []
    for row in rows:
        values = [(each.value(row), each.shown) for each in columns]
        # No value has a dash; 0 is a value.
        lines.append(tuple(DASH if value is None else shown(value) for value, shown in values))
    heads, texts = tuple(each.head for each in columns), {"caption": caption, "meaning": meaning}
    return Table(columns=heads, rows=tuple(lines), notes=tuple(notes), anchor=anchor, **texts)


def summary_table(rows: Iterable[tuple[str, Cell | str]], **texts: Any) -> Table:
    """A table of names and values, with the texts of `table_of`."""
    return table_of(rows, (words("", itemgetter(0)), words("value", itemgetter(1))), **texts)


def print_tables(tables: Iterable[Table]) -> None:
    """Print tables, each with its meaning and its notes."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table as Grid
    from rich.text import Text

    def text(words: str, style: str = "") -> Text:
        # Not a string: a user's "[red]" is then no markup. Nor does it steer the terminal.
        return Text(visible(words, lines=True), style)

    # In a file or a pipe there is no width to ask for; so tables do not depend on who reads them.
    width = None if sys.stdout.isatty() else 140
    console = Console(width=width, highlight=False, markup=False)
    for table in tables:
        grid = Grid(title=text(table.caption), title_justify="left", title_style="bold")
        for head in table.heads:
            grid.add_column(
                text(head.full), justify="right" if head.numeric else "left", overflow="fold"
            )
        for row in table.cells:
            grid.add_row(*(text(cell.text) for cell in row))
        console.print(grid)
        for line in (table.meaning, *table.notes):
            console.print(Padding(text(line, "dim"), (0, 0, 0, 2)))
        console.print()


# No colours of its own: lines are drawn from the colour of the notebook's text, so it is legible in
# a light scheme and in a dark one.
_LINE = "border-bottom:1px solid color-mix(in srgb,currentColor 25%,transparent)"
_CELL = f"padding:.2em .8em;{_LINE};vertical-align:top"
# What a number of ours may look like: a sign, a bound, a bracketed interval, infinity, a dash.
_NUMBER = re.compile(r"^[+−<>≤≥±[(]*\s?(\d|∞|\.\d|–$)")


def html_table(
    caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()
) -> str:
    """A table of plain texts as self-contained HTML, for `_repr_html_`; heads may all be empty."""
    # Columns that hold nothing but numbers are set to the right.
    numeric = [rows and all(_NUMBER.match(row[i]) for row in rows) for i in range(len(columns))]
    sides = ["left", *("right" if each else "left" for each in numeric[1:])]

    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(
            f'<{tag} style="{_CELL};text-align:{side}">{escaped(text)}</{tag}>'
            for side, text in zip(sides, cells, strict=True)
        )

    # A table of names and values needs no heads.
    head = f"<thead><tr>{line('th', columns)}</tr></thead>" if any(columns) else ""
    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    below = [f'<div style="opacity:.75;max-width:60em">{escaped(note)}</div>' for note in notes]
    return (
        '<div class="goalmeter" style="color:inherit;background:transparent">'
        '<table style="border-collapse:collapse;color:inherit;background:transparent">'
        f'<caption style="caption-side:top;text-align:left;font-weight:bold;color:inherit">'
        f"{escaped(caption)}</caption>{head}<tbody>{body}</tbody></table>{''.join(below)}</div>"
    )


def text_table(caption: str, rows: Sequence[Sequence[str]]) -> str:
    """Heads and rows as aligned text, for `__str__`: every column as wide as its longest cell."""
    return "\n".join([caption, *aligned(rows)])


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table without frames."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def data_frame(records: Sequence[Mapping[str, Any]]) -> Any:
    """Records as a pandas data frame, one row for each, in the order given."""
    pandas: Any = require("pandas", feature="to_pandas")
    return pandas.DataFrame.from_records([dict(record) for record in records])


def one_row(values: Mapping[str, Any]) -> Any:
    """Return the single values of a result's JSON form, and its interval, as a frame of one row."""
    record = dict(values)
    if interval := record.get("interval"):
        record["interval_low"], record["interval_high"] = interval
    return data_frame([{k: v for k, v in record.items() if not isinstance(v, list | dict)}])


def escaped(text: str) -> str:
    """A text for markup: it can neither end its element nor turn the direction of its line."""
    return escape(visible(text, lines=True))


_MARKED = re.compile(r"<!-- table: (.+?) -->\n(.*?)<!-- end of table -->", re.DOTALL)


def in_markdown(tables: Iterable[Table], lists: Mapping[str, Iterable[str]] | None = None) -> str:
    """Return tables between their marks, and lists of sentences by caption, as Markdown."""
    blocks = []
    for table in tables:
        heads = [head.full for head in table.heads]
        lines = [heads, ["---"] * len(heads), *([cell.text for cell in row] for row in table.cells)]
        rows = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        blocks.append(_marked(table.caption, rows))
    for caption, sentences in (lists or {}).items():
        blocks.append(_marked(caption, "\n".join(f"- {line}" for line in sentences)))
    return "\n\n".join(blocks) + "\n"


def _marked(caption: str, rows: str) -> str:
    return f"<!-- table: {caption} -->\n{rows}\n<!-- end of table -->"


def filled(document: str, tables: str, label: str = "") -> str:
    """A document with its marked tables replaced by those of the same caption (and label)."""
    # With a label it is another caption, so that runs do not overwrite each other's tables.
    label = label and f", {label}"
    known = {caption + label: rows for caption, rows in _MARKED.findall(tables)}
    if not any(caption in known for caption, _ in _MARKED.findall(document)):
        raise InvalidFileError(
            f"the document marks none of the tables {sorted(known)}; expected lines such as "
            f"<!-- table: CAPTION --> and <!-- end of table -->"
        )
    return _MARKED.sub(lambda m: _marked(m[1], str(known.get(m[1], m[2])).rstrip()), document)


def main(tables: str, document: str, label: str = "") -> None:
    """Fill the marked tables of a document from a run's tables.md."""
    page = filled(Path(document).read_text("utf-8"), Path(tables).read_text("utf-8"), label)
    Path(document).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
