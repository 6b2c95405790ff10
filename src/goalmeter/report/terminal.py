"""Tables in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import IO

from goalmeter._text import visible
from goalmeter.report.blocks import Table


def print_tables(tables: Iterable[Table], *, file: IO[str] | None = None) -> None:
    """Print tables, each with its meaning and its notes; default to standard output.

    Where the output is not a terminal, lines are not cut to a width.
    """
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table as Grid
    from rich.text import Text

    out = file if file is not None else sys.stdout
    # In a file or a pipe there is no width to ask for; so tables do not depend on who reads them.
    width = None if out.isatty() else 140
    console = Console(file=out, width=width, highlight=False, markup=False)
    for table in tables:
        grid = Grid(title=Text(printable(table.caption)), title_justify="left", title_style="bold")
        for head in table.heads:
            grid.add_column(
                Text(printable(head.full)),
                justify="right" if head.numeric else "left",
                overflow="fold",
            )
        for row in table.cells:
            # Text, not a string: a user's "[red]" is then no markup.
            grid.add_row(*(Text(printable(cell.text)) for cell in row))
        console.print(grid)
        for line in (table.meaning, *table.notes):
            console.print(Padding(Text(printable(line), style="dim"), (0, 0, 0, 2)))
        console.print()


def printable(text: str) -> str:
    """The lines of a text, with all that could steer a terminal spelled out."""
    return visible(text, lines=True)
