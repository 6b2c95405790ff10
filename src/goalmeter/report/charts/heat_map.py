"""Heat maps: rows by columns of signed numbers, in panels that share their names and colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.report.charts.canvas import SMALLEST, canvas, to_svg
from goalmeter.report.charts.colours import MUTED, PAPER, RULE
from goalmeter.report.charts.grid_map import PALETTES, colour_map, ink_on
from goalmeter.report.numbers import general, number
from goalmeter.report.terminal import printable

_WIDTH, _CELL, _HEIGHT = 10.2, 0.36, 0.245  # inches: of the page, and of a cell at most
_LEAST, _NARROW = 5.0, 3.8  # inches: of a picture with means, and of one without, at least
_LONGEST = 30  # characters of a name that are shown
_GAP = 0.35  # between the cells and the column of means, in cells


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel.

    Attributes:
        title: above it.
        values: [rows, columns]; NaN where there is no number.
        hatched: (row, column) of cells to hatch.
    """

    title: str
    values: ArrayLike
    hatched: frozenset[tuple[int, int]] = frozenset()


def heat_map(
    name: str,
    panels: Sequence[Panel],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    label: str,
    limit: float,
    signed: bool = True,
    least: float = 0.0,
    means: bool = True,
) -> str:
    """Panels of one colour scale below each other as SVG, each cell with its number.

    The scale is pale at 0 and runs to `limit`, both ways if numbers are signed; a last column has
    the mean of each row.

    Args:
        name: unique on the page.
        panels: from the top.
        rows: a name for each row.
        columns: a name for each column, shown once, above the first panel.
        label: of the colour scale, with its unit.
        limit: the end of the scale; what lies beyond has the colour of the end.
        signed: whether there may be numbers below 0.
        least: where a scale without signs begins; what lies below has the colour of the beginning.
        means: whether there is a column of means.
    """
    arrays = [np.asarray(panel.values, dtype=np.float64) for panel in panels]
    for panel, array in zip(panels, arrays, strict=True):
        if array.shape != (len(rows), len(columns)):
            raise InvalidParameterError(
                f"panel {panel.title!r} has shape {array.shape}, expected "
                f"({len(rows)}, {len(columns)}): a value for each row and column"
            )
    names = max(map(len, map(short, rows)), default=0) * 0.075
    least_width = _LEAST if means else _NARROW
    width = min(_WIDTH, max(least_width, names + 1.0 + _CELL * (len(columns) + 2 * means)))
    height = 2.3 + len(panels) * (0.3 + _HEIGHT * len(rows))
    with canvas(width, height) as figure:
        grid = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
        for axes, panel, array in zip(grid, panels, arrays, strict=True):
            limits = (-limit if signed else least, limit)
            mesh = _cells(axes, array, limits, panel.hatched, means=means)
            # In the column of the rows' names: the first panel has the columns' names above it.
            place = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "right"}
            style = {"size": 8, "weight": "bold", "parse_math": False}
            axes.annotate(panel.title, (0, 1), xytext=(-4, 4), **place, **style)
            _ticks(axes, rows, columns, named=axes is grid[0], means=means)
        shape: dict[str, Any] = {"aspect": 45, "shrink": 0.5, "pad": 0.02}
        bar = figure.colorbar(mesh, ax=list(grid), orientation="horizontal", **shape)
        bar.set_label(label)
        bar.outline.set_linewidth(0.5)
        bar.ax.xaxis.set_major_formatter(lambda value, _: general(value))
        return to_svg(figure, name)


def short(name: str, longest: int = _LONGEST) -> str:
    """A name with no control characters, its middle left out where it is long."""
    name = printable(name).replace("\n", " ")
    if len(name) <= longest:
        return name
    return f"{name[: longest // 2 - 1]}…{name[-longest // 2 :]}"


def _cells(
    axes: Any,
    array: FloatArray,
    limits: tuple[float, float],
    hatched: frozenset[tuple[int, int]],
    *,
    means: bool,
) -> Any:
    """Draw the cells and the column of means; returns what the colour bar is of."""
    from matplotlib.patches import Rectangle

    n_rows, n_columns = array.shape
    palette = PALETTES["signed" if limits[0] < 0 else "visits"]
    style = {"cmap": colour_map(palette), "vmin": limits[0], "vmax": limits[1]}
    edges = {"edgecolor": PAPER, "linewidth": 0.6}
    heights = np.arange(n_rows + 1)
    mesh = axes.pcolormesh(np.arange(n_columns + 1), heights, array, **style, **edges)
    placed = [(column + 0.5, array[:, column]) for column in range(n_columns)]
    at = n_columns + _GAP
    if means:
        of_rows = _row_means(array)
        axes.pcolormesh([at, at + 1.3], heights, of_rows[:, None], **style, **edges)
        placed.append((at + 0.65, of_rows))
    for x, values in placed:
        for row, value in enumerate(values):
            if np.isnan(value):
                continue
            font = {"size": SMALLEST, "color": ink_on(mesh, value), "ha": "center", "va": "center"}
            text = axes.text(x, row + 0.53, _number(value), **font)
            text.set_in_layout(False)  # it lies inside its cell; measuring it takes long
    for row, column in sorted(hatched):
        axes.add_patch(
            Rectangle((column, row), 1, 1, fill=False, hatch="///", edgecolor=MUTED, linewidth=0)
        )
    axes.set_xlim(0, at + 1.3 if means else n_columns)
    axes.set_ylim(n_rows, 0)
    return mesh


def _ticks(
    axes: Any, rows: Sequence[str], columns: Sequence[str], *, named: bool, means: bool
) -> None:
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_yticks(np.arange(len(rows)) + 0.5, [short(name) for name in rows], fontsize=8)
    places, labels = list(np.arange(len(columns)) + 0.5), list(map(short, columns))
    if means:
        places.append(len(columns) + _GAP + 0.65)
        labels.append("mean of the row")
    if named:
        # Above, where a reader begins: the panels below have the same columns.
        axes.xaxis.tick_top()
        style: dict[str, Any] = {"rotation": 60, "ha": "left", "rotation_mode": "anchor"}
        axes.set_xticks(places, labels, fontsize=8, **style)
        axes.tick_params(axis="x", length=2, color=RULE)
    else:
        axes.set_xticks([])
    for tick in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        tick.set_parse_math(False)


def _row_means(array: FloatArray) -> FloatArray:
    """The mean of the numbers that each row has; NaN for none."""
    # Not nanmean, which warns of rows that have no number.
    there = ~np.isnan(array)
    count = there.sum(axis=1)
    sums = np.where(there, array, 0.0).sum(axis=1)
    means = np.full(len(sums), np.nan)
    np.divide(sums, count, out=means, where=count > 0)
    return means


def _number(value: float) -> str:
    """Two decimals without what can be left out: .97, −.5, 0, 1."""
    if round(value, 2) == round(value):
        return number(value, 0)
    return number(value, 2).replace("0.", ".", 1)
