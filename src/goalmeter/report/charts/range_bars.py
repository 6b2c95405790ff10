"""Bars from 0 to what could be, with the interval and the estimate of what is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from goalmeter.report.charts.canvas import canvas, to_svg
from goalmeter.report.charts.colours import BLUE, MUTED, PAPER, RULE
from goalmeter.report.charts.heat_map import short
from goalmeter.report.numbers import general

_LINE, _LETTER, _WIDTH = 0.42, 0.075, 4.6  # inches
_LONGEST = 40  # characters of a name that are shown


class RangeBar(NamedTuple):
    """One bar.

    Attributes:
        label: left of it.
        value: the estimate.
        low: lower end of its interval.
        high: upper end.
        maximum: end of the bar.
    """

    label: str
    value: float
    low: float
    high: float
    maximum: float


def range_bars(name: str, bars: Sequence[RangeBar], *, x_label: str) -> str:
    """A bar a line as SVG: pale up to the maximum, dark within the interval, a dot the estimate.

    Args:
        name: unique on the page.
        bars: from the top.
        x_label: of the axis, with its unit.
    """
    names = [short(bar.label, _LONGEST) for bar in bars]
    width = _WIDTH + _LETTER * max(map(len, names), default=0)
    # An end at infinity, where nothing bounds it, is drawn at the end of the picture.
    known = [end for bar in bars for end in (bar.value, bar.high, bar.maximum)]
    ends = [end for end in known if math.isfinite(end)]
    most = max(ends, default=1.0) or 1.0
    with canvas(width, 1.3 + _LINE * len(bars)) as figure:
        axes = figure.subplots()
        for line, bar in enumerate(bars):
            high = min(bar.high, most)
            first = line == 0
            axes.barh(
                line, bar.maximum, height=0.5, color=RULE, label="to the maximum" if first else None
            )
            # A thin edge keeps an interval without any width in sight.
            axes.barh(
                line,
                high - bar.low,
                left=bar.low,
                height=0.5,
                color=BLUE,
                edgecolor=BLUE,
                linewidth=1.0,
                label="interval" if first else None,
            )
            axes.plot(
                [bar.value],
                [line],
                marker="o",
                linestyle="none",
                color=PAPER,
                markeredgecolor=MUTED,
                label="estimate" if first else None,
                zorder=3,
                clip_on=False,  # one at 0 is whole
            )
        axes.set_yticks(range(len(bars)), names, fontsize=8.5)
        for tick in axes.get_yticklabels():
            tick.set_parse_math(False)
        axes.set_ylim(len(bars) - 0.4, -0.6)  # downwards, so that the first is on top
        axes.set_xlim(0, 1.02 * most)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(x_label)
        axes.xaxis.set_major_formatter(lambda value, _: general(round(value, 9)))
        figure.legend(loc="outside lower center", ncols=3)
        return to_svg(figure, name)
