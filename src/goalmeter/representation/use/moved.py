"""Where the goal and the agent are read from: patches from a question in which they moved.

A move follows a patch if it is right in the other question and wrong in the one that is asked. The
residual stream of the other question takes the place of this one's, at some tokens and layers:

    goal      the tokens that say where the goal is, in either question
    agent     those that say where the agent is
    end       the last three of the prompt
    all       all tokens of the prompt: at layer 0 the other question is asked, the ceiling

Beside each stands a null: the stream of a question that has nothing to do with either, at its own
tokens of the same name. What is tried is screened on one half of the grids; the best place of each
kind is scored on the other half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld.contents import content
from goalmeter.gridworld.draws import Draws
from goalmeter.report.numbers import percent
from goalmeter.representation.network import Network
from goalmeter.representation.positions import Located, position
from goalmeter.representation.replay import Sample
from goalmeter.representation.use.donors import Donors
from goalmeter.representation.use.halves import CONFIRM, SCREEN, half_of
from goalmeter.representation.use.interventions import Intervention, patch
from goalmeter.representation.use.moving import DISJOINT, KINDS, SAME, Pair, pairs
from goalmeter.representation.use.sweep import Sweep
from goalmeter.statistics.clustered import Estimate, estimate

POSITIONS = ("pre/goal", "pre/agent", "pre/end")
EVERY_TOKEN = "pre/all"
Progress = Callable[[str], None]


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
    progress: Progress | None = None,
) -> Moved:
    """Exchange streams between questions in which something moved.

    Args:
        samples: decisions whose prompts are asked again.
        network: the model.
        kinds: what is moved: "goal", "agent", "isometry".
        positions: tokens by name; those of the prompt, and "pre/all".
        layers: single ones; None for all. Two windows, the lower and the upper half, and all
            layers together are tried besides.
        salt: of the split into halves.
        seed: of the draws.
        progress: told now and then what is being tried.

    Raises:
        InvalidParameterError: no such kind, position or layer, or one half has no pair that tells.
    """
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise InvalidParameterError(
            f"{unknown[0]!r} is to be moved, expected some of {', '.join(KINDS)}"
        )
    for name in positions:
        tokens_at(name)
    every = range(len(network.blocks) + 1)
    places = list(
        _places(positions, network.check_layers(every if layers is None else layers), every)
    )
    ceiling = Place(EVERY_TOKEN, (0,), 0)
    screened, confirmed, ceilings = [], [], []
    for kind in kinds:
        asked = {
            half: _Asked(
                network,
                [
                    p
                    for s in samples
                    if half_of(s.world, salt) == half
                    for p in pairs(network, s, kind, seed)
                ],
                seed,
            )
            for half in (SCREEN, CONFIRM)
        }
        for half, each in asked.items():
            if not any(each.tells(n) for n in range(len(each.pairs))):
                raise InvalidParameterError(
                    f"none of the decisions in the {half} half was right and has other right "
                    f"moves with the {kind} moved; take more grids"
                )
        rows = []
        for place in places:
            rows.append(asked[SCREEN].row(kind, place))
            if progress is not None:
                progress(f"use: {rows[-1]}")
        best = max(rows, key=lambda row: row.flips.value - row.same_flips.value)
        screened += rows
        confirmed.append(asked[CONFIRM].row(kind, best.place))
        ceilings.append(asked[CONFIRM].row(kind, ceiling))
    return Moved(salt, tuple(screened), tuple(confirmed), tuple(ceilings))


def tokens_at(name: str) -> Callable[[Located], tuple[int, ...]]:
    """What finds the tokens of a position in the prompt, "pre/all" being all of them."""
    if name == EVERY_TOKEN:
        return lambda located: tuple(range(len(located.sample.prompt)))
    return position(name)


def _places(
    positions: Sequence[str], layers: Sequence[int], every: Sequence[int]
) -> Iterator[Place]:
    half = len(every) // 2
    windows: list[tuple[Sequence[int], int | str]] = [([layer], layer) for layer in layers]
    for window in (every[:half], every[half:]):
        windows.append((window, f"{window[0]}-{window[-1]}"))
    windows.append((every, "all"))
    for name in positions:
        yield from (Place(name, tuple(window), label) for window, label in windows)


class _Asked:
    """Pairs of one kind and half, with the unchanged answers to their questions."""

    def __init__(self, network: Network, listed: Sequence[Pair], seed: int) -> None:
        self.pairs = list(listed)
        self._network = network
        self._seed = seed
        self._sweep = Sweep(network, [pair.located.sample for pair in listed])
        longest = max((len(base.tokens) for base in self._sweep.bases), default=1)
        self._cap = 2 * longest
        self._donors = Donors(network, range(len(network.blocks) + 1))

    def tells(self, number: int) -> bool:
        """Whether the unchanged answer was right, and no move is right in both questions."""
        pair = self.pairs[number]
        return pair.relation == DISJOINT and self._right(number)

    def row(self, kind: str, place: Place) -> MovedRow:
        """What became of the pairs."""
        right = [n for n in range(len(self.pairs)) if self._right(n)]
        apart = [n for n in right if self.pairs[n].relation == DISJOINT]
        same = [n for n in right if self.pairs[n].relation == SAME]
        ours = self._moves(apart, place, self._own)
        nulls = self._moves(apart, place, self._foreign)
        kept = self._moves(same, place, self._own)
        return MovedRow(
            kind,
            place,
            len(ours),
            self._share({n: move in self._right_there(n) for n, move in ours.items()}),
            self._share({n: move in self._right_there(n) for n, move in nulls.items()}),
            self._share(
                {n: m is not None and m not in self._right_there(n) for n, m in kept.items()}
            ),
            self._share({n: move is None for n, move in ours.items()}),
        )

    def _right(self, number: int) -> bool:
        return self._sweep.bases[number].action in self.pairs[number].located.sample.optimal

    def _right_there(self, number: int) -> tuple[int, ...]:
        return self.pairs[number].donor.sample.optimal

    def _moves(
        self,
        numbers: Sequence[int],
        place: Place,
        change: Callable[[int, Place], Intervention | None],
    ) -> dict[int, int | None]:
        """The moves of the pairs that can be patched so, by number; None if unreadable."""
        changes = {n: made for n in numbers if (made := change(n, place)) is not None}
        answers = self._sweep.answers(list(changes), list(changes.values()), tokens=self._cap)
        return {n: answer.action for n, answer in zip(changes, answers, strict=True)}

    def _own(self, number: int, place: Place) -> Intervention | None:
        pair, where = self.pairs[number], tokens_at(place.position)
        tokens = sorted({*where(pair.located), *where(pair.donor)})
        return self._patch(pair.donor, tokens, tokens, place) if tokens else None

    def _foreign(self, number: int, place: Place) -> Intervention | None:
        pair, where = self.pairs[number], tokens_at(place.position)
        tokens = sorted({*where(pair.located), *where(pair.donor)})
        others = [
            other.located
            for other in self.pairs
            if content(other.located.sample.world) != content(pair.located.sample.world)
        ]
        draws = Draws("foreign", self._seed, pair.located.sample.digest)
        draws.shuffle(others)
        for other in others:
            there = sorted(where(other))
            if place.position == EVERY_TOKEN or len(there) > len(tokens):
                # The ends of two prompts are the same words.
                there = there[-len(tokens) :]
            if len(there) == len(tokens):
                return self._patch(other, there, tokens, place)
        return None

    def _patch(
        self, donor: Located, there: Sequence[int], tokens: Sequence[int], place: Place
    ) -> Intervention:
        streams = self._donors.streams(donor.sample.prompt, place.layers)
        return patch({k: stream[list(there)] for k, stream in streams.items()}, tokens)

    def _share(self, hits: dict[int, bool]) -> Estimate:
        names = [content(self.pairs[number].located.sample.world) for number in hits]
        grids = np.unique(names, return_inverse=True)[1]
        values = np.asarray(list(hits.values()), float)
        # Many pairs in a grid are not many grids.
        return estimate(
            np.bincount(grids, values), np.bincount(grids), n=len(hits), bounds=(0.0, 1.0)
        )
