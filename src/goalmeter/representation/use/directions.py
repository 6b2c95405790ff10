"""What is written to a cell, and where: directions that are learnt from some grids only.

    turn     where the reasoning comes to a neighbour of the cell ("3,3:"), a probe of which of the
             four cells around the named one are walls
    listed   at the cell's own tokens, in prompts that list open cells only: a probe of which cell
             is listed here. A wall is not listed, so away from its name is towards a wall
    drawn    at the cell's own tokens, in prompts that draw the grid: a probe of walls
    closed   at the cell's own tokens or those and its neighbours': the mean difference between the
             same question with the cell closed and open
    end      at the last tokens of the prompt: the cell's head of a ridge probe over the whole map,
             as such maps are read

Directions are learnt from grids that judge nothing: those of the screen half, or others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.gridworld.world import MOVES, Cell
from goalmeter.representation.network import Network
from goalmeter.representation.positions import Located
from goalmeter.representation.probes.protocol import Reading
from goalmeter.representation.probes.ridge import Ridge
from goalmeter.representation.replay import scenes_of
from goalmeter.representation.scenes import Shape
from goalmeter.representation.use.closing import closed_prompt
from goalmeter.representation.use.learning import Direction, along, ridge_directions
from goalmeter.representation.use.spots import Learnt, Names, Spot, Spots, Writing
from goalmeter.representation.use.written import Written

if TYPE_CHECKING:
    import torch

# How our organisms say that their search has come to a cell.
TURN = "{row},{column}:"
_LONGEST = 16  # characters of such a text
_BACK = (1, 0, 3, 2)  # the moves that undo LEFT, RIGHT, UP and DOWN


def writings(
    network: Network, learnt: Sequence[Learnt], layers: Sequence[int], *, turn: str = TURN
) -> list[Writing]:
    """Learn what can be written at some layers.

    Args:
        network: the model.
        learnt: decisions of grids by which nothing is judged.
        layers: of the residual stream.
        turn: how an answer says that it comes to a cell, with {row} and {column}.

    Returns:
        A kind of which nothing could be learnt is left out.
    """
    kinds = [
        Writing("turn", "post/turn", _turns(network, learnt, layers, turn)),
        Writing("own", "pre/cell", _own(network, learnt, layers)),
        Writing("closed", "pre/cell", _closed(network, learnt, layers, ())),
        Writing("closed, around", "pre/around", _closed(network, learnt, layers, range(4))),
        Writing("end", "pre/end", _end(network, learnt, layers)),
    ]
    return [kind for kind in kinds if kind.at]


def _turns(
    network: Network, learnt: Sequence[Learnt], layers: Sequence[int], turn: str
) -> dict[int, Spots]:
    rows: list[dict[int, FloatArray]] = []
    walls: list[list[bool]] = []
    for each in learnt:
        sample = each.located.sample
        found = [
            (cell, len(sample.prompt) + place)
            for place, cell in _said(each, turn)
            # Of a cell of the border there is nothing around on one side.
            if all(0 < a < n - 1 for a, n in zip(cell, sample.world.shape, strict=True))
        ]
        if not found:
            continue
        streams = network.streams(sample.prompt + each.answer, layers)
        for cell, place in found:
            rows.append({k: _numbers(streams[k][place]) for k in layers})
            walls.append([bool(sample.world.walls[cell.moved(move)]) for move in range(4)])
    if not rows:
        return {}
    labels = np.array(walls)

    def spots_of(layer: int, directions: Sequence[Direction | None]) -> Spots:
        def spots(located: Located, cell: Cell) -> list[Spot]:
            out = []
            for move in range(len(MOVES)):
                neighbour, direction = cell.moved(move), directions[_BACK[move]]
                if direction is not None:
                    said = turn.format(row=neighbour.row, column=neighbour.column)
                    out.append(Spot(Names(said), layer, direction))
            return out

        return spots

    return {
        k: spots_of(k, ridge_directions(np.array([row[k] for row in rows]), labels)) for k in layers
    }


def _said(each: Learnt, turn: str) -> Iterator[tuple[int, Cell]]:
    """The tokens of an answer at which it comes to a cell, and that cell."""
    spelled = re.escape(turn).replace(r"\{row\}", r"(?P<row>\d+)", 1)
    pattern = re.compile(r"(?<!\d)" + spelled.replace(r"\{column\}", r"(?P<column>\d+)", 1))
    written = Written(each.located.tokenizer)
    for place, token in enumerate(each.answer):
        written.append(token)
        # A name that was complete before this token is none of its.
        for match in pattern.finditer(written.text, max(0, written.last - _LONGEST)):
            if match.end() > written.last:
                yield place, Cell(int(match["row"]), int(match["column"]))


def _own(network: Network, learnt: Sequence[Learnt], layers: Sequence[int]) -> dict[int, Spots]:
    """At the first of a cell's own tokens: which cell is listed, or whether a wall is drawn."""
    rows: list[dict[int, FloatArray]] = []
    cells: list[Cell] = []
    walls: list[bool] = []
    for each in learnt:
        sample = each.located.sample
        streams = network.streams(sample.prompt, layers)
        for row, column in np.ndindex(sample.world.shape):
            cell = Cell(row, column)
            if tokens := each.located.cell(cell):
                rows.append({k: _numbers(streams[k][tokens[0]]) for k in layers})
                cells.append(cell)
                walls.append(bool(sample.world.walls[cell]))
    if not rows:
        return {}
    drawn = any(walls)
    names = sorted(set(cells))
    # Where only open cells are listed, to be another cell is to leave this one unlisted.
    labels = (
        np.array(walls)[:, None]
        if drawn
        else np.array([[cell != name for name in names] for cell in cells])
    )

    def spots_of(layer: int, directions: Sequence[Direction | None]) -> Spots:
        known = dict(zip(names, directions, strict=not drawn))

        def spots(located: Located, cell: Cell) -> list[Spot]:
            direction = directions[0] if drawn else known.get(cell)
            tokens = located.cell(cell)
            return [Spot(tokens[0], layer, direction)] if direction is not None and tokens else []

        return spots

    return {
        k: spots_of(k, ridge_directions(np.array([row[k] for row in rows]), labels)) for k in layers
    }


def _closed(
    network: Network, learnt: Sequence[Learnt], layers: Sequence[int], moves: Sequence[int]
) -> dict[int, Spots]:
    """Mean differences, for the cell itself and each of its neighbours, token by token."""

    def places(located: Located, cell: Cell) -> dict[tuple[int, int], int]:
        around = {-1: cell} | {move: cell.moved(move) for move in moves}
        return {
            (move, number): token
            for move, each in around.items()
            for number, token in enumerate(located.cell(each))
        }

    sums: dict[tuple[int, int, int], FloatArray] = {}
    counts: dict[tuple[int, int], int] = {}
    for each in learnt:
        for target in each.targets:
            donor = closed_prompt(network, each.located.sample, target.cell)
            if donor is None:
                continue
            before = network.streams(each.located.sample.prompt, layers)
            after = network.streams(donor, layers)
            for key, token in places(each.located, target.cell).items():
                counts[key] = counts.get(key, 0) + 1
                for k in layers:
                    difference = _numbers(after[k][token]) - _numbers(before[k][token])
                    sums[(k, *key)] = sums.get((k, *key), 0.0) + difference
    if not counts:
        return {}

    def spots_of(layer: int) -> Spots:
        known = {
            key: Direction.between(sums[(layer, *key)] / count) for key, count in counts.items()
        }

        def spots(located: Located, cell: Cell) -> list[Spot]:
            found = [(known.get(key), token) for key, token in places(located, cell).items()]
            return [Spot(token, layer, each) for each, token in found if each is not None]

        return spots

    return {k: spots_of(k) for k in layers}


def _end(network: Network, learnt: Sequence[Learnt], layers: Sequence[int]) -> dict[int, Spots]:
    """A cell's head of the ridge probe over the whole map, at each of the last tokens."""
    kept = [each for each in learnt if each.located.end_of_prompt]
    shapes = [each.located.sample.world.shape for each in kept]
    # The strength of the penalty is chosen on every fourth decision, of every shape.
    held = [shapes[:number].count(shape) % 4 == 3 for number, shape in enumerate(shapes)]
    usable = {s for s, out in zip(shapes, held, strict=True) if out}
    kept = [each for each in kept if each.located.sample.world.shape in usable]
    held = [out for out, shape in zip(held, shapes, strict=True) if shape in usable]
    if not kept:
        return {}
    scenes = scenes_of([each.located.sample for each in kept])
    read = [network.streams(each.located.sample.prompt, layers) for each in kept]
    held_out = np.array(held)

    def spots_of(layer: int) -> Spots:
        rows = np.array(
            [
                np.concatenate([_numbers(stream[layer][t]) for t in each.located.end_of_prompt])
                for each, stream in zip(kept, read, strict=True)
            ]
        )
        reading = Reading(rows, scenes)
        fitted = Ridge().fit(
            reading.where(np.flatnonzero(~held_out)),
            reading.where(np.flatnonzero(held_out)),
            seed=0,
        )
        known: dict[tuple[Shape, Cell], Direction | None] = {}

        def direction(shape: Shape, cell: Cell) -> Direction | None:
            slopes = fitted.wall_directions(shape)
            if slopes is None:
                return None
            alike = np.array([world.shape == shape for world in scenes.worlds])
            wall = np.array([bool(w.walls[cell]) for w in scenes.worlds if w.shape == shape])
            return along(slopes[cell], rows[alike], wall)

        def spots(located: Located, cell: Cell) -> list[Spot]:
            name = located.sample.world.shape, cell
            if name not in known:
                known[name] = direction(*name)
            whole, tokens = known[name], located.end_of_prompt
            if whole is None or not tokens:
                return []
            parts = np.split(whole.unit, len(tokens))
            # The gap is that of all tokens together, of which each has its part.
            pieces = [Direction.between(part * whole.gap) for part in parts]
            return [Spot(t, layer, p) for t, p in zip(tokens, pieces, strict=True) if p is not None]

        return spots

    return {k: spots_of(k) for k in layers}


def _numbers(stream: torch.Tensor) -> FloatArray:
    """A row of the residual stream in double precision."""
    return np.asarray(stream.double().cpu().numpy())
