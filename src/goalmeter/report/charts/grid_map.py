"""Maps of a grid world: one number for each square, with what stands there marked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from goalmeter._types import ArrayLike, FloatArray
from goalmeter.report.charts.canvas import SMALLEST, canvas, to_svg
from goalmeter.report.charts.colours import INK, MUTED, text_on
from goalmeter.report.numbers import general, number

# Palettes whose lightness alone tells the order; the last runs both ways from a pale zero. The
# greys are for numbers that rest on little.
PALETTES = {"visits": "Blues", "utility": "Purples", "faint": "Greys", "signed": "PuOr_r"}
# Colours of a palette: an odd number, so that zero has one of its own, and so few that a page can
# name them all.
LEVELS = 33
_CELL = 0.46  # inches
_WALL = "#8794a1"
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
    """

    letters: Mapping[int, str] = field(default_factory=dict)
    hatched: frozenset[int] = frozenset()
    faint: frozenset[int] = frozenset()
    walls: frozenset[int] = frozenset()


def grid_map(
    name: str,
    values: ArrayLike,
    *,
    label: str,
    palette: str,
    marks: Marks | None = None,
    log: bool = False,
    limit: float | None = None,
    beside: tuple[str, float] | None = None,
) -> str:
    """A map of values [R, C] as SVG, each square with its number.

    Args:
        name: unique on the page.
        values: [R, C]; row 0 is on top.
        label: of the colour scale, with its unit.
        palette: "visits" or "utility" (from 0), "faint" (the same in grey) or "signed" (pale at 0).
        marks: what stands where.
        log: whether colours follow log(1 + 10 |value|), so that small values show as well.
        limit: the end of the colour scale, so that several maps can share one; the largest
            value if it is not given.
        beside: the name and the value of one more square, right of the map and on its scale; what
            is below the scale has the colour of its beginning.
    """
    array = np.asarray(values, dtype=np.float64)
    rows, columns = array.shape
    wide = columns + (_BESIDE if beside is not None else 0)
    with canvas(max(_CELL * wide, 2.6), _CELL * rows + 0.75) as figure:
        axes = figure.subplots()
        shown = _scaled(array) if log else array
        # Squares, not an image: the page gives them other colours in the dark.
        edges = np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5
        image = axes.pcolormesh(*edges, shown, **_colours(shown, palette, limit))
        axes.set_ylim(rows - 0.5, -0.5)
        axes.set_aspect("equal")
        for state in range(array.size):
            _square(axes, image, array, state, marks or Marks())
        if beside is not None:
            _one_more(axes, image, *beside, at=(columns + _BESIDE - 1.5, (rows - 1) / 2))
            # Not around the square beside: the map's own border.
            axes.add_patch(_rectangle((-0.5, -0.5), columns, rows, fill=False, edgecolor=MUTED))
            axes.set_xlim(-0.5, columns + _BESIDE - 0.5)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(beside is None)
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


def _square(axes: Any, image: Any, array: FloatArray, state: int, marks: Marks) -> None:
    row, column = divmod(state, array.shape[1])
    ink = ink_on(image, image.get_array()[row, column])
    corner = (column - 0.5, row - 0.5)
    if state in marks.walls:
        _frame(axes, corner, fill=True, color=_WALL)
        return
    if state in marks.hatched:
        _frame(axes, corner, edgecolor=ink, hatch="///", linewidth=0.0, alpha=0.55)
    if state in marks.letters:
        _frame(axes, corner, edgecolor=INK, linewidth=1.6)
        style = {"fontsize": SMALLEST, "fontweight": "bold", "color": ink}
        axes.text(column - 0.44, row - 0.24, marks.letters[state], **style)
    whole = bool((array == np.rint(array)).all())
    value = float(array[row, column])
    text = number(value, 0) if whole else _short(value)
    if state in marks.faint:
        text = f"({text})"
    lower = 0.14 if state in marks.letters else 0.0
    axes.text(column, row + lower, text, fontsize=7.5, color=ink, ha="center", va="center")


def ink_on(mesh: Any, value: float) -> str:
    """The colour of text on a cell of some value, to be read in either scheme."""
    import matplotlib.colors

    return text_on(matplotlib.colors.to_hex(mesh.to_rgba(value)))


def _one_more(axes: Any, image: Any, name: str, value: float, *, at: tuple[float, float]) -> None:
    """A square of its own with its name above it."""
    column, row = at
    colour = image.to_rgba(max(value, 0.0))
    axes.add_patch(_rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=colour, edgecolor=MUTED))
    text = _short(value)
    ink = ink_on(image, max(value, 0.0))
    centred = {"ha": "center", "fontsize": 7.5}
    axes.text(column, row, text, color=ink, va="center", **centred)
    axes.text(column, row - 0.65, name, color=INK, va="bottom", parse_math=False, **centred)


def _frame(axes: Any, corner: tuple[float, float], *, fill: bool = False, **style: Any) -> None:
    axes.add_patch(_rectangle(corner, 1, 1, fill=fill, **style))


def _rectangle(corner: tuple[float, float], width: float, height: float, **style: Any) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(corner, width, height, **style)


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
