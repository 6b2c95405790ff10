"""When a cell is looked up: what becomes of moves when it is hidden from one span of an answer."""

from __future__ import annotations

import math

from goalmeter.pages.representation import claims
from goalmeter.pages.representation.shown import Shown, say
from goalmeter.report import Figure, Table
from goalmeter.report.charts.dots import DotPanel, Dots, dot_chart
from goalmeter.report.numbers import percent
from goalmeter.report.table_of import column, grouped, table_of, words
from goalmeter.representation.result_rows import SpanRow
from goalmeter.representation.use import spans

# The spans in words, in the order in which a model writes; all but the prompt comes last.
SPANS = {
    spans.PROMPT: "while the prompt is read",
    spans.BEFORE: "until the cell is named",
    spans.NEIGHBOURS: "at the turns of its neighbours",
    spans.OWN: "at its own turn",
    spans.BEHIND: "in later reasoning",
    spans.PLAN: "in the plan",
    spans.ANSWER: "in the answer",
    spans.ANSWERING: "in all that is written",
}


def in_words(row: SpanRow) -> str:
    """When the cell is hidden."""
    return SPANS.get(row.span, row.span)


def look_up(row: SpanRow) -> str:
    """Whether more moves flip than with another cell hidden: a word of `claims`."""
    return claims.beside(row.flips, [row.other_flips])


def spans_table(shown: Shown) -> Table | None:
    """Every span on the half that confirms; None where nobody asked."""
    rows = shown.result.spans
    if not rows:
        return None
    return table_of(
        rows,
        (
            words("the cell is hidden", in_words),
            *grouped(
                "at needed cells",
                column("flips", lambda row: percent(row.flips), answer=True),
                column("as if there were a wall", lambda row: percent(row.as_if_wall)),
                column("unreadable answers", lambda row: percent(row.unreadable)),
                column("cells", lambda row: row.cells),
            ),
            *grouped("another cell hidden", column("flips", lambda row: percent(row.other_flips))),
        ),
        anchor=f"{shown.prefix}-spans",
        **say("spans", model=shown.name),
    )


def spans_figure(shown: Shown) -> Figure | None:
    """Flips by span, with the cell hidden and with another one; None without numbers."""
    rows = [row for row in shown.result.spans if not math.isnan(row.flips.value)]
    if not rows:
        return None
    series = (
        Dots.of("the cell hidden", [row.flips for row in rows]),
        Dots.of("another cell hidden", [row.other_flips for row in rows], hollow=True, marker="s"),
    )
    panel = DotPanel(x_label="share of first moves that flip", series=series)
    values = "; ".join(
        f"{in_words(row)}: {percent(row.flips)}, another cell {percent(row.other_flips)}"
        for row in rows
    )
    svg = dot_chart(f"{shown.prefix}-spans-figure", list(map(in_words, rows)), [panel])
    return Figure(svg=svg, wide=True, **say("spans_figure", model=shown.name, values=values))
