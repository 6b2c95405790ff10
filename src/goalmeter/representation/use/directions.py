"""Cells that shortest paths need, and directions that write a wall or an open cell to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
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
from goalmeter.representation.use.interventions import When, WrittenText

if TYPE_CHECKING:
    import torch


class TargetCell(NamedTuple):
    """A cell to be changed in a state: an open one into a wall, or a wall into an open one.

    A needed cell shows whether it is used, since every first move of a shortest path is another one
    after the change. A cell that is not needed lies on no shortest path, before and after: the
    null.
    `optimal` and `changed` are the first moves of shortest paths before and after.
    """

    cell: Cell
    needed: bool
    optimal: tuple[int, ...]
    changed: tuple[int, ...]


@lru_cache(maxsize=4096)
def target_cells(world: GridWorld, state: State) -> tuple[TargetCell, ...]:
    """Return the open cells whose use can be tested in a state, in row order.

    Excluded are the cells of the agent and of objects, cells without which there is no path, and
    cells on some shortest paths only or without which the first move may be the same.
    """
    known = planned(world)
    distance = known.distance_from(state)
    return tuple(
        target
        for target, closed in _targets(world, state, wall=True)
        if target.needed
        or (
            closed.distance_from(state) == distance
            and not _on_shortest_path(known, state, target.cell)
        )
    )


@lru_cache(maxsize=4096)
def target_walls(world: GridWorld, state: State) -> tuple[TargetCell, ...]:
    """Return the inner walls whose use can be tested in a state, in row order.

    Needed walls would be part of every shortest path if they were open. Excluded are walls that
    would be on some shortest paths only, or on paths that begin with the same move.
    """
    return tuple(
        target
        for target, opened in _targets(world, state, wall=False)
        if target.needed or not _on_shortest_path(opened, state, target.cell)
    )


def _targets(world: GridWorld, state: State, *, wall: bool) -> Iterator[tuple[TargetCell, Plan]]:
    optimal = planned(world).optimal_actions(state)
    for cell, plan in _plans_with(world, wall=wall).items():
        if cell != state.cell and (changed := plan.optimal_actions(state)):
            needed = not set(changed) & set(optimal)
            yield TargetCell(cell, needed, optimal, changed if needed else optimal), plan


# Decisions are drawn from all states of a world, one world after the other.
@lru_cache(maxsize=64)
def _plans_with(world: GridWorld, *, wall: bool) -> dict[Cell, Plan]:
    """The plans of a world with one free cell closed, or one inner wall opened, by cell."""
    if wall:
        objects = {world.goal, world.key, world.door, world.neutral, world.start}
        cells = [cell for cell in world.open_cells if cell not in objects]
    else:
        inner = np.argwhere(world.walls[1:-1, 1:-1]) + 1
        cells = [Cell(row, column) for row, column in inner.tolist()]
    changed = []
    for cell in cells:
        walls = world.walls.copy()
        walls[cell] = wall
        changed.append(replace(world, walls=walls))
    together = plans(changed) if changed else None
    return {} if together is None else {c: together.plan(at) for at, c in enumerate(cells)}


def _on_shortest_path(known: Plan, state: State, cell: Cell) -> bool:
    """Whether some shortest path passes through a cell, with or without the key."""
    seen = [state]
    for at in seen:  # which grows
        if at.cell == cell:
            return True
        after = (known.step(at, action) for action in known.optimal_actions(at))
        seen += [each for each in dict.fromkeys(after) if each not in seen]
    return False


# Of a ridge regression, for each row of scaled activations; more than predicts best. At dose 2
# penalties of 0.01, 0.1, 0.3, 1 and 3 flipped 0, 2, 15, 26 and 28 of 34 moves of the mouse: weights
# that undo whatever else varies point to where no activations are. With larger penalties the gap
# becomes so large that a random direction of that length breaks answers too.
PENALTY = 1.0


@dataclass(frozen=True, eq=False)
class Direction:
    """The direction from open cells to walls.

    A dose of 1 adds the distance between the two means along it. A probe's direction is that of its
    weights and not of the difference of the means, so it leaves alone what varies without telling
    walls apart; see Friedman (1989), Regularized discriminant analysis.

    `unit` is a unit vector [D], `gap` the mean with a wall minus the mean without one along it.
    """

    unit: FloatArray
    gap: float

    def vector(self, dose: float) -> FloatArray:
        """The vector that a dose adds to the residual stream, [D]."""
        return self.unit * (self.gap * dose)

    @classmethod
    def between(cls, difference: FloatArray) -> Direction | None:
        """The direction of a difference of means, [D]; None if it is zero."""
        length = float(np.linalg.norm(difference))
        return cls(difference / length, length) if length > 0 else None

    @classmethod
    def of_weights(cls, weights: FloatArray, rows: FloatArray, wall: BoolArray) -> Direction | None:
        """The direction of a probe's weights, [D], with the gap that rows [n, D] show along it.

        None if the weights are zero or see walls on the wrong side, or if rows are of one kind.
        """
        length = float(np.linalg.norm(weights))
        if not length > 0 or wall.all() or not wall.any():
            return None
        unit = weights / length
        gap = float(unit @ (rows[wall].mean(axis=0) - rows[~wall].mean(axis=0)))
        return cls(unit, gap) if gap > 0 else None


def ridge_directions(rows: FloatArray, wall: BoolArray) -> tuple[Direction | None, ...]:
    """Return ridge directions of rows [n, D] on labels [n, Q]; None where all labels are equal."""
    standard = Standard.of(rows)
    left, spectrum, right = np.linalg.svd(standard(rows), full_matrices=False)
    loads = left.T @ (wall - wall.mean(axis=0))
    shrunk = spectrum / (spectrum**2 + PENALTY * len(rows))
    weights: FloatArray = right.T @ (shrunk[:, None] * loads) * standard.weight[:, None]
    return tuple(
        Direction.of_weights(weights[:, q], rows, wall[:, q]) for q in range(wall.shape[1])
    )


class TrainingDecision(NamedTuple):
    """A decision from which directions are learnt: its unchanged answer and cells to be changed."""

    located: Located
    answer: tuple[int, ...]
    targets: tuple[TargetCell, ...]


class DirectionEdit(NamedTuple):
    """A direction towards a wall at a place of the prompt, or wherever a condition holds."""

    where: int | When
    layer: int
    direction: Direction


# The edits that write a wall to a cell of a prompt; none where that is impossible.
CellEdits = Callable[[Located, Cell], list[DirectionEdit]]


@dataclass(frozen=True)
class NamesCell:
    """The token that completes a text such as "3,3:"; "3,3:" is no part of "13,3:"."""

    text: str

    def __call__(self, written: WrittenText) -> bool:
        """Whether the token that is being read completes the text."""
        text = written.text
        begin = text.find(self.text, max(0, written.last - len(self.text) + 1))
        return begin >= 0 and not text[:begin][-1:].isdigit()


@dataclass(frozen=True, eq=False)
class DirectionKind:
    """A kind of direction: its name, the tokens that are written to, and the edits by layer."""

    name: str
    position: str
    at: Mapping[int, CellEdits]

    def edits(self, layers: Sequence[int]) -> CellEdits:
        """The edits at several layers at once."""
        known = [self.at[layer] for layer in layers if layer in self.at]
        return lambda located, cell: [edit for each in known for edit in each(located, cell)]


def with_random_directions(edits: CellEdits, seed: int) -> CellEdits:
    """Return the same edits with random directions of equal norm."""

    def drawn(located: Located, cell: Cell) -> list[DirectionEdit]:
        # By content, so that a draw is the same in any order and any process.
        name = f"a random direction:{seed}:{located.sample.digest}:{cell}"
        rng = np.random.default_rng(list(sha256(name.encode()).digest()))
        out = []
        for edit in edits(located, cell):
            vector = rng.standard_normal(len(edit.direction.unit))
            direction = Direction(vector / np.linalg.norm(vector), edit.direction.gap)
            out.append(edit._replace(direction=direction))
        return out

    return drawn


def for_another(edits: CellEdits, choose: Callable[[Located, Cell], Cell | None]) -> CellEdits:
    """Return the edits of another cell of the same prompt."""

    def other(located: Located, cell: Cell) -> list[DirectionEdit]:
        chosen = choose(located, cell)
        return edits(located, chosen) if chosen is not None else []

    return other


_NO_WAY = "-"
# For each action the letter of the reverse move, and its number.
_REVERSE_LETTER, _REVERSE = "RLDU", (1, 0, 3, 2)


def closed_prompt(network: Network, sample: Sample, cell: Cell) -> tuple[int, ...] | None:
    """Return the tokens of a sample's prompt with a wall at a cell.

    Streams can be exchanged only between prompts of the same length. None where that is impossible:
    the cell is not in the prompt, the tokenizer joins symbols, or the chat template has changed.
    """
    question = closed_question(sample, cell)
    if question is None:
        return None
    ids, closed = map(network.prompt_ids, (sample.question, question))
    return closed if ids == sample.prompt and len(closed) == len(ids) else None


def closed_question(sample: Sample, cell: Cell) -> str | None:
    """Return a sample's question with a wall at a cell; None if the cell is not in it.

    In a question that lists open cells the cell stays listed, with no way from it and none to it,
    so that the question keeps its length.
    """
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
            left = listed[1].replace(_REVERSE_LETTER[action], "") or _NO_WAY
            question = question[: listed.start(1)] + left + question[listed.end(1) :]
    return question


# How the reasoning of our organisms comes to a cell.
TURN = "{row},{column}:"
_LONGEST = 16  # characters of such a text


def learn_directions(
    network: Network, decisions: Sequence[TrainingDecision], layers: Sequence[int], turn: str = TURN
) -> list[DirectionKind]:
    """Learn the directions of walls at some layers.

    turn             where the reasoning comes to a neighbour of the cell ("3,3:"): a probe of which
                     of the four cells around the named one are walls
    own              at the cell's own tokens: a probe of which cell is listed here (a wall is not
                     listed, so the direction away from its name is towards a wall), or of walls in
                     prompts that draw the grid
    closed           at the cell's own tokens: the mean difference between the same question with
                     the cell closed and open
    closed, around   at those and its neighbours' tokens
    end              at the last tokens of the prompt: the cell's head of a ridge probe over the map

    Decisions are of grids that are not scored; `turn` is how an answer comes to a cell, with {row}
    and {column}. Kinds of which nothing could be learnt are left out.
    """
    kinds = [
        DirectionKind("turn", "post/turn", _turn_edits(network, decisions, layers, turn)),
        DirectionKind("own", "pre/cell", _own_edits(network, decisions, layers)),
        DirectionKind("closed", "pre/cell", _closed_edits(network, decisions, layers, ())),
        DirectionKind(
            "closed, around", "pre/around", _closed_edits(network, decisions, layers, range(4))
        ),
        DirectionKind("end", "pre/end", _end_edits(network, decisions, layers)),
    ]
    return [kind for kind in kinds if kind.at]


def _turn_edits(
    network: Network, decisions: Sequence[TrainingDecision], layers: Sequence[int], turn: str
) -> dict[int, CellEdits]:
    rows: list[dict[int, FloatArray]] = []
    walls: list[list[bool]] = []
    for each in decisions:
        sample = each.located.sample
        found = [
            (cell, len(sample.prompt) + place)
            for place, cell in _named_cells(each, turn)
            # A cell of the border has no neighbour on one side.
            if all(0 < a < n - 1 for a, n in zip(cell, sample.world.shape, strict=True))
        ]
        if not found:
            continue
        streams = network.streams(sample.prompt + each.answer, layers)
        for cell, place in found:
            rows.append({k: _doubles(streams[k][place]) for k in layers})
            walls.append([bool(sample.world.walls[cell.moved(move)]) for move in range(4)])

    def edits_of(layer: int) -> CellEdits:
        directions = ridge_directions(np.array([row[layer] for row in rows]), np.array(walls))

        def edits(located: Located, cell: Cell) -> list[DirectionEdit]:
            out = []
            for move in range(len(MOVES)):
                neighbour, direction = cell.moved(move), directions[_REVERSE[move]]
                if direction is not None:
                    name = NamesCell(turn.format(row=neighbour.row, column=neighbour.column))
                    out.append(DirectionEdit(name, layer, direction))
            return out

        return edits

    return {k: edits_of(k) for k in layers} if rows else {}


def _named_cells(each: TrainingDecision, turn: str) -> Iterator[tuple[int, Cell]]:
    """The tokens of an answer at which it comes to a cell, and that cell."""
    spelled = re.escape(turn).replace(r"\{row\}", r"(?P<row>\d+)", 1)
    pattern = re.compile(r"(?<!\d)" + spelled.replace(r"\{column\}", r"(?P<column>\d+)", 1))
    written = WrittenText(each.located.tokenizer)
    for place, token in enumerate(each.answer):
        written.append(token)
        # A name that was complete before this token does not count.
        for match in pattern.finditer(written.text, max(0, written.last - _LONGEST)):
            if match.end() > written.last:
                yield place, Cell(int(match["row"]), int(match["column"]))


def _own_edits(
    network: Network, decisions: Sequence[TrainingDecision], layers: Sequence[int]
) -> dict[int, CellEdits]:
    rows: list[dict[int, FloatArray]] = []
    cells: list[Cell] = []
    walls: list[bool] = []
    for each in decisions:
        sample = each.located.sample
        streams = network.streams(sample.prompt, layers)
        for row, column in np.ndindex(sample.world.shape):
            cell = Cell(row, column)
            if tokens := each.located.cell(cell):
                rows.append({k: _doubles(streams[k][tokens[0]]) for k in layers})
                cells.append(cell)
                walls.append(bool(sample.world.walls[cell]))
    if not rows:
        return {}
    is_drawn, names = any(walls), sorted(set(cells))
    # Where only open cells are listed, to be another cell is to leave this one unlisted.
    unlisted = [[cell != name for name in names] for cell in cells]
    labels = np.array(walls)[:, None] if is_drawn else np.array(unlisted)

    def edits_of(layer: int) -> CellEdits:
        directions = ridge_directions(np.array([row[layer] for row in rows]), labels)
        known = dict(zip(names, directions, strict=not is_drawn))

        def edits(located: Located, cell: Cell) -> list[DirectionEdit]:
            direction, tokens = directions[0] if is_drawn else known.get(cell), located.cell(cell)
            if direction is None or not tokens:
                return []
            return [DirectionEdit(tokens[0], layer, direction)]

        return edits

    return {k: edits_of(k) for k in layers}


def _closed_edits(
    network: Network,
    decisions: Sequence[TrainingDecision],
    layers: Sequence[int],
    moves: Sequence[int],
) -> dict[int, CellEdits]:
    """Mean differences for the cell itself and its neighbours by these moves, token by token."""

    def places(located: Located, cell: Cell) -> dict[tuple[int, int], int]:
        around = {-1: cell} | {move: cell.moved(move) for move in moves}
        return {
            (move, number): token
            for move, each in around.items()
            for number, token in enumerate(located.cell(each))
        }

    sums: dict[tuple[int, int, int], FloatArray] = {}
    counts: dict[tuple[int, int], int] = {}
    for each in decisions:
        for target in each.targets:
            donor = closed_prompt(network, each.located.sample, target.cell)
            if donor is None:
                continue
            before = network.streams(each.located.sample.prompt, layers)
            after = network.streams(donor, layers)
            for key, token in places(each.located, target.cell).items():
                counts[key] = counts.get(key, 0) + 1
                for k in layers:
                    difference = _doubles(after[k][token]) - _doubles(before[k][token])
                    sums[(k, *key)] = sums.get((k, *key), 0.0) + difference

    def edits_of(layer: int) -> CellEdits:
        known = {
            key: Direction.between(sums[(layer, *key)] / count) for key, count in counts.items()
        }

        def edits(located: Located, cell: Cell) -> list[DirectionEdit]:
            found = [(known.get(key), token) for key, token in places(located, cell).items()]
            return [DirectionEdit(token, layer, each) for each, token in found if each is not None]

        return edits

    return {k: edits_of(k) for k in layers} if counts else {}


def _end_edits(
    network: Network, decisions: Sequence[TrainingDecision], layers: Sequence[int]
) -> dict[int, CellEdits]:
    kept = [each.located for each in decisions if each.located.end_of_prompt]
    shapes = [each.sample.world.shape for each in kept]
    # The penalty is chosen on every fourth decision of each shape.
    held_out = [shapes[:number].count(shape) % 4 == 3 for number, shape in enumerate(shapes)]
    usable = {shape for shape, out in zip(shapes, held_out, strict=True) if out}
    kept = [each for each in kept if each.sample.world.shape in usable]
    validation = np.array([o for o, s in zip(held_out, shapes, strict=True) if s in usable])
    if not kept:
        return {}
    scenes = scenes_of([each.sample for each in kept])
    read = [network.streams(each.sample.prompt, layers) for each in kept]

    def edits_of(layer: int) -> CellEdits:
        rows = np.array(
            [
                np.concatenate([_doubles(stream[layer][t]) for t in each.end_of_prompt])
                for each, stream in zip(kept, read, strict=True)
            ]
        )
        reading = Reading(rows, scenes)
        training = reading.where(np.flatnonzero(~validation))
        fitted = Ridge().fit(training, reading.where(np.flatnonzero(validation)), seed=0)

        @cache
        def direction(shape: Shape, cell: Cell) -> Direction | None:
            slopes = fitted.wall_directions(shape)
            if slopes is None:
                return None
            alike = np.array([world.shape == shape for world in scenes.worlds])
            wall = np.array([bool(w.walls[cell]) for w in scenes.worlds if w.shape == shape])
            return Direction.of_weights(slopes[cell], rows[alike], wall)

        def edits(located: Located, cell: Cell) -> list[DirectionEdit]:
            whole, tokens = direction(located.sample.world.shape, cell), located.end_of_prompt
            if whole is None or not tokens:
                return []
            # The gap is that of all tokens together, and each token has its part.
            parts = [Direction.between(p * whole.gap) for p in np.split(whole.unit, len(tokens))]
            listed = zip(tokens, parts, strict=True)
            return [DirectionEdit(t, layer, part) for t, part in listed if part is not None]

        return edits

    return {k: edits_of(k) for k in layers}


def _doubles(stream: torch.Tensor) -> FloatArray:
    return np.asarray(stream.double().cpu().numpy())
