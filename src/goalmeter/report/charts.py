"""Charts and maps of grid worlds, as SVG.

The argument `name` of each picture is unique on the page; labels of axes contain the unit.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, BoolArray, FloatArray
from goalmeter.report.canvas import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    PAPER,
    RULE,
    SMALLEST,
    VERMILION,
    canvas,
    text_on,
    to_svg,
)
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


# Palettes whose lightness alone tells the order; the last runs both ways from a pale zero. The
# greys are for numbers that rest on little.
PALETTES = {"visits": "Blues", "utility": "Purples", "faint": "Greys", "signed": "PuOr_r"}
# Colours of a palette: an odd number, so that zero has one of its own, and so few that a page can
# name them all.
LEVELS = 33
_WALL = "#8794a1"
Place = tuple[int, int]


# --- Primitives -----------------------------------------------------------------------------------
def box(
    axes: Any, row: float, column: float, high: float = 1.0, wide: float = 1.0, **style: Any
) -> None:
    """Draw a box around a place."""
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((column - wide / 2, row - high / 2), wide, high, **style))


def _write(axes: Any, row: float, column: float, text: str, **style: Any) -> None:
    """Write a text into the middle of a place."""
    axes.text(column, row, text, ha="center", va=style.pop("va", "center"), **style)


def _limits(axes: Any, rows: int, columns: float) -> None:
    """Row 0 is on top; no ticks."""
    axes.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), xticks=[], yticks=[])


def _mesh(axes: Any, values: Any, **style: Any) -> Any:
    """Squares of the colours of values [R, C]."""
    # Squares, not an image: the page gives them other colours in the dark.
    rows, columns = values.shape
    return axes.pcolormesh(np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5, values, **style)


def colour_bar(figure: Any, mesh: Any, label: str, **place: Any) -> Any:
    """Draw the scale of a mesh's colours."""
    bar = figure.colorbar(mesh, orientation="horizontal", **place)
    bar.set_label(label)
    bar.outline.set_linewidth(0.5)
    return bar


def colour_map(palette: str) -> Any:
    """The colours of a palette of matplotlib's, in `LEVELS` steps."""
    import matplotlib
    from matplotlib.colors import ListedColormap

    # Greys would end in black, which an SVG leaves out as the default, so no page could change it.
    end = 0.9 if palette == "Greys" else 1.0
    return ListedColormap(matplotlib.colormaps[palette](np.linspace(0.0, end, LEVELS)))


def ink_on(mesh: Any, value: float) -> str:
    """The colour of text on a cell of some value, to be read in either scheme."""
    import matplotlib.colors

    return text_on(matplotlib.colors.to_hex(mesh.to_rgba(value)))


def _short(value: float) -> str:
    """A number in at most four characters; rounding never turns something into nothing."""
    if value == 0:
        return "0"
    # "0.00" would say that there is nothing.
    if abs(value) < 0.005:
        return "~0"
    return number(value, 2).replace("0.", ".", 1) if abs(value) < 1 else number(value, 1)


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


# --- Grid map -------------------------------------------------------------------------------------
_SQUARE = 0.46  # inches
_BESIDE = 2.4  # squares that one more beside the map takes, with the room before it
_TICKS = (-100, -10, -1, -0.1, 0, 0.1, 0.3, 1, 3, 10, 30, 100)


@dataclass(frozen=True)
class Marks:
    """What stands in which square; a state is row * C + column.

    A letter, such as S or G, stands in the corner of a square and frames it. Squares may be hatched
    (a cliff, a hole) or be walls without a number. `beside` is the name and value of one more
    square, right of the map and on its scale.
    """

    letters: Mapping[int, str] = field(default_factory=dict)
    hatched: frozenset[int] = frozenset()
    walls: frozenset[int] = frozenset()
    beside: tuple[str, float] | None = None


def grid_map(
    name: str,
    values: ArrayLike,
    *,
    label: str,
    palette: str,
    marks: Marks | None = None,
    log: bool = False,
    limit: float | None = None,
) -> str:
    """A map of values [R, C] as SVG, each square with its number; row 0 is on top.

    The palette is "visits" or "utility" (from 0), "faint" (the same in grey) or "signed" (pale at
    0), its scale named `label`. With `log`, colours follow log(1 + 10 |value|), so that small
    values show as well. The scale ends at `limit`, so that several maps can share one, else at the
    largest value; what is below the scale has the colour of its beginning.
    """
    array, marks = np.asarray(values, dtype=np.float64), marks or Marks()
    rows, columns = array.shape
    wide = columns + (_BESIDE if marks.beside is not None else 0)
    shown, is_whole = _scaled(array) if log else array, bool((array == np.rint(array)).all())
    # A map of zeros has a scale too; of numbers without negative ones the upper half is enough.
    most = limit or float(np.abs(shown).max()) or 1.0
    is_signed = palette == "signed" and shown.min() < 0
    colours = "Oranges" if palette == "signed" and not is_signed else PALETTES[palette]
    style = {"cmap": colour_map(colours), "vmin": -most if is_signed else 0.0, "vmax": most}
    with canvas(max(_SQUARE * wide, 2.6), _SQUARE * rows + 0.75) as figure:
        axes: Any = figure.subplots()
        mesh = _mesh(axes, shown, **style)
        axes.set_aspect("equal")
        for state, value in enumerate(array.ravel().tolist()):
            row, column = divmod(state, columns)
            if state in marks.walls:
                box(axes, row, column, fill=True, color=_WALL)
                continue
            ink = ink_on(mesh, shown[row, column])
            if state in marks.hatched:
                hatch: dict[str, Any] = {"hatch": "///", "linewidth": 0.0, "alpha": 0.55}
                box(axes, row, column, fill=False, edgecolor=ink, **hatch)
            if state in marks.letters:
                box(axes, row, column, fill=False, edgecolor=INK, linewidth=1.6)
                font = {"fontsize": SMALLEST, "fontweight": "bold", "color": ink}
                axes.text(column - 0.44, row - 0.24, marks.letters[state], **font)
            text = number(value, 0) if is_whole else _short(value)
            lower = 0.14 if state in marks.letters else 0.0
            _write(axes, row + lower, column, text, fontsize=7.5, color=ink)
        if marks.beside is not None:
            title, value = marks.beside
            at_least, place = max(value, 0.0), ((rows - 1) / 2, columns + _BESIDE - 1.5)
            box(axes, *place, facecolor=mesh.to_rgba(at_least), edgecolor=MUTED)
            _write(axes, *place, _short(value), color=ink_on(mesh, at_least), fontsize=7.5)
            font = {"color": INK, "va": "bottom", "parse_math": False, "fontsize": 7.5}
            _write(axes, place[0] - 0.65, place[1], title, **font)
            # Not around the square beside: the map's own border.
            box(axes, place[0], (columns - 1) / 2, rows, columns, fill=False, edgecolor=MUTED)
        _limits(axes, rows, wide)
        axes.spines[:].set_visible(marks.beside is None)
        bar = colour_bar(figure, mesh, label, ax=axes, aspect=40, pad=0.03)
        if log:
            low, high = mesh.get_clim()
            ticks = {t: float(_scaled(t)) for t in _TICKS if low <= _scaled(t) <= high}
            bar.set_ticks(list(ticks.values()), labels=list(map(general, ticks)))
        return to_svg(figure, name)


def _scaled(values: ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    return np.asarray(np.sign(array) * np.log1p(10 * np.abs(array)))


# --- Walk map -------------------------------------------------------------------------------------
_WALK_CELL, _SIDE = 0.36, 2.6  # inches
_ASIDE = 0.12  # of a cell
_MOST_DIGITS = 4  # characters of step numbers that fit into a cell


class Move(NamedTuple):
    """One step: from where, to where (a bump stays), whether it was optimal, and an action."""

    start: Place
    end: Place
    good: bool
    made: bool = True


def walk_map(
    name: str, walls: BoolArray, letters: Mapping[Place, str], moves: Sequence[Move]
) -> str:
    """A picture of a walk as SVG: walls [rows, columns], letters of places, and moves in order."""
    # A move that led nowhere is a ring, an answer that was no action a cross. Each cell has the
    # numbers of the steps that were made there, the first ones where there are more.
    rows, columns = walls.shape
    with canvas(max(_WALK_CELL * columns, _SIDE), max(_WALK_CELL * rows, _SIDE)) as figure:
        axes: Any = figure.subplots()
        axes.set_aspect("equal")
        for row, column in np.argwhere(walls).tolist():
            box(axes, row, column, color=_WALL, linewidth=0)
        for edge in range(max(rows, columns) + 1):
            axes.axhline(edge - 0.5, color=RULE, linewidth=0.4)
            axes.axvline(edge - 0.5, color=RULE, linewidth=0.4)
        for (row, column), letter in letters.items():
            style = {"fontsize": 8, "fontweight": "bold", "color": INK, "parse_math": False}
            axes.text(column - 0.42, row - 0.2, printable(letter), **style)
        steps: dict[Place, list[str]] = {}
        for index, move in enumerate(moves, start=1):
            steps.setdefault(move.start, []).append(str(index))
            (row, column), (to_row, to_column) = move.start, move.end
            colour, stroke = (BLUE, "-") if move.good else (VERMILION, "--")
            if not move.made:
                axes.plot(column, row, marker="x", color=VERMILION, markersize=6)
            elif move.start == move.end:
                style = {"marker": "o", "markersize": 6, "markerfacecolor": "none"}
                axes.plot(column, row, color=colour, **style)
            else:
                style = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.1}
                style |= {"mutation_scale": 7, "linestyle": stroke}
                # To the right of the way, so that there and back stand beside each other.
                down, right = _ASIDE * (to_column - column), -_ASIDE * (to_row - row)
                ends = (to_column + right, to_row + down), (column + right, row + down)
                axes.annotate("", *ends, arrowprops=style)
        for (row, column), numbers in steps.items():
            # On a patch of paper, so that arrows do not strike it out.
            patch = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 0.4}
            style = {"fontsize": SMALLEST, "ha": "right", "color": INK, "bbox": patch}
            # As many of the first numbers as fit, with a mark that there are more.
            counts = range(len(numbers), 0, -1)
            texts = [",".join(numbers[:n]) + "…" * (n < len(numbers)) for n in counts]
            text = next((text for text in texts if len(text) <= _MOST_DIGITS), texts[-1])
            axes.text(column + 0.46, row + 0.42, text, **style)
        _limits(axes, rows, columns)
        axes.set(xticks=range(columns), yticks=range(rows))
        axes.tick_params(length=0, labelsize=SMALLEST)
        axes.spines[:].set_visible(False)
        return to_svg(figure, name)


# --- Belief map -----------------------------------------------------------------------------------
# Inches: of a cell at most, of a map at most (two stand beside each other on a page, and each fits
# into a telephone), of the picture at least, around the map, and of the colour scale below it.
_BELIEF_MAP_CELL, _MAP, _BELIEF_MAP_LEAST, _MARGIN, _SCALE = 0.45, 3.75, 2.6, 0.04, 0.62
_SMALLEST_CELL = 0.25
# Probabilities outside of these are seen by their shade alone.
_SURE = (0.05, 0.95)


@dataclass(frozen=True, kw_only=True)
class Marked:
    """What is drawn on top of the cells; places are (row, column)."""

    grid: Sequence[str] = ()  # rows of text, whose letters are shown; moves are drawn from "A"
    moves: Sequence[Place] = ()  # (rows down, columns right) of moves that would be right
    taken: Place | None = None  # the move that was made; None for none
    framed: frozenset[Place] = frozenset()  # with a thick frame
    dotted: frozenset[Place] = frozenset()  # with a dotted frame
    crossed: frozenset[Place] = frozenset()  # with a cross in the corner


def belief_map(name: str, cells: ArrayLike, marked: Marked, *, label: str = "") -> str:
    """A map of the probability of a wall in each cell as SVG; NaN, for unknown, is hatched."""
    # Without a `label` there is no colour scale, and cells are walls or not.
    from matplotlib.colors import ListedColormap

    shares = np.asarray(cells, dtype=np.float64)
    rows, columns = shares.shape
    letters = {
        (row, column): letter
        for row, line in enumerate(marked.grid)
        for column, letter in enumerate(line)
        if letter.isalpha()
    }
    cell = max(min(_BELIEF_MAP_CELL, _MAP / columns), _SMALLEST_CELL)
    inner, below = max(cell * columns, _BELIEF_MAP_LEAST), _SCALE if label else 0.0
    width, height = inner + 2 * _MARGIN, cell * rows + 2 * _MARGIN + below
    with canvas(width, height) as figure:
        # Placed by hand, so that maps with a scale have cells as large as those without.
        figure.set_layout_engine("none")

        def placed(left: float, bottom: float, wide: float, high: float) -> Any:
            return figure.add_axes((left / width, bottom / height, wide / width, high / height))

        axes = placed((width - cell * columns) / 2, below + _MARGIN, cell * columns, cell * rows)
        _limits(axes, rows, columns)
        axes.spines[:].set_visible(True)
        # Greys in as many steps as a page can name; two of them where there are walls, no shades.
        colours = colour_map(PALETTES["faint"]) if label else ListedColormap([PAPER, _WALL])
        style = {"cmap": colours, "vmin": 0.0, "vmax": 1.0, "edgecolor": RULE, "linewidth": 0.4}
        mesh = _mesh(axes, np.ma.masked_invalid(shares), **style)
        for row, column in np.argwhere(np.isnan(shares)).tolist():
            box(axes, row, column, linewidth=0, fill=False, hatch="///", edgecolor=MUTED)
        if label:
            cax = placed(_MARGIN + 0.15, below - 0.17, inner - 0.3, 0.1)
            bar = colour_bar(figure, mesh, "", cax=cax)
            bar.set_label(label, labelpad=1)
            bar.ax.xaxis.set_major_formatter(lambda value, _: general(value))
            bar.ax.tick_params(pad=1.5)
            # Where it is neither near 0 nor near 1, a shade hardly tells the probability.
            for (row, column), share in np.ndenumerate(shares):
                if _SURE[0] <= share <= _SURE[1] and (row, column) not in letters:
                    ink = ink_on(mesh, float(share))
                    _write(axes, row + 0.04, column, _short(share), fontsize=SMALLEST, color=ink)
        for (row, column), letter in letters.items():
            is_shaded = label and not np.isnan(shares[row, column])
            colour = ink_on(mesh, shares[row, column]) if is_shaded else INK
            style = {"fontsize": 9, "fontweight": "bold", "color": colour}
            _write(axes, row + 0.03, column, letter, **style)
        _on_top(axes, marked, next((place for place, x in letters.items() if x == "A"), None))
        return to_svg(figure, name)


def _on_top(axes: Any, marked: Marked, start: Place | None) -> None:
    """Frames, crosses and, from where the agent stands, moves: the one made, and right ones."""
    looks = (marked.framed, GREEN, 2.2, "-"), (marked.dotted, MUTED, 1.1, (0, (1.2, 1.4)))
    for places, colour, line, stroke in looks:
        for row, column in sorted(places):
            # Paper below the line, so that it is seen on every shade.
            for edge, width, dashes in ((PAPER, line + 1.6, "-"), (colour, line, stroke)):
                style: dict[str, Any] = {"linewidth": width, "linestyle": dashes, "fill": False}
                box(axes, row, column, 0.84, 0.84, edgecolor=edge, **style)
    for row, column in sorted(marked.crossed):
        for colour, width in ((PAPER, 3.0), (VERMILION, 1.5)):
            style = {"color": colour, "markeredgewidth": width, "markersize": 4.5}
            axes.plot(column + 0.3, row - 0.3, marker="x", **style)
    if start is None:
        return
    row, column = start
    for down, right in marked.moves:
        shape = {(0, -1): "<", (0, 1): ">", (-1, 0): "^", (1, 0): "v"}[down, right]
        style = {"color": BLUE, "markersize": 5.0, "markeredgewidth": 0.0, "clip_on": False}
        axes.plot(column + 0.37 * right, row + 0.37 * down, marker=shape, zorder=5, **style)
    if marked.taken is None:
        return
    down, right = marked.taken
    ends = [(column + by * right, row + by * down) for by in (1.32, 0.6)]
    good = marked.taken in marked.moves
    colour, shaft = (BLUE, "-") if good else (VERMILION, (0, (1.2, 2.2)))
    for edge, width, stroke in ((PAPER, 4.0, "-"), (colour, 1.9, shaft)):
        style = {"arrowstyle": "-|>", "color": edge, "linewidth": width, "mutation_scale": 9}
        style |= {"linestyle": stroke, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", *ends, arrowprops=style, zorder=4)
