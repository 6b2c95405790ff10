"""Reports: tables, pictures and sections, on one self-contained page or in a terminal."""

from goalmeter._files import write_text
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

__all__ = [
    "Cell",
    "Column",
    "Figure",
    "Finding",
    "Link",
    "Section",
    "Table",
    "require_report_extra",
    "write_report",
    "write_text",
]
