"""Curves and points against a setting or against time, and shares of a measure by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._types import ArrayLike
from goalmeter.report.charts.canvas import canvas, to_svg
from goalmeter.report.charts.colours import BLUE, GREEN, INK, MUTED, PAPER, RULE, VERMILION
from goalmeter.report.numbers import general

# Curves in one chart differ in their strokes too, since colours may not be seen; in this order.
STROKES: tuple[tuple[str, str], ...] = ((BLUE, "-"), (VERMILION, "--"), (GREEN, "-."), (INK, ":"))
_DASHED = (0, (4, 3))


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A curve through (x, y).

    Attributes:
        label: in the legend; "" for none.
        x: places.
        y: values.
        low: lower edge of a band around the curve, drawn if `high` is there too.
        high: upper edge of the band.
        error: half-widths of error bars.
        colour: of the line and, paler, of the band.
        stroke: as matplotlib spells it: "-", "--", "-.", ":" or, for points alone, "none".
        marker: of each point, as matplotlib spells it; "" for none.
        hollow: whether markers are outlines: numbers of others beside ours.
        thin: one of many.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    error: Sequence[float] | None = None
    colour: str = BLUE
    stroke: str = "-"
    marker: str = ""
    hollow: bool = False
    thin: bool = False


def curve_chart(
    name: str,
    curves: Sequence[Curve],
    *,
    x_label: str,
    y_label: str,
    levels: Sequence[tuple[float, str]] = (),
    limits: tuple[float | None, float | None] | None = None,
    log: bool = False,
    ticks: Sequence[float] | None = None,
    tick_names: Sequence[str] | None = None,
    size: tuple[float, float] = (4.6, 3.4),
) -> str:
    """A chart of curves as SVG.

    Args:
        name: unique on the page.
        curves: drawn in this order.
        x_label: of the axis, with its unit.
        y_label: of the axis, with its unit.
        levels: dashed horizontal lines and their names.
        limits: of the y axis; None, for both or for one end, for those of what is drawn.
        log: logarithmic y axis.
        ticks: places of the x ticks.
        tick_names: their names, one for each; their numbers if not given.
        size: inches.
    """
    with canvas(*size) as figure:
        axes: Any = figure.subplots()
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        for height, label in levels:
            axes.axhline(height, color=MUTED, linewidth=0.9, linestyle=_DASHED)
            place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
            style = {"ha": "right", "fontsize": 8, "color": MUTED}
            axes.annotate(label, (1.0, height), xytext=(0, 2.5), **place, **style)
        for curve in curves:
            if curve.low is not None and curve.high is not None:
                band = {"color": curve.colour, "alpha": 0.15, "linewidth": 0}
                axes.fill_between(curve.x, curve.low, curve.high, **band)
            # One call for lines with and without bars: without bars it draws the plain line.
            axes.errorbar(
                curve.x,
                curve.y,
                yerr=None if curve.error is None else np.asarray(curve.error),
                label=curve.label or "_nolegend_",
                color=curve.colour,
                linestyle=curve.stroke,
                linewidth=0.7 if curve.thin else 1.6,
                alpha=0.7 if curve.thin else 1.0,
                marker=curve.marker,
                markerfacecolor=PAPER if curve.hollow else curve.colour,
                markeredgewidth=1.3,
                elinewidth=1.0,
                capsize=2.5,
            )
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        if log:
            axes.set_yscale("log")
            # Plain numbers: the exponents of powers are too small to read in a small window.
            axes.yaxis.set_major_formatter(lambda value, _: general(value))
            axes.yaxis.set_minor_formatter("")
        # Markers at the border would be cut; lines alone may touch it.
        if not any(curve.marker for curve in curves):
            axes.margins(x=0.01)
        if limits is not None:
            axes.set_ylim(*limits)
        if ticks is not None:
            axes.set_xticks(list(ticks), tick_names)
        if any(curve.label for curve in curves):
            figure.legend(loc="outside lower center", ncols=2)
        return to_svg(figure, name)


def step_bars(
    name: str,
    parts: Sequence[tuple[str, ArrayLike, str]],
    *,
    limit: float,
    limit_label: str,
    y_label: str = "evidence, nats",
    size: tuple[float, float] = (4.6, 2.9),
) -> str:
    """Steps of one or two shares by decision step, with the most a step can give, as SVG.

    Args:
        name: unique on the page.
        parts: (label, shares [H], colour); the first is filled, others are outlines.
        limit: most that one step can give.
        limit_label: its name.
        y_label: of the axis, with its unit.
        size: inches.
    """
    with canvas(*size) as figure:
        axes: Any = figure.subplots()
        axes.axhline(limit, color=MUTED, linewidth=0.9, linestyle=_DASHED, label=limit_label)
        axes.axhline(0, color=RULE, linewidth=0.8)
        for number, (label, values, colour) in enumerate(parts):
            shares = np.asarray(values, dtype=np.float64)
            edges = np.arange(len(shares) + 1) + 0.5
            filled = {"fill": True, "alpha": 0.35} if number == 0 else {"alpha": 1.0}
            axes.stairs(shares, edges, color=colour, linewidth=1.5, label=label, **filled)
        axes.set_xlabel("decision")
        axes.set_ylabel(y_label)
        axes.margins(x=0.01)
        figure.legend(loc="outside lower center", ncols=1)
        return to_svg(figure, name)
