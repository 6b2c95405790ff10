"""Patch activations between questions that differ in the position of the goal or of the agent.

The residual stream of one question takes the place of another's, at some tokens and layers. Both
have the same tokens except for what moved. A move follows the patch if it is right in the other
question and wrong in the one that was asked; where the same moves are right in both, nothing should
change. The null is the stream of an unrelated question. Places are screened on one half of the
grids, and the best one is scored on the other half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isnan
from typing import TYPE_CHECKING, NamedTuple

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld.conversions import compact, rendered
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import State, planned
from goalmeter.gridworld.world import REFLECT, ROTATE, GridWorld, content
from goalmeter.report.numbers import percent
from goalmeter.representation.network import Network
from goalmeter.representation.replay import BEFORE, Located, Sample, position
from goalmeter.representation.result_rows import MovedRow
from goalmeter.representation.scenes import mean_over_grids
from goalmeter.representation.use.answers import AnswerSweep
from goalmeter.representation.use.interventions import Intervention
from goalmeter.representation.use.trials import CONFIRM, HALVES, SCREEN, Donors, half_of, windows_of
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clusters import Estimate

if TYPE_CHECKING:
    import torch

# What moves: the goal or the agent to another open cell, or the whole grid (rotated or mirrored).
KINDS = GOAL, AGENT, ISOMETRY = ("goal", "agent", "isometry")
# The sets of first moves of shortest paths in both questions.
_RELATIONS = SAME, OVERLAPPING, DISJOINT = ("same", "overlapping", "disjoint")
# All tokens of the prompt: at layer 0 that is the other question itself, the ceiling.
EVERY_TOKEN = "pre/all"
# Makes the change of a pair by its number; None where it is impossible.
PairChange = Callable[[int], Intervention | None]


class QuestionPair(NamedTuple):
    """A question, another one in which something moved, and the relation of their right moves."""

    located: Located
    donor: Located
    relation: str

    @property
    def grid(self) -> str:
        """The content of the grid."""
        return content(self.located.sample.world)


def pairs(network: Network, sample: Sample, kind: str, seed: int) -> list[QuestionPair]:
    """Draw one pair of each relation that occurs, with prompts of equal length."""
    if network.prompt_ids(sample.question) != sample.prompt:
        return []
    sample = replace(sample, optimal=planned(sample.world).optimal_actions(sample.state))
    moved_states = list(_moved_states(sample, kind))
    Draws("moved", kind, seed, sample.walk, sample.step).shuffle(moved_states)
    tokenizer = network.local.tokenizer
    found: dict[str, QuestionPair] = {}
    for world, state in moved_states:
        moves = planned(world).optimal_actions(state)
        shared = set(sample.optimal) & set(moves)
        alike = set(sample.optimal) == set(moves)
        relation = SAME if alike else OVERLAPPING if shared else DISJOINT
        if relation in found:
            continue
        question = _question(sample, world, state)
        prompt = network.prompt_ids(question) if question else ()
        if len(prompt) == len(sample.prompt):
            donor = replace(
                sample, world=world, state=state, optimal=moves, question=question, prompt=prompt
            )
            located = Located(sample, tokenizer)
            found[relation] = QuestionPair(located, Located(donor, tokenizer), relation)
    return [found[relation] for relation in _RELATIONS if relation in found]


def _moved_states(sample: Sample, kind: str) -> Iterator[tuple[GridWorld, State]]:
    world, state = sample.world, sample.state
    if kind == ISOMETRY:
        turned, at = world, state
        for number in range(1, 8):
            turn = REFLECT if number == 4 else ROTATE
            turned, at = turn(turned), State(turn.cell(at.cell, turned.shape), at.layer)
            yield turned, at
        return
    taken = {world.goal, state.cell, world.start, world.key, world.door, world.neutral}
    for cell in world.open_cells:
        if cell in taken:
            continue
        to = (world, State(cell, state.layer)) if kind == AGENT else (world.with_(goal=cell), state)
        if planned(to[0]).optimal_actions(to[1]):
            yield to


def _question(sample: Sample, world: GridWorld, state: State) -> str:
    """The question of a sample with the drawing of another state; "" if it has no drawing."""
    for drawing in (rendered, compact):
        before = drawing(sample.world, sample.state)
        if before in sample.question:
            begin, _, end = sample.question.rpartition(before)
            return begin + drawing(world, state) + end
    return ""


@dataclass(frozen=True)
class StreamPlace:
    """Where streams are exchanged: the tokens by name, the layers, and the layers' label."""

    position: str
    layers: tuple[int, ...]
    label: int | str

    def tokens(self, located: Located) -> tuple[int, ...]:
        """Return the tokens of a prompt."""
        if self.position == EVERY_TOKEN:
            return tuple(range(len(located.sample.prompt)))
        found = position(self.position)
        if not self.position.startswith(f"{BEFORE}/"):
            raise InvalidParameterError(
                f"streams are exchanged at {self.position!r}, expected tokens of the prompt such "
                f"as {BEFORE}/goal: the answers of two questions differ"
            )
        return found(located)


def stream_places(
    network: Network, positions: Sequence[str], layers: Sequence[int] | None = None
) -> list[StreamPlace]:
    """Return the places at some positions: single layers (None for all), and windows of several."""
    every = range(len(network.blocks) + 1)
    single = network.check_layers(every if layers is None else layers)
    windows: list[tuple[int | str, tuple[int, ...]]] = [(layer, (layer,)) for layer in single]
    # Exchanging a word that differs before anything has read it is asking the other question, so
    # the windows contain layer 0 only if it is requested.
    windows += windows_of(every if 0 in single else every[1:])
    return [StreamPlace(name, window, label) for name in positions for label, window in windows]


class PairAnswers:
    """Answers to pairs of questions, by number, unchanged and under patches."""

    def __init__(
        self, network: Network, kind: str, listed: Sequence[QuestionPair], seed: int
    ) -> None:
        self.kind, self.pairs, self._seed = kind, list(listed), seed
        self.sweep = AnswerSweep(network, [pair.located.sample for pair in listed])
        self._donors = Donors(network, range(len(network.blocks) + 1))
        # Pairs whose unchanged answer was wrong are left out: there is nothing to be changed.
        right = [
            (pair.relation, number)
            for number, (pair, base) in enumerate(zip(listed, self.sweep.bases, strict=True))
            if base.action in pair.located.sample.optimal
        ]
        self.apart = [number for relation, number in right if relation == DISJOINT]
        self.same = [number for relation, number in right if relation == SAME]

    def tokens(self, place: StreamPlace, number: int) -> tuple[int, ...]:
        """The tokens that are exchanged: those of the position in either question."""
        pair = self.pairs[number]
        return tuple(sorted({*place.tokens(pair.located), *place.tokens(pair.donor)}))

    def donor_stream(self, place: StreamPlace, number: int) -> torch.Tensor:
        """The stream of the pair's other question at the first layer of a place, [T, D]."""
        layer, *_ = place.layers
        return self._donors.streams(self.pairs[number].donor.sample.prompt, [layer])[layer]

    def patched(self, place: StreamPlace, number: int) -> Intervention | None:
        """The stream of the pair's other question; None where the position does not occur."""
        tokens, donor = self.tokens(place, number), self.pairs[number].donor.sample.prompt
        return self._donors.patch(donor, tokens, tokens, place.layers) if tokens else None

    def patched_from_another(self, place: StreamPlace, number: int) -> Intervention | None:
        """The stream of a question in another grid, drawn at random, at its own tokens."""
        tokens, grid = self.tokens(place, number), self.pairs[number].grid
        others = [other.located for other in self.pairs if other.grid != grid]
        Draws("another question", self._seed, number, self.kind).shuffle(others)
        for other in others:
            # The ends of two prompts are the same words.
            there = sorted(place.tokens(other))[-len(tokens) :]
            if tokens and len(there) == len(tokens):
                return self._donors.patch(other.sample.prompt, there, tokens, place.layers)
        return None

    def moves(self, numbers: Sequence[int], change: PairChange) -> dict[int, int | None]:
        """The moves of those pairs to which a change can be applied; None for invalid answers."""
        changes = {n: made for n in numbers if (made := change(n)) is not None}
        return {n: answer.action for n, answer in self.sweep.answers(changes).items()}

    def share(
        self, moves: Mapping[int, int | None], hit: Callable[[int | None, tuple[int, ...]], bool]
    ) -> Estimate:
        """The share of moves that meet a condition on the move and those right in the donor."""
        hits = [hit(move, self.pairs[n].donor.sample.optimal) for n, move in moves.items()]
        return mean_over_grids(hits, [self.pairs[n].grid for n in moves])

    def followed(self, change: PairChange) -> Estimate:
        """The share of moves under a change that are right in the other question."""
        return self.share(self.moves(self.apart, change), lambda move, right: move in right)

    def row(self, half: str, place: StreamPlace) -> MovedRow:
        """The effects of exchanging streams at a place."""
        ours, same = (
            self.moves(numbers, partial(self.patched, place)) for numbers in (self.apart, self.same)
        )
        return MovedRow(
            half=half,
            moved=self.kind,
            layer=place.label,
            position=place.position,
            chosen=False,
            is_ceiling=False,
            pairs=len(ours),
            flips=self.share(ours, lambda move, right: move in right),
            null_flips=self.followed(partial(self.patched_from_another, place)),
            same_flips=self.share(same, lambda move, r: move is not None and move not in r),
            unreadable=self.share(ours, lambda move, right: move is None),
        )


def answers_by_half(
    network: Network, samples: Sequence[Sample], kind: str, salt: str, seed: int
) -> dict[str, PairAnswers]:
    """Return the answers to the pairs of some decisions, by the half of their grids."""
    halves = {}
    for half in HALVES:
        taken = [sample for sample in samples if half_of(sample.world, salt) == half]
        listed = [pair for sample in taken for pair in pairs(network, sample, kind, seed)]
        halves[half] = PairAnswers(network, kind, listed, seed)
        if not halves[half].apart:
            raise InvalidParameterError(
                f"none of the decisions in the {half} half was right and has other right moves "
                f"with the {kind} moved; take more grids"
            )
    return halves


def follows(row: MovedRow) -> bool:
    """Return whether the interval of moves that follow lies above that of the null."""
    ours, null = row.flips.interval, row.null_flips.interval
    return ours is not None and null is not None and ours[0] > null[1]


def best_layer(rows: Sequence[MovedRow]) -> MovedRow | None:
    """Return the single layer that did best on the first half; None if no move can follow."""
    single = [row for row in rows if row.half == SCREEN and isinstance(row.layer, int)]
    best = max(single, key=_merit, default=None)
    return None if best is None or _merit(best) < 0 else best


def moved(
    halves: Mapping[str, PairAnswers], places: Sequence[StreamPlace], progress: Tell | None = None
) -> tuple[MovedRow, ...]:
    """Exchange streams between questions in which something moved.

    Returns every place on the first half, then the one that did best there on the second half, and
    the ceiling: the other question itself, on the second half.
    """
    rows = []
    for place in places:
        row = halves[SCREEN].row(SCREEN, place)
        rows.append(row)
        if progress is not None:
            ours, null = percent(row.flips.value), percent(row.null_flips.value)
            progress(
                f"use: {row.moved} moved, {place.position} at layer {place.label}: {ours} of moves "
                f"follow ({null} by chance)"
            )
    best = max(range(len(rows)), key=lambda number: _merit(rows[number]))
    rows[best] = replace(rows[best], chosen=True)
    confirmed = halves[CONFIRM].row(CONFIRM, places[best])
    ceiling = halves[CONFIRM].row(CONFIRM, StreamPlace(EVERY_TOKEN, (0,), 0))
    return (*rows, replace(confirmed, chosen=True), replace(ceiling, is_ceiling=True))


def _merit(row: MovedRow) -> float:
    """Moves that follow where they should, and only there."""
    # Not every grid has another cell from which the same moves are right.
    lost = 0.0 if isnan(row.same_flips.value) else row.same_flips.value
    return -1.0 if isnan(row.flips.value) else row.flips.value - lost
