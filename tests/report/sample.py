"""A small report that has one of everything, with text that tries to be markup."""

from __future__ import annotations

from goalmeter.report import Cell, Column, Figure, Section, Table
from goalmeter.report.charts import Curve, curve_chart, step_bars
from goalmeter.report.maps import Marks, grid_map

HOSTILE = '<script>document.title = "owned"</script><b>&"\'[red]'
LONG = "unbroken" * 30


def sections() -> list[Section]:
    table = Table(
        caption=f"A table of {HOSTILE}",
        columns=(
            Column(HOSTILE, numeric=False),
            *(Column(f"column {i}", group="many columns") for i in range(14)),
        ),
        rows=((HOSTILE, *["12345.6789"] * 13, Cell("50%", share=0.5)),),
        meaning=f"It means {HOSTILE}.",
        notes=(HOSTILE, LONG),
    )
    grid = grid_map(
        "grid",
        [[0, 1, 2], [3, 4, 0.001]],
        label="a < b & c",
        palette="visits",
        marks=Marks({0: "S", 2: "G"}, frozenset({1}), frozenset({5})),
        log=True,
    )
    chart = curve_chart(
        "chart",
        [
            Curve(label="one", x=[1, 2], y=[1, 2]),
            Curve(label="two", x=[1, 2], y=[2, 1], error=[0.1, 0.2], hollow=True, marker="o"),
        ],
        x_label="x",
        y_label="y",
        levels=[(2.5, "most")],
    )
    bars = step_bars("bars", [("a", [0.1, 0.2], "C0")], limit=1.0, limit_label="most")
    figures = tuple(
        Figure(svg=svg, alt=f"alt {HOSTILE}", caption=f"caption {HOSTILE}", wide=i == 2)
        for i, svg in enumerate((grid, chart, bars))
    )
    return [
        Section(title=f"First {HOSTILE}", text=(HOSTILE, LONG), tables=(table,), points=(LONG,)),
        Section(title="Pictures", figures=figures),
        Section(title="Pictures", text=("a second section of the same name",)),
    ]


WRITE = {
    "lede": HOSTILE,
    "findings": [HOSTILE, LONG],
    "glossary": {HOSTILE: HOSTILE},
    "provenance": [HOSTILE],
}
