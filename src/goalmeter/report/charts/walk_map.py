"""A walk through a grid world as one picture: walls, places, and every step in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._types import BoolArray
from goalmeter.report.charts.canvas import SMALLEST, canvas, to_svg
from goalmeter.report.charts.colours import BLUE, INK, PAPER, RULE, VERMILION
from goalmeter.report.terminal import printable

Place = tuple[int, int]
_CELL, _LEAST = 0.36, 2.6  # inches
_ASIDE = 0.12  # of a cell
_WALL = "#8794a1"
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
    """A picture of a walk as SVG.

    Optimal moves are solid and blue, others dashed and vermilion; a move that led nowhere is a
    ring, an answer that was no action a cross. Each cell has the numbers of the steps that were
    made there, the first ones where there are more.

    Args:
        name: unique on the page.
        walls: [rows, columns].
        letters: a letter for places, such as G for the goal.
        moves: in order.
    """
    from matplotlib.patches import Rectangle

    rows, columns = walls.shape
    with canvas(max(_CELL * columns, _LEAST), max(_CELL * rows, _LEAST)) as figure:
        axes: Any = figure.subplots()
        axes.set_aspect("equal")
        for row, column in np.argwhere(walls).tolist():
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, color=_WALL, linewidth=0))
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
            axes.text(column + 0.46, row + 0.42, _numbers(numbers), **style)
        axes.set_xlim(-0.5, columns - 0.5)
        axes.set_ylim(rows - 0.5, -0.5)
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


def _numbers(steps: Sequence[int]) -> str:
    """As many of the first ones as fit, one at least."""
    shown = 1
    # One character is kept for the mark that there are more.
    while shown < len(steps) and len(",".join(map(str, steps[: shown + 1]))) <= _LONGEST - (
        shown + 1 < len(steps)
    ):
        shown += 1
    return ",".join(map(str, steps[:shown])) + "…" * (shown < len(steps))


def _visits(moves: Sequence[Move]) -> dict[Place, list[int]]:
    """The numbers of the steps that were made in each cell, from 1."""
    out: dict[Place, list[int]] = {}
    # A step belongs to where it was decided, not to where it led.
    for number, move in enumerate(moves, start=1):
        out.setdefault(move.start, []).append(number)
    return out
