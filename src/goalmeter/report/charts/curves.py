"""Curves against time, with bands, also below zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from goalmeter.report.charts.canvas import BLUE, GREEN, VERMILION, canvas, to_svg
from goalmeter.report.charts.colours import INK, MUTED

# Told apart by their strokes too; for curves in one chart, in this order.
STROKES: tuple[tuple[str, str], ...] = ((BLUE, "-"), (VERMILION, "--"), (GREEN, "-."), (INK, ":"))


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A curve through (x, y), with a band from `low` to `high` if they are given.

    Attributes:
        label: in the legend; "" for none.
        x: places.
        y: values.
        low: lower edge of the band.
        high: upper edge of the band.
        colour: of the line and, paler, of the band.
        stroke: as matplotlib spells it: "-", "--", "-." or ":".
        thin: one of many.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    colour: str = BLUE
    stroke: str = "-"
    thin: bool = False


def curve_chart(
    name: str,
    curves: Sequence[Curve],
    *,
    x_label: str,
    y_label: str,
    levels: Sequence[tuple[float, str]] = (),
    limits: tuple[float, float] | None = None,
    size: tuple[float, float] = (4.6, 3.4),
) -> str:
    """A chart of curves as SVG.

    Args:
        name: unique on the page.
        curves: drawn in this order.
        x_label: of the axis, with its unit.
        y_label: of the axis, with its unit.
        levels: dashed horizontal lines and their names.
        limits: of the y axis; those of what is drawn if not given.
        size: inches.
    """
    with canvas(*size) as figure:
        axes = figure.subplots()
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        for height, label in levels:
            axes.axhline(height, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
            axes.annotate(
                label,
                (1.0, height),
                xycoords=("axes fraction", "data"),
                xytext=(0, 2.5),
                textcoords="offset points",
                ha="right",
                fontsize=8,
                color=MUTED,
            )
        for curve in curves:
            if curve.low is not None and curve.high is not None:
                axes.fill_between(
                    curve.x, curve.low, curve.high, color=curve.colour, alpha=0.15, linewidth=0
                )
            axes.plot(
                curve.x,
                curve.y,
                label=curve.label or "_nolegend_",
                color=curve.colour,
                linestyle=curve.stroke,
                linewidth=0.7 if curve.thin else 1.6,
                alpha=0.7 if curve.thin else 1.0,
            )
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.margins(x=0.01)
        if limits is not None:
            axes.set_ylim(*limits)
        if any(curve.label for curve in curves):
            figure.legend(loc="outside lower center", ncols=2)
        return to_svg(figure, name)
