from __future__ import annotations

import re

import pytest

from goalmeter import GoalmeterError
from goalmeter.report import Cell, Column, Table


def table(**changes: object) -> Table:
    options = {"caption": "c", "columns": ("a", "b"), "rows": (("1", "2"),), "meaning": "m"}
    return Table(**{**options, **changes})  # type: ignore[arg-type]


def test_short_forms_stand_for_the_long_ones() -> None:
    assert table().heads == (Column("a"), Column("b"))
    assert table().cells == ((Cell("1"), Cell("2")),)


def test_groups_are_runs_of_neighbours() -> None:
    columns = ("x", Column("a", group="g"), Column("b", group="g"), "y", Column("c", group="g"))
    grouped = table(columns=columns, rows=())
    assert grouped.groups == (("", 1), ("g", 2), ("", 1), ("g", 1))
    assert table().groups == ()
    assert columns[1].full == "g: a"  # type: ignore[union-attr]


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(
        GoalmeterError, match=re.escape("row 0 of table 'c' has 1 cells, expected 2")
    ):
        table(rows=(("1",),))
