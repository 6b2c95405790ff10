"""Reports: tables, pictures and sections, on one self-contained page or in a terminal."""

from goalmeter._files import write_text
from goalmeter.report.canvas import canvas, to_svg
from goalmeter.report.charts import (
    Curve,
    CurveAxes,
    DotPanel,
    Dots,
    Marks,
    Panel,
    curve_chart,
    dot_chart,
    grid_map,
    heat_map,
)
from goalmeter.report.numbers import gap, hundredths, nats, number, p_value, percent, plus, points
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
from goalmeter.report.tables import ColumnOf, column, in_markdown, table_of, words

__all__ = [
    "Cell",
    "Column",
    "ColumnOf",
    "Curve",
    "CurveAxes",
    "DotPanel",
    "Dots",
    "Figure",
    "Finding",
    "Link",
    "Marks",
    "Panel",
    "Section",
    "Table",
    "canvas",
    "column",
    "curve_chart",
    "dot_chart",
    "gap",
    "grid_map",
    "heat_map",
    "hundredths",
    "in_markdown",
    "nats",
    "number",
    "p_value",
    "percent",
    "plus",
    "points",
    "require_report_extra",
    "table_of",
    "to_svg",
    "words",
    "write_report",
    "write_text",
]
