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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter.report.numbers import percent
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Sample
from goalmeter.representation.use.halves import CONFIRM, SCREEN
from goalmeter.representation.use.moving import KINDS
from goalmeter.representation.use.pair_answers import (
    EVERY_TOKEN,
    PairAnswers,
    Place,
    asked_halves,
    tokens_at,
)
from goalmeter.representation.use.windows import windows_of
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clustered import Estimate

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
