"""Tables: from columns, in a terminal, in a notebook, in Markdown and as data frames."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from typing import NamedTuple

import pytest

from goalmeter import GoalmeterError
from goalmeter._errors import MissingExtraError
from goalmeter.report import Cell, Column, ColumnOf, Table, column, in_markdown, table_of, words
from goalmeter.report.numbers import nats
from goalmeter.report.tables import data_frame, filled, html_table, print_tables, share_bar


class Agent(NamedTuple):
    name: str
    value: float | None
    share: float


TABLE = table_of(
    [Agent("[red]optimal", 1.5, 0.9999), Agent("broken\x1b[31m", None, 0.0)],
    (
        words("agent", lambda a: a.name),
        ColumnOf(Column("MEG", group="towards the goal", answer=True), lambda a: a.value, nats),
        column("share", lambda a: a.share, share_bar),
    ),
    caption="Agents",
    meaning="What they want.",
    notes=iter(["a note"]),
    anchor="agents",
)


def test_a_table_has_a_row_for_each_thing_and_a_cell_for_each_column() -> None:
    assert TABLE.columns == (
        Column("agent", numeric=False),
        Column("MEG", group="towards the goal", answer=True),
        Column("share"),
    )
    assert TABLE.rows == (
        ("[red]optimal", "1.5000", Cell(">99.9%", share=0.9999)),
        ("broken\x1b[31m", "–", Cell("0.0%", share=0.0)),  # no value has a dash, 0 is a value
    )
    assert TABLE.groups == (("", 1), ("towards the goal", 1), ("", 1))
    with pytest.raises(GoalmeterError, match="row 0 of table 'c' has 1 cells, expected 2"):
        Table(caption="c", columns=("a", "b"), rows=(("1",),), meaning="m")


def test_in_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_tables([TABLE])
    text = capsys.readouterr().out
    for part in ("Agents", "towards the goal: MEG", "[red]optimal", "What they want.", "a note"):
        assert part in text
    # Neither colours, where the output is no terminal, nor what steers one.
    assert "\x1b" not in text and "broken\\x1b[31m" in text


def test_markdown_fills_marked_tables_of_a_document() -> None:
    tables = in_markdown([TABLE], {"Findings": ["one", "two"]})
    assert "| [red]optimal | 1.5000 | >99.9% |" in tables
    document = "<!-- table: Findings -->\nold\n<!-- end of table -->\n<!-- table: X -->\nkeep\n"
    document += "<!-- end of table -->"
    assert "- one\n- two" in filled(document, tables) and "keep" in filled(document, tables)
    with pytest.raises(GoalmeterError, match="the document marks none of the tables"):
        filled(document, tables, label="run")


class _Texts(HTMLParser):
    """The texts of a page with the style that they stand in."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[tuple[str, str]] = []
        self.texts: dict[str, str] = {}
        self.feed(page)
        self.close()
        assert not self.open, "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append((tag, dict(attrs).get("style") or ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        self.texts[data] = self.open[-1][1]


def test_in_a_notebook_numbers_are_to_the_right_and_nothing_is_markup() -> None:
    rows = [("optimal", "1.5 [1.2, 1.7]", "yes"), ("<script>", "−∞", "\u202e0 to 4\x1b[0m")]
    page = html_table("Policies", ("policy", "MEG", "remark"), rows, ("A note.",))
    texts = _Texts(page).texts
    assert [t for t, style in texts.items() if "text-align:right" in style] == [
        *("MEG", "1.5 [1.2, 1.7]", "−∞")
    ]
    assert {"Policies", "policy", "optimal", "yes", "<script>", "A note."} <= set(texts)
    assert "<script" not in page and "\u202e" not in page and "\x1b" not in page
    assert "#" not in page.replace("&#", ""), "a fixed colour is illegible in one of the schemes"
    assert "<th" not in html_table("A result", ("", ""), [("MEG", "1.5 nats")])


def test_records_become_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    frame = data_frame([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
    assert list(frame.columns) == ["a", "b"] and frame["a"].tolist() == [1, 2]
    monkeypatch.setitem(sys.modules, "pandas", None)  # what Python does for one that is missing
    with pytest.raises(MissingExtraError, match=re.escape("'pandas'")):
        data_frame([{"a": 1}])
