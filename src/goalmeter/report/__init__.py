"""Reports: tables, pictures and sections, on one self-contained page or in a terminal."""

from goalmeter._files import write_text
from goalmeter.report.markdown import in_markdown
from goalmeter.report.numbers import hundredths, number, p_value, percent, plus
from goalmeter.report.page import (
    Cell,
    Column,
    Figure,
    Finding,
    Link,
    Section,
    Table,
    require_report_extra,
    write_report,
)
from goalmeter.report.tables import ColumnOf, column, grouped, table_of, words

__all__ = [
    "Cell",
    "Column",
    "ColumnOf",
    "Figure",
    "Finding",
    "Link",
    "Section",
    "Table",
    "column",
    "grouped",
    "hundredths",
    "in_markdown",
    "number",
    "p_value",
    "percent",
    "plus",
    "require_report_extra",
    "table_of",
    "words",
    "write_report",
    "write_text",
]
