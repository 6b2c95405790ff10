"""Cells that shortest paths need, and directions that write a wall or an open cell to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from goalmeter._types import BoolArray, FloatArray
from goalmeter.gridworld.planner import Plan, State, planned, plans
from goalmeter.gridworld.world import ACTIONS, WALL, Cell, GridWorld
from goalmeter.representation.network import Network
from goalmeter.representation.probes.protocol import Reading, Standard
from goalmeter.representation.probes.registry import Ridge
from goalmeter.representation.replay import Located, Sample, scenes_of, span_of_cell
from goalmeter.representation.scenes import Shape
from goalmeter.representation.use.interventions import When, WrittenText


class TargetCell(NamedTuple):
    """A cell to be changed in a state: an open one into a wall, or a wall into an open one.

    A needed cell shows whether it is used, since every first move of a shortest path is another one
    after the change. A cell that is not needed lies on no shortest path, before and after: the
    null. `optimal` and `changed` are the first moves of shortest paths before and after.
    """

    cell: Cell
    needed: bool
    optimal: tuple[int, ...]
    changed: tuple[int, ...]


def target_cells(world: GridWorld, state: State) -> tuple[TargetCell, ...]:
    """Return the open cells whose use can be tested in a state, in row order.

    Excluded are the cells of the agent and of objects, cells without which there is no path, and
    cells on some shortest paths only or without which the first move may be the same.
    """
    return _targets(world, state, wall=True)


def target_walls(world: GridWorld, state: State) -> tuple[TargetCell, ...]:
    """Return the inner walls whose use can be tested in a state, in row order.

    Needed walls would be part of every shortest path if they were open. Excluded are walls that
    would be on some shortest paths only, or on paths that begin with the same move.
    """
    return _targets(world, state, wall=False)


@lru_cache(maxsize=8192)
def _targets(world: GridWorld, state: State, *, wall: bool) -> tuple[TargetCell, ...]:
    known, out = planned(world), []
    optimal = known.optimal_actions(state)
    for cell, plan in _plans_with(world, wall=wall).items():
        if cell == state.cell or not (changed := plan.optimal_actions(state)):
            continue
        if not set(changed) & set(optimal):
            out.append(TargetCell(cell, True, optimal, changed))
        elif not _on_shortest_path(known if wall else plan, state, cell):
            out.append(TargetCell(cell, False, optimal, optimal))
    return tuple(out)


def inner_walls(world: GridWorld) -> list[Cell]:
    """The walls of a world without its border, in row order."""
    return [Cell(*place) for place in (np.argwhere(world.walls[1:-1, 1:-1]) + 1).tolist()]


# Decisions are drawn from all states of a world, one world after the other.
@lru_cache(maxsize=64)
def _plans_with(world: GridWorld, *, wall: bool) -> dict[Cell, Plan]:
    """The plans of a world with one free cell closed, or one inner wall opened, by cell."""
    objects = {world.goal, world.key, world.door, world.neutral, world.start}
    free = [cell for cell in world.open_cells if cell not in objects]
    cells, changed = free if wall else inner_walls(world), []
    for cell in cells:
        walls = world.walls.copy()
        walls[cell] = wall
        changed.append(replace(world, walls=walls))
    if not changed:
        return {}
    together = plans(changed)
    return {cell: together.plan(number) for number, cell in enumerate(cells)}


def _on_shortest_path(known: Plan, state: State, cell: Cell) -> bool:
    """Whether some shortest path passes through a cell, with or without the key."""
    seen = [state]
    for at in seen:  # which grows
        if at.cell == cell:
            return True
        after = (known.step(at, action) for action in known.optimal_actions(at))
        seen += [each for each in dict.fromkeys(after) if each not in seen]
    return False


# Of a ridge regression, for each row of scaled activations; more than predicts best: weights that
# undo whatever else varies point to where no activations are. At dose 2 penalties of 0.01, 0.1,
# 0.3, 1 and 3 flipped 0, 2, 15, 26 and 28 of 34 moves of the mouse; with larger ones the gap
# becomes so large that a random direction of that length breaks answers too.
PENALTY = 1.0


# A probe's direction is that of its weights and not of the difference of the means, so it leaves
# alone what varies without telling walls apart; see Friedman (1989).
@dataclass(frozen=True, eq=False)
class Direction:
    """The direction from open cells to walls."""

    unit: FloatArray  # [D], of length 1
    gap: float  # the mean with a wall minus the mean without one along it

    def vector(self, dose: float) -> FloatArray:
        """The vector that a dose adds to the residual stream, [D]; a dose of 1 adds the gap."""
        return self.unit * (self.gap * dose)

    @classmethod
    def between(cls, difference: FloatArray) -> Direction | None:
        """The direction of a difference of means, [D]; None if it is zero."""
        length = float(np.linalg.norm(difference))
        return cls(difference / length, length) if length > 0 else None

    @classmethod
    def of_weights(cls, weights: FloatArray, rows: FloatArray, wall: BoolArray) -> Direction | None:
        """The direction of a probe's weights [D] with the gap of rows [n, D], if it is above 0."""
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
    return tuple(map(Direction.of_weights, weights.T, [rows] * len(weights.T), wall.T))


class TrainingDecision(NamedTuple):
    """A decision from which directions are learnt: its unchanged answer and cells to be changed."""

    located: Located
    answer: tuple[int, ...]
    targets: tuple[TargetCell, ...]


# A direction towards a wall at a place of the prompt, or wherever a condition holds, and its layer.
DirectionEdit = tuple[int | When, int, Direction]
# The directions that write a wall to a cell of a prompt at one layer; None where there is none.
Finder = Callable[[Located, Cell], Iterable[tuple[int | When, Direction | None]]]


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
    """A kind of direction: its name, the tokens that are written to, and directions by layer."""

    name: str
    position: str
    at: Mapping[int, Finder]

    def edits(self, layers: Sequence[int], located: Located, cell: Cell) -> list[DirectionEdit]:
        """The edits that write a wall at several layers; none where that is impossible."""
        return [
            (where, layer, direction)
            for layer in layers
            for where, direction in self.at[layer](located, cell)
            if direction is not None
        ]


def in_random_directions(
    edits: Sequence[DirectionEdit], seed: int, located: Located, cell: Cell
) -> list[DirectionEdit]:
    """Return the same edits with random directions of equal norm."""
    # By content, so that a draw is the same in any order and any process.
    name = f"a random direction:{seed}:{located.sample.digest}:{cell}"
    rng = np.random.default_rng(list(sha256(name.encode()).digest()))
    out = []
    for where, layer, direction in edits:
        vector = rng.standard_normal(len(direction.unit))
        out.append((where, layer, Direction(vector / np.linalg.norm(vector), direction.gap)))
    return out


_NO_WAY = "-"
# The action that leads back, for each action.
_REVERSE = (1, 0, 3, 2)


def closed_prompt(network: Network, sample: Sample, cell: Cell) -> tuple[int, ...] | None:
    """Return the tokens of a sample's prompt with a wall at a cell; None if that is impossible."""
    question = closed_question(sample, cell)
    if question is None:
        return None
    ids, closed = map(network.prompt_ids, (sample.question, question))
    # Streams can be exchanged only between prompts of the same length: the tokenizer may join
    # symbols, and the chat template may have changed.
    return closed if ids == sample.prompt and len(closed) == len(ids) else None


def closed_question(sample: Sample, cell: Cell) -> str | None:
    """Return a sample's question with a wall at a cell; None if the cell is not in it."""
    question = sample.question
    span = span_of_cell(sample, cell)
    if span is None:
        return None
    if span[1] - span[0] == 1:
        return question[: span[0]] + WALL + question[span[1] :]
    # In a list the cell stays, with no way from it and none to it, so that the length is the same.
    ways = question[slice(*span)].split()[1]
    question = question[: span[1] - len(ways)] + _NO_WAY + question[span[1] :]
    for action, reverse in enumerate(_REVERSE):
        row, column = cell.moved(action)
        listed = re.search(rf" {row},{column} (\S+)", question)
        if listed:
            left = listed[1].replace(ACTIONS[reverse][0], "") or _NO_WAY
            question = question[: listed.start(1)] + left + question[listed.end(1) :]
    return question


# turn             where the reasoning comes to a neighbour of the cell ("3,3:"): a probe of which
#                  of the four cells around the named one are walls
# own              at the cell's own tokens: a probe of which cell is listed here (a wall is not
#                  listed, so the direction away from its name is towards a wall), or of walls in
#                  prompts that draw the grid
# closed           at the cell's own tokens: the mean difference between the same question with
#                  the cell closed and open
# closed, around   at those and its neighbours' tokens
# end              at the last tokens of the prompt: the cell's head of a ridge probe over the map

# How the reasoning of our organisms comes to a cell, with {row} and {column}.
TURN = "{row},{column}:"
_LONGEST = 16  # characters of such a text
# Sequences of tokens with places in them, and how directions follow from the streams there, [n, D].
Sequences = Iterable[tuple[tuple[int, ...], Sequence[int]]]
Learner = tuple[Sequences, Callable[[FloatArray], Finder]]


def learn_directions(
    network: Network, decisions: Sequence[TrainingDecision], layers: Sequence[int], turn: str
) -> list[DirectionKind]:
    """Learn the directions of walls at some layers, from decisions of grids that are not scored."""
    learners = {
        ("turn", "post/turn"): _turn(decisions, turn),
        ("own", "pre/cell"): _own(decisions),
        ("closed", "pre/cell"): _closed(network, decisions, 0),
        ("closed, around", "pre/around"): _closed(network, decisions, len(ACTIONS)),
        ("end", "pre/end"): _end(decisions),
    }
    kinds = []
    for name, (sequences, learn) in learners.items():
        rows: dict[int, list[FloatArray]] = {}
        for ids, places in sequences:
            streams = network.streams(ids, layers) if places else {}
            for layer, stream in streams.items():
                of_layer = rows.setdefault(layer, [])
                of_layer.append(stream[list(places)].double().cpu().numpy())
        if rows:
            at = {layer: learn(np.concatenate(rows[layer])) for layer in layers}
            kinds.append(DirectionKind(*name, at))
    return kinds


def _turn(decisions: Sequence[TrainingDecision], turn: str) -> Learner:
    sequences, walls = [], []
    for each in decisions:
        sample, places = each.located.sample, []
        for place, cell in _named_cells(each, turn):
            # A cell of the border has no neighbour on one side.
            if all(0 < a < n - 1 for a, n in zip(cell, sample.world.shape, strict=True)):
                places.append(len(sample.prompt) + place)
                walls.append([bool(sample.world.walls[cell.moved(move)]) for move in range(4)])
        sequences.append((sample.prompt + each.answer, places))

    def learn(rows: FloatArray) -> Finder:
        directions = ridge_directions(rows, np.array(walls))

        def find(located: Located, cell: Cell) -> Iterator[tuple[When, Direction | None]]:
            for move, reverse in enumerate(_REVERSE):
                row, column = cell.moved(move)
                yield NamesCell(turn.format(row=row, column=column)), directions[reverse]

        return find

    return sequences, learn


def _named_cells(each: TrainingDecision, turn: str) -> Iterator[tuple[int, Cell]]:
    """The tokens of an answer at which it comes to a cell, and that cell."""
    spelled = re.escape(turn).replace(r"\{row\}", r"(?P<row>\d+)", 1)
    pattern = re.compile(r"(?<!\d)" + spelled.replace(r"\{column\}", r"(?P<column>\d+)", 1))
    written = WrittenText(each.located.tokenizer)
    for place, token in enumerate(each.answer):
        written.ids.append(token)
        # A name that was complete before this token does not count.
        for match in pattern.finditer(written.text, max(0, written.last - _LONGEST)):
            if match.end() > written.last:
                yield place, Cell(int(match["row"]), int(match["column"]))


def _own(decisions: Sequence[TrainingDecision]) -> Learner:
    sequences = []
    cells: list[Cell] = []
    walls: list[bool] = []
    for each in decisions:
        sample, places = each.located.sample, []
        for index in np.ndindex(sample.world.shape):
            if tokens := each.located.cell(cell := Cell(*index)):
                places.append(tokens[0])
                cells.append(cell)
                walls.append(bool(sample.world.walls[cell]))
        sequences.append((sample.prompt, places))
    is_drawn, names = any(walls), sorted(set(cells))
    # Where only open cells are listed, to be another cell is to leave this one unlisted.
    unlisted = [[cell != name for name in names] for cell in cells]
    labels = np.array(walls)[:, None] if is_drawn else np.array(unlisted)

    def learn(rows: FloatArray) -> Finder:
        directions = ridge_directions(rows, labels)
        known = {} if is_drawn else dict(zip(names, directions, strict=True))

        def find(located: Located, cell: Cell) -> list[tuple[int, Direction | None]]:
            direction = directions[0] if is_drawn else known.get(cell)
            return [(token, direction) for token in located.cell(cell)[:1]]

        return find

    return sequences, learn


def _closed(network: Network, decisions: Sequence[TrainingDecision], moves: int) -> Learner:
    """Mean differences for the cell itself and its neighbours by some moves, token by token."""

    def tokens_of(located: Located, cell: Cell) -> dict[tuple[int, int], int]:
        around = [cell, *(cell.moved(move) for move in range(moves))]
        return {
            (number, of_cell): token
            for number, each in enumerate(around)
            for of_cell, token in enumerate(located.cell(each))
        }

    sequences, keys = [], []
    for each in decisions:
        for target in each.targets:
            prompt = each.located.sample.prompt
            donor = closed_prompt(network, each.located.sample, target.cell)
            if donor is not None:
                tokens = tokens_of(each.located, target.cell)
                sequences += [(ids, tuple(tokens.values())) for ids in (prompt, donor)]
                keys.append(list(tokens))

    def learn(rows: FloatArray) -> Finder:
        differences: dict[tuple[int, int], list[FloatArray]] = {}
        at = 0
        for listed in keys:
            before, after = np.split(rows[at : at + 2 * len(listed)], 2)
            at += 2 * len(listed)
            for key, difference in zip(listed, after - before, strict=True):
                differences.setdefault(key, []).append(difference)
        known = {key: Direction.between(np.mean(d, axis=0)) for key, d in differences.items()}
        return lambda located, cell: [
            (token, known.get(key)) for key, token in tokens_of(located, cell).items()
        ]

    return sequences, learn


def _end(decisions: Sequence[TrainingDecision]) -> Learner:
    able = [each.located for each in decisions if each.located.end_of_prompt]
    # The penalty is chosen on every fourth decision of each shape.
    shapes = [each.sample.world.shape for each in able]
    held_out = [shapes[:number].count(shape) % 4 == 3 for number, shape in enumerate(shapes)]
    usable = {shape for shape, out in zip(shapes, held_out, strict=True) if out}
    kept = [number for number, shape in enumerate(shapes) if shape in usable]
    samples = [able[number].sample for number in kept]
    validation = np.array([held_out[number] for number in kept], dtype=bool)

    def learn(rows: FloatArray) -> Finder:
        rows, scenes = rows.reshape(len(kept), -1), scenes_of(samples)
        parts = (Reading(rows, scenes).where(np.flatnonzero(c)) for c in (~validation, validation))
        fitted = Ridge().fit(*parts, seed=0)

        @cache
        def direction(shape: Shape, cell: Cell) -> Direction | None:
            slopes = fitted.wall_directions(shape)
            if slopes is None:
                return None
            alike = np.array([world.shape == shape for world in scenes.worlds])
            wall = np.array([bool(w.walls[cell]) for w in scenes.worlds if w.shape == shape])
            return Direction.of_weights(slopes[cell], rows[alike], wall)

        def find(located: Located, cell: Cell) -> list[tuple[int, Direction | None]]:
            whole, tokens = direction(located.sample.world.shape, cell), located.end_of_prompt
            if whole is None or not tokens:
                return []
            # The gap is that of all tokens together, and each token has its part.
            parts = [Direction.between(p * whole.gap) for p in np.split(whole.unit, len(tokens))]
            return list(zip(tokens, parts, strict=True))

        return find

    return [(able[number].sample.prompt, able[number].end_of_prompt) for number in kept], learn
