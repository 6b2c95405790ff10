"""Cells that shortest paths need, and directions that write a wall or an open cell to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goalmeter._types import BoolArray, FloatArray
from goalmeter.gridworld.planner import Plan, State, planned, plans
from goalmeter.gridworld.world import ACTIONS, MOVES, WALL, Cell, GridWorld
from goalmeter.representation.network import Network
from goalmeter.representation.probes.protocol import Reading, Standard
from goalmeter.representation.probes.registry import Ridge
from goalmeter.representation.replay import Located, Sample, scenes_of, span_of_cell
from goalmeter.representation.scenes import Shape
from goalmeter.representation.use.interventions import When, Written

if TYPE_CHECKING:
    import torch


# --- Cells ----------------------------------------------------------------------------------------
# Whether a model acts on what it reads of a cell can be told where the cell matters: if it were a
# wall, all first moves of shortest ways would be other ones. Where it lies on no shortest way,
# nothing should change; this is the null that every intervention has to be seen against. The same
# holds of walls: some would be a shorter way if they were open, others would lead nowhere.
#
# Only uncertain cells tell: those that are open in some grids and walls in others. The rooms of
# our mazes, cells whose row and column are odd, are open in every grid, and the mouse does not
# look them up: of 31 needed cells of either kind, masking the cell's words flipped 61% of moves,
# and of 35 uncertain ones 97%.


@dataclass(frozen=True)
class TargetCell:
    """A cell of a state that is to be changed: an open one into a wall, or a wall into an open one.

    Attributes:
        cell: which.
        needed: whether every first move of a shortest way would be another one if it were changed.
            Otherwise it lies on no shortest way, before and after.
        optimal: first moves of shortest ways.
        changed: first moves of shortest ways if it were changed; those of a cell that is not needed
            are the same.
    """

    cell: Cell
    needed: bool
    optimal: tuple[int, ...]
    changed: tuple[int, ...]


@lru_cache(maxsize=4096)
def target_cells(world: GridWorld, state: State) -> tuple[TargetCell, ...]:
    """The cells of a state that tell whether they are used, from the top left.

    Left out are the agent's own cell and those of things, cells without which there is no way, and
    cells that lie on some shortest ways while others begin with the same move.
    """
    known = planned(world)
    optimal = known.optimal_actions(state)
    distance = known.distance_from(state)
    cells = []
    for cell, closed in _plans_with(world, wall=True).items():
        if cell == state.cell:
            continue
        changed = closed.optimal_actions(state)
        if not changed:
            continue
        if not set(changed) & set(optimal):
            cells.append(TargetCell(cell, True, optimal, changed))
        elif closed.distance_from(state) == distance and not _on_a_shortest_way(known, state, cell):
            cells.append(TargetCell(cell, False, optimal, optimal))
    return tuple(cells)


@lru_cache(maxsize=4096)
def target_walls(world: GridWorld, state: State) -> tuple[TargetCell, ...]:
    """The inner walls of a state that tell whether they are used, from the top left.

    Needed are those that would be part of every shortest way if they were open, all of which would
    begin with other moves. Left out are walls that would be on some shortest ways only, or on ways
    that begin with the same move, and the outer wall.
    """
    known = planned(world)
    optimal = known.optimal_actions(state)
    walls = []
    for cell, opened in _plans_with(world, wall=False).items():
        changed = opened.optimal_actions(state)
        if not set(changed) & set(optimal):
            walls.append(TargetCell(cell, True, optimal, changed))
        elif not _on_a_shortest_way(opened, state, cell):
            walls.append(TargetCell(cell, False, optimal, optimal))
    return tuple(walls)


# Decisions are drawn from all states of a world, one world after the other.
@lru_cache(maxsize=64)
def _plans_with(world: GridWorld, *, wall: bool) -> dict[Cell, Plan]:
    """The plan of a world in which one cell is a wall, or open, by that cell from the top left.

    It is an open cell that is made a wall, where nothing is and nobody starts; or an inner wall
    that is opened.
    """
    if wall:
        places = {world.goal, world.key, world.door, world.neutral, world.start}
        cells = [cell for cell in world.open_cells if cell not in places]
    else:
        inner = np.argwhere(world.walls[1:-1, 1:-1]) + 1
        cells = [Cell(row, column) for row, column in inner.tolist()]
    changed = []
    for cell in cells:
        walls = world.walls.copy()
        walls[cell] = wall
        changed.append(replace(world, walls=walls))
    if not changed:
        return {}
    together = plans(changed)
    return {cell: together.plan(index) for index, cell in enumerate(cells)}


def _on_a_shortest_way(known: Plan, state: State, cell: Cell) -> bool:
    """Whether some shortest way passes through a cell, in any layer."""
    seen, border = {state}, [state]
    while border:
        at = border.pop()
        if at.cell == cell:
            return True
        for action in known.optimal_actions(at):
            after = known.step(at, action)
            if after not in seen:
                seen.add(after)
                border.append(after)
    return False


# --- Learning -------------------------------------------------------------------------------------
# A direction is a unit vector u and a gap: by how much the mean of u · x with a wall lies above
# the mean without one. A dose of 1 adds as much as lies between the two means, so it puts an open
# cell to where walls are on average. A probe's direction is that of its weights and not of the
# difference of the means: what varies besides, and would tell nothing, it leaves alone.
#
# Source: Friedman (1989), Regularized discriminant analysis, for weights between the two.

# Of a ridge regression, for each row of scaled activations; more than predicts best. At dose 2
# penalties of 0.01, 0.1, 0.3, 1 and 3 flipped 0, 2, 15, 26 and 28 of 34 moves of the mouse: weights
# that undo whatever varies besides point to where no activations are. With larger ones the gap, and
# with it a random direction as long, becomes large enough to break answers.
PENALTY = 1.0


@dataclass(frozen=True, eq=False)
class Direction:
    """Where walls lie, seen from open cells.

    Attributes:
        unit: of length 1, [D].
        gap: of the means with and without a wall along it; never negative.
    """

    unit: FloatArray
    gap: float

    def vector(self, dose: float) -> FloatArray:
        """What a dose adds to the residual stream, [D]."""
        return self.unit * (self.gap * dose)

    @classmethod
    def between(cls, difference: FloatArray) -> Direction | None:
        """That of a difference of means, [D]; None if it is none."""
        length = float(np.linalg.norm(difference))
        return cls(difference / length, length) if length > 0 else None


def along(weights: FloatArray, rows: FloatArray, wall: BoolArray) -> Direction | None:
    """The direction of a probe's weights, [D], with the gap that rows show along it.

    Args:
        weights: how the score of a wall changes with the activations, as they came.
        rows: activations, [n, D].
        wall: of which rows there is a wall, [n].

    Returns:
        None if the weights are zero, or if the rows are all of one kind.
    """
    length = float(np.linalg.norm(weights))
    if not length > 0 or wall.all() or not wall.any():
        return None
    unit = weights / length
    gap = float(unit @ (rows[wall].mean(axis=0) - rows[~wall].mean(axis=0)))
    # Weights that see walls on the wrong side have learnt nothing.
    return Direction(unit, gap) if gap > 0 else None


def ridge_directions(rows: FloatArray, wall: BoolArray) -> tuple[Direction | None, ...]:
    """The directions of ridge regressions on whether there is a wall, one for each question.

    Args:
        rows: activations, [n, D].
        wall: whether there is a wall, by question, [n, Q].

    Returns:
        None for a question with one answer only.
    """
    if not len(rows):
        return tuple(None for _ in range(wall.shape[1]))
    standard = Standard.of(rows)
    scaled = standard(rows)
    left, spectrum, right = np.linalg.svd(scaled, full_matrices=False)
    loads = left.T @ (wall - wall.mean(axis=0))
    shrunk = spectrum / (spectrum**2 + PENALTY * len(rows))
    weights: FloatArray = right.T @ (shrunk[:, None] * loads) * standard.weight[:, None]
    return tuple(along(weights[:, q], rows, wall[:, q]) for q in range(wall.shape[1]))


# --- Spots ----------------------------------------------------------------------------------------
class Learnt(NamedTuple):
    """A decision that directions are learnt from.

    Attributes:
        located: with its tokens.
        answer: tokens of the model's own answer, unchanged.
        targets: cells of it that are tried.
    """

    located: Located
    answer: tuple[int, ...]
    targets: tuple[TargetCell, ...]


class Spot(NamedTuple):
    """Where one vector is added.

    Attributes:
        where: a place in the prompt, or a condition on the answer as it is written.
        layer: of the residual stream.
        direction: towards a wall.
    """

    where: int | When
    layer: int
    direction: Direction


# From a prompt and a cell, where a wall is written there: empty if it cannot be done.
Spots = Callable[[Located, Cell], list[Spot]]


@dataclass(frozen=True)
class Names:
    """The token at which an answer comes to a cell.

    Attributes:
        text: what is said there, such as "3,3:".
    """

    text: str

    def __call__(self, written: Written) -> bool:
        """Whether the token that is being read completes it; "3,3:" is no part of "13,3:"."""
        text = written.text
        begin = text.find(self.text, max(0, written.last - len(self.text) + 1))
        return begin >= 0 and not text[:begin][-1:].isdigit()


@dataclass(frozen=True, eq=False)
class Writing:
    """A kind of direction at some layers.

    Attributes:
        kind: as listed above.
        position: the tokens that are written to.
        at: for each layer, where a wall is written.
    """

    kind: str
    position: str
    at: Mapping[int, Spots]

    def spots(self, layers: Sequence[int]) -> Spots:
        """Where a wall is written at several layers at once."""
        known = [self.at[layer] for layer in layers if layer in self.at]
        return lambda located, cell: [spot for each in known for spot in each(located, cell)]


def at_random(spots: Spots, seed: int) -> Spots:
    """The same places with random directions, and gaps as wide: writes of equal norm."""

    def drawn(located: Located, cell: Cell) -> list[Spot]:
        # By content, so that a draw is the same in any order and any process.
        name = f"a random direction:{seed}:{located.sample.digest}:{cell}"
        rng = np.random.default_rng(list(sha256(name.encode()).digest()))
        out = []
        for spot in spots(located, cell):
            vector = rng.standard_normal(len(spot.direction.unit))
            unit = vector / np.linalg.norm(vector)
            out.append(spot._replace(direction=Direction(unit, spot.direction.gap)))
        return out

    return drawn


def at_other(spots: Spots, choose: Callable[[Located, Cell], Cell | None]) -> Spots:
    """What would be written to another cell of the same prompt."""

    def other(located: Located, cell: Cell) -> list[Spot]:
        chosen = choose(located, cell)
        return spots(located, chosen) if chosen is not None else []

    return other


# --- Closing --------------------------------------------------------------------------------------
# Activations of one prompt can take the place of another's only where their tokens stand at the
# same
# places. A drawing has a symbol a cell, so a wall is as long as an open cell. A prompt that lists
# the
# open cells would lose two words: there the cell stays listed, with no way from it and none to it.

_NO_WAY = "-"
# The letters of the moves that undo LEFT, RIGHT, UP and DOWN.
_BACK = "RLDU"


def closed_prompt(network: Network, sample: Sample, cell: Cell) -> tuple[int, ...] | None:
    """The tokens of a sample's prompt with a wall at a cell, or with no way through it.

    Returns:
        As many tokens as the prompt has; None where that cannot be had: the cell is not in the
        prompt, the tokenizer joins symbols, or the chat template says something else today.
    """
    question = closed_question(sample, cell)
    if question is None:
        return None
    ids = network.local.ids([{"role": "user", "content": sample.question}])
    if ids != sample.prompt:
        return None
    closed = network.local.ids([{"role": "user", "content": question}])
    return closed if len(closed) == len(ids) else None


def closed_question(sample: Sample, cell: Cell) -> str | None:
    """The text of a sample's question with a wall at a cell; None if the cell is not in it."""
    question = sample.question
    span = span_of_cell(sample, cell)
    if span is None:
        return None
    if span[1] - span[0] == 1:
        return question[: span[0]] + WALL + question[span[1] :]
    ways = question[slice(*span)].split()[1]
    question = question[: span[1] - len(ways)] + _NO_WAY + question[span[1] :]
    for action in range(len(ACTIONS)):
        neighbour = cell.moved(action)
        listed = re.search(rf" {neighbour.row},{neighbour.column} (\S+)", question)
        if listed:
            left = listed[1].replace(_BACK[action], "") or _NO_WAY
            question = question[: listed.start(1)] + left + question[listed.end(1) :]
    return question


# --- Directions -----------------------------------------------------------------------------------
# turn     where the reasoning comes to a neighbour of the cell ("3,3:"), a probe of which of the
#              four cells around the named one are walls
#     listed   at the cell's own tokens, in prompts that list open cells only: a probe of which cell
#              is listed here. A wall is not listed, so away from its name is towards a wall
#     drawn    at the cell's own tokens, in prompts that draw the grid: a probe of walls
#         closed   at the cell's own tokens or those and its neighbours': the mean difference
#     between the
#              same question with the cell closed and open
#         end      at the last tokens of the prompt: the cell's head of a ridge probe over the whole
#     map,
#              as such maps are read
#
# Directions are learnt from grids that judge nothing: those of the screen half, or others.

# How our organisms say that their search has come to a cell.
TURN = "{row},{column}:"
_LONGEST = 16  # characters of such a text
_DIRECTIONS_BACK = (1, 0, 3, 2)  # the moves that undo LEFT, RIGHT, UP and DOWN


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
                neighbour, direction = cell.moved(move), directions[_DIRECTIONS_BACK[move]]
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
