"""Compare plan readers with their baselines, by layer, by position and along the reasoning."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from goalmeter._errors import InvalidParameterError, whole
from goalmeter._files import JsonFields
from goalmeter._types import BoolArray, IntArray
from goalmeter.representation.activations import Activations
from goalmeter.representation.plans import targets
from goalmeter.representation.plans.readers import LinearSteps, PlanReader, PlanReading
from goalmeter.representation.plans.targets import (
    MAJORITY,
    NOTHING,
    POSITION,
    WalkPlans,
    plan_score,
    position_features,
    prefix_beyond,
)
from goalmeter.representation.probes import protocol
from goalmeter.representation.probes.comparison import exchanged
from goalmeter.representation.replay import AFTER, BEFORE
from goalmeter.representation.result_rows import DecidedRow, PlanRow, SettledRow
from goalmeter.representation.scenes import Scenes, Split, folds, mean_over_grids, split
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
    again = targets.other_walks(plans, seed=seed)
    chosen = plans.where(complete)
    splits = divided(chosen.scenes, parts, seed)
    read = partial(_predicted, chosen.actions, splits, seed)
    known: dict[str, IntArray | None] = {
        targets.OPTIMAL: targets.optimal_plans(chosen, seed=seed),
        targets.STATED: None if stated is None else stated[complete],
        targets.AGAIN: None if again is None else again[complete],
        MAJORITY: np.full(chosen.actions.shape, NOTHING),
        POSITION: read(LinearSteps(), position_features(chosen.scenes)),
    }
    for part in splits:
        known[MAJORITY][part.test] = targets.majority(chosen.actions[part.train])  # type: ignore[index]
    others: IntArray | None = None
    left_out: dict[str, str] = {}
    try:
        others = exchanged(chosen.scenes, seed=seed)
    except InvalidParameterError as cause:
        # The scores of the readers stand without this baseline.
        left_out[targets.SHUFFLED] = str(cause)
    scored = np.sort(np.concatenate([part.test for part in splits]))
    rows: list[PlanRow] = []
    for layer, position in places:
        activations = at(layer, position)[complete]
        for reader in readers:
            ours = read(reader, activations)
            baselines = known | {
                targets.REPEAT: targets.repeated(ours),
                targets.SHUFFLED: None if others is None else read(reader, activations[others]),
            }
            # A row for each number of actions that some sequence has.
            for n in range(1, int(chosen.lengths[scored].max()) + 1):
                row = PlanRow(
                    layer,
                    position,
                    reader.name,
                    n,
                    **plan_score(
                        ours[scored], chosen.actions[scored], chosen.scenes.grids[scored], n
                    ),
                    baselines={
                        name: _baseline(chosen, scored, ours, baselines[name], n)
                        for name in targets.BASELINES
                    },
                )
                rows.append(row)
    lacking = int((~complete).sum())
    return PlanTable(tuple(rows), len(scored), lacking, plans.unreadable, left_out)


def _predicted(
    actions: IntArray,
    splits: Sequence[Split],
    seed: int,
    reader: PlanReader,
    activations: protocol.Activations,
) -> IntArray:
    """Return the predictions of a reader by fits to other grids, [N, queries]."""
    reading, out = PlanReading(activations, actions), np.full(actions.shape, NOTHING)
    for part in splits:
        train, validation, test = map(reading.where, part)
        out[part.test] = reader.fit(train, validation, seed=seed)(test.activations)
    return out


def _baseline(
    plans: WalkPlans, scored: IntArray, ours: IntArray, theirs: IntArray | None, n: int
) -> dict[str, Estimate] | None:
    """Score a baseline where it has a prediction; None if it has none."""
    asked = scored if theirs is None else scored[theirs[scored, 0] != targets.UNASKED]
    if theirs is None or not len(asked):
        return None
    actions, grids = plans.actions[asked], plans.scenes.grids[asked]
    beyond = prefix_beyond(ours[asked], theirs[asked], actions, grids, n)
    return plan_score(theirs[asked], actions, grids, n) | {"beyond": beyond}


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
    complete = np.ones(n, dtype=bool)
    for place in places:
        complete &= np.isfinite(at(*place)).all(axis=(1, 2))
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
    return (f"{BEFORE}/end", *(f"{AFTER}/{float(each)}" for each in shares), f"{AFTER}/answer")


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
    """Read each of the first actions at rising shares of the reasoning; see `read_plans`."""
    places = [(layer, name) for layer in layers for name in along(shares)]
    complete = matched(at, places, len(plans))
    chosen = plans.where(complete)
    splits = divided(chosen.scenes, parts, seed)
    heads = _StepHeads(chosen, splits, steps, seed)
    rows: list[DecidedRow] = []
    for layer, position in places:
        rows += heads.rows(layer, position, at(layer, position)[complete])
    settled = []
    by_place = {(row.layer, row.step, row.position): row for row in rows}
    for layer, step in dict.fromkeys((row.layer, row.step) for row in rows):
        named = {float(each): f"{AFTER}/{float(each)}" for each in shares}
        known = {each: by_place[layer, step, name] for each, name in named.items()}
        exceeds = _earliest({each: row.exceeds for each, row in known.items()})
        adds = _earliest({each: row.adds for each, row in known.items()})
        settled.append(SettledRow(layer, step, exceeds, adds))
    sequences = sum(len(part.test) for part in splits)
    return Decided(tuple(rows), tuple(settled), sequences, int((~complete).sum()))


def _earliest(holds: Mapping[float, bool]) -> float | None:
    """Return the first share from which on it always holds; None if it does not at the last."""
    earliest = None
    for each in reversed(list(holds)):
        if not holds[each]:
            break
        earliest = each
    return earliest


class _StepHeads:
    """Heads of single steps, and how often they are right."""

    def __init__(self, plans: WalkPlans, splits: Sequence[Split], steps: int, seed: int) -> None:
        first = plans.actions[:, :steps]
        # The end of a walk is no action of it.
        self._actions = np.where(first < targets.END, first, NOTHING)
        self._splits, self._seed, self._grids = splits, seed, plans.scenes.grids
        scored = np.isin(np.arange(len(plans)), np.concatenate([part.test for part in splits]))
        self._among = (self._actions >= 0) & scored[:, None]
        self._features = position_features(plans.scenes)
        self._position = self._predicted(self._features)
        # Heads without any input predict what is most frequent.
        self._majority = self._predicted(np.zeros((len(plans), 1, 1)))

    def rows(
        self, layer: int, position: str, activations: protocol.Activations
    ) -> list[DecidedRow]:
        """Return a row for each step that a scored sequence has."""
        flat = activations.reshape(len(activations), 1, -1)
        both = np.concatenate([self._features, flat], axis=2)
        predictions = (
            *(self._predicted(each) for each in (activations, both)),
            *(self._position, self._majority),
        )
        out = []
        for step in np.flatnonzero(self._among.any(axis=0)).tolist():
            mean = partial(mean_over_grids, grids=self._grids, among=self._among[:, step])
            right, joint, alone, most = (
                np.asarray(each[:, step] == self._actions[:, step], dtype=float)
                for each in predictions
            )
            out.append(
                DecidedRow(
                    layer=layer,
                    position=position,
                    step=step + 1,
                    accuracy=mean(right),
                    baselines={POSITION: mean(alone), MAJORITY: mean(most)},
                    beyond=mean(right - alone, paired=True),
                    joint=mean(joint),
                    added=mean(joint - alone, paired=True),
                )
            )
        return out

    def _predicted(self, activations: protocol.Activations) -> IntArray:
        """Return the predictions of the head of each step, [N, steps]."""
        return _predicted(
            self._actions,
            self._splits,
            self._seed,
            replace(LinearSteps(), repeats=False),
            activations,
        )
