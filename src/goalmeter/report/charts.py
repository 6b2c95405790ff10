"""Charts: curves, heat maps and dot charts.

The argument `name` of each chart is unique on the page; labels of axes contain the unit.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike
from goalmeter.report.canvas import BLUE, MUTED, PAPER, RULE, SMALLEST, canvas, to_svg
from goalmeter.report.maps import PALETTES, box, colour_bar, colour_map, ink_on
from goalmeter.report.numbers import EstimateLike, general, number
from goalmeter.report.tables import printable

_DASHED = (0, (4, 3))
_LETTER = 0.075  # inches


def short(name: str, longest: int = 30) -> str:
    """A name with no control characters, its middle left out where it is long."""
    name = printable(name).replace("\n", " ")
    if len(name) <= longest:
        return name
    return f"{name[: longest // 2 - 1]}…{name[-longest // 2 :]}"


def _with_ends(
    estimates: Iterable[EstimateLike | None], scale: float = 1.0
) -> tuple[list[float], list[tuple[float, float]]]:
    """Values and intervals of estimates, times a scale; NaN for what is not known."""
    values, ends = [], []
    for each in estimates:
        low, high = (each and each.interval) or (math.nan, math.nan)
        values.append(scale * each.value if each else math.nan)
        ends.append((scale * low, scale * high))
    return values, ends


def _points(axes: Any, x: Any, y: Any, look: Dots | Curve, **style: Any) -> None:
    """Points with their error bars."""
    face = PAPER if look.hollow else look.colour
    edge = {"markerfacecolor": face, "markeredgewidth": 1.3, "capsize": 2.5}
    label = look.label or "_nolegend_"
    axes.errorbar(x, y, label=label, color=look.colour, marker=look.marker, **edge, **style)


# --- Heat map -------------------------------------------------------------------------------------
_WIDTH, _CELL, _HEIGHT = 10.2, 0.36, 0.245  # inches: of the page, and of a cell at most
_LEAST, _NARROW = 5.0, 3.8  # inches: of a picture with means, and of one without, at least
_GAP = 0.35  # between the cells and the column of means, in cells


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel.

    `values` [rows, columns] are NaN where there is no number; `hatched` are (row, column) of cells.
    """

    title: str
    values: ArrayLike
    hatched: frozenset[tuple[int, int]] = frozenset()


def panels_of(
    cells: Iterable[tuple[str, str, str, float]],
    rows: Sequence[str],
    columns: Sequence[str],
    hatched: Collection[tuple[str, str, str]] = (),
) -> list[Panel]:
    """Panels of (title, row, column, value) with some number; the mean where there are several."""
    by_title: dict[str, dict[tuple[str, str], list[float]]] = {}
    for title, row, column, value in cells:
        if not math.isnan(value):
            by_title.setdefault(title, {}).setdefault((row, column), []).append(value)
    panels = []
    for title, known in by_title.items():
        values = np.full((len(rows), len(columns)), np.nan)
        for (row, column), numbers in known.items():
            values[rows.index(row), columns.index(column)] = np.mean(numbers)
        marked = [(rows.index(r), columns.index(c)) for t, r, c in hatched if t == title]
        panels.append(Panel(title=title, values=values, hatched=frozenset(marked)))
    return panels


def heat_map(
    name: str,
    panels: Sequence[Panel],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    label: str,
    scale: tuple[float, float],
    means: bool = True,
) -> str:
    """Panels of one colour scale below each other as SVG, each cell with its number.

    The ends of the scale, named `label`, are equally far from 0, where it is pale, or the lower one
    is at least 0 and pale; what lies beyond has the colour of the end. With `means` a last column
    has the mean of each row. Names of columns are shown once, above the first panel.
    """
    arrays = [np.asarray(panel.values, dtype=np.float64) for panel in panels]
    for panel, array in zip(panels, arrays, strict=True):
        if array.shape != (len(rows), len(columns)):
            raise InvalidParameterError(
                f"panel {panel.title!r} has shape {array.shape}, expected "
                f"({len(rows)}, {len(columns)}): a value for each row and column"
            )
    names, labels = list(map(short, rows)), list(map(short, columns))
    places, at = list(np.arange(len(columns)) + 0.5), len(columns) + _GAP
    if means:
        places.append(at + 0.65)
        labels.append("mean of the row")
    palette = PALETTES["signed" if scale[0] < 0 else "visits"]
    cells = {"cmap": colour_map(palette), "vmin": scale[0], "vmax": scale[1]}
    cells |= {"edgecolor": PAPER, "linewidth": 0.6}
    heights = np.arange(len(rows) + 1)
    wide = max(map(len, names), default=0) * _LETTER + 1.0 + _CELL * (len(columns) + 2 * means)
    height = 2.3 + len(panels) * (0.3 + _HEIGHT * len(rows))
    with canvas(min(_WIDTH, max(_LEAST if means else _NARROW, wide)), height) as figure:
        grid = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
        for axes, panel, array in zip(grid, panels, arrays, strict=True):
            placed = [(column + 0.5, array[:, column]) for column in range(len(columns))]
            mesh = axes.pcolormesh(np.arange(len(columns) + 1), heights, array, **cells)
            if means:
                of_rows = np.ma.masked_invalid(array).mean(axis=1).filled(np.nan)
                axes.pcolormesh([at, at + 1.3], heights, of_rows[:, None], **cells)
                placed.append((at + 0.65, of_rows))
            for (x, values), row in product(placed, range(len(rows))):
                if not np.isnan(value := values[row]):
                    # Without what can be left out: .97, −.5, 0, 1.
                    whole = round(value, 2) == round(value)
                    shown = number(value, 0) if whole else number(value, 2).replace("0.", ".", 1)
                    font = {"size": SMALLEST, "color": ink_on(mesh, value)}
                    text = axes.text(x, row + 0.53, shown, ha="center", va="center", **font)
                    text.set_in_layout(False)  # it lies inside its cell; measuring it takes long
            hatch: dict[str, Any] = {"hatch": "///", "edgecolor": MUTED, "linewidth": 0}
            for row, column in sorted(panel.hatched):
                box(axes, row + 0.5, column + 0.5, fill=False, **hatch)
            axes.set(xlim=(0, at + 1.3 if means else len(columns)), ylim=(len(rows), 0))
            # In the column of the rows' names: the first panel has the columns' names above it.
            place = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "right"}
            style = {"size": 8, "weight": "bold", "parse_math": False}
            axes.annotate(panel.title, (0, 1), xytext=(-4, 4), **place, **style)
            axes.spines[:].set_visible(False)
            axes.tick_params(length=0)
            axes.set_yticks(np.arange(len(rows)) + 0.5, names, fontsize=8, parse_math=False)
            axes.set_xticks([])
        # Above the first panel, where a reader begins: those below have the same columns.
        grid[0].xaxis.tick_top()
        rotated: dict[str, Any] = {"rotation": 60, "ha": "left", "rotation_mode": "anchor"}
        grid[0].set_xticks(places, labels, fontsize=8, parse_math=False, **rotated)
        grid[0].tick_params(axis="x", length=2, color=RULE)
        shape: dict[str, Any] = {"ax": list(grid), "aspect": 45, "shrink": 0.5, "pad": 0.02}
        bar = colour_bar(figure, mesh, label, **shape)
        bar.ax.xaxis.set_major_formatter(lambda value, _: general(value))
        return to_svg(figure, name)


# --- Dots -----------------------------------------------------------------------------------------
_LINE = 0.3  # inches
_NAMES, _LONGEST = 1.6, 60  # inches, and characters of a line's name that are shown


@dataclass(frozen=True, kw_only=True)
class Dots:
    """One estimate a line, with an interval; NaN where there is none.

    `values` [lines] and their `intervals` (low, high); `hollow` dots are numbers of others.
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
        estimates: Sequence[EstimateLike | None],
        *,
        scale: float = 1.0,
        **style: Any,
    ) -> Self:
        """The dots of some estimates, times a scale; an empty line for None."""
        values, intervals = _with_ends(estimates, scale)
        return cls(label=label, values=values, intervals=intervals, **style)


@dataclass(frozen=True, kw_only=True)
class DotPanel:
    """A panel of a dot chart.

    Its series are on the same line if `joined`, by a stroke from the first to the last, else below
    each other. A `band`, such as a margin, is shaded from the first to the second.
    """

    x_label: str
    series: tuple[Dots, ...]
    title: str = ""
    joined: bool = False
    band: tuple[float, float] | None = None


def dot_chart(name: str, lines: Sequence[str], panels: Sequence[DotPanel]) -> str:
    """Panels beside each other that share their lines, as SVG; 0 is marked in each.

    Lines are named from the top, panels come from the left.
    """
    most = max(1 if panel.joined else len(panel.series) for panel in panels)
    names = [short(line, _LONGEST) for line in lines]
    places = np.arange(len(lines))
    width = max(_NAMES, _LETTER * max(map(len, names), default=0)) + 4.3 * len(panels)
    height = 1.35 + (_LINE + 0.08 * (most - 1)) * len(lines)
    with canvas(width, height) as figure:
        grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        grid[0].set_yticks(places, names, fontsize=8.5, parse_math=False)
        grid[0].set_ylim(len(lines) - 0.4, -0.6)
        # Panels share series, and the legend should have each once.
        entries: dict[str, Any] = {}
        for axes, panel in zip(grid, panels, strict=True):
            axes.axvline(0, color=MUTED, linewidth=0.9, linestyle=_DASHED)
            if panel.band is not None:
                axes.axvspan(*panel.band, color=RULE, alpha=0.35, linewidth=0)
            across = {"transform": axes.get_yaxis_transform(), "color": RULE, "linewidth": 0.5}
            axes.hlines(places, 0, 1, **across)
            for line in range(len(lines) if panel.joined else 0):
                ends = [dots.values[line] for dots in panel.series]
                stroke = {"color": RULE, "linewidth": 4, "solid_capstyle": "round"}
                axes.plot(ends, [line] * len(ends), **stroke)
            for index, dots in enumerate(panel.series):
                values = np.asarray(dots.values, dtype=np.float64)
                low, high = np.asarray(dots.intervals, dtype=np.float64).T
                shift = 0.0 if panel.joined else 0.26 * (index - (len(panel.series) - 1) / 2)
                # Above the lines of the rows.
                style = {"linestyle": "none", "markersize": 5.5, "elinewidth": 1.2, "zorder": 3}
                style["xerr"] = np.array([values - low, high - values]).clip(min=0)
                _points(axes, values, places + shift, dots, **style)
            axes.set_xlabel(panel.x_label)
            if panel.title:
                axes.set_title(panel.title, fontweight="bold", fontsize=9)
            axes.spines["left"].set_visible(False)
            axes.tick_params(axis="y", length=0)
            axes.xaxis.set_major_formatter(lambda value, _: general(round(value, 9)))
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                entries.setdefault(label, handle)
        columns = min(len(entries), 4)
        figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=columns)
        return to_svg(figure, name)


# --- Curves ---------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Curve:
    """A curve through (x, y).

    There is a band from `low` to `high` if both are given, and error bars of the half-widths
    `error`. `stroke` and `marker` are matplotlib's ("none" and "" for none); `hollow` markers are
    numbers of others; a `thin` curve is one of many.
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

    @classmethod
    def of(
        cls, label: str, x: Sequence[float], estimates: Sequence[EstimateLike | None], **style: Any
    ) -> Self:
        """The curve of some estimates with their intervals as a band; gaps where unknown."""
        values, ends = _with_ends(estimates)
        low, high = ([pair[end] for pair in ends] for end in (0, 1))
        return cls(label=label, x=x, y=values, low=low, high=high, **style)


@dataclass(frozen=True, kw_only=True)
class CurveAxes:
    """The axes of a chart of curves.

    `levels` are dashed horizontal lines with their names; `limits` are of y, None for an end (or
    both) that follows from what is drawn; `log` is of y, `ticks` and `tick_names` of x; `size` is
    in inches.
    """

    x_label: str
    y_label: str
    levels: Sequence[tuple[float, str]] = ()
    limits: tuple[float | None, float | None] | None = None
    log: bool = False
    ticks: Sequence[float] | None = None
    tick_names: Sequence[str] | None = None
    size: tuple[float, float] = (4.6, 3.4)


def curve_chart(name: str, curves: Sequence[Curve], axes: CurveAxes) -> str:
    """A chart of curves as SVG, drawn in the order given."""
    with canvas(*axes.size) as figure:
        plot: Any = figure.subplots()
        plot.grid(axis="y")
        plot.set_axisbelow(True)
        for height, label in axes.levels:
            plot.axhline(height, color=MUTED, linewidth=0.9, linestyle=_DASHED)
            place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
            font = {"ha": "right", "fontsize": 8, "color": MUTED}
            plot.annotate(label, (1.0, height), xytext=(0, 2.5), **place, **font)
        style: dict[str, Any]
        for curve in curves:
            if curve.low is not None and curve.high is not None:
                band = {"color": curve.colour, "alpha": 0.15, "linewidth": 0}
                plot.fill_between(curve.x, curve.low, curve.high, **band)
            # Without bars it draws the plain line.
            style = {"yerr": None if curve.error is None else np.asarray(curve.error)}
            style |= {"linestyle": curve.stroke, "linewidth": 0.7 if curve.thin else 1.6}
            style |= {"alpha": 0.7 if curve.thin else 1.0, "elinewidth": 1.0}
            _points(plot, curve.x, curve.y, curve, **style)
        plot.set(xlabel=axes.x_label, ylabel=axes.y_label)
        if axes.log:
            plot.set_yscale("log")
            # Plain numbers: the exponents of powers are too small to read in a small window.
            plot.yaxis.set_major_formatter(lambda value, _: general(value))
            plot.yaxis.set_minor_formatter("")
        # Markers at the border would be cut; lines alone may touch it.
        if not any(curve.marker for curve in curves):
            plot.margins(x=0.01)
        if axes.limits is not None:
            plot.set_ylim(*axes.limits)
        if axes.ticks is not None:
            plot.set_xticks(list(axes.ticks), axes.tick_names)
        if any(curve.label for curve in curves):
            figure.legend(loc="outside lower center", ncols=2)
        return to_svg(figure, name)
