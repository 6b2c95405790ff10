"""Maps of grid worlds: values of cells, trajectories, and decoded maps.

The argument `name` of each map is unique on the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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


def _box(axes: Any, row: float, column: float, side: float = 1.0, **style: Any) -> None:
    """Draw a square around a place."""
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((column - side / 2, row - side / 2), side, side, **style))


def _limits(axes: Any, rows: int, columns: float) -> None:
    """Row 0 is on top; no ticks."""
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_xticks([])
    axes.set_yticks([])


def _edges(shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Borders of columns and of rows."""
    # Squares, not an image: the page gives them other colours in the dark.
    return np.arange(shape[1] + 1) - 0.5, np.arange(shape[0] + 1) - 0.5


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
    if abs(value) < 1:
        return number(value, 2).replace("0.", ".", 1)
    return number(value, 1)


# --- Grid map -------------------------------------------------------------------------------------
_CELL = 0.46  # inches
_BESIDE = 2.4  # squares that one more beside the map takes, with the room before it
_TICKS = (-100, -10, -1, -0.1, 0, 0.1, 0.3, 1, 3, 10, 30, 100)


@dataclass(frozen=True)
class Marks:
    """What stands in which square; a state is row * C + column.

    Attributes:
        letters: a letter for the corner of a square, such as S or G, which also gets a frame.
        hatched: squares to hatch (a cliff, a hole).
        faint: squares whose number is put in brackets: it rests on next to nothing.
        walls: squares that are filled and have no number.
        beside: the name and value of one more square, right of the map and on its scale.
    """

    letters: Mapping[int, str] = field(default_factory=dict)
    hatched: frozenset[int] = frozenset()
    faint: frozenset[int] = frozenset()
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
    array = np.asarray(values, dtype=np.float64)
    rows, columns = array.shape
    marks = marks or Marks()
    wide = columns + (_BESIDE if marks.beside is not None else 0)
    with canvas(max(_CELL * wide, 2.6), _CELL * rows + 0.75) as figure:
        axes: Any = figure.subplots()
        shown = _scaled(array) if log else array
        image = axes.pcolormesh(*_edges(array.shape), shown, **_colours(shown, palette, limit))
        axes.set_aspect("equal")
        _squares(axes, image, array, marks)
        if marks.beside is not None:
            _one_more(axes, image, *marks.beside, place=((rows - 1) / 2, columns + _BESIDE - 1.5))
            # Not around the square beside: the map's own border.
            axes.add_patch(_border(rows, columns))
        _limits(axes, rows, wide)
        axes.spines[:].set_visible(marks.beside is None)
        bar = figure.colorbar(image, ax=axes, orientation="horizontal", aspect=40, pad=0.03)
        bar.set_label(label)
        bar.outline.set_linewidth(0.5)
        if log:
            low, high = image.get_clim()
            ticks = [t for t in _TICKS if low <= _scaled(t) <= high]
            labels = [general(t) for t in ticks]
            bar.set_ticks([float(_scaled(t)) for t in ticks], labels=labels)
        return to_svg(figure, name)


def _scaled(values: ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    return np.asarray(np.sign(array) * np.log1p(10 * np.abs(array)))


def colour_map(palette: str) -> Any:
    """The colours of a palette of matplotlib's, in `LEVELS` steps."""
    import matplotlib
    from matplotlib.colors import ListedColormap

    # Greys would end in black, which an SVG leaves out as the default, so no page could change it.
    end = 0.9 if palette == "Greys" else 1.0
    return ListedColormap(matplotlib.colormaps[palette](np.linspace(0.0, end, LEVELS)))


def _colours(shown: FloatArray, palette: str, limit: float | None) -> dict[str, Any]:
    """The colour scale and its ends; zero stays pale."""
    # A map of zeros has a scale too.
    most = limit or float(np.abs(shown).max()) or 1.0
    if palette != "signed":
        return {"cmap": colour_map(PALETTES[palette]), "vmin": 0.0, "vmax": most}
    if shown.min() >= 0:
        return {"cmap": colour_map("Oranges"), "vmin": 0.0, "vmax": most}
    return {"cmap": colour_map(PALETTES[palette]), "vmin": -most, "vmax": most}


def _squares(axes: Any, image: Any, array: FloatArray, marks: Marks) -> None:
    """What stands in each square."""
    whole = bool((array == np.rint(array)).all())
    for state, value in enumerate(array.ravel().tolist()):
        row, column = divmod(state, array.shape[1])
        if state in marks.walls:
            _box(axes, row, column, fill=True, color=_WALL)
            continue
        ink = ink_on(image, image.get_array()[row, column])
        if state in marks.hatched:
            style: dict[str, Any] = {"hatch": "///", "linewidth": 0.0, "alpha": 0.55}
            _box(axes, row, column, fill=False, edgecolor=ink, **style)
        if state in marks.letters:
            _box(axes, row, column, fill=False, edgecolor=INK, linewidth=1.6)
            style = {"fontsize": SMALLEST, "fontweight": "bold", "color": ink}
            axes.text(column - 0.44, row - 0.24, marks.letters[state], **style)
        text = number(value, 0) if whole else _short(value)
        lower = 0.14 if state in marks.letters else 0.0
        style = {"fontsize": 7.5, "color": ink, "ha": "center", "va": "center"}
        axes.text(column, row + lower, f"({text})" if state in marks.faint else text, **style)


def _one_more(
    axes: Any, image: Any, name: str, value: float, *, place: tuple[float, float]
) -> None:
    """A square of its own with its name above it."""
    row, column = place
    at_least = max(value, 0.0)
    _box(axes, row, column, facecolor=image.to_rgba(at_least), edgecolor=MUTED)
    centred: dict[str, Any] = {"ha": "center", "fontsize": 7.5}
    axes.text(column, row, _short(value), color=ink_on(image, at_least), va="center", **centred)
    axes.text(column, row - 0.65, name, color=INK, va="bottom", parse_math=False, **centred)


def _border(rows: int, columns: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((-0.5, -0.5), columns, rows, fill=False, edgecolor=MUTED)


# --- Walk map -------------------------------------------------------------------------------------
_WALK_CELL, _LEAST = 0.36, 2.6  # inches
_ASIDE = 0.12  # of a cell
_LONGEST = 4  # characters of step numbers that fit into a cell


@dataclass(frozen=True)
class Move:
    """One step.

    Attributes:
        start: row and column where it was made.
        end: where it led; the same place for a bump or an answer that was no action.
        good: whether it was an optimal one.
        made: False for an answer that was no action.
    """

    start: Place
    end: Place
    good: bool
    made: bool = True


def walk_map(
    name: str, walls: BoolArray, letters: Mapping[Place, str], moves: Sequence[Move]
) -> str:
    """A picture of a walk as SVG: walls [rows, columns], letters of places, and moves in order.

    Optimal moves are solid and blue, others dashed and vermilion; a move that led nowhere is a
    ring, an answer that was no action a cross. Each cell has the numbers of the steps that were
    made there, the first ones where there are more.
    """
    rows, columns = walls.shape
    width, height = (max(_WALK_CELL * cells, _LEAST) for cells in (columns, rows))
    with canvas(width, height) as figure:
        axes: Any = figure.subplots()
        axes.set_aspect("equal")
        for row, column in np.argwhere(walls).tolist():
            _box(axes, row, column, color=_WALL, linewidth=0)
        for edge in range(max(rows, columns) + 1):
            axes.axhline(edge - 0.5, color=RULE, linewidth=0.4)
            axes.axvline(edge - 0.5, color=RULE, linewidth=0.4)
        for (row, column), letter in letters.items():
            style = {"fontsize": 8, "fontweight": "bold", "color": INK, "parse_math": False}
            axes.text(column - 0.42, row - 0.2, printable(letter), **style)
        for move in moves:
            _draw(axes, move)
        for (row, column), numbers in _visits(moves).items():
            # On a patch of paper, so that arrows do not strike it out.
            patch = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 0.4}
            style = {"fontsize": SMALLEST, "ha": "right", "color": INK, "bbox": patch}
            axes.text(column + 0.46, row + 0.42, numbers, **style)
        _limits(axes, rows, columns)
        axes.set_xticks(range(columns))
        axes.set_yticks(range(rows))
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


def _visits(moves: Sequence[Move]) -> dict[Place, str]:
    """The numbers of the steps that were decided in each cell, as many of the first as fit."""
    steps: dict[Place, list[str]] = {}
    for index, move in enumerate(moves, start=1):
        steps.setdefault(move.start, []).append(str(index))
    out = {}
    for place, numbers in steps.items():
        shown = 1
        # One character is kept for the mark that there are more.
        while shown < len(numbers) and len(",".join(numbers[: shown + 1])) <= _LONGEST - (
            shown + 1 < len(numbers)
        ):
            shown += 1
        out[place] = ",".join(numbers[:shown]) + "…" * (shown < len(numbers))
    return out


# --- Belief map -----------------------------------------------------------------------------------
# Inches: of a cell at most, of a map at most (two stand beside each other on a page, and each fits
# into a telephone), of the picture at least, around the map, and of the colour scale below it.
_BELIEF_MAP_CELL, _MAP, _BELIEF_MAP_LEAST, _MARGIN, _SCALE = 0.45, 3.75, 2.6, 0.04, 0.62
_SMALLEST_CELL = 0.25
# Probabilities outside of these are seen by their shade alone.
_SURE = (0.05, 0.95)


@dataclass(frozen=True, kw_only=True)
class Marked:
    """What is drawn on top of the cells; places are (row, column).

    Attributes:
        letters: a letter for each place that has one.
        start: from where moves are drawn; None for no moves.
        moves: (rows down, columns right) of each move that would be right: small triangles.
        taken: the move that was made, an arrow; None for none.
        framed: places with a thick frame.
        dotted: places with a dotted frame.
        crossed: places with a cross in their corner.
    """

    letters: Mapping[Place, str] = field(default_factory=dict)
    start: Place | None = None
    moves: Sequence[Place] = ()
    taken: Place | None = None
    framed: frozenset[Place] = frozenset()
    dotted: frozenset[Place] = frozenset()
    crossed: frozenset[Place] = frozenset()


def belief_map(name: str, cells: ArrayLike, marked: Marked, *, label: str = "") -> str:
    """A map of the probability of a wall in each cell as SVG; NaN, for unknown, is hatched.

    The arrow is blue if the move is among the right ones, else vermilion with a broken shaft.
    Without a `label` there is no colour scale, and cells are walls or not.
    """
    shares = np.asarray(cells, dtype=np.float64)
    rows, columns = shares.shape
    cell = max(min(_BELIEF_MAP_CELL, _MAP / columns), _SMALLEST_CELL)
    width, below = max(cell * columns, _BELIEF_MAP_LEAST), _SCALE if label else 0.0
    height = cell * rows + 2 * _MARGIN + below
    with canvas(width + 2 * _MARGIN, height) as figure:
        # Placed by hand, so that maps with a scale have cells as large as those without.
        figure.set_layout_engine("none")
        left = (width + 2 * _MARGIN - cell * columns) / 2
        box = (left, below + _MARGIN, cell * columns, cell * rows)
        axes: Any = figure.add_axes(_inches(figure, box))
        _limits(axes, rows, columns)
        axes.spines[:].set_visible(True)
        mesh = _ground(axes, shares, shaded=bool(label))
        if label:
            scale = (_MARGIN + 0.15, below - 0.17, width - 0.3, 0.1)
            bar = figure.colorbar(
                mesh, cax=figure.add_axes(_inches(figure, scale)), orientation="horizontal"
            )
            bar.set_label(label, labelpad=1)
            bar.outline.set_linewidth(0.5)
            bar.ax.xaxis.set_major_formatter(lambda value, _: general(value))
            bar.ax.tick_params(pad=1.5)
            _belief_map_numbers(axes, mesh, shares, marked)
        _frames(axes, marked)
        for (row, column), letter in marked.letters.items():
            style = {"fontsize": 9, "fontweight": "bold", "ha": "center", "va": "center"}
            share = float(shares[row, column])
            colour = ink_on(mesh, share) if label and not np.isnan(share) else INK
            axes.text(column, row + 0.03, letter, color=colour, **style)
        _moves(axes, marked)
        return to_svg(figure, name)


def _inches(
    figure: Any, box: tuple[float, float, float, float]
) -> tuple[float, float, float, float]:
    """Left, bottom, width and height as shares of the figure."""
    width, height = figure.get_size_inches()
    return box[0] / width, box[1] / height, box[2] / width, box[3] / height


def _ground(axes: Any, shares: FloatArray, *, shaded: bool) -> Any:
    """The cells; returns what a colour scale is of."""
    from matplotlib.colors import ListedColormap

    # Greys in as many steps as a page can name; two of them where there are walls and no shades.
    colours = colour_map(PALETTES["faint"]) if shaded else ListedColormap([PAPER, _WALL])
    style = {"cmap": colours, "vmin": 0.0, "vmax": 1.0, "edgecolor": RULE, "linewidth": 0.4}
    mesh = axes.pcolormesh(*_edges(shares.shape), np.ma.masked_invalid(shares), **style)
    for row, column in np.argwhere(np.isnan(shares)).tolist():
        _box(axes, row, column, linewidth=0, fill=False, hatch="///", edgecolor=MUTED)
    return mesh


def _belief_map_numbers(axes: Any, mesh: Any, shares: FloatArray, marked: Marked) -> None:
    """The probability where it is neither near 0 nor near 1, which a shade hardly tells."""
    for (row, column), share in np.ndenumerate(shares):
        if _SURE[0] <= share <= _SURE[1] and (row, column) not in marked.letters:
            style = {"fontsize": SMALLEST, "ha": "center", "va": "center"}
            text = number(float(share), 2).replace("0.", ".", 1)
            axes.text(column, row + 0.04, text, color=ink_on(mesh, float(share)), **style)


def _frames(axes: Any, marked: Marked) -> None:
    for places, colour, line, stroke in (
        (marked.framed, GREEN, 2.2, "-"),
        (marked.dotted, MUTED, 1.1, (0, (1.2, 1.4))),
    ):
        for row, column in sorted(places):
            # Paper below the line, so that it is seen on every shade.
            for edge, width, dashes in ((PAPER, line + 1.6, "-"), (colour, line, stroke)):
                style: dict[str, Any] = {"linewidth": width, "linestyle": dashes, "fill": False}
                _box(axes, row, column, 0.84, edgecolor=edge, **style)
    for row, column in sorted(marked.crossed):
        for colour, width in ((PAPER, 3.0), (VERMILION, 1.5)):
            style = {"color": colour, "markeredgewidth": width, "markersize": 4.5}
            axes.plot(column + 0.3, row - 0.3, marker="x", **style)


def _moves(axes: Any, marked: Marked) -> None:
    """The move that was made, and those that would be right, from where the agent stands."""
    if marked.start is None:
        return
    row, column = marked.start
    for down, right in marked.moves:
        shape = {(0, -1): "<", (0, 1): ">", (-1, 0): "^", (1, 0): "v"}[down, right]
        style = {"color": BLUE, "markersize": 5.0, "markeredgewidth": 0.0, "clip_on": False}
        axes.plot(column + 0.37 * right, row + 0.37 * down, marker=shape, zorder=5, **style)
    if marked.taken is None:
        return
    down, right = marked.taken
    good = marked.taken in marked.moves
    ends = (
        (column + 1.32 * right, row + 1.32 * down),
        (column + 0.6 * right, row + 0.6 * down),
    )
    colour, shaft = (BLUE, "-") if good else (VERMILION, (0, (1.2, 2.2)))
    for edge, width, stroke in ((PAPER, 4.0, "-"), (colour, 1.9, shaft)):
        style = {"arrowstyle": "-|>", "color": edge, "linewidth": width, "mutation_scale": 9}
        style |= {"linestyle": stroke, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", *ends, arrowprops=style, zorder=4)
