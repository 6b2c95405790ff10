"""Compare plan readers with their baselines, by layer, by position and along the reasoning."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from goalmeter._errors import InvalidParameterError, whole
from goalmeter._files import JsonFields
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.representation.activations import Activations
from goalmeter.representation.plans.readers import (
    PENALTIES,
    LinearSteps,
    PlanReader,
    PlanReading,
    Scaled,
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
    WalkPlans,
    majority,
    optimal_plans,
    other_walks,
    plan_score,
    position_features,
    prefix_beyond,
    repeated,
    share,
)
from goalmeter.representation.probes import protocol
from goalmeter.representation.probes.comparison import exchanged
from goalmeter.representation.replay import AFTER, BEFORE
from goalmeter.representation.result_rows import DecidedRow, PlanRow, SettledRow
from goalmeter.representation.scenes import Scenes, Split, folds, split
from goalmeter.statistics.clusters import Estimate

# A layer and the name of a position.
Place = tuple[int, str]
# Returns the activations of N decisions at a layer and a position, [N, tokens, D]; rows of
# decisions that lack the position are NaN.
At = Callable[[int, str], protocol.Activations]
_MOST_PARTS = 100


@dataclass(frozen=True)
class PlanTable(JsonFields):
    """Scores of plan readers by place, reader and number of actions."""

    plan: tuple[PlanRow, ...]
    sequences: int  # number of scored sequences
    lacking: int  # number of decisions that were left out since they lack one of the positions
    unreadable: int  # number of answers that could not be read; they executed nothing
    left_out: Mapping[str, str] = field(default_factory=dict)  # reasons by baseline

    def row(self, position: str, layer: int, decoder: str, n: int) -> PlanRow:
        """Return one of the rows."""
        rows = {(r.position, r.layer, r.decoder, r.n): r for r in self.plan}
        return rows[position, layer, decoder, n]


def read_plans(
    at: At,
    plans: WalkPlans,
    places: Sequence[Place],
    *,
    readers: Sequence[PlanReader],
    stated: IntArray | None = None,
    parts: int = 5,
    seed: int = 0,
) -> PlanTable:
    """Score readers of N plans and all baselines at some layers and positions.

    Places are compared on the decisions that have all of them. Every sequence is scored by fits to
    other grids: a quarter of the grids if `parts` is 1, else all. `stated` are the plans that the
    model states (`stated_plans`), [N, queries].
    """
    complete = matched(at, places, len(plans))
    again = other_walks(plans, seed=seed)
    chosen = plans.where(complete)
    table = _Predictions(chosen, divided(chosen.scenes, parts, seed), seed)
    known: dict[str, IntArray | None] = {
        OPTIMAL: optimal_plans(chosen, seed=seed),
        STATED: None if stated is None else stated[complete],
        AGAIN: None if again is None else again[complete],
        MAJORITY: table.majority(),
        POSITION: table.read(LinearSteps(), position_features(chosen.scenes)),
    }
    others: IntArray | None = None
    left_out: dict[str, str] = {}
    try:
        others = exchanged(chosen.scenes, seed=seed)
    except InvalidParameterError as cause:
        # The scores of the readers stand without this baseline.
        left_out[SHUFFLED] = str(cause)
    rows: list[PlanRow] = []
    for layer, position in places:
        activations = at(layer, position)[complete]
        for reader in readers:
            ours = table.read(reader, activations)
            baselines = known | {
                REPEAT: repeated(ours),
                SHUFFLED: None if others is None else table.read(reader, activations[others]),
            }
            rows += table.rows((layer, position), reader.name, ours, baselines)
    lacking = int((~complete).sum())
    return PlanTable(tuple(rows), len(table), lacking, plans.unreadable, left_out)


def rows_of(activations: Activations, plans: WalkPlans) -> At:
    """Return the activations of the decisions of plans, as a function of the place."""
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
    """Return which of n decisions have all of some positions, [n]."""
    if not places:
        raise InvalidParameterError("there are no places to read, expected a layer and a position")
    complete = np.ones(n, dtype=bool)
    for layer, position in places:
        rows = at(layer, position)
        if rows.ndim != 3 or len(rows) != n:
            raise InvalidParameterError(
                f"activations at layer {layer}, {position} have shape {rows.shape} for {n} "
                f"sequences, expected [{n}, tokens, dimensions]"
            )
        complete &= np.isfinite(rows).all(axis=(1, 2))
    if not complete.any():
        names = ", ".join(dict.fromkeys(position for _, position in places))
        raise InvalidParameterError(
            f"none of {n} decisions has all of the positions {names}; read fewer of them together"
        )
    return complete


def divided(scenes: Scenes, parts: int, seed: int) -> Sequence[Split]:
    """Split decisions by grid: once if parts is 1, else once for each part, which is scored."""
    whole(parts, "parts", least=1, most=_MOST_PARTS)
    return [split(scenes, seed=seed)] if parts == 1 else folds(scenes, parts, seed=seed)


class _Predictions:
    """Predictions of sequences by fits to other grids, and their scores."""

    def __init__(self, plans: WalkPlans, splits: Sequence[Split], seed: int) -> None:
        self._plans, self._splits, self._seed = plans, splits, seed
        self._scored = np.sort(np.concatenate([part.test for part in splits]))
        self._actions = plans.actions[self._scored]
        self._grids = plans.scenes.grids[self._scored]

    def __len__(self) -> int:
        return len(self._scored)

    def read(self, reader: PlanReader, activations: protocol.Activations) -> IntArray:
        """Return the predictions of a reader, [N, queries]."""
        reading = PlanReading(activations, self._plans.actions)
        out = np.full(self._plans.actions.shape, NOTHING)
        for part in self._splits:
            train, validation = (reading.where(rows) for rows in part[:2])
            fitted = reader.fit(train, validation, seed=self._seed)
            out[part.test] = fitted.predicted(activations[part.test])
        return out

    def majority(self) -> IntArray:
        """Return the most frequent actions of each training part, [N, queries]."""
        out = np.full(self._plans.actions.shape, NOTHING)
        for part in self._splits:
            out[part.test] = majority(self._plans.actions[part.train])
        return out

    def rows(
        self, place: Place, name: str, ours: IntArray, baselines: Mapping[str, IntArray | None]
    ) -> list[PlanRow]:
        """Return a row for each number of actions that some sequence has."""
        layer, position = place
        longest = int(self._plans.lengths[self._scored].max())
        out = []
        for n in range(1, longest + 1):
            scored = {each: self._baseline(ours, baselines[each], n) for each in BASELINES}
            score = plan_score(ours[self._scored], self._actions, self._grids, n)
            out.append(PlanRow(layer, position, name, n, **score, baselines=scored))
        return out

    def _baseline(
        self, ours: IntArray, theirs: IntArray | None, n: int
    ) -> dict[str, Estimate] | None:
        if theirs is None:
            return None
        mine, others = ours[self._scored], theirs[self._scored]
        # Where no walk was asked again nothing is scored. A decision without a stated plan is: it
        # is wrong.
        asked = others[:, 0] != UNASKED
        if not asked.any():
            return None
        mine, others, actions, grids = (
            each[asked] for each in (mine, others, self._actions, self._grids)
        )
        beyond = prefix_beyond(mine, others, actions, grids, n)
        return plan_score(others, actions, grids, n) | {"beyond": beyond}


# --- Along the reasoning --------------------------------------------------------------------------
# At the end of the prompt, at shares of the reasoning and before the answer, a linear head predicts
# the action that the walk took at its first step, its second, and so on. An action that can be
# read is not yet decided: position alone predicts some of it before a word is written, and a word
# of the reasoning may be the action itself. So each accuracy is compared with that of position
# alone, and layer 0, the embedding, can be read too: it contains the token at that place only.
#
# The share from which a step is decided is the earliest at which the accuracy exceeds that of
# position alone, with an interval of the difference above 0, and from which on it does so at
# every later share. Differences are of the same sequences, so what makes a grid hard for both
# cancels. This asks much of one token: it may hold the next action and not where the agent is. So
# a second head sees the position too, and the share from which on it exceeds position alone is
# where the activations begin to add something.
#
# Source: the question is that of goalmeter; the published analysis has two positions.

# Of the reasoning: its first token is at 0, its last at 1.
SHARES = tuple(number / 10 for number in range(11))


def along(shares: Sequence[float] = SHARES) -> tuple[str, ...]:
    """Return the positions that `decided` reads, in the order of time.

    >>> along([0, 0.5])
    ('pre/end', 'post/0.0', 'post/0.5', 'post/answer')
    """
    return (f"{BEFORE}/end", *(_named(each) for each in shares), f"{AFTER}/answer")


@dataclass(frozen=True)
class Decided(JsonFields):
    """When the steps of a plan can be read; counts as in `PlanTable`."""

    decided: tuple[DecidedRow, ...]
    settled: tuple[SettledRow, ...]
    sequences: int
    lacking: int

    def row(self, position: str, layer: int, step: int) -> DecidedRow:
        """Return one of the rows."""
        return {(r.position, r.layer, r.step): r for r in self.decided}[position, layer, step]


def decided(
    at: At,
    plans: WalkPlans,
    *,
    layers: Sequence[int],
    shares: Sequence[float] = SHARES,
    steps: int = 3,
    parts: int = 5,
    seed: int = 0,
) -> Decided:
    """Read the action of each of the first steps along the reasoning, at rising shares of it.

    Each layer is read by itself; other arguments are those of `read_plans`.
    """
    places = [(layer, name) for layer in layers for name in along(shares)]
    complete = matched(at, places, len(plans))
    chosen = plans.where(complete)
    heads = _StepHeads(chosen, divided(chosen.scenes, parts, seed), steps)
    rows: list[DecidedRow] = []
    for layer, position in places:
        rows += heads.rows(layer, position, at(layer, position)[complete])
    settled = tuple(_settled(rows, shares))
    return Decided(tuple(rows), settled, heads.sequences, int((~complete).sum()))


def _settled(rows: Sequence[DecidedRow], shares: Sequence[float]) -> list[SettledRow]:
    by_place = {(row.layer, row.step, row.position): row for row in rows}
    out = []
    for layer, step in dict.fromkeys((row.layer, row.step) for row in rows):
        at = {each: by_place[layer, step, _named(each)] for each in shares}
        exceeds = _earliest({each: row.exceeds for each, row in at.items()})
        out.append(SettledRow(layer, step, exceeds, _earliest({k: r.adds for k, r in at.items()})))
    return out


def _earliest(holds: Mapping[float, bool]) -> float | None:
    """Return the first share from which on it always holds; None if it does not at the last."""
    earliest = None
    for each in reversed(list(holds)):
        if not holds[each]:
            break
        earliest = float(each)
    return earliest


def _named(each: float) -> str:
    return f"{AFTER}/{float(each)}"


class _StepHeads:
    """Heads of single steps, and how often they are right."""

    def __init__(self, plans: WalkPlans, splits: Sequence[Split], steps: int) -> None:
        self._plans, self._splits = plans, splits
        self._scored = np.zeros(len(plans), dtype=bool)
        for part in splits:
            self._scored[part.test] = True
        # Whether a sequence has an action at a step, [N, steps]; its end is none.
        self._has = np.asarray((plans.actions[:, :steps] >= 0) & (plans.actions[:, :steps] < END))
        self._steps = np.flatnonzero((self._has & self._scored[:, None]).any(axis=0)).tolist()
        self._features = position_features(plans.scenes)
        self._position = self._predicted(self._features)
        # Heads without any input predict what is most frequent.
        self._majority = self._predicted(np.zeros((len(plans), 1, 1)))
        self.sequences = int(self._scored.sum())

    def rows(
        self, layer: int, position: str, activations: protocol.Activations
    ) -> list[DecidedRow]:
        """Return a row for each step."""
        predicted = self._predicted(activations)
        flat = activations.reshape(len(activations), 1, -1)
        both = self._predicted(np.concatenate([self._features, flat], axis=2))
        out = []
        for step in self._steps:
            right, joint, alone, most = (
                np.asarray(each[:, step] == self._plans.actions[:, step], dtype=float)
                for each in (predicted, both, self._position, self._majority)
            )
            out.append(
                DecidedRow(
                    layer=layer,
                    position=position,
                    step=step + 1,
                    accuracy=self._share(right, step),
                    baselines={
                        POSITION: self._share(alone, step),
                        MAJORITY: self._share(most, step),
                    },
                    beyond=self._share(right - alone, step, paired=True),
                    joint=self._share(joint, step),
                    added=self._share(joint - alone, step, paired=True),
                )
            )
        return out

    def _share(self, values: FloatArray, step: int, *, paired: bool = False) -> Estimate:
        among = np.asarray(self._has[:, step] & self._scored)
        return share(values, among, self._plans.scenes.grids, paired=paired)

    def _predicted(self, activations: protocol.Activations) -> IntArray:
        """Return the predictions of the head of each step, [N, steps]."""
        actions = self._plans.actions
        out = np.full(self._has.shape, NOTHING)
        for train, validation, test in self._splits:
            scaled = Scaled.of(activations[train])
            fitted, held_out, rows = (scaled(activations[p]) for p in (train, validation, test))
            for step in self._steps:
                has, of_validation = self._has[train, step], self._has[validation, step]
                # A step that no training walk has cannot be predicted.
                if not has.any():
                    continue
                head = head_of(
                    (fitted[has], actions[train, step][has]),
                    (held_out[of_validation], actions[validation, step][of_validation]),
                    PENALTIES,
                )
                out[test, step] = head.called(rows)
        return out
