"""A table as a list of columns, each of which says where its cells come from and how they read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, SupportsFloat, TypeVar

from goalmeter.report.blocks import Cell, Column, Table
from goalmeter.report.numbers import DASH, Estimate, percent

Row = TypeVar("Row")


@dataclass(frozen=True)
class ColumnOf(Generic[Row]):
    """A column: its head, the value that it takes from a row, and how that value reads."""

    head: Column
    value: Callable[[Row], Any]
    shown: Callable[[Any], Cell | str]

    def cell(self, row: Row) -> Cell | str:
        """The cell of a row; a dash where there is no value."""
        value = self.value(row)
        # Not by its truth: 0 is a value.
        return DASH if value is None else self.shown(value)


def _as_text(value: Any) -> Cell | str:
    """A value as its text, or as the cell that it is already."""
    return value if isinstance(value, Cell) else str(value)


def column(
    title: str,
    value: Callable[[Row], Any],
    shown: Callable[[Any], Cell | str] = _as_text,
    *,
    answer: bool = False,
) -> ColumnOf[Row]:
    """A column of numbers.

    Args:
        title: its head.
        value: what it takes from a row; None for a cell that has nothing to show.
        shown: how the value reads, most often a function of `report.numbers`.
        answer: whether it answers the table's question, see `Column`.
    """
    return ColumnOf(Column(title, answer=answer), value, shown)


def words(
    title: str,
    value: Callable[[Row], Any],
    shown: Callable[[Any], Cell | str] = _as_text,
    *,
    answer: bool = False,
) -> ColumnOf[Row]:
    """A column of words, as `column` has one of numbers."""
    return ColumnOf(Column(title, numeric=False, answer=answer), value, shown)


def grouped(group: str, *columns: ColumnOf[Row]) -> tuple[ColumnOf[Row], ...]:
    """Neighbouring columns below one head."""
    return tuple(replace(c, head=replace(c.head, group=group)) for c in columns)


def share_bar(share: float | Estimate) -> Cell:
    """A share in percent, with a bar of its length; of an estimate with its interval too."""
    length = float(share) if isinstance(share, SupportsFloat) else share.value
    return Cell(percent(share), share=length)


def table_of(
    rows: Iterable[Row],
    columns: Sequence[ColumnOf[Row]],
    *,
    caption: str,
    meaning: str,
    notes: Iterable[str] = (),
    anchor: str = "",
) -> Table:
    """A table with one row for each of some things; see `Table` for its texts."""
    return Table(
        caption=caption,
        columns=tuple(c.head for c in columns),
        rows=tuple(tuple(c.cell(row) for c in columns) for row in rows),
        meaning=meaning,
        notes=tuple(notes),
        anchor=anchor,
    )


def summary_table(
    rows: Iterable[tuple[str, Cell | str]], *, caption: str, meaning: str, notes: Iterable[str] = ()
) -> Table:
    """A table of names and values."""
    return Table(
        caption=caption,
        columns=(Column("", numeric=False), Column("value", numeric=False)),
        rows=tuple(rows),
        meaning=meaning,
        notes=tuple(notes),
    )
