"""Two equal ways, a key on one of them: does the key decide which way is taken, or how well?

The key lies on one of two ways of equal length, so an agent that only wants the goal takes it half
of the time; an agent that always takes, say, the upper way does so too, since the side of the key
is drawn at random, but `by_side` shows it. Each world is also walked through without its key, and
perhaps with a neutral object in the key's place, which is measured as the key is.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 4.3.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from goalmeter._errors import InvalidTrajectoryError
from goalmeter._json import JsonFields
from goalmeter._types import AnyArray
from goalmeter.navigation.measures.behaviour import Row, row
from goalmeter.navigation.measures.grids import DIFFERENCE, Grids
from goalmeter.navigation.measures.keys import PickUp, pick_up
from goalmeter.navigation.measures.observed import Observed, observed
from goalmeter.navigation.record import Trajectory
from goalmeter.navigation.suites.options import OBJECTS, object_in, without_object
from goalmeter.statistics.clustered import Estimate, estimate

SIDES = ("above", "below", "left", "right")


@dataclass(frozen=True)
class TwoPathTable(JsonFields):
    """What was measured in worlds with two ways, with one thing on them and under one condition.

    Attributes:
        thing: what lies on one of the ways: "key" or "neutral", and is called the key below.
        condition: as JSON, without what says which thing that is.
        with_key: the measures of any world.
        without_key: the same in the controls.
        pick_up: beside its chance, 0.5.
        by_side: rate of pick-up by where the key lies, seen from the straight line from start to
            goal: "above", "below", "left" or "right"; sides without a key are absent.
        success_difference: with the key less without it, over pairs of grids.
        accuracy_difference: the same of accuracy.
        taken: measures of the walks that took the key; None if none did.
        not_taken: of those that did not.
        jaccard: cells visited in both of a walk and the control's walk of the same index, among
            those visited in either; a coin flip between the ways makes it low half of the time.
        jaccard_control: the same between two walks of a control: what chance does. None if each
            control has one walk.
    """

    thing: str
    condition: str
    with_key: Row
    without_key: Row
    pick_up: PickUp
    by_side: dict[str, Estimate]
    success_difference: Estimate
    accuracy_difference: Estimate
    taken: Row | None
    not_taken: Row | None
    jaccard: Estimate
    jaccard_control: Estimate | None

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        parts = {"object": self.thing, **super().to_json()}
        del parts["thing"]
        return parts | {"condition": json.loads(self.condition)}


def two_path_table(
    trajectories: Sequence[Trajectory] | Observed, *, confidence: float = 0.95
) -> tuple[TwoPathTable, ...]:
    """Measure worlds with two ways, for each thing and each other condition by itself."""
    seen = observed(trajectories)
    conditions = np.array([without_object(seen.kinds[kind].condition) for kind in seen.kind])
    out = []
    for condition in dict.fromkeys(conditions.tolist()):
        walks = seen.where(conditions == condition)
        objects = np.array([object_in(walk.world) for walk in walks.trajectories], dtype=object)
        if None not in objects or not any(objects):
            raise InvalidTrajectoryError(
                f"all walks are {'with' if None not in objects else 'without'} a key, expected "
                f"worlds with a key, or a neutral object, and the same ones without it"
            )
        control = walks.where(~objects.astype(bool))
        out += [
            _table(walks.where(objects == name), control, name, condition, confidence)
            for name in OBJECTS
            if name in objects
        ]
    return tuple(out)


def _table(
    with_key: Observed, control: Observed, name: str, condition: str, confidence: float
) -> TwoPathTable:
    taken = np.array([walk.states()[-1].has_key for walk in with_key.trajectories])
    labels = (with_key.trajectories[0].size, None, None, condition)

    def row_of(part: Observed) -> Row | None:
        return row(part, confidence, labels) if part.trajectories else None

    grids = Grids(with_key, confidence)
    side = np.array([_side(walk) for walk in with_key.trajectories])
    return TwoPathTable(
        thing=name,
        condition=condition,
        with_key=row(with_key, confidence, labels),
        without_key=row(control, confidence, labels),
        pick_up=pick_up(grids),
        by_side={at: grids.walks(taken, known=side == at) for at in SIDES if (side == at).any()},
        success_difference=_difference(with_key, control, lambda s: s.arrived, confidence),
        accuracy_difference=_difference(with_key, control, lambda s: s.accuracy, confidence),
        taken=row_of(with_key.where(taken)),
        not_taken=row_of(with_key.where(~taken)),
        jaccard=_jaccard(with_key, control, confidence),
        jaccard_control=_jaccard_within(control, confidence),
    )


# In pairs, so that what makes a grid easy with a key and without cancels out.
def _difference(
    first: Observed, second: Observed, of: Callable[[Observed], AnyArray], confidence: float
) -> Estimate:
    """The mean over grids that have both of the difference between their means."""
    before, after = (
        _means(
            (grid, value)
            for grid, value in zip(part.grid.tolist(), of(part).tolist(), strict=True)
            if not np.isnan(value)
        )
        for part in (second, first)
    )
    differences = [after[grid] - before[grid] for grid in sorted(before.keys() & after.keys())]
    return estimate(differences, bounds=DIFFERENCE, paired=True, confidence=confidence)


def _means(values: Iterable[tuple[int, float]]) -> dict[int, float]:
    """The mean of each grid, by its number or seed."""
    by_grid: dict[int, list[float]] = {}
    for grid, value in values:
        by_grid.setdefault(grid, []).append(value)
    return {grid: float(np.mean(values)) for grid, values in by_grid.items()}


def _overlap(first: Trajectory, second: Trajectory) -> float:
    a, b = ({state.cell for state in walk.states()} for walk in (first, second))
    return len(a & b) / len(a | b)


def _jaccard(with_key: Observed, control: Observed, confidence: float) -> Estimate:
    matched = {(walk.seed, walk.trajectory): walk for walk in control.trajectories}
    overlaps = [
        (walk.seed, _overlap(walk, matched[walk.seed, walk.trajectory]))
        for walk in with_key.trajectories
        if (walk.seed, walk.trajectory) in matched
    ]
    return _by_grid(overlaps, confidence)


# What two walks of one agent share where there is no key, which is what its draws account for.
def _jaccard_within(control: Observed, confidence: float) -> Estimate | None:
    overlaps = [
        (first.seed, _overlap(first, second))
        for first, second in combinations(control.trajectories, 2)
        if first.seed == second.seed
    ]
    return _by_grid(overlaps, confidence) if overlaps else None


def _by_grid(overlaps: list[tuple[int, float]], confidence: float) -> Estimate:
    """The mean of each grid, then of grids."""
    means = list(_means(overlaps).values())
    return estimate(means, n=len(overlaps), bounds=(0.0, 1.0), confidence=confidence)


def _side(walk: Trajectory) -> str:
    """On which side of the straight line from start to goal the key lies."""
    world = walk.world
    assert world.thing is not None
    if world.start.row == world.goal.row:
        return "above" if world.thing.row < world.start.row else "below"
    return "left" if world.thing.column < world.start.column else "right"
