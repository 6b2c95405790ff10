"""Patch activations between questions that differ in the position of the goal or of the agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld.conversions import compact, rendered
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import State, planned
from goalmeter.gridworld.world import REFLECT, ROTATE, GridWorld, content
from goalmeter.report.numbers import percent
from goalmeter.representation.network import Network
from goalmeter.representation.replay import BEFORE, Located, Sample, position
from goalmeter.representation.use.answers import Sweep
from goalmeter.representation.use.interventions import Intervention, patch
from goalmeter.representation.use.trials import CONFIRM, SCREEN, Donors, half_of, windows_of
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clusters import Estimate, estimate

if TYPE_CHECKING:
    import torch


# --- Moving ---------------------------------------------------------------------------------------
# goal       the goal is in another open cell
#     agent      the agent is in another open cell
#     isometry   the grid is turned or mirrored, with all that is in it
#
# Both questions have the same tokens but for what moved, and as many. What a model does then is
# told by the first moves of shortest ways in both: where they have none in common, a move says
# which of the questions was answered; where they are the same, nothing should change.

GOAL, AGENT, ISOMETRY = KINDS = ("goal", "agent", "isometry")
SAME, OVERLAPPING, DISJOINT = RELATIONS = ("same", "overlapping", "disjoint")


@dataclass(frozen=True)
class Pair:
    """A question and the same with something moved.

    Attributes:
        kind: what moved.
        located: the question that is asked.
        donor: the other one.
        relation: of the sets of first moves of shortest ways.
    """

    kind: str
    located: Located
    donor: Located
    relation: str


def pairs(network: Network, sample: Sample, kind: str, seed: int) -> list[Pair]:
    """One pair of each relation that there is, drawn at random.

    None where the question is not of the sample's state alone, or the tokens are not as many.
    """
    if network.local.ids([{"role": "user", "content": sample.question}]) != sample.prompt:
        return []
    sample = replace(sample, optimal=planned(sample.world).optimal_actions(sample.state))
    moved = list(_moved(sample, kind))
    Draws("moved", kind, seed, sample.walk, sample.step).shuffle(moved)
    found: dict[str, Pair] = {}
    for world, state in moved:
        relation = relation_of(sample.optimal, planned(world).optimal_actions(state))
        if relation in found or (donor := _donor(network, sample, world, state)) is None:
            continue
        located = Located(sample, network.local.tokenizer)
        found[relation] = Pair(kind, located, Located(donor, network.local.tokenizer), relation)
    return [found[relation] for relation in RELATIONS if relation in found]


def relation_of(first: tuple[int, ...], second: tuple[int, ...]) -> str:
    """How two sets of moves lie to each other.

    Example: two moves are right in one question, one of them in the other.
        >>> relation_of((0, 1), (1,)), relation_of((0, 1), (1, 0)), relation_of((0,), (3,))
        ('overlapping', 'same', 'disjoint')
    """
    if set(first) == set(second):
        return SAME
    return OVERLAPPING if set(first) & set(second) else DISJOINT


def _moved(sample: Sample, kind: str) -> Iterator[tuple[GridWorld, State]]:
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
        other = (
            (world, State(cell, state.layer)) if kind == AGENT else (world.with_(goal=cell), state)
        )
        if planned(other[0]).optimal_actions(other[1]):
            yield other


def _donor(network: Network, sample: Sample, world: GridWorld, state: State) -> Sample | None:
    for shown in (rendered, compact):
        before = shown(sample.world, sample.state)
        if before in sample.question:
            begin, _, end = sample.question.rpartition(before)
            question = begin + shown(world, state) + end
            ids = network.local.ids([{"role": "user", "content": question}])
            optimal = planned(world).optimal_actions(state)
            donor = replace(
                sample, world=world, state=state, optimal=optimal, question=question, prompt=ids
            )
            return donor if len(ids) == len(sample.prompt) else None
    return None


# --- Pair answers ---------------------------------------------------------------------------------
# Answers are real ones: the model reads, reasons and answers by itself. Pairs of which the
# unchanged answer was wrong are left out: nobody can say what should become of them.

EVERY_TOKEN = "pre/all"
# An answer under an intervention may be so many times as long as the longest without one.
_LONGER = 2
Moves = Mapping[int, int | None]


@dataclass(frozen=True)
class Place:
    """Where streams are exchanged.

    Attributes:
        position: the tokens, by name.
        layers: at which the stream is exchanged.
        label: of the layers: one, a window "1-2", or "all".
    """

    position: str
    layers: tuple[int, ...]
    label: int | str


def tokens_at(name: str) -> Callable[[Located], tuple[int, ...]]:
    """What finds the tokens of a position in the prompt, "pre/all" being all of them."""
    if name == EVERY_TOKEN:
        return lambda located: tuple(range(len(located.sample.prompt)))
    found = position(name)
    if not name.startswith(f"{BEFORE}/"):
        raise InvalidParameterError(
            f"streams are to be exchanged at {name!r}, expected tokens of the prompt such as "
            f"{BEFORE}/goal: what is written differs between two questions"
        )
    return found


class PairAnswers:
    """Pairs of questions, the unchanged answers, and answers under patches.

    Args:
        network: the model.
        listed: the pairs.
        seed: of the draws of other questions.

    Attributes:
        pairs: as they were given; everything else goes by their numbers.
    """

    def __init__(self, network: Network, listed: Sequence[Pair], seed: int) -> None:
        self.pairs = list(listed)
        self._seed = seed
        self._sweep = Sweep(network, [pair.located.sample for pair in listed])
        longest = max((len(base.tokens) for base in self._sweep.bases), default=1)
        self._cap = _LONGER * longest
        self._donors = Donors(network, range(len(network.blocks) + 1))

    @cached_property
    def apart(self) -> list[int]:
        """The pairs with no right move in common, and the unchanged answer right."""
        return self._of(DISJOINT)

    @cached_property
    def same(self) -> list[int]:
        """The pairs with the same right moves, and the unchanged answer right."""
        return self._of(SAME)

    def answer(self, number: int) -> tuple[int, ...]:
        """The tokens of the unchanged answer."""
        return self._sweep.bases[number].tokens

    def tokens(self, number: int, place: Place) -> tuple[int, ...]:
        """The tokens that are exchanged: those of the position in either question."""
        pair, where = self.pairs[number], tokens_at(place.position)
        return tuple(sorted({*where(pair.located), *where(pair.donor)}))

    def streams(self, ids: Sequence[int], place: Place) -> dict[int, torch.Tensor]:
        """The streams of a question at the layers of a place."""
        return self._donors.streams(ids, place.layers)

    def patched(self, number: int, place: Place) -> Intervention | None:
        """The stream of the pair's other question; None where the position is not there."""
        tokens = self.tokens(number, place)
        if not tokens:
            return None
        return self._patch(self.pairs[number].donor, tokens, tokens, place)

    def patched_from_another(self, number: int, place: Place) -> Intervention | None:
        """The stream of a question of another grid, drawn at random, at its own tokens."""
        tokens, world = self.tokens(number, place), self.pairs[number].located.sample.world
        others = [
            other.located
            for other in self.pairs
            if content(other.located.sample.world) != content(world)
        ]
        draws = Draws("another question", self._seed, number, self.pairs[number].kind)
        draws.shuffle(others)
        for other in others:
            # The ends of two prompts are the same words.
            there = sorted(tokens_at(place.position)(other))[-len(tokens) :]
            if tokens and len(there) == len(tokens):
                return self._patch(other, there, tokens, place)
        return None

    def moves(self, numbers: Sequence[int], change: Callable[[int], Intervention | None]) -> Moves:
        """The moves of those pairs that can be changed so, by number; None if unreadable."""
        changes = {n: made for n in numbers if (made := change(n)) is not None}
        answers = self._sweep.answers(list(changes), list(changes.values()), tokens=self._cap)
        return {n: answer.action for n, answer in zip(changes, answers, strict=True)}

    def followed(self, moves: Moves) -> Estimate:
        """The share of moves that are right in the other question."""
        return self._share({n: move in self._right_there(n) for n, move in moves.items()})

    def wrong(self, moves: Moves) -> Estimate:
        """The share of moves that are not right in the other question; unreadable ones are none."""
        return self._share(
            {n: move is not None and move not in self._right_there(n) for n, move in moves.items()}
        )

    def unreadable(self, moves: Moves) -> Estimate:
        """The share of answers that cannot be read."""
        return self._share({n: move is None for n, move in moves.items()})

    def _of(self, relation: str) -> list[int]:
        return [
            number
            for number, (pair, base) in enumerate(zip(self.pairs, self._sweep.bases, strict=True))
            if pair.relation == relation and base.action in pair.located.sample.optimal
        ]

    def _right_there(self, number: int) -> tuple[int, ...]:
        return self.pairs[number].donor.sample.optimal

    def _patch(
        self, donor: Located, there: Sequence[int], tokens: Sequence[int], place: Place
    ) -> Intervention:
        streams = self.streams(donor.sample.prompt, place)
        return patch({k: stream[list(there)] for k, stream in streams.items()}, tokens)

    def _share(self, hits: Mapping[int, bool]) -> Estimate:
        names = [content(self.pairs[number].located.sample.world) for number in hits]
        grids = np.unique(names, return_inverse=True)[1]
        values = np.asarray(list(hits.values()), float)
        # Many pairs in a grid are not many grids; how many are taken is set before they are asked.
        counts = np.bincount(grids)
        return estimate(
            np.bincount(grids, values),
            counts,
            heaviest=counts.max(initial=0),
            n=len(hits),
            bounds=(0.0, 1.0),
        )


def asked_halves(
    network: Network, samples: Sequence[Sample], kind: str, salt: str, seed: int
) -> dict[str, PairAnswers]:
    """The pairs of some decisions, by the half of the grids that they lie in."""
    halves = {}
    for half in (SCREEN, CONFIRM):
        taken = [sample for sample in samples if half_of(sample.world, salt) == half]
        listed = [pair for sample in taken for pair in pairs(network, sample, kind, seed)]
        halves[half] = PairAnswers(network, listed, seed)
        if not halves[half].apart:
            raise InvalidParameterError(
                f"none of the decisions in the {half} half was right and has other right moves "
                f"with the {kind} moved; take more grids"
            )
    return halves


# --- Moved ----------------------------------------------------------------------------------------
# A move follows a patch if it is right in the other question and wrong in the one that is asked.
# The residual stream of the other question takes the place of this one's, at some tokens and
# layers:
#
#     goal      the tokens that say where the goal is, in either question
#     agent     those that say where the agent is
#     end       the last three of the prompt
#     all       all tokens of the prompt: at layer 0 the other question is asked, the ceiling
#
# Beside each stands a null: the stream of a question that has nothing to do with either, at its
# own tokens of the same name. What is tried is screened on one half of the grids; the best place
# of each kind is scored on the other half.

POSITIONS = ("pre/goal", "pre/agent", "pre/end", EVERY_TOKEN)


@dataclass(frozen=True)
class MovedRow:
    """One kind of pairs, patched at one place.

    Attributes:
        kind: what moved.
        place: where the stream was exchanged.
        pairs: with no right move in common, in which the unchanged answer was right.
        flips: of these, the share whose move is right in the other question.
        null_flips: the same with a stream that has nothing to do with it.
        same_flips: of pairs whose right moves are the same, the share with a wrong move.
        unreadable: of the first, the share whose answer cannot be read.
    """

    kind: str
    place: Place
    pairs: int
    flips: Estimate
    null_flips: Estimate
    same_flips: Estimate
    unreadable: Estimate

    @property
    def follows(self) -> bool:
        """Whether the interval of moves that follow lies above that of the null."""
        ours, null = self.flips.interval, self.null_flips.interval
        return ours is not None and null is not None and ours[0] > null[1]

    def to_json(self) -> dict[str, Any]:
        """A row of `use`: the fields as JSON values."""
        return {
            "intervention": f"patch, {self.kind} moved",
            "layer": self.place.label,
            "position": self.place.position,
            "cells": self.pairs,
            "flips": self.flips.to_json(),
            "null_flips": self.null_flips.to_json(),
            "same_flips": self.same_flips.to_json(),
            "unreadable": self.unreadable.to_json(),
        }

    def __str__(self) -> str:
        return (
            f"{self.kind} moved, {self.place.position} at layer {self.place.label}: "
            f"{percent(self.flips.value)} of moves follow ({percent(self.null_flips.value)} "
            f"by chance)"
        )


@dataclass(frozen=True)
class Moved:
    """Where moves follow what another question says.

    Attributes:
        salt: of the split into halves.
        screened: every kind and place on the first half.
        confirmed: of each kind, the place that did best there, on the second half.
        ceilings: of each kind, the other question asked itself, on the second half.
    """

    salt: str
    screened: tuple[MovedRow, ...]
    confirmed: tuple[MovedRow, ...]
    ceilings: tuple[MovedRow, ...]

    def single(self, kind: str) -> Place | None:
        """Of a kind, the place of one layer that did best on the first half; None without any."""
        rows = [row for row in self.screened if row.kind == kind and len(row.place.layers) == 1]
        best = max(rows, key=_merit, default=None)
        return None if best is None or _merit(best) < 0 else best.place

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; the rows are rows of `use`."""
        rows = {
            name: [row.to_json() for row in getattr(self, name)]
            for name in ("screened", "confirmed", "ceilings")
        }
        return {"salt": self.salt, **rows}

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.confirmed, *self.ceilings)))


def moved(
    samples: Sequence[Sample],
    network: Network,
    *,
    kinds: Sequence[str] = KINDS,
    positions: Sequence[str] = POSITIONS,
    layers: Sequence[int] | None = None,
    salt: str = "0",
    seed: int = 0,
    progress: Tell | None = None,
) -> Moved:
    """Exchange streams between questions in which something moved.

    Args:
        samples: decisions whose prompts are asked again.
        network: the model.
        kinds: what is moved: "goal", "agent", "isometry".
        positions: tokens of the prompt by name, "pre/all" being all of them.
        layers: single ones; None for all. Two windows, the lower and the upper half, and all
            layers together are tried besides. They have layer 0 only if it is asked for: to
            exchange a word that differs before anything has read it is to ask the other question.
        salt: of the split into halves.
        seed: of the draws.
        progress: told now and then what is being tried.
    """
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise InvalidParameterError(
            f"{unknown[0]!r} is to be moved, expected some of {', '.join(KINDS)}"
        )
    for name in positions:
        tokens_at(name)
    every = range(len(network.blocks) + 1)
    wanted = network.check_layers(every if layers is None else layers)
    places = list(_places(positions, wanted, every if 0 in wanted else every[1:]))
    ceiling = Place(EVERY_TOKEN, (0,), 0)
    screened, confirmed, ceilings = [], [], []
    for kind in kinds:
        asked = asked_halves(network, samples, kind, salt, seed)
        rows = []
        for place in places:
            rows.append(_row(kind, place, asked[SCREEN]))
            if progress is not None:
                progress(f"use: {rows[-1]}")
        best = max(rows, key=_merit)
        screened += rows
        confirmed.append(_row(kind, best.place, asked[CONFIRM]))
        ceilings.append(_row(kind, ceiling, asked[CONFIRM]))
    return Moved(salt, tuple(screened), tuple(confirmed), tuple(ceilings))


def _places(
    positions: Sequence[str], layers: Sequence[int], every: Sequence[int]
) -> Iterator[Place]:
    for name in positions:
        yield from (Place(name, (layer,), layer) for layer in layers)
        yield from (Place(name, window, label) for label, window in windows_of(every))


def _merit(row: MovedRow) -> float:
    """What is screened for: moves that follow where they should, and only there."""
    # Not every grid has another cell from which the same moves are right.
    lost = 0.0 if isnan(row.same_flips.value) else row.same_flips.value
    return -1.0 if isnan(row.flips.value) else row.flips.value - lost


def _row(kind: str, place: Place, asked: PairAnswers) -> MovedRow:
    ours = asked.moves(asked.apart, lambda number: asked.patched(number, place))
    nulls = asked.moves(asked.apart, lambda number: asked.patched_from_another(number, place))
    kept = asked.moves(asked.same, lambda number: asked.patched(number, place))
    return MovedRow(
        kind,
        place,
        len(ours),
        asked.followed(ours),
        asked.followed(nulls),
        asked.wrong(kept),
        asked.unreadable(ours),
    )
