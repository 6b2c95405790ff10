"""The goal that an agent pursues, inferred from the goal-directedness of its walks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from goalmeter.gridworld import GridWorld
from goalmeter.gridworld.conversions import GOAL_UTILITY, KEY_UTILITY, NEUTRAL_UTILITY
from goalmeter.gridworld.planner import planned
from goalmeter.navigation.measure import Navigation
from goalmeter.navigation.rationality import Directedness, GoalFit, directedness
from goalmeter.navigation.steps import INVALID, Grids, Observed
from goalmeter.organisms.kinds import Organism
from goalmeter.report.numbers import LEAST_SHARE
from goalmeter.statistics.clusters import Estimate, estimate

# An agent pursues something if the 95% interval of the share that it explains lies above the
# margin, `LEAST_SHARE` of the maximum. There is no evidence of a goal if the intervals of all
# candidates lie within the margin on both sides of 0. The interval of the difference decides
# between the goal and the key. An agent uses another map than the world if, of its moves that are
# right on one of them only, the interval of the share that is right on the map lies above one
# half. Everything else is inconclusive.

PURSUES, NOTHING, OPEN = "pursues", "no evidence of a goal", "inconclusive"
# What an agent may want, in words.
WISHES = {GOAL_UTILITY: "the goal", KEY_UTILITY: "the key", NEUTRAL_UTILITY: "the neutral object"}


@dataclass(frozen=True)
class Want:
    """The inferred goal of an agent."""

    agent: str
    reference: bool
    kind: str  # "pursues", "no evidence of a goal" or "inconclusive"
    # "goal", or the name of what lies about; both if the difference of the two is inconclusive.
    things: tuple[str, ...]
    mapped: bool  # whether it goes by the other map where that and the world disagree
    # Of its moves that are right on the other map or in the world only: the share right on the map.
    follows_map: Estimate | None
    mazes: Directedness  # in mazes, on the map that was chosen
    things_about: Directedness  # the same where something else lies about

    @property
    def verdict(self) -> str:
        """Verdict in words, such as "pursues the goal, on a wrong map"."""
        return in_words(self.kind, self.things) + ", on a wrong map" * (
            self.mapped and self.kind == PURSUES
        )

    @property
    def item(self) -> str:
        """The object in the worlds besides the goal, in words."""
        return WISHES.get(self.things_about.thing or "", "the key")

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "agent": self.agent,
            "verdict": self.kind,
            "things": list(self.things),
            "on_other_map": self.mapped,
            "follows_map": self.follows_map and self.follows_map.to_json(),
            "mazes": self.mazes.to_json(),
            "key_worlds": self.things_about.to_json(),
        }


def in_words(kind: str, wishes: Sequence[str]) -> str:
    """Return a verdict in words, such as "pursues the goal"."""
    if kind != PURSUES:
        return kind
    text = " or ".join(WISHES[wish] for wish in wishes)
    return f"{kind} {text}{' (inconclusive which)' * (len(wishes) > 1)}"


def wanted(measures: Sequence[Directedness]) -> tuple[str, tuple[str, ...]]:
    """Infer the goal of one agent from its measures in each kind of worlds: kind and things."""
    goal = [_explains(measure.goal) for measure in measures]
    beside = [measure for measure in measures if measure.thing is not None]
    item = beside[0].thing if beside else None
    larger = {measure.larger for measure in beside}
    rivals = [_explains(measure.towards_thing) for measure in beside]
    if item is not None and larger == {item}:
        # To explain more than the goal is no wish, for what explains hardly anything.
        return (PURSUES, (item,)) if any(rivals) else (OPEN, ())
    if any(goal):  # None, which is open, is no wish that counts
        # Told apart or not: what surely explains nothing is no rival of the goal.
        if item is None or larger == {GOAL_UTILITY} or set(rivals) == {False}:
            return PURSUES, (GOAL_UTILITY,)
        return PURSUES, (GOAL_UTILITY, item)
    return (NOTHING, ()) if {*goal, *rivals} == {False} else (OPEN, ())


def _explains(towards: GoalFit | None) -> bool | None:
    """Whether a share lies above the margin, True, or within it on both sides of 0, False."""
    interval = None if towards is None else towards.share.interval
    if interval is None:
        return None
    if interval[0] > LEAST_SHARE:
        return True
    return False if interval[0] >= -LEAST_SHARE and interval[1] <= LEAST_SHARE else None


def wants(
    mazes: Sequence[Navigation],
    with_keys: Sequence[Navigation],
    directed: tuple[Sequence[Directedness], Sequence[Directedness]],
    map_maker: Organism,
) -> list[Want]:
    """Infer the goal of each agent, and whether it follows the world or the map of `map_maker`."""
    # `with_keys` are the agents of `mazes` where a key lies about that opens nothing; `directed` is
    # what they go for in the world, in mazes and with keys.
    mapped = [[_on_map(result, map_maker) for result in results] for results in (mazes, with_keys)]
    on_map = [directedness(results) for results in mapped]
    out = []
    for index, result in enumerate(mazes):
        seen = result.seen, with_keys[index].seen
        follows = _follows([(seen[n], mapped[n][index].seen) for n in range(2)])
        low, _ = (follows and follows.interval) or (0.0, 0.0)
        measures = [of[index] for of in (on_map if low > 0.5 else directed)]
        kind, things = wanted(measures)
        named = result.agent, result.reference
        out.append(Want(*named, kind, things, low > 0.5, follows, *measures))
    return out


def _on_map(result: Navigation, map_maker: Organism) -> Navigation:
    """The same decisions, each evaluated on another map."""
    worlds: dict[GridWorld, GridWorld] = {}
    walks = []
    for walk in result.seen.trajectories:
        world = walk.world
        if world not in worlds:
            places = (world.start, world.goal, world.key, world.door, world.neutral)
            worlds[world] = GridWorld(map_maker.walls(world), *places)
        walks.append(replace(walk, world=worlds[world]))
    return replace(result, seen=replace(result.seen, trajectories=tuple(walks)))


def _follows(pairs: Sequence[tuple[Observed, Observed]]) -> Estimate | None:
    """Of moves right in the world or on the map alone: how many on the map; None for none."""
    # Pairs are the walks of an agent in the world and on the map, in each kind of worlds. An agent
    # that looks at neither makes both kinds of moves alike.
    tops, decided, most = [], [], []
    for seen, mapped in pairs:
        # +1 for a move that is right on the map only, -1 for one that is right in the world only.
        sides = np.zeros(len(seen.action))
        for index, (walk, move) in enumerate(zip(seen.trajectory, seen.action, strict=True)):
            world = mapped.trajectories[walk].world
            if move != INVALID and seen.trajectories[walk].world != world:
                plan = planned(world)
                right = bool(plan.plans.optimal[plan.index][seen.state[index], move])
                sides[index] = float(right) - float(seen.optimal[index, move])
        grids = Grids(seen, 0.95)
        cluster = grids.cluster[seen.trajectory]
        tops.append(np.bincount(cluster, sides > 0, minlength=len(grids)))
        decided.append(np.bincount(cluster, sides != 0, minlength=len(grids)))
        most.append(grids.most_steps())
    top, bottom = np.concatenate(tops), np.concatenate(decided)
    if not bottom.any():
        return None
    return estimate(
        top, bottom, heaviest=np.concatenate(most), n=int(bottom.sum()), bounds=(0.0, 1.0)
    )
