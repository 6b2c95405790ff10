"""Compare plan readers with baselines by layer, position and share of the reasoning."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from goalmeter._errors import InvalidParameterError, whole
from goalmeter._files import JsonFields
from goalmeter._types import BoolArray, IntArray
from goalmeter.representation.activations import Activations
from goalmeter.representation.plans import readers as plan_readers
from goalmeter.representation.plans.readers import LinearSteps, PlanReader, PlanReading, WalkPlans
from goalmeter.representation.probes.comparison import exchanged
from goalmeter.representation.probes.protocol import Activations as Rows
from goalmeter.representation.replay import AFTER, BEFORE
from goalmeter.representation.result_rows import DecidedRow, PlanRow, SettledRow
from goalmeter.representation.scenes import Split, folds, mean_over_grids, split
from goalmeter.statistics.clusters import Estimate

# A layer and the name of a position.
Place = tuple[int, str]
# Activations of N decisions at a layer and a position, [N, tokens, D]; rows of decisions that lack
# the position are NaN.
At = Callable[[int, str], Rows]
_MOST_PARTS = 100


@dataclass(frozen=True)
class PlanTable(JsonFields):
    """Scores of plan readers by place, reader and number of actions."""

    plan: tuple[PlanRow, ...]
    sequences: int  # number of scored sequences
    lacking: int  # number of decisions excluded because they lack one of the positions
    unreadable: int  # number of answers that could not be parsed; they executed no action
    left_out: Mapping[str, str] = field(default_factory=dict)  # reasons by omitted baseline

    def row(self, position: str, layer: int, decoder: str, n: int) -> PlanRow:
        """Return the row of a position, layer, decoder and number of actions."""
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
    """Score readers of N plans, and all baselines, at some layers and positions.

    Places are compared on the decisions that have all of them. Every sequence is scored by a fit
    to other grids: if `parts` is 1, a quarter of the grids is scored, otherwise all of them.
    `stated` are the plans that the model states, [N, queries] (see `stated_plans`).
    """
    complete_mask, chosen, splits = _chosen(at, plans, places, parts, seed)
    actions, grids = chosen.actions, chosen.scenes.grids
    again = plan_readers.other_walks(plans, seed=seed)
    read = partial(_predicted, actions, splits, seed)
    majority = np.full(actions.shape, plan_readers.NOTHING)
    for part in splits:
        majority[part.test] = plan_readers.majority(actions[part.train])
    nothing = np.full(actions.shape, plan_readers.UNASKED)
    known = {
        plan_readers.MAJORITY: majority,
        plan_readers.POSITION: read(LinearSteps(), plan_readers.position_features(chosen.scenes)),
        plan_readers.OPTIMAL: plan_readers.optimal_plans(chosen, seed=seed),
        plan_readers.STATED: nothing if stated is None else stated[complete_mask],
        plan_readers.AGAIN: nothing if again is None else again[complete_mask],
    }
    others: IntArray | None = None
    left_out: dict[str, str] = {}
    try:
        others = exchanged(chosen.scenes, seed=seed)
    except InvalidParameterError as cause:
        # The scores of the readers are valid without this baseline.
        left_out[plan_readers.SHUFFLED] = str(cause)
    scored = np.sort(np.concatenate([part.test for part in splits]))
    rows: list[PlanRow] = []
    for layer, position in places:
        activations = at(layer, position)[complete_mask]
        for reader in readers:
            own = read(reader, activations)
            repeated = np.repeat(own[:, :1], own.shape[1], axis=1)
            shuffled = nothing if others is None else read(reader, activations[others])
            baselines = known | {plan_readers.REPEAT: repeated, plan_readers.SHUFFLED: shuffled}
            # One row per number of actions up to the longest scored sequence.
            for n in range(1, int(chosen.lengths[scored].max()) + 1):
                versus: dict[str, dict[str, Estimate] | None] = {}
                for name in plan_readers.BASELINES:
                    theirs = baselines[name]
                    answered = scored[theirs[scored, 0] != plan_readers.UNASKED]
                    both = theirs[answered], actions[answered], grids[answered], n, own[answered]
                    versus[name] = plan_readers.plan_score(*both) if len(answered) else None
                score = plan_readers.plan_score(own[scored], actions[scored], grids[scored], n)
                rows.append(PlanRow(layer, position, reader.name, n, **score, baselines=versus))
    lacking = int((~complete_mask).sum())
    return PlanTable(tuple(rows), len(scored), lacking, plans.unreadable, left_out)


def _predicted(
    actions: IntArray, splits: Sequence[Split], seed: int, reader: PlanReader, activations: Rows
) -> IntArray:
    """Return cross-fitted predictions of a reader, [N, queries]."""
    reading, out = PlanReading(activations, actions), np.full(actions.shape, plan_readers.NOTHING)
    for part in splits:
        train, validation, test = map(reading.where, part)
        out[part.test] = reader.fit(train, validation, seed=seed)(test.activations)
    return out


def rows_of(activations: Activations, plans: WalkPlans) -> At:
    """Return the activations at the first decisions of plans, as a function of the place."""
    rows: dict[tuple[Hashable, int], int] = {
        (row.walk, row.step): number for number, row in enumerate(activations.rows)
    }
    decisions = list(zip(plans.walks, plans.steps.tolist(), strict=True))
    if missing := [place for place in decisions if place not in rows]:
        walk, step = missing[0]
        raise InvalidParameterError(
            f"{activations.folder} lacks {len(missing)} of {len(decisions)} decisions at which "
            f"plans begin, such as step {step} of {walk!r}; capture them as well"
        )
    numbers = np.array([rows[place] for place in decisions])
    return lambda layer, position: activations.at(layer, position)[numbers]


def _chosen(
    at: At, plans: WalkPlans, places: Sequence[Place], parts: int, seed: int
) -> tuple[BoolArray, WalkPlans, Sequence[Split]]:
    """Return a mask of the plans whose decision has all positions, [N], these plans, and splits."""
    whole(parts, "parts", least=1, most=_MOST_PARTS)
    complete = np.ones(len(plans), dtype=bool)
    for place in places:
        complete &= np.isfinite(at(*place)).all(axis=(1, 2))
    if not complete.any():
        names = ", ".join(dict.fromkeys(position for _, position in places))
        raise InvalidParameterError(
            f"none of {len(plans)} decisions has all of the positions {names}; choose fewer "
            f"positions"
        )
    chosen = plans.where(complete)
    single = parts == 1
    splits = [split(chosen.scenes, seed=seed)] if single else folds(chosen.scenes, parts, seed=seed)
    return complete, chosen, splits


# --- Along the reasoning --------------------------------------------------------------------------
# A linear head predicts the action that the walk took at its first step, its second, and so on,
# from activations at the end of the prompt, at shares of the reasoning and before the answer.
# Position alone predicts part of it before any word is written, and a word of the reasoning may be
# the action itself. Each accuracy is therefore compared with that of position alone, and layer 0,
# which contains only the token at that place, can be read as well.
#
# A step is decided from the earliest share at which, and at every later share too, the accuracy
# exceeds that of position alone with an interval of the difference above 0. A token may encode the
# next action but not the position of the agent, so a second head also reads the position; if it
# exceeds position alone, the activations add information.

# Shares of the reasoning: its first token is at 0, its last at 1.
SHARES = tuple(number / 10 for number in range(11))


def along(shares: Sequence[float] = SHARES) -> tuple[str, ...]:
    """Return the positions that `decided` reads, in chronological order."""
    return (f"{BEFORE}/end", *(f"{AFTER}/{float(each)}" for each in shares), f"{AFTER}/answer")


@dataclass(frozen=True)
class Decided(JsonFields):
    """Accuracies by share of the reasoning, and the share from which each step is decided."""

    decided: tuple[DecidedRow, ...]
    settled: tuple[SettledRow, ...]


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
    """Predict each of the first actions at rising shares of the reasoning (see `read_plans`)."""
    places = [(layer, name) for layer in layers for name in along(shares)]
    complete, chosen, splits = _chosen(at, plans, places, parts, seed)
    first = chosen.actions[:, :steps]
    # The end of a walk is not an action.
    actions = np.where(first < plan_readers.END, first, plan_readers.NOTHING)
    scored = np.isin(np.arange(len(chosen)), np.concatenate([part.test for part in splits]))
    scored_mask = (actions >= 0) & scored[:, None]
    # Predictions of the head of each step, [N, steps].
    read = partial(_predicted, actions, splits, seed, replace(LinearSteps(), repeats=False))
    features = plan_readers.position_features(chosen.scenes)
    # A head without input predicts the most frequent action.
    position_alone, most_frequent = read(features), read(np.zeros((len(chosen), 1, 1)))
    rows: dict[tuple[int, int, str], DecidedRow] = {}
    for layer, position in places:
        activations = at(layer, position)[complete]
        flat = activations.reshape(len(activations), 1, -1)
        both = np.concatenate([features, flat], axis=2)
        predictions = read(activations), read(both), position_alone, most_frequent
        for step in np.flatnonzero(scored_mask.any(axis=0)).tolist():
            mean = partial(mean_over_grids, grids=chosen.scenes.grids, among=scored_mask[:, step])
            right, joint, alone, most = (
                (each[:, step] == actions[:, step]).astype(float) for each in predictions
            )
            baselines = {plan_readers.POSITION: mean(alone), plan_readers.MAJORITY: mean(most)}
            beyond, added = (mean(each - alone, paired=True) for each in (right, joint))
            rows[layer, step + 1, position] = DecidedRow(
                layer, position, step + 1, mean(right), baselines, beyond, mean(joint), added
            )
    settled = []
    for layer, step in dict.fromkeys(key[:2] for key in rows):
        known = {each: rows[layer, step, f"{AFTER}/{float(each)}"] for each in map(float, shares)}
        exceeds = _earliest({each: row.exceeds for each, row in known.items()})
        adds = _earliest({each: row.adds for each, row in known.items()})
        settled.append(SettledRow(layer, step, exceeds, adds))
    return Decided(tuple(rows.values()), tuple(settled))


def _earliest(holds: Mapping[float, bool]) -> float | None:
    """Return the first share from which all values are true; None if the last one is false."""
    failed = [number for number, each in enumerate(holds.values()) if not each]
    return next(iter(list(holds)[max(failed, default=-1) + 1 :]), None)
