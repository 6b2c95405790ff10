"""Cells that shortest paths need, and activation directions from open cells to walls."""

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
    """Cell to be changed in a state: from open to wall, or from wall to open.

    Changing a needed cell replaces every first move of a shortest path, so it shows whether the
    cell is used. A cell that is not needed, the null, lies on no shortest path before or after the
    change. `optimal` and `changed` are the first moves of shortest paths before and after.
    """

    cell: Cell
    needed: bool
    optimal: tuple[int, ...]
    changed: tuple[int, ...]


def target_cells(world: GridWorld, state: State) -> tuple[TargetCell, ...]:
    """Return the open cells whose use can be tested in a state, in row order.

    This excludes the cells of the agent and of objects, cells without which there is no path, cells
    on some but not all shortest paths, and cells whose closing may leave the first move unchanged.
    """
    return _targets(world, state, wall=True)


def target_walls(world: GridWorld, state: State) -> tuple[TargetCell, ...]:
    """Return the inner walls whose use can be tested in a state, in row order.

    Needed walls would be on every shortest path if they were open. This excludes walls that would
    be on some but not all shortest paths, or on paths that begin with the same move.
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
    """Return the walls of a world except its border, in row order."""
    return [Cell(*place) for place in (np.argwhere(world.walls[1:-1, 1:-1]) + 1).tolist()]


# A small cache suffices: callers process all states of one world before the next.
@lru_cache(maxsize=64)
def _plans_with(world: GridWorld, *, wall: bool) -> dict[Cell, Plan]:
    """Return plans of a world with one free cell closed, or one inner wall opened, by cell."""
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
    """Return whether any shortest path passes through a cell, with or without the key."""
    visited = [state]
    for at in visited:  # grows during iteration
        if at.cell == cell:
            return True
        after = (known.step(at, action) for action in known.optimal_actions(at))
        visited += [each for each in dict.fromkeys(after) if each not in visited]
    return False


# Penalty of the ridge regression per row of scaled activations. It exceeds the best one for
# prediction, whose weights compensate other variation and point away from the activations. At dose
# 2, 0.01, 0.1, 0.3, 1 and 3 flipped 0, 2, 15, 26 and 28 of 34 moves of the mouse (earlier weights);
# with larger ones the gap becomes so large that random directions of that norm break answers too.
PENALTY = 1.0


# Weights of a probe, unlike the difference of means, ignore variation that does not discriminate
# walls; see Friedman (1989).
@dataclass(frozen=True, eq=False)
class Direction:
    """Direction from open cells to walls."""

    unit: FloatArray  # unit vector, [D]
    gap: float  # mean along the direction with a wall minus the mean without one

    def vector(self, dose: float) -> FloatArray:
        """Return the vector that a dose adds to the residual stream, [D]; dose 1 adds the gap."""
        return self.unit * (self.gap * dose)

    @classmethod
    def between(cls, difference: FloatArray) -> Direction | None:
        """Return the direction of a difference of means, [D]; None if it is zero."""
        length = float(np.linalg.norm(difference))
        return cls(difference / length, length) if length > 0 else None

    @classmethod
    def of_weights(cls, weights: FloatArray, rows: FloatArray, wall: BoolArray) -> Direction | None:
        """Return the direction of weights [D] with the gap of rows [n, D]; None if it is <= 0."""
        length = float(np.linalg.norm(weights))
        if not length > 0 or wall.all() or not wall.any():
            return None
        unit = weights / length
        gap = float(unit @ (rows[wall].mean(axis=0) - rows[~wall].mean(axis=0)))
        return cls(unit, gap) if gap > 0 else None


def ridge_directions(rows: FloatArray, wall: BoolArray) -> tuple[Direction | None, ...]:
    """Return ridge directions of rows [n, D] for labels [n, Q]; None if all labels are equal."""
    standard = Standard.of(rows)
    left, spectrum, right = np.linalg.svd(standard(rows), full_matrices=False)
    loads = left.T @ (wall - wall.mean(axis=0))
    filters = spectrum / (spectrum**2 + PENALTY * len(rows))
    weights: FloatArray = right.T @ (filters[:, None] * loads) * standard.weight[:, None]
    return tuple(map(Direction.of_weights, weights.T, [rows] * len(weights.T), wall.T))


class TrainingDecision(NamedTuple):
    """Decision for learning directions, with its unchanged answer and target cells."""

    located: Located
    answer: tuple[int, ...]
    targets: tuple[TargetCell, ...]


# Place of the prompt, or condition on the answer; layer; direction towards a wall.
DirectionEdit = tuple[int | When, int, Direction]
# Returns the directions that write a wall to a cell of a prompt at one layer; None if unavailable.
Finder = Callable[[Located, Cell], Iterable[tuple[int | When, Direction | None]]]


@dataclass(frozen=True)
class NamesCell:
    """Condition for the token that completes a text such as "3,3:", but not within "13,3:"."""

    text: str

    def __call__(self, written: WrittenText) -> bool:
        """Return whether the current token completes the text."""
        text = written.text
        begin = text.find(self.text, max(0, written.last - len(self.text) + 1))
        return begin >= 0 and not text[:begin][-1:].isdigit()


@dataclass(frozen=True, eq=False)
class DirectionKind:
    """Kind of direction: name, position of the changed tokens, and directions by layer."""

    name: str
    position: str
    at: Mapping[int, Finder]

    def edits(self, layers: Sequence[int], located: Located, cell: Cell) -> list[DirectionEdit]:
        """Return the edits that write a wall at several layers; none if that is impossible."""
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
    # The seed depends on the content, so draws do not depend on order or process.
    name = f"a random direction:{seed}:{located.sample.digest}:{cell}"
    rng = np.random.default_rng(list(sha256(name.encode()).digest()))
    out = []
    for where, layer, direction in edits:
        vector = rng.standard_normal(len(direction.unit))
        out.append((where, layer, Direction(vector / np.linalg.norm(vector), direction.gap)))
    return out


_NO_WAY = "-"
# The opposite action of each action.
_REVERSE = (1, 0, 3, 2)


def closed_prompt(network: Network, sample: Sample, cell: Cell) -> tuple[int, ...] | None:
    """Return the tokens of a sample's prompt with a wall at a cell; None if that is impossible."""
    question = closed_question(sample, cell)
    if question is None:
        return None
    ids, closed = map(network.prompt_ids, (sample.question, question))
    # Streams can be exchanged only between prompts of equal length: the tokenizer may merge
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
    # A listed cell keeps its entry but loses all moves from and to it, so that lengths are equal.
    ways = question[slice(*span)].split()[1]
    question = question[: span[1] - len(ways)] + _NO_WAY + question[span[1] :]
    for action, reverse in enumerate(_REVERSE):
        row, column = cell.moved(action)
        listed = re.search(rf" {row},{column} (\S+)", question)
        if listed:
            left = listed[1].replace(ACTIONS[reverse][0], "") or _NO_WAY
            question = question[: listed.start(1)] + left + question[listed.end(1) :]
    return question


# turn             tokens at which the reasoning turns to a neighbour of the cell ("3,3:"); a probe
#                  of which of the four cells around the named one are walls
# own              tokens of the cell; a probe of which cell is listed (a wall is not listed, so the
#                  direction away from its name is towards a wall), or of walls in prompts that draw
#                  the grid
# closed           tokens of the cell; the mean difference between the same question with the cell
#                  closed and open
# closed, around   tokens of the cell and its neighbours; the same
# end              last tokens of the prompt; the cell's head of a ridge probe of the map

# Text with which the reasoning of model organisms turns to a cell.
TURN = "{row},{column}:"
_LONGEST = 16  # maximum length of such a text
# Token sequences with places, and a function from the streams there, [n, D], to directions.
Sequences = Iterable[tuple[tuple[int, ...], Sequence[int]]]
Learner = tuple[Sequences, Callable[[FloatArray], Finder]]


def learn_directions(
    network: Network, decisions: Sequence[TrainingDecision], layers: Sequence[int], turn: str
) -> list[DirectionKind]:
    """Learn directions of walls at some layers from decisions in grids that are not scored."""
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
            # A border cell lacks a neighbour on one side.
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
    """Yield the tokens of an answer at which it turns to a cell, with that cell."""
    spelled = re.escape(turn).replace(r"\{row\}", r"(?P<row>\d+)", 1)
    pattern = re.compile(r"(?<!\d)" + spelled.replace(r"\{column\}", r"(?P<column>\d+)", 1))
    written = WrittenText(each.located.tokenizer)
    for place, token in enumerate(each.answer):
        written.ids.append(token)
        # A name that an earlier token completed does not count.
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
    # If only open cells are listed, the label of a cell is that another one is listed instead.
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
    """Learn mean differences per token for the cell and its neighbours by some moves."""

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
    found = [each.located for each in decisions if each.located.end_of_prompt]
    # The penalty is chosen on every fourth decision of each shape.
    shapes = [each.sample.world.shape for each in found]
    held_out = [shapes[:number].count(shape) % 4 == 3 for number, shape in enumerate(shapes)]
    usable = {shape for shape, out in zip(shapes, held_out, strict=True) if out}
    numbers = [number for number, shape in enumerate(shapes) if shape in usable]
    samples = [found[number].sample for number in numbers]
    validation = np.array([held_out[number] for number in numbers], dtype=bool)

    def learn(rows: FloatArray) -> Finder:
        rows, scenes = rows.reshape(len(numbers), -1), scenes_of(samples)
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
            # The gap concerns all tokens together; each token has its part of it.
            parts = [Direction.between(p * whole.gap) for p in np.split(whole.unit, len(tokens))]
            return list(zip(tokens, parts, strict=True))

        return find

    return [(found[number].sample.prompt, found[number].end_of_prompt) for number in numbers], learn
