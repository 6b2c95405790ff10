"""What becomes of the answers to pairs of questions when the streams of one are put into the other.

Answers are real ones: the model reads, reasons and answers by itself. Pairs of which the unchanged
answer was wrong are left out: nobody can say what should become of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld.contents import content
from goalmeter.gridworld.draws import Draws
from goalmeter.representation.network import Network
from goalmeter.representation.positions import BEFORE, Located, position
from goalmeter.representation.replay import Sample
from goalmeter.representation.use.donors import Donors
from goalmeter.representation.use.halves import CONFIRM, SCREEN, half_of
from goalmeter.representation.use.interventions import Intervention, patch
from goalmeter.representation.use.moving import DISJOINT, SAME, Pair, pairs
from goalmeter.representation.use.sweep import Sweep
from goalmeter.statistics.clustered import Estimate, estimate

if TYPE_CHECKING:
    import torch

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
