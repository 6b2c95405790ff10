from __future__ import annotations

import io

from goalmeter.report import Column, Table
from goalmeter.report.tables import print_tables, printable


def test_a_table_is_printed_with_its_meaning_and_notes() -> None:
    table = Table(
        caption="caption",
        columns=(Column("name", numeric=False), Column("value", group="group")),
        rows=(("[red]x[/red]", "1.5"),),
        meaning="what it means",
        notes=("a note",),
    )
    out = io.StringIO()
    print_tables([table], file=out)
    text = out.getvalue()
    for words in ("caption", "group: value", "[red]x[/red]", "1.5", "what it means", "a note"):
        assert words in text
    assert "\x1b" not in text  # no colours where the output is no terminal


def test_control_characters_are_spelled_out() -> None:
    assert printable("a\x1b[31mb\nε") == "a\\x1b[31mb\nε"
