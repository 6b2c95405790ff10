"""Dot charts: one line a name, estimates with their intervals beside each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from goalmeter.report.charts.canvas import canvas, to_svg
from goalmeter.report.charts.colours import BLUE, MUTED, PAPER, RULE
from goalmeter.report.charts.heat_map import short
from goalmeter.report.numbers import general

_LINE, _LETTER = 0.3, 0.075  # inches
_NAMES, _LONGEST = 1.6, 60  # inches, and characters of a line's name that are shown


class HasInterval(Protocol):
    """An estimate: a value and, where anything is known of its spread, both ends around it."""

    @property
    def value(self) -> float:
        """NaN where it is not known."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """None where nothing is known of the spread."""


@dataclass(frozen=True, kw_only=True)
class Dots:
    """One estimate a line, with an interval; NaN where there is none.

    Attributes:
        label: in the legend.
        values: [lines].
        intervals: (low, high), [lines].
        hollow: numbers of others beside ours.
    """

    label: str
    values: Sequence[float]
    intervals: Sequence[tuple[float, float]]
    colour: str = BLUE
    marker: str = "o"
    hollow: bool = False

    @classmethod
    def of(
        cls,
        label: str,
        estimates: Sequence[HasInterval | None],
        *,
        scale: float = 1.0,
        **style: Any,
    ) -> Dots:
        """The dots of some estimates, times a scale; an empty line for None."""
        nothing = (math.nan, math.nan)
        ends = [nothing if e is None or e.interval is None else e.interval for e in estimates]
        values = [math.nan if e is None else scale * e.value for e in estimates]
        intervals = [(scale * low, scale * high) for low, high in ends]
        return cls(label=label, values=values, intervals=intervals, **style)


@dataclass(frozen=True, kw_only=True)
class DotPanel:
    """A panel of a dot chart.

    Attributes:
        x_label: what is shown, with its unit.
        series: on the same line if `joined`, by a stroke from the first to the last; else below
            each other.
        title: above it.
        joined: see `series`.
        band: shaded from the first to the second, such as a margin.
    """

    x_label: str
    series: tuple[Dots, ...]
    title: str = ""
    joined: bool = False
    band: tuple[float, float] | None = None


def dot_chart(name: str, lines: Sequence[str], panels: Sequence[DotPanel]) -> str:
    """Panels beside each other that share their lines, as SVG; 0 is marked in each.

    Args:
        name: unique on the page.
        lines: a name for each line, from the top.
        panels: from the left.
    """
    most = max(1 if panel.joined else len(panel.series) for panel in panels)
    names = [short(line, _LONGEST) for line in lines]
    width = max(_NAMES, _LETTER * max(map(len, names), default=0)) + 4.3 * len(panels)
    height = 1.35 + (_LINE + 0.08 * (most - 1)) * len(lines)
    with canvas(width, height) as figure:
        grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axes, panel in zip(grid, panels, strict=True):
            _draw(axes, panel, len(lines))
        grid[0].set_yticks(range(len(lines)), names, fontsize=8.5)
        for tick in grid[0].get_yticklabels():
            tick.set_parse_math(False)
        # Downwards, so that the first line is on top.
        grid[0].set_ylim(len(lines) - 0.4, -0.6)
        # Panels share series, and the legend should have each once.
        entries: dict[str, Any] = {}
        for axes in grid:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                entries.setdefault(label, handle)
        columns = min(len(entries), 4)
        figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=columns)
        return to_svg(figure, name)


def _draw(axes: Any, panel: DotPanel, n: int) -> None:
    axes.axvline(0, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    if panel.band is not None:
        axes.axvspan(*panel.band, color=RULE, alpha=0.35, linewidth=0)
    axes.hlines(np.arange(n), 0, 1, transform=axes.get_yaxis_transform(), color=RULE, linewidth=0.5)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    count = len(panel.series)
    if panel.joined:
        for line in range(n):
            ends = [dots.values[line] for dots in panel.series]
            axes.plot(ends, [line] * count, color=RULE, linewidth=4, solid_capstyle="round")
    for number, dots in enumerate(panel.series):
        values = np.asarray(dots.values, dtype=np.float64)
        low, high = np.asarray(dots.intervals, dtype=np.float64).T
        shift = 0.0 if panel.joined else 0.26 * (number - (count - 1) / 2)
        axes.errorbar(
            values,
            np.arange(n) + shift,
            xerr=np.array([values - low, high - values]).clip(min=0),
            label=dots.label,
            color=dots.colour,
            marker=dots.marker,
            markersize=5.5,
            linestyle="none",
            markerfacecolor=PAPER if dots.hollow else dots.colour,
            markeredgewidth=1.3,
            elinewidth=1.2,
            capsize=2.5,
            # Above the lines of the rows.
            zorder=3,
        )
    axes.set_xlabel(panel.x_label)
    axes.xaxis.set_major_formatter(lambda value, _: general(round(value, 9)))
    if panel.title:
        axes.set_title(panel.title, fontweight="bold", fontsize=9)
