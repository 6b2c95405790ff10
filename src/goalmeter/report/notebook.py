"""Results in a notebook: a small table as HTML or text, and rows as a pandas data frame.

The HTML brings its own style and no colours of its own: lines and shades are drawn from the colour
of the notebook's text, so it is legible in a light scheme and in a dark one, whether the scheme is
the browser's or the notebook's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from goalmeter._errors import MissingExtraError
from goalmeter._text import visible
from goalmeter.report.blocks import Table

_LINE = "border-bottom:1px solid color-mix(in srgb,currentColor 25%,transparent)"
_CELL = f"padding:.2em .8em;{_LINE};vertical-align:top"
# What a number of ours may look like: a sign, a bound, a bracketed interval, infinity, a dash.
_NUMBER = re.compile(r"^[+−<>≤≥±[(]*\s?(\d|∞|\.\d|–$)")


def html_table(
    caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()
) -> str:
    """A table as self-contained HTML, for `_repr_html_`.

    Args:
        caption: what the table holds; plain text, as all the rest: it is escaped.
        columns: the heads; empty texts for a table of names and values.
        rows: one text for each column; the first is the row's name. Columns that hold nothing but
            numbers are set to the right.
        notes: sentences below the table.
    """
    # Refuses rows of another length than the heads.
    Table(caption=caption, columns=tuple(columns), rows=tuple(map(tuple, rows)), meaning="")
    sides = ["left", *(_side([row[i] for row in rows]) for i in range(1, len(columns)))]

    def line(tag: str, cells: Sequence[str]) -> str:
        texts = zip(sides, cells, strict=True)
        return "".join(
            f'<{tag} style="{_CELL};text-align:{side}">{_safe(text)}</{tag}>'
            for side, text in texts
        )

    # A table of names and values needs no heads.
    head = f"<thead><tr>{line('th', columns)}</tr></thead>" if any(columns) else ""
    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    below = "".join(
        f'<div style="opacity:.75;max-width:60em">{_safe(note)}</div>' for note in notes
    )
    return (
        '<div class="goalmeter" style="color:inherit;background:transparent">'
        '<table style="border-collapse:collapse;color:inherit;background:transparent">'
        f'<caption style="caption-side:top;text-align:left;font-weight:bold;color:inherit">'
        f"{_safe(caption)}</caption>{head}<tbody>{body}</tbody></table>{below}</div>"
    )


def text_table(caption: str, rows: Sequence[Sequence[str]]) -> str:
    """A table as aligned text, for `__str__`: every column as wide as its longest cell.

    Args:
        caption: the line above it.
        rows: the heads and then the rows, each with one text a column.

    >>> print(text_table("Policies", [("policy", "MEG"), ("greedy", "1.5"), ("random", "0")]))
    Policies
    policy  MEG
    greedy  1.5
    random  0
    """
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([caption, *lines])


def data_frame(records: Sequence[Mapping[str, Any]]) -> Any:
    """Records as a pandas data frame, one row for each, in the order given."""
    try:
        import pandas
    except ModuleNotFoundError as error:
        # A pandas that is there and broken is another mistake, and says so itself.
        if error.name != "pandas":
            raise
        raise MissingExtraError(
            "to_pandas needs the package 'pandas', which is not installed; install it with: pip "
            "install pandas, or read the same numbers from to_json()"
        ) from error
    return pandas.DataFrame.from_records([dict(record) for record in records])


def one_row(values: Mapping[str, Any]) -> Any:
    """Return the single values of a result's JSON form as a data frame of one row.

    An interval becomes the columns `interval_low` and `interval_high`; other lists are left out.
    """
    record = dict(values)
    if interval := record.get("interval"):
        record["interval_low"], record["interval_high"] = interval
    return data_frame([{k: v for k, v in record.items() if not isinstance(v, list | dict)}])


def _side(texts: Sequence[str]) -> str:
    """Numbers are set to the right, words to the left."""
    return "right" if texts and all(_NUMBER.match(text) for text in texts) else "left"


def _safe(text: str) -> str:
    """A text that can neither end the element it stands in nor turn the direction of its line."""
    return escape(visible(text, lines=True))
