"""Tables from columns that say where their cells come from."""

from __future__ import annotations

from typing import NamedTuple

from goalmeter.report import Cell, Column
from goalmeter.report.numbers import nats
from goalmeter.report.tables import column, grouped, share_bar, summary_table, table_of, words


class Agent(NamedTuple):
    name: str
    value: float | None
    share: float


def test_a_table_has_a_row_for_each_thing_and_a_cell_for_each_column() -> None:
    table = table_of(
        [Agent("optimal", 1.5, 0.9999), Agent("broken", None, 0.0)],
        (
            words("agent", lambda a: a.name),
            *grouped("towards the goal", column("MEG", lambda a: a.value, nats, answer=True)),
            column("share", lambda a: a.share, share_bar),
        ),
        caption="Agents",
        meaning="What they want.",
        notes=iter(["a note"]),
        anchor="agents",
    )
    assert table.columns == (
        Column("agent", numeric=False),
        Column("MEG", group="towards the goal", answer=True),
        Column("share"),
    )
    assert table.rows == (
        ("optimal", "1.5000", Cell(">99.9%", share=0.9999)),
        ("broken", "–", Cell("0.0%", share=0.0)),  # no value has a dash, 0 is a value
    )
    assert (table.caption, table.meaning, table.notes) == ("Agents", "What they want.", ("a note",))
    assert table.anchor == "agents"


def test_a_value_that_is_a_cell_already_stays_the_cell() -> None:
    cell = Cell("0.97 ✓", share=0.97)
    columns = (words("name", lambda c: "area"), column("value", lambda c: c))
    table = table_of([cell], columns, caption="c", meaning="m")
    assert table.rows == (("area", cell),)


def test_names_and_values() -> None:
    table = summary_table(
        [("MEG", "1"), ("share", Cell("2%", share=0.02))], caption="c", meaning="m"
    )
    assert [head.numeric for head in table.heads] == [False, False]
    assert table.cells[1] == (Cell("share"), Cell("2%", share=0.02))
