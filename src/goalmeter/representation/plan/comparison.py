"""Readers of plans beside their baselines, by layer and position, on the same decisions.

Positions are compared where all of them are: a decision that lacks one is left out of all, and
counted. Every sequence is scored by fits that saw nothing of its grid.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from goalmeter._arguments import whole
from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray, IntArray
from goalmeter.representation.activations import Activations
from goalmeter.representation.plan.decoder import PlanDecoder
from goalmeter.representation.plan.known import (
    AGAIN,
    BASELINES,
    MAJORITY,
    OPTIMAL,
    POSITION,
    REPEAT,
    SHUFFLED,
    STATED,
    UNASKED,
    asked_again,
    majority,
    optimal_plans,
    position_features,
    repeated,
)
from goalmeter.representation.plan.linear import LinearSteps
from goalmeter.representation.plan.protocol import PlanReader, PlanReading, divided
from goalmeter.representation.plan.scores import PlanScore, plan_score, prefix_beyond
from goalmeter.representation.plan.targets import NOTHING, Plans
from goalmeter.representation.probes import protocol
from goalmeter.representation.probes.controls import exchanged
from goalmeter.representation.probes.splits import Split
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clustered import Estimate

# A layer and the name of a position.
Place = tuple[int, str]
# The activations of N decisions at a layer and a position, [N, tokens, D]; rows of decisions that
# lack the position are NaN.
At = Callable[[int, str], protocol.Activations]
READERS: tuple[PlanReader, ...] = (LinearSteps(), PlanDecoder(2))
_MOST_PARTS = 100


@dataclass(frozen=True)
class Beside:
    """A baseline on the sequences of a row.

    Attributes:
        score: its own.
        beyond: the prefix accuracy of the reader less that of the baseline.
    """

    score: PlanScore
    beyond: Estimate

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        scores = self.score.to_json()
        del scores["n"]
        return scores | {"beyond": self.beyond.to_json()}


@dataclass(frozen=True)
class PlanRow:
    """One reader at one place, for one number of actions.

    Attributes:
        position: as `positions.position` names it.
        layer: 0 for the embedding.
        decoder: name of the reader.
        score: of `score.n` actions.
        baselines: by name, as in `BASELINES`; None for one that this run does not have.
    """

    position: str
    layer: int
    decoder: str
    score: PlanScore
    baselines: Mapping[str, Beside | None]

    @property
    def exceeds(self) -> tuple[str, ...]:
        """The baselines that the reader is above, with an interval of the difference above 0."""
        return tuple(
            name
            for name, each in self.baselines.items()
            if each is not None and each.beyond.interval and each.beyond.interval[0] > 0
        )

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        place = {"position": self.position, "layer": self.layer, "decoder": self.decoder}
        baselines = {
            name: None if each is None else each.to_json() for name, each in self.baselines.items()
        }
        return place | self.score.to_json() | {"baselines": baselines}


@dataclass(frozen=True)
class PlanTable:
    """Readers of plans, by place and number of actions.

    Attributes:
        rows: by place, reader and number of actions.
        sequences: how many were scored.
        lacking: decisions that were left out since they lack one of the positions.
        unreadable: answers of all walks that could not be read; they executed nothing.
        left_out: why a baseline could not be made, by its name.
    """

    rows: tuple[PlanRow, ...]
    sequences: int
    lacking: int
    unreadable: int
    left_out: Mapping[str, str] = field(default_factory=dict)

    def row(self, position: str, layer: int, decoder: str, n: int) -> PlanRow:
        """One of them."""
        rows = {(r.position, r.layer, r.decoder, r.score.n): r for r in self.rows}
        return rows[position, layer, decoder, n]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "plan": [row.to_json() for row in self.rows],
            "sequences": self.sequences,
            "lacking": self.lacking,
            "unreadable": self.unreadable,
            "left_out": dict(self.left_out),
        }


def read_plans(
    at: At,
    plans: Plans,
    places: Sequence[Place],
    *,
    readers: Sequence[PlanReader] = READERS,
    stated: IntArray | None = None,
    parts: int = 5,
    seed: int = 0,
    progress: Tell | None = None,
) -> PlanTable:
    """Read plans at some layers and positions, beside every baseline that there is.

    Args:
        at: the activations of the N decisions from which plans begin (`rows_of` makes it).
        plans: N sequences.
        places: layers and positions, compared on the same decisions.
        readers: what reads them.
        stated: the plans that the model states (`known.stated_plans`), [N, queries]; None if it
            states none.
        parts: 1 to score a quarter of the grids; more to score all, each by fits to the others.
        seed: of the fits, the division, and what baselines draw.
        progress: told what was read.
    """
    whole(parts, "parts", least=1, most=_MOST_PARTS)
    kept = matched(at, places, len(plans))
    again = asked_again(plans, seed=seed)
    told = plans.where(kept)
    known: dict[str, IntArray | None] = {
        OPTIMAL: optimal_plans(told, seed=seed),
        STATED: None if stated is None else stated[kept],
        AGAIN: None if again is None else again[kept],
    }
    table = _Table(told, divided(told.scenes, parts, seed), seed)
    known |= {
        MAJORITY: table.majority(),
        POSITION: table.read(LinearSteps(), position_features(told.scenes)),
    }
    others: IntArray | None = None
    left_out: dict[str, str] = {}
    try:
        others = exchanged(told.scenes, seed=seed)
    except InvalidParameterError as cause:
        # What the readers say stands without this baseline.
        left_out[SHUFFLED] = str(cause)
    rows: list[PlanRow] = []
    for layer, position in places:
        activations = at(layer, position)[kept]
        for reader in readers:
            if progress is not None:
                progress(f"plan: {reader.name} at layer {layer}, {position}")
            ours = table.read(reader, activations)
            beside = known | {
                REPEAT: repeated(ours),
                SHUFFLED: None if others is None else table.read(reader, activations[others]),
            }
            rows += table.rows((layer, position), reader.name, ours, beside)
    lacking = int((~kept).sum())
    return PlanTable(tuple(rows), len(table), lacking, plans.unreadable, left_out)


def rows_of(activations: Activations, plans: Plans) -> At:
    """What reads the activations of the decisions from which plans begin.

    Args:
        activations: captured of these decisions, and perhaps of others.
        plans: with the walks and steps of the run that was captured.
    """
    rows: dict[tuple[Hashable, int], int] = {
        (row.walk, row.step): number for number, row in enumerate(activations.rows)
    }
    wanted = list(zip(plans.walks, plans.steps.tolist(), strict=True))
    if missing := [place for place in wanted if place not in rows]:
        walk, step = missing[0]
        raise InvalidParameterError(
            f"{activations.folder} lacks {len(missing)} of {len(wanted)} decisions from which "
            f"plans begin, such as step {step} of {walk!r}; capture them as well"
        )
    numbers = np.array([rows[place] for place in wanted])
    return lambda layer, position: activations.at(layer, position)[numbers]


def matched(at: At, places: Sequence[Place], n: int) -> BoolArray:
    """Which of n decisions have all of some positions, [n]."""
    if not places:
        raise InvalidParameterError("there are no places to read, expected a layer and a position")
    kept = np.ones(n, dtype=bool)
    for layer, position in places:
        rows = at(layer, position)
        if rows.ndim != 3 or len(rows) != n:
            raise InvalidParameterError(
                f"activations at layer {layer}, {position} have shape {rows.shape} for {n} "
                f"sequences, expected [{n}, tokens, dimensions]"
            )
        kept &= np.isfinite(rows).all(axis=(1, 2))
    if not kept.any():
        names = ", ".join(dict.fromkeys(position for _, position in places))
        raise InvalidParameterError(
            f"none of {n} decisions has all of the positions {names}; read fewer of them together"
        )
    return kept


class _Table:
    """Predictions of sequences by fits that saw nothing of their grids, and their rows."""

    def __init__(self, plans: Plans, splits: Sequence[Split], seed: int) -> None:
        self._plans, self._splits, self._seed = plans, splits, seed
        self._scored = np.sort(np.concatenate([part.test for part in splits]))
        self._actions = plans.actions[self._scored]
        self._grids = plans.scenes.grids[self._scored]

    def __len__(self) -> int:
        return len(self._scored)

    def read(self, reader: PlanReader, activations: protocol.Activations) -> IntArray:
        """What a reader says of every sequence that is scored, [N, queries]."""
        reading = PlanReading(activations, self._plans.actions)
        out = np.full(self._plans.actions.shape, NOTHING)
        for part in self._splits:
            train, validation = (reading.where(rows) for rows in part[:2])
            fitted = reader.fit(train, validation, seed=self._seed)
            out[part.test] = fitted.predicted(activations[part.test])
        return out

    def majority(self) -> IntArray:
        out = np.full(self._plans.actions.shape, NOTHING)
        for part in self._splits:
            out[part.test] = majority(self._plans.actions[part.train])
        return out

    def rows(
        self, place: Place, name: str, ours: IntArray, beside: Mapping[str, IntArray | None]
    ) -> list[PlanRow]:
        """One row for each number of actions that some sequence has."""
        layer, position = place
        longest = int(self._plans.lengths[self._scored].max())
        out = []
        for n in range(1, longest + 1):
            baselines = {each: self._beside(ours, beside[each], n) for each in BASELINES}
            score = plan_score(ours[self._scored], self._actions, self._grids, n)
            out.append(PlanRow(position, layer, name, score, baselines))
        return out

    def _beside(self, ours: IntArray, theirs: IntArray | None, n: int) -> Beside | None:
        if theirs is None:
            return None
        mine, others = ours[self._scored], theirs[self._scored]
        # Where nobody was asked again nothing is scored. A model that states no plan is: it has
        # told nothing.
        asked = others[:, 0] != UNASKED
        if not asked.any():
            return None
        rows = mine[asked], others[asked], self._actions[asked], self._grids[asked]
        return Beside(plan_score(*rows[1:], n), prefix_beyond(*rows, n))
