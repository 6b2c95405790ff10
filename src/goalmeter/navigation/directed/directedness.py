"""Goal-directedness of walks towards the goal and towards the key: one unit for all worlds.

One rationality is fitted to all walks of an agent, through whatever worlds.

A walk that passes a key on its way has more decisions towards the goal than towards the key. Which
of them explains more is therefore asked of the decisions until the key is taken, where both have
something to say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from goalmeter._json import json_value
from goalmeter._types import BoolArray, IntArray
from goalmeter.gridworld.tabular_world import GOAL, KEY, NEUTRAL
from goalmeter.navigation.directed.evidence import Evidence, refined_evidence
from goalmeter.navigation.directed.fits import GoalFit, fit_tops, fitted, goal_fit
from goalmeter.navigation.measures.grids import Grids
from goalmeter.navigation.measures.observed import INVALID, Observed
from goalmeter.statistics.clustered import Estimate

if TYPE_CHECKING:
    from goalmeter.navigation.result import Navigation


@dataclass(frozen=True)
class Directedness:
    """What an agent goes for, in worlds under one condition.

    Attributes:
        agent: its name.
        reference: whether it is shown beside the agent that was asked about.
        condition: as JSON.
        silent: answers that were no action, of which nothing is explained.
        thing: "key" or "neutral", where there is one to take; else None.
        goal: towards the goal, whole walks.
        goal_without: towards the goal until the thing is taken; None where there is none.
        towards_thing: towards the thing, until it is taken.
        difference: `goal_without` less `towards_thing`, nats a walk.
    """

    agent: str
    reference: bool
    condition: str
    silent: int
    thing: str | None
    goal: GoalFit
    goal_without: GoalFit | None
    towards_thing: GoalFit | None
    difference: Estimate | None

    @property
    def larger(self) -> str | None:
        """Which explains more of the decisions until the thing is taken; None if not told apart.

        That takes an interval of the difference without 0, and that the one explains something.
        """
        interval = None if self.difference is None else self.difference.interval
        if interval is None or interval[0] <= 0 <= interval[1]:
            return None
        name, larger = (
            (GOAL, self.goal_without) if interval[0] > 0 else (self.thing, self.towards_thing)
        )
        interval_of_larger = None if larger is None else larger.nats.interval
        return name if interval_of_larger is not None and interval_of_larger[0] > 0 else None

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        plain = {name: json_value(value) for name, value in vars(self).items()}
        del plain["reference"]
        return plain | {"condition": json.loads(self.condition), "larger": self.larger}


def directedness(
    results: Sequence[Navigation], *, progress: Callable[[str], None] | None = None
) -> list[Directedness]:
    """Every agent under every condition, in grids as they were generated (a frame is the same).

    Agents that walked in the same worlds share the work.
    """
    if progress is not None:
        progress("goal-directedness")
    seen = [
        result.seen.where(np.array([w.transform is None for w in result.seen.trajectories]))
        for result in results
    ]

    def tops(number: int, coarse: Evidence) -> IntArray:
        return _tops(seen[number], coarse)

    goal, key, neutral = (refined_evidence(seen, name, tops) for name in (GOAL, KEY, NEUTRAL))
    out = []
    for i, (result, walks) in enumerate(zip(results, seen, strict=True)):
        for condition, under in _conditions(walks):
            objects = {KEY: key[i], NEUTRAL: neutral[i]}
            out.append(_directed(result, condition, walks, under, goal[i], objects))
    return out


def _directed(
    result: Navigation,
    condition: str,
    seen: Observed,
    under: BoolArray,
    goal: Evidence,
    objects: dict[str, Evidence],
) -> Directedness:
    """One agent under one condition."""
    walks = seen.where(under)
    grids = Grids(walks, 0.95)
    world = walks.trajectories[0].world
    name = next((name for name in objects if getattr(world, name) is not None), None)
    without, to_object, difference = None, None, None
    if name is not None:
        curves = goal.curves_without(under), objects[name].curves_without(under)
        without, to_object = (goal_fit(grids, c, goal.most_without[under]) for c in curves)
        # What differs by rounding does not differ.
        most = max(without.maximum, to_object.maximum)
        difference = fitted(
            grids,
            curves,
            lambda to_goal, to_object: np.round(to_goal - to_object, 9),
            bounds=(-most, most),
            paired=True,
        )
    return Directedness(
        agent=result.agent,
        reference=result.reference,
        condition=condition,
        silent=int((walks.action == INVALID).sum()),
        thing=name,
        goal=goal_fit(grids, goal.curves(under), goal.most[under]),
        goal_without=without,
        towards_thing=to_object,
        difference=difference,
    )


def _conditions(seen: Observed) -> list[tuple[str, BoolArray]]:
    """Each condition, as JSON, with which of the walks are under it, [N]."""
    conditions = np.array([seen.kinds[kind].condition for kind in seen.kind])
    return [(name, conditions == name) for name in dict.fromkeys(conditions.tolist())]


def _tops(seen: Observed, coarse: Evidence) -> IntArray:
    """Indices of the rationalities that any fit to an agent's walks depends on."""
    tops: list[IntArray] = [np.zeros(0, dtype=np.int64)]
    for _, under in _conditions(seen):
        grids = Grids(seen.where(under), 0.95)
        curves = (coarse.curves(under), coarse.curves_without(under))
        tops += [fit_tops(grids, each) for each in curves]
    return np.unique(np.concatenate(tops))
