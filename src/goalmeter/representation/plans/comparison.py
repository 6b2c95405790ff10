"""Compare plan readers with their baselines, by layer, by position and along the reasoning."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, whole
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.representation.activations import Activations
from goalmeter.representation.plans.readers import (
    PENALTIES,
    LinearSteps,
    PlanDecoder,
    PlanReader,
    PlanReading,
    Scaled,
    divided,
    head_of,
)
from goalmeter.representation.plans.targets import (
    AGAIN,
    BASELINES,
    END,
    MAJORITY,
    NOTHING,
    OPTIMAL,
    POSITION,
    REPEAT,
    SHUFFLED,
    STATED,
    UNASKED,
    Plans,
    PlanScore,
    asked_again,
    majority,
    optimal_plans,
    plan_score,
    position_features,
    prefix_beyond,
    repeated,
    share,
)
from goalmeter.representation.probes import protocol
from goalmeter.representation.probes.comparison import exchanged
from goalmeter.representation.probes.protocol import Activations as protocol_Activations
from goalmeter.representation.replay import AFTER, BEFORE
from goalmeter.representation.result_rows import DecidedRow, SettledRow
from goalmeter.representation.scenes import Split
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clusters import Estimate

# --- Comparison -----------------------------------------------------------------------------------
# Positions are compared where all of them are: a decision that lacks one is left out of all, and
# counted. Every sequence is scored by fits that saw nothing of its grid.

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


# --- Decided --------------------------------------------------------------------------------------
# At the end of the prompt, at shares of the reasoning and before the answer, a linear head tells
# the action that the walk took at its first step, its second, and so on. An action that can be
# read is not yet one that is settled: position alone tells some of it before a word is written,
# and a word of the reasoning may be the action itself. So each accuracy stands beside that of
# position alone, and layer 0, the embedding, can be read beside the others: it knows the token at
# that place, and no more.
#
# The share from which a step is decided is the earliest at which the accuracy exceeds that of
# position alone, with an interval of the difference above 0, and from which on it does so at
# every later share. Differences are of the same sequences, so what makes a grid hard for both
# cancels. This asks much of one token: it may hold the next action and not where the agent is. So
# there is a second head beside it, which sees the position too, and the share from which on it
# exceeds position alone: from there on the activations add something.
#
# Source: the question is that of goalmeter; the published analysis has two positions.

# Of the reasoning: its first token is at 0, its last at 1.
SHARES = tuple(number / 10 for number in range(11))
ENDS = (f"{BEFORE}/end", f"{AFTER}/answer")


def along(shares: Sequence[float] = SHARES) -> tuple[str, ...]:
    """The positions that `decided` reads, in the order of time.

    >>> along([0, 0.5])
    ('pre/end', 'post/0.0', 'post/0.5', 'post/answer')
    """
    return (ENDS[0], *(_named(each) for each in shares), ENDS[1])


@dataclass(frozen=True)
class Decided:
    """When the steps of a plan can be read.

    Attributes:
        rows: by layer, position and step.
        settled: by layer and step.
        sequences: how many were scored.
        lacking: decisions that were left out since they lack one of the positions.
    """

    rows: tuple[DecidedRow, ...]
    settled: tuple[SettledRow, ...]
    sequences: int
    lacking: int

    def row(self, position: str, layer: int, step: int) -> DecidedRow:
        """One of them."""
        return {(r.position, r.layer, r.step): r for r in self.rows}[position, layer, step]

    def share(self, layer: int, step: int) -> float | None:
        """As `SettledRow.share`."""
        return {(each.layer, each.step): each.share for each in self.settled}[layer, step]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "decided": [row.to_json() for row in self.rows],
            "settled": [row.to_json() for row in self.settled],
            "sequences": self.sequences,
            "lacking": self.lacking,
        }


def decided(
    at: At,
    plans: Plans,
    *,
    layers: Sequence[int],
    shares: Sequence[float] = SHARES,
    steps: int = 3,
    parts: int = 5,
    seed: int = 0,
    progress: Tell | None = None,
) -> Decided:
    """Read the action of each step along the reasoning.

    Args:
        at: the activations of the N decisions from which plans begin, at the positions `along`.
        plans: N sequences.
        layers: each is read by itself.
        shares: of the reasoning, rising.
        steps: how many are read, from the first on; those that no sequence has are left out.
        parts: 1 to score a quarter of the grids; more to score all, each by fits to the others.
        seed: of the division.
        progress: told what was read.
    """
    whole(parts, "parts", least=1, most=_MOST_PARTS)
    whole(steps, "steps", least=1, most=plans.queries)
    if not shares or list(shares) != sorted(set(shares)) or shares[0] < 0 or shares[-1] > 1:
        raise InvalidParameterError(
            f"shares of the reasoning are {list(shares)}, expected rising numbers from 0 to 1"
        )
    positions = along(shares)
    kept = matched(at, [(layer, name) for layer in layers for name in positions], len(plans))
    told = plans.where(kept)
    table = _Steps(told, divided(told.scenes, parts, seed), steps)
    rows = [
        row
        for layer in layers
        for position in positions
        for row in table.rows(layer, position, at(layer, position)[kept], progress)
    ]
    return Decided(tuple(rows), tuple(_settled(rows, shares)), len(table), int((~kept).sum()))


def _settled(rows: Sequence[DecidedRow], shares: Sequence[float]) -> list[SettledRow]:
    by_place = {(row.layer, row.step, row.position): row for row in rows}
    out = []
    for layer, step in dict.fromkeys((row.layer, row.step) for row in rows):
        at = {each: by_place[layer, step, _named(each)] for each in shares}
        exceeds, adds = (
            _earliest({each: getattr(row, name) for each, row in at.items()})
            for name in ("exceeds", "adds")
        )
        out.append(SettledRow(layer, step, exceeds, adds))
    return out


def _earliest(holds: Mapping[float, bool]) -> float | None:
    """The first share from which on it holds at all; None if it does not at the last."""
    earliest = None
    # From the end: the first share that fails ends the stretch.
    for each in reversed(list(holds)):
        if not holds[each]:
            break
        earliest = float(each)
    return earliest


def _named(each: float) -> str:
    return f"{AFTER}/{float(each)}"


class _Steps:
    """Heads of single steps, and how often they are right."""

    def __init__(self, plans: Plans, splits: Sequence[Split], steps: int) -> None:
        self._plans, self._splits = plans, splits
        self._scored = np.zeros(len(plans), dtype=bool)
        for part in splits:
            self._scored[part.test] = True
        # Whether a sequence has an action at a step, [N, steps]; its end is none.
        self._has = np.asarray((plans.actions[:, :steps] >= 0) & (plans.actions[:, :steps] < END))
        self._steps = np.flatnonzero((self._has & self._scored[:, None]).any(axis=0)).tolist()
        self._features = position_features(plans.scenes)
        self._alone = self._told(self._features)
        self._most = self._told(None)

    def __len__(self) -> int:
        return int(self._scored.sum())

    def rows(
        self, layer: int, position: str, activations: protocol_Activations, progress: Tell | None
    ) -> list[DecidedRow]:
        """One row a step."""
        if progress is not None:
            progress(f"decided: layer {layer}, {position}")
        told = self._told(activations)
        flat = activations.reshape(len(activations), 1, -1)
        both = self._told(np.concatenate([self._features, flat], axis=2))
        out = []
        for step in self._steps:
            right, joint, alone, most = (
                np.asarray(each[:, step] == self._plans.actions[:, step], dtype=float)
                for each in (told, both, self._alone, self._most)
            )
            out.append(
                DecidedRow(
                    layer,
                    position,
                    step + 1,
                    self._share(right, step),
                    {POSITION: self._share(alone, step), MAJORITY: self._share(most, step)},
                    self._share(right - alone, step, paired=True),
                    self._share(joint, step),
                    self._share(joint - alone, step, paired=True),
                )
            )
        return out

    def _share(
        self, values: BoolArray | FloatArray, step: int, *, paired: bool = False
    ) -> Estimate:
        among = np.asarray(self._has[:, step] & self._scored)
        return share(values, among, self._plans.scenes.grids, paired=paired)

    def _told(self, activations: protocol_Activations | None) -> IntArray:
        """What the head of each step says of every sequence that is scored, [N, steps].

        None for heads that see nothing, and tell what is most frequent.
        """
        actions = self._plans.actions
        seen = np.zeros((len(actions), 1, 1)) if activations is None else activations
        out = np.full(self._has.shape, NOTHING)
        for train, validation, test in self._splits:
            scaled = Scaled.of(seen[train])
            fitted, beside, rows = (scaled(seen[part]) for part in (train, validation, test))
            for step in self._steps:
                has, held = self._has[train, step], self._has[validation, step]
                # What no training walk has taken nobody can tell.
                if not has.any():
                    continue
                head = head_of(
                    (fitted[has], actions[train, step][has]),
                    (beside[held], actions[validation, step][held]),
                    PENALTIES,
                )
                out[test, step] = head.called(rows)
        return out
