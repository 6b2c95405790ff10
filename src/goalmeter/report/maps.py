"""Maps of grid worlds: values of cells, trajectories, and decoded maps.

The argument `name` of each map is unique on the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

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
from goalmeter.report.numbers import general, number
from goalmeter.report.tables import printable

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


# --- Grid map -------------------------------------------------------------------------------------
_CELL = 0.46  # inches
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
    with canvas(max(_CELL * wide, 2.6), _CELL * rows + 0.75) as figure:
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
_WALK_CELL, _LEAST = 0.36, 2.6  # inches
_ASIDE = 0.12  # of a cell
_LONGEST = 4  # characters of step numbers that fit into a cell


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
    with canvas(max(_WALK_CELL * columns, _LEAST), max(_WALK_CELL * rows, _LEAST)) as figure:
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
            _draw(axes, move)
            steps.setdefault(move.start, []).append(str(index))
        for (row, column), numbers in steps.items():
            # On a patch of paper, so that arrows do not strike it out.
            patch = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 0.4}
            style = {"fontsize": SMALLEST, "ha": "right", "color": INK, "bbox": patch}
            axes.text(column + 0.46, row + 0.42, _first_numbers(numbers), **style)
        _limits(axes, rows, columns)
        axes.set(xticks=range(columns), yticks=range(rows))
        axes.tick_params(length=0, labelsize=SMALLEST)
        axes.spines[:].set_visible(False)
        return to_svg(figure, name)


def _draw(axes: Any, move: Move) -> None:
    (row, column), (to_row, to_column) = move.start, move.end
    colour = BLUE if move.good else VERMILION
    if not move.made:
        axes.plot(column, row, marker="x", color=VERMILION, markersize=6)
    elif move.start == move.end:
        axes.plot(column, row, marker="o", color=colour, markersize=6, markerfacecolor="none")
    else:
        style = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.1, "mutation_scale": 7}
        style["linestyle"] = "-" if move.good else "--"
        # To the right of the way, so that there and back stand beside each other.
        down, right = _ASIDE * (to_column - column), -_ASIDE * (to_row - row)
        ends = (to_column + right, to_row + down), (column + right, row + down)
        axes.annotate("", *ends, arrowprops=style)


def _first_numbers(numbers: Sequence[str]) -> str:
    """As many of the first numbers as fit into a cell, with a mark that there are more."""
    for count in range(len(numbers), 1, -1):
        text = ",".join(numbers[:count]) + "…" * (count < len(numbers))
        if len(text) <= _LONGEST:
            return text
    return numbers[0] + "…" * (len(numbers) > 1)


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
        _frames(axes, marked)
        for (row, column), letter in letters.items():
            is_shaded = label and not np.isnan(shares[row, column])
            colour = ink_on(mesh, shares[row, column]) if is_shaded else INK
            style = {"fontsize": 9, "fontweight": "bold", "color": colour}
            _write(axes, row + 0.03, column, letter, **style)
        if "A" in letters.values():
            _moves(axes, marked, *next(place for place, x in letters.items() if x == "A"))
        return to_svg(figure, name)


def _frames(axes: Any, marked: Marked) -> None:
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


def _moves(axes: Any, marked: Marked, row: int, column: int) -> None:
    """The move that was made, and those that would be right, from where the agent stands."""
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
