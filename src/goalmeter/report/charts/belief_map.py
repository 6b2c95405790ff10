"""A grid as it is, or as it is read: walls or their probability, places, moves and framed cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from goalmeter._types import ArrayLike, FloatArray
from goalmeter.report.charts.canvas import SMALLEST, canvas, to_svg
from goalmeter.report.charts.colours import BLUE, GREEN, INK, MUTED, PAPER, RULE, VERMILION
from goalmeter.report.charts.grid_map import PALETTES, colour_map, ink_on
from goalmeter.report.numbers import general, number

Place = tuple[int, int]
# Inches: of a cell at most, of a map at most (two stand beside each other on a page, and each fits
# into a telephone), of the picture at least, around the map, and of the colour scale below it.
_CELL, _MAP, _LEAST, _MARGIN, _SCALE = 0.45, 3.75, 2.6, 0.04, 0.62
_SMALLEST_CELL = 0.25
_WALL = "#8794a1"
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
    """A map as SVG.

    The arrow is blue if the move is among the right ones, else vermilion with a broken shaft.

    Args:
        name: unique on the page.
        cells: probability of a wall in each cell, [rows, columns]; NaN where nobody knows, which
            is hatched.
        marked: what is drawn on top.
        label: of the colour scale. Without it there is no scale, and cells are walls or not.
    """
    shares = np.asarray(cells, dtype=np.float64)
    rows, columns = shares.shape
    cell = max(min(_CELL, _MAP / columns), _SMALLEST_CELL)
    width, below = max(cell * columns, _LEAST), _SCALE if label else 0.0
    height = cell * rows + 2 * _MARGIN + below
    with canvas(width + 2 * _MARGIN, height) as figure:
        # Placed by hand, so that maps with a scale have cells as large as those without.
        figure.set_layout_engine("none")
        left = (width + 2 * _MARGIN - cell * columns) / 2
        box = (left, below + _MARGIN, cell * columns, cell * rows)
        axes: Any = figure.add_axes(_inches(figure, box))
        axes.set_xlim(-0.5, columns - 0.5)
        axes.set_ylim(rows - 0.5, -0.5)
        axes.set_xticks([])
        axes.set_yticks([])
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
            _numbers(axes, mesh, shares, marked)
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
    from matplotlib.patches import Rectangle

    rows, columns = shares.shape
    # Greys in as many steps as a page can name; two of them where there are walls and no shades.
    colours = colour_map(PALETTES["faint"]) if shaded else ListedColormap([PAPER, _WALL])
    style = {"cmap": colours, "vmin": 0.0, "vmax": 1.0, "edgecolor": RULE, "linewidth": 0.4}
    edges = np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5
    # Squares, not an image: the page gives them other colours in the dark.
    mesh = axes.pcolormesh(*edges, np.ma.masked_invalid(shares), **style)
    for row, column in np.argwhere(np.isnan(shares)).tolist():
        hatched: dict[str, Any] = {"fill": False, "hatch": "///", "edgecolor": MUTED}
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, linewidth=0, **hatched))
    return mesh


def _numbers(axes: Any, mesh: Any, shares: FloatArray, marked: Marked) -> None:
    """The probability where it is neither near 0 nor near 1, which a shade hardly tells."""
    for (row, column), share in np.ndenumerate(shares):
        if _SURE[0] <= share <= _SURE[1] and (row, column) not in marked.letters:
            style = {"fontsize": SMALLEST, "ha": "center", "va": "center"}
            text = number(float(share), 2).replace("0.", ".", 1)
            axes.text(column, row + 0.04, text, color=ink_on(mesh, float(share)), **style)


def _frames(axes: Any, marked: Marked) -> None:
    from matplotlib.patches import Rectangle

    for places, colour, line, stroke in (
        (marked.framed, GREEN, 2.2, "-"),
        (marked.dotted, MUTED, 1.1, (0, (1.2, 1.4))),
    ):
        for row, column in sorted(places):
            corner = (column - 0.42, row - 0.42)
            # Paper below the line, so that it is seen on every shade.
            for edge, width, dashes in ((PAPER, line + 1.6, "-"), (colour, line, stroke)):
                style: dict[str, Any] = {"linewidth": width, "linestyle": dashes, "fill": False}
                axes.add_patch(Rectangle(corner, 0.84, 0.84, edgecolor=edge, **style))
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
