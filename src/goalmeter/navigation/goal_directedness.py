"""Goal-directedness of trajectories in nats: towards goal or key."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from goalmeter._files import json_value
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.gridworld.conversions import GOAL_UTILITY, KEY_UTILITY, NEUTRAL_UTILITY
from goalmeter.navigation.rationality import (
    Evidence,
    GoalFit,
    fit_tops,
    fitted,
    goal_fit,
    refined_evidence,
)
from goalmeter.navigation.steps import INVALID, Grids, Observed
from goalmeter.statistics.clusters import Estimate

if TYPE_CHECKING:
    from goalmeter.navigation.measure import Navigation


# One rationality is fitted to all walks of an agent. Goal and key are compared on the decisions
# until the key is taken, where both can explain something.


@dataclass(frozen=True)
class Directedness:
    """Goal-directedness of an agent in worlds under one condition."""

    agent: str
    reference: bool  # whether it is a baseline agent
    condition: str  # as JSON
    silent: int  # number of invalid answers, which have no evidence
    thing: str | None  # "key", "neutral" or None: the object in these worlds
    goal: GoalFit  # towards the goal, whole walks
    goal_without: GoalFit | None  # until the object is taken; None where there is none
    towards_thing: GoalFit | None  # towards the object, until it is taken
    difference: Estimate | None  # `goal_without` less `towards_thing`, nats per walk

    @property
    def larger(self) -> str | None:
        """Which explains more of the decisions until the object is taken; None if inconclusive."""
        # The intervals of the difference and of the larger one must exclude 0.
        low, high = (self.difference and self.difference.interval) or (0.0, 0.0)
        name, fit = self.thing, self.towards_thing
        if low > 0:
            name, fit = GOAL_UTILITY, self.goal_without
        interval = fit and fit.nats.interval
        return name if not low <= 0 <= high and interval and interval[0] > 0 else None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        plain = {name: json_value(value) for name, value in vars(self).items()}
        del plain["reference"]
        return plain | {"condition": json.loads(self.condition), "larger": self.larger}


def directedness(
    results: Sequence[Navigation], *, progress: Callable[[str], None] | None = None
) -> list[Directedness]:
    """Measure every agent under every condition, in grids as they were generated."""
    if progress is not None:
        progress("goal-directedness")
    seen = [
        result.seen.where(np.array([w.transform is None for w in result.seen.trajectories]))
        for result in results
    ]

    def tops(number: int, coarse: Evidence) -> IntArray:
        """Indices of the rationalities that the fits to an agent's walks depend on."""
        out: list[IntArray] = [np.zeros(0, dtype=np.int64)]
        for _, under in _conditions(seen[number]):
            grids = Grids(seen[number].where(under))
            curves = (coarse.curves(under), coarse.curves_without(under))
            out += [fit_tops(grids, each) for each in curves]
        return np.unique(np.concatenate(out))

    utilities = (GOAL_UTILITY, KEY_UTILITY, NEUTRAL_UTILITY)
    goal, *objects = (refined_evidence(seen, name, tops) for name in utilities)
    out = []
    for i, (result, walks) in enumerate(zip(results, seen, strict=True)):
        of_objects = dict(zip(utilities[1:], (each[i] for each in objects), strict=True))
        for condition, under in _conditions(walks):
            fits = _fits(walks.where(under), under, goal[i], of_objects)
            out.append(Directedness(result.agent, result.reference, condition, *fits))
    return out


def _fits(
    walks: Observed, under: BoolArray, goal: Evidence, objects: dict[str, Evidence]
) -> tuple[Any, ...]:
    """The last fields of `Directedness`, for the walks of one agent under one condition."""
    grids = Grids(walks)
    world = walks.trajectories[0].world
    name = next((name for name in objects if getattr(world, name) is not None), None)
    without, to_object, difference = None, None, None
    if name is not None:
        curves = goal.curves_without(under), objects[name].curves_without(under)
        without, to_object = (goal_fit(grids, c, goal.most_without[under]) for c in curves)
        most = max(without.maximum, to_object.maximum)

        def less(to_goal: FloatArray, to_object: FloatArray) -> FloatArray:
            return np.round(to_goal - to_object, 9)

        difference = fitted(grids, curves, less, bounds=(-most, most), paired=True)
    silent = int((walks.action == INVALID).sum())
    whole = goal_fit(grids, goal.curves(under), goal.most[under])
    return silent, name, whole, without, to_object, difference


def _conditions(seen: Observed) -> list[tuple[str, BoolArray]]:
    """Each condition, as JSON, with a mask of its walks, [N]."""
    conditions = np.array([seen.kinds[kind].condition for kind in seen.kind])
    return [(name, conditions == name) for name in dict.fromkeys(conditions.tolist())]
