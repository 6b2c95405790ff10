"""Charts and maps of grid worlds, as SVG.

The argument `name` of each picture is unique on the page; labels of axes contain the unit.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from goalmeter._errors import InvalidParameterError, visible
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

Place = tuple[int, int]
Estimates = Sequence[EstimateLike | None]

# Palettes whose lightness alone tells the order; the last runs both ways from a pale zero. The
# greys are for numbers that rest on little.
PALETTES = {"visits": "Blues", "utility": "Purples", "faint": "Greys", "signed": "PuOr_r"}
# Colours of a palette: an odd number, so that zero has one of its own, and so few that a page can
# name them all.
LEVELS = 33
_WALL = "#8794a1"
_DASHED = {"color": MUTED, "linewidth": 0.9, "linestyle": (0, (4, 3))}
_HATCHED = {"fill": False, "hatch": "///", "edgecolor": MUTED, "linewidth": 0}
_LABEL = {"textcoords": "offset points", "size": 8, "ha": "right"}  # it ends near its place
_LETTER = 0.075  # inches


def short(name: str, longest: int = 30) -> str:
    """A name with no control characters, its middle left out where it is long."""
    name = visible(name, lines=True).replace("\n", " ")
    if len(name) <= longest:
        return name
    return f"{name[: longest // 2 - 1]}…{name[-longest // 2 :]}"


# --- Primitives -----------------------------------------------------------------------------------
def _box(
    axes: Any, row: float, column: float, high: float = 1.0, wide: float = 1.0, /, **style: Any
) -> None:
    """Draw a box around a place."""
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((column - wide / 2, row - high / 2), wide, high, **style))


def _write(axes: Any, row: float, column: float, text: str, **style: Any) -> Any:
    """Write a text into the middle of a place."""
    return axes.text(column, row, text, **{"ha": "center", "va": "center"} | style)


def _cells(axes: Any, rows: int, columns: float) -> None:
    """The axes of a map of cells, whose middles are whole numbers: row 0 on top, no ticks."""
    axes.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), xticks=[], yticks=[])


def _mesh(axes: Any, values: Any, left: float = -0.5, wide: float = 1.0, /, **style: Any) -> Any:
    """Cells of the colours of values [R, C], from the left."""
    # Squares, not an image: the page gives them other colours in the dark.
    across, down = (np.arange(size + 1.0) for size in values.T.shape)
    return axes.pcolormesh(left + wide * across, down - 0.5, values, **style)


def _colour_bar(figure: Any, mesh: Any, label: str, **place: Any) -> Any:
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


def _ink_on(mesh: Any, value: Any) -> str:
    """The colour of text on a cell of some value, to be read in either scheme."""
    import matplotlib.colors

    return text_on(matplotlib.colors.to_hex(mesh.to_rgba(value)))


def _hundredths(value: float) -> str:
    """A number to two decimals, without a zero before them."""
    text = number(value, 2)
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def _short(value: float) -> str:
    """A number in at most four characters; rounding never turns something into nothing."""
    # "0.00" would say that there is nothing.
    if abs(value) < 0.005:
        return "~0" if value else "0"
    return _hundredths(value) if abs(value) < 1 else number(value, 1)


def _tick(value: float, _: object) -> str:
    return general(value if abs(value) > 1e-12 else 0.0)


def _with_ends(estimates: Estimates) -> FloatArray:
    """Values, lower and upper ends of estimates, [3, lines]; NaN for what is not known."""
    nothing = math.nan, math.nan
    known = [(e.value, *(e.interval or nothing)) if e else (math.nan, *nothing) for e in estimates]
    return np.reshape(known, (-1, 3)).T


def _points(axes: Any, x: Any, y: Any, series: Dots | Curve, **style: Any) -> None:
    """Points with their error bars."""
    style = {"color": series.colour, "marker": series.marker, "label": series.label} | style
    face = PAPER if series.hollow else series.colour
    axes.errorbar(x, y, markerfacecolor=face, markeredgewidth=1.3, capsize=2.5, **style)


# --- Heat map -------------------------------------------------------------------------------------
_WIDTH, _CELL, _HEIGHT = 10.2, 0.36, 0.245  # inches: of the page, and of a cell at most
_LEAST, _NARROW = 5.0, 3.8  # inches: of a picture with means, and of one without, at least
_GAP, _MEAN = 0.35, 1.3  # widths of the gap before the means and of their column, in cells


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Panel of a heat map.

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
    found = defaultdict(list)
    for *place, value in cells:
        if not math.isnan(value):
            found[tuple(place)].append(value)
    panels = []
    for title in dict.fromkeys(title for title, *_ in found):
        values = [[np.mean(found.get((title, r, c), math.nan)) for c in columns] for r in rows]
        marked = frozenset((rows.index(r), columns.index(c)) for t, r, c in hatched if t == title)
        panels.append(Panel(title=title, values=values, hatched=marked))
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
    """Return a heat map as SVG: panels of one colour scale, with the number of each cell.

    The ends of the scale, named `label`, are equally far from 0, where it is pale, or the lower one
    is at least 0 and pale; what lies beyond has the colour of the end. With `means` a last column
    has the mean of each row. Names of columns are shown once, above the first panel.
    """
    shape = len(rows), len(columns)
    names, labels = list(map(short, rows)), list(map(short, columns))
    labels += ["mean of the row"] * means
    beside = len(columns) - 0.5 + _GAP  # where the column of means begins
    cells = {"cmap": colour_map(PALETTES["signed" if scale[0] < 0 else "visits"])}
    cells |= {"vmin": scale[0], "vmax": scale[1], "edgecolor": PAPER, "linewidth": 0.6}
    wide = max(map(len, names), default=0) * _LETTER + 1.0 + _CELL * (len(columns) + 2 * means)
    height = 2.3 + len(panels) * (0.3 + _HEIGHT * len(rows))
    with canvas(min(_WIDTH, max(_LEAST if means else _NARROW, wide)), height) as figure:
        grid = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
        for axes, panel in zip(grid, panels, strict=True):
            array = np.asarray(panel.values, dtype=np.float64)
            if array.shape != shape:
                raise InvalidParameterError(
                    f"panel {panel.title!r} has shape {array.shape}, expected {shape}: a value for "
                    "each row and column"
                )
            _cells(axes, len(rows), beside + 0.5 + _MEAN if means else len(columns))
            blocks = [(array, -0.5, 1.0)]
            if means:
                of_rows = np.ma.masked_invalid(array).mean(axis=1).filled(np.nan)
                blocks.append((of_rows[:, None], beside, _MEAN))
            for values, left, width in blocks:
                mesh = _mesh(axes, values, left, width, **cells)
                for (column, row), value in np.ndenumerate(values.T):
                    if np.isnan(value):
                        continue
                    # Without what can be left out: .97, −.5, 0, 1.
                    whole = round(value, 2) == round(value)
                    shown = number(value, 0) if whole else _hundredths(value)
                    font = {"size": SMALLEST, "color": _ink_on(mesh, value)}
                    text = _write(axes, row + 0.03, left + width * (column + 0.5), shown, **font)
                    text.set_in_layout(False)  # it lies inside its cell; measuring it takes long
            for row, column in sorted(panel.hatched):
                _box(axes, row, column, **_HATCHED)
            # In the column of the rows' names: the first panel has the columns' names above it.
            axes.annotate(panel.title, (0, 1), (-4, 4), "axes fraction", weight="bold", **_LABEL)
            axes.spines[:].set_visible(False)
            axes.tick_params(length=0, labelsize=8)
            axes.set_yticks(range(len(rows)), names)
        # Above the first panel, where a reader begins: those below have the same columns.
        grid[0].xaxis.tick_top()
        middles = [*range(len(columns)), *[beside + _MEAN / 2] * means]
        grid[0].set_xticks(middles, labels, rotation=60, ha="left", rotation_mode="anchor")
        grid[0].tick_params(axis="x", length=2, color=RULE)
        bar = _colour_bar(figure, mesh, label, ax=list(grid), aspect=45, shrink=0.5, pad=0.02)
        bar.ax.xaxis.set_major_formatter(_tick)
        return to_svg(figure, name)


# --- Dots -----------------------------------------------------------------------------------------
_LINE = 0.3  # inches
_NAMES, _LONGEST = 1.6, 60  # inches, and characters of a line's name that are shown


@dataclass(frozen=True, kw_only=True)
class Dots:
    """Estimates of a dot chart, one per line, with intervals; NaN for none.

    `values` [lines] and their `intervals` (low, high); `hollow` dots show numbers from elsewhere.
    """

    label: str
    values: Sequence[float]
    intervals: Sequence[tuple[float, float]]
    colour: str = BLUE
    marker: str = "o"
    hollow: bool = False

    @classmethod
    def of(cls, label: str, estimates: Estimates, *, scale: float = 1.0, **style: Any) -> Self:
        """Return the dots of estimates, times a scale; an empty line for None."""
        values, low, high = (scale * _with_ends(estimates)).tolist()
        return cls(label=label, values=values, intervals=[*zip(low, high, strict=True)], **style)


@dataclass(frozen=True, kw_only=True)
class DotPanel:
    """Panel of a dot chart.

    Its series are on the same line if `joined`, by a stroke from the first to the last, else below
    each other. A `band`, such as a margin, is shaded from the first to the second.
    """

    x_label: str
    series: tuple[Dots, ...]
    title: str = ""
    joined: bool = False
    band: tuple[float, float] | None = None


def dot_chart(name: str, lines: Sequence[str], panels: Sequence[DotPanel]) -> str:
    """Return a dot chart as SVG: panels side by side with common lines; 0 is marked in each.

    Names of lines are in order from the top, panels from the left.
    """
    most = max(1 if panel.joined else len(panel.series) for panel in panels)
    names = [short(line, _LONGEST) for line in lines]
    places = np.arange(len(lines))
    width = max(_NAMES, _LETTER * max(map(len, names), default=0)) + 4.3 * len(panels)
    height = 1.35 + (_LINE + 0.08 * (most - 1)) * len(lines)
    with canvas(width, height) as figure:
        grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        grid[0].set_yticks(places, names, fontsize=8.5)
        grid[0].set_ylim(len(lines) - 0.4, -0.6)
        named = {""}  # panels share series, and the legend should have each once
        for axes, panel in zip(grid, panels, strict=True):
            axes.axvline(0, **_DASHED)
            if panel.band is not None:
                axes.axvspan(*panel.band, color=RULE, alpha=0.35, linewidth=0)
            across = axes.get_yaxis_transform()
            axes.hlines(places, 0, 1, transform=across, color=RULE, linewidth=0.5)
            if panel.joined:
                ends = np.array([dots.values for dots in panel.series])
                stroke = {"color": RULE, "linewidth": 4, "solid_capstyle": "round"}
                axes.plot(ends, np.broadcast_to(places, ends.shape), **stroke)
            for index, dots in enumerate(panel.series):
                values = np.asarray(dots.values, dtype=np.float64)
                low, high = np.asarray(dots.intervals, dtype=np.float64).T
                shift = 0.0 if panel.joined else 0.26 * (index - (len(panel.series) - 1) / 2)
                # Above the lines of the rows.
                style = {"linestyle": "none", "markersize": 5.5, "elinewidth": 1.2, "zorder": 3}
                style["xerr"] = np.array([values - low, high - values]).clip(min=0)
                style["label"] = "" if dots.label in named else dots.label
                named.add(dots.label)
                _points(axes, values, places + shift, dots, **style)
            axes.set(xlabel=panel.x_label, title=panel.title)
            axes.spines["left"].set_visible(False)
            axes.tick_params(axis="y", length=0)
            axes.xaxis.set_major_formatter(_tick)
        figure.legend(loc="outside lower center", ncols=min(len(named) - 1, 4))
        return to_svg(figure, name)


# --- Curves ---------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Curve:
    """Curve through the points (x, y).

    There is a band from `low` to `high` if both are given, and error bars of the half-widths
    `error`. `stroke` and `marker` are matplotlib's ("none" and "" for none); `hollow` markers show
    numbers from elsewhere; a `thin` curve is one of many.
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
    def of(cls, label: str, x: Sequence[float], estimates: Estimates, **style: Any) -> Self:
        """Return the curve of estimates, with intervals as a band; gaps where unknown."""
        values, low, high = _with_ends(estimates).tolist()
        return cls(label=label, x=x, y=values, low=low, high=high, **style)


@dataclass(frozen=True, kw_only=True)
class CurveAxes:
    """Axes of a chart of curves."""

    x_label: str
    y_label: str
    levels: Sequence[tuple[float, str]] = ()  # dashed horizontal lines with their names
    limits: tuple[float | None, float | None] | None = None  # of y; None follows from the data
    log: bool = False  # whether y is logarithmic
    ticks: Sequence[float] | None = None  # of x
    tick_names: Sequence[str] | None = None
    size: tuple[float, float] = (4.6, 3.4)  # inches


def curve_chart(name: str, curves: Sequence[Curve], axes: CurveAxes) -> str:
    """Return a chart of curves as SVG, drawn in the order given."""
    with canvas(*axes.size) as figure:
        plot: Any = figure.subplots()
        plot.grid(axis="y")
        plot.set_axisbelow(True)
        for height, label in axes.levels:
            plot.axhline(height, **_DASHED)
            coords = "axes fraction", "data"
            plot.annotate(label, (1.0, height), (0, 2.5), coords, color=MUTED, **_LABEL)
        for curve in curves:
            if curve.low is not None and curve.high is not None:
                band = {"color": curve.colour, "alpha": 0.15, "linewidth": 0}
                plot.fill_between(curve.x, curve.low, curve.high, **band)
            width, alpha = (0.7, 0.7) if curve.thin else (1.6, 1.0)
            style = {"linestyle": curve.stroke, "linewidth": width, "alpha": alpha}
            # Without bars it draws the plain line.
            _points(plot, curve.x, curve.y, curve, yerr=curve.error, elinewidth=1.0, **style)
        plot.set(xlabel=axes.x_label, ylabel=axes.y_label)
        if axes.log:
            plot.set_yscale("log")
            # Plain numbers: the exponents of powers are too small to read in a small window.
            plot.yaxis.set_major_formatter(_tick)
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
    """Marks of squares on a map; a state is row * C + column.

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
    """Return a map of values [R, C] as SVG, with the number of each square; row 0 is at the top.

    The palette is "visits" or "utility" (from 0), "faint" (the same in grey) or "signed" (pale at
    0), its scale named `label`. With `log`, colours follow log(1 + 10 |value|), so that small
    values show as well. The scale ends at `limit`, so that several maps can share one, else at the
    largest value; what is below the scale has the colour of its beginning.
    """
    array, marks = np.asarray(values, dtype=np.float64), marks or Marks()
    rows, columns = array.shape
    wide = columns + (_BESIDE if marks.beside else 0)
    shown = _log_scale(array) if log else array
    places = 0 if (array == np.rint(array)).all() else None
    # A map of zeros has a scale too; of numbers without negative ones the upper half is enough.
    most = limit or float(np.abs(shown).max()) or 1.0
    is_signed = palette == "signed" and shown.min() < 0
    colours = "Oranges" if palette == "signed" and not is_signed else PALETTES[palette]
    style = {"cmap": colour_map(colours), "vmin": -most if is_signed else 0.0, "vmax": most}
    with canvas(max(_SQUARE * wide, 2.6), _SQUARE * rows + 0.75) as figure:
        axes: Any = figure.subplots()
        _cells(axes, rows, wide)
        mesh = _mesh(axes, shown, **style)
        axes.set_aspect("equal")
        for (row, column), value in np.ndenumerate(array):
            state = row * columns + column
            if state in marks.walls:
                _box(axes, row, column, color=_WALL)
                continue
            ink, letter = _ink_on(mesh, shown[row, column]), marks.letters.get(state)
            if state in marks.hatched:
                _box(axes, row, column, **_HATCHED | {"edgecolor": ink, "alpha": 0.55})
            if letter is not None:
                _box(axes, row, column, fill=False, edgecolor=INK, linewidth=1.6)
                font = {"fontsize": SMALLEST, "fontweight": "bold", "color": ink}
                axes.text(column - 0.44, row - 0.24, letter, **font)
            text = _short(value) if places is None else number(value, places)
            lower = 0.0 if letter is None else 0.14
            _write(axes, row + lower, column, text, fontsize=7.5, color=ink)
        if marks.beside:
            title, extra = marks.beside
            at_least, row, column = max(extra, 0.0), (rows - 1) / 2, columns + _BESIDE - 1.5
            _box(axes, row, column, facecolor=mesh.to_rgba(at_least), edgecolor=MUTED)
            _write(axes, row, column, _short(extra), color=_ink_on(mesh, at_least), fontsize=7.5)
            _write(axes, row - 0.65, column, title, color=INK, va="bottom", fontsize=7.5)
            # Not around the square beside: the map's own border.
            _box(axes, row, (columns - 1) / 2, rows, columns, fill=False, edgecolor=MUTED)
        axes.spines[:].set_visible(not marks.beside)
        bar = _colour_bar(figure, mesh, label, ax=axes, aspect=40, pad=0.03)
        if log:
            low, high = mesh.get_clim()
            ticks = {t: float(_log_scale(t)) for t in _TICKS if low <= _log_scale(t) <= high}
            bar.set_ticks(list(ticks.values()), labels=list(map(general, ticks)))
        return to_svg(figure, name)


def _log_scale(values: ArrayLike) -> FloatArray:
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
        _cells(axes, rows, columns)
        axes.set_aspect("equal")
        axes.set(xticks=range(columns), yticks=range(rows))
        axes.tick_params(length=0, labelsize=SMALLEST)
        axes.spines[:].set_visible(False)
        for row, column in np.argwhere(walls).tolist():
            _box(axes, row, column, color=_WALL, linewidth=0)
        for edge in range(max(rows, columns) + 1):
            axes.axhline(edge - 0.5, color=RULE, linewidth=0.4)
            axes.axvline(edge - 0.5, color=RULE, linewidth=0.4)
        for (row, column), letter in letters.items():
            font = {"fontsize": 8, "fontweight": "bold", "color": INK}
            axes.text(column - 0.42, row - 0.2, letter, **font)
        steps: dict[Place, list[str]] = {}
        for index, move in enumerate(moves, start=1):
            steps.setdefault(move.start, []).append(str(index))
            (row, column), (to_row, to_column) = move.start, move.end
            colour, stroke = (BLUE, "-") if move.good else (VERMILION, "--")
            if not move.made:
                axes.plot(column, row, marker="x", color=VERMILION, markersize=6)
            elif move.start == move.end:
                ring = {"marker": "o", "markersize": 6, "markerfacecolor": "none"}
                axes.plot(column, row, color=colour, **ring)
            else:
                # To the right of the way, so that there and back stand beside each other.
                down, right = _ASIDE * (to_column - column), -_ASIDE * (to_row - row)
                ends = (to_column + right, to_row + down), (column + right, row + down)
                style = {
                    "color": colour,
                    "linewidth": 1.1,
                    "linestyle": stroke,
                    "mutation_scale": 7,
                }
                axes.annotate("", *ends, arrowprops={"arrowstyle": "-|>"} | style, zorder=3)
        for (row, column), numbers in steps.items():
            # On a patch of paper, so that arrows do not strike it out.
            patch = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 0.4}
            style = {"fontsize": SMALLEST, "ha": "right", "color": INK, "bbox": patch}
            # As many of the first numbers as fit, with a mark that there are more.
            counts = range(len(numbers), 0, -1)
            texts = [",".join(numbers[:n]) + "…" * (n < len(numbers)) for n in counts]
            text = next((text for text in texts if len(text) <= _MOST_DIGITS), texts[-1])
            axes.text(column + 0.46, row + 0.42, text, **style)
        return to_svg(figure, name)


# --- Belief map -----------------------------------------------------------------------------------
# Inches: of a cell at most and at least, of a map at most (two stand beside each other on a page,
# and each fits into a telephone), of the picture at least, around the map, and of the scale.
_BELIEF_CELL, _LEAST_CELL, _MAP, _BELIEF_MAP, _MARGIN, _SCALE = 0.45, 0.25, 3.75, 2.6, 0.04, 0.62
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
    places = {
        (row, column): x for row, line in enumerate(marked.grid) for column, x in enumerate(line)
    }
    letters = {place: x for place, x in places.items() if x.isalpha()}
    cell = max(min(_BELIEF_CELL, _MAP / columns), _LEAST_CELL)
    inner, below = max(cell * columns, _BELIEF_MAP), _SCALE if label else 0.0
    size = np.array([inner + 2 * _MARGIN, cell * rows + 2 * _MARGIN + below])
    with canvas(*size) as figure:
        # Placed by hand, so that maps with a scale have cells as large as those without.
        figure.set_layout_engine("none")

        def placed(left: float, bottom: float, wide: float, high: float) -> Any:
            return figure.add_axes((np.array([left, bottom, wide, high]) / [*size, *size]).tolist())

        axes = placed((size[0] - cell * columns) / 2, below + _MARGIN, cell * columns, cell * rows)
        _cells(axes, rows, columns)
        axes.spines[:].set_visible(True)
        # Greys in as many steps as a page can name; two of them where there are walls, no shades.
        colours = colour_map(PALETTES["faint"]) if label else ListedColormap([PAPER, _WALL])
        style = {"cmap": colours, "vmin": 0.0, "vmax": 1.0, "edgecolor": RULE, "linewidth": 0.4}
        mesh = _mesh(axes, np.ma.masked_invalid(shares), **style)
        for row, column in np.argwhere(np.isnan(shares)).tolist():
            _box(axes, row, column, **_HATCHED)
        if label:
            cax = placed(_MARGIN + 0.15, below - 0.17, inner - 0.3, 0.1)
            bar = _colour_bar(figure, mesh, "", cax=cax)
            bar.set_label(label, labelpad=1)
            bar.ax.xaxis.set_major_formatter(_tick)
            bar.ax.tick_params(pad=1.5)
            # Where it is neither near 0 nor near 1, a shade hardly tells the probability.
            for (row, column), share in np.ndenumerate(shares):
                if _SURE[0] <= share <= _SURE[1] and (row, column) not in letters:
                    font = {"fontsize": SMALLEST, "color": _ink_on(mesh, share)}
                    _write(axes, row + 0.04, column, _short(share), **font)
        for (row, column), letter in letters.items():
            is_shaded = label and not np.isnan(shares[row, column])
            ink = _ink_on(mesh, shares[row, column]) if is_shaded else INK
            _write(axes, row + 0.03, column, letter, fontsize=9, fontweight="bold", color=ink)
        _draw_marks(axes, marked, next((place for place, x in letters.items() if x == "A"), None))
        return to_svg(figure, name)


def _draw_marks(axes: Any, marked: Marked, start: Place | None) -> None:
    """Frames, crosses and, from where the agent stands, moves: the one made, and right ones."""
    # Everything has paper below it, so that it is seen on every shade.
    looks = (marked.framed, GREEN, 2.2, "-"), (marked.dotted, MUTED, 1.1, (0, (1.2, 1.4)))
    for places, colour, line, stroke in looks:
        for row, column in sorted(places):
            for edge, width, dashes in ((PAPER, line + 1.6, "-"), (colour, line, stroke)):
                style = {"edgecolor": edge, "linewidth": width, "linestyle": dashes}
                _box(axes, row, column, 0.84, 0.84, fill=False, **style)
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
    if marked.taken is not None:
        down, right = marked.taken
        ends = [(column + by * right, row + by * down) for by in (1.32, 0.6)]
        good = marked.taken in marked.moves
        colour, stroke = (BLUE, "-") if good else (VERMILION, (0, (1.2, 2.2)))
        for edge, width, dashes in ((PAPER, 4.0, "-"), (colour, 1.9, stroke)):
            style = {"color": edge, "linewidth": width, "linestyle": dashes, "mutation_scale": 9}
            style |= {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", *ends, arrowprops=style, zorder=4)
