"""Line charts and bars: a measure against a setting, and shares of it by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from goalmeter._types import ArrayLike
from goalmeter.report.charts.canvas import BLUE, canvas, to_svg
from goalmeter.report.charts.colours import MUTED, PAPER, RULE


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points (x, y), with an error bar of half-width `error` where it is given.

    `open_` marks are hollow and unconnected: numbers of others beside ours.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    error: Sequence[float] | None = None
    colour: str = BLUE
    marker: str = "o"
    open_: bool = False


def line_chart(
    name: str,
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    log: bool = False,
    level: tuple[float, str] | None = None,
    ticks: Sequence[float] | None = None,
    size: tuple[float, float] = (4.6, 3.6),
) -> str:
    """A chart of several series as SVG.

    Args:
        name: unique on the page.
        series: drawn in this order.
        x_label: of the axis, with its unit.
        y_label: of the axis, with its unit.
        log: logarithmic y axis.
        level: a dashed horizontal line and its name.
        ticks: places of the x ticks.
        size: inches.
    """
    with canvas(*size) as figure:
        axes = figure.subplots()
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        if level is not None:
            axes.axhline(level[0], color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
            axes.annotate(
                level[1],
                (1.0, level[0]),
                xycoords=("axes fraction", "data"),
                xytext=(0, 2.5),
                textcoords="offset points",
                ha="right",
                fontsize=8,
                color=MUTED,
            )
        for one in series:
            axes.errorbar(
                one.x,
                one.y,
                yerr=None if one.error is None else np.asarray(one.error),
                label=one.label,
                color=one.colour,
                marker=one.marker,
                linestyle="none" if one.open_ else "-",
                markerfacecolor=PAPER if one.open_ else one.colour,
                markeredgewidth=1.3,
                elinewidth=1.0,
                capsize=2.5,
            )
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        if log:
            axes.set_yscale("log")
            # Plain numbers: the exponents of powers are too small to read in a small window.
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.yaxis.set_minor_formatter("")
        else:
            axes.set_ylim(bottom=0)
        if ticks is not None:
            axes.set_xticks(list(ticks))
        figure.legend(loc="outside lower center", ncols=2 if len(series) > 3 else 1)
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
        axes = figure.subplots()
        axes.axhline(limit, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), label=limit_label)
        axes.axhline(0, color=RULE, linewidth=0.8)
        for number, (label, values, colour) in enumerate(parts):
            shares = np.asarray(values, dtype=np.float64)
            edges = np.arange(len(shares) + 1) + 0.5
            axes.stairs(
                shares,
                edges,
                fill=number == 0,
                color=colour,
                alpha=0.35 if number == 0 else 1.0,
                linewidth=1.5,
                label=label,
            )
        axes.set_xlabel("decision")
        axes.set_ylabel(y_label)
        axes.margins(x=0.01)
        figure.legend(loc="outside lower center", ncols=1)
        return to_svg(figure, name)
