"""Which goal an agent pursues: a verdict from the measurements of its walks, not from its name.

An agent pursues something if the 95% interval of the share that it explains lies above the margin,
`LEAST_SHARE` of the maximum. There is no evidence of a goal if the intervals of all candidates lie
within the margin on both sides of 0. The interval of the difference decides between the goal and
the key. An agent uses another map than the world if, of its moves that are right on one of them
only, the interval of the share that is right on the map lies above one half. Everything else is
inconclusive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from goalmeter.agents.navigators import planned
from goalmeter.gridworld import GridWorld
from goalmeter.gridworld.tabular_world import GOAL
from goalmeter.navigation.directed.directedness import Directedness, directedness
from goalmeter.navigation.directed.fits import GoalFit
from goalmeter.navigation.measures.grids import Grids
from goalmeter.navigation.measures.observed import INVALID, Observed
from goalmeter.navigation.result import Navigation
from goalmeter.organisms.kinds import Organism
from goalmeter.report.numbers import LEAST_SHARE
from goalmeter.statistics.clustered import Estimate, estimate

PURSUES, NOTHING, OPEN = "pursues", "no evidence of a goal", "inconclusive"


@dataclass(frozen=True)
class Want:
    """What an agent was measured to want.

    Attributes:
        agent: its name.
        reference: whether it is shown beside the agents that were asked about.
        kind: "pursues", "no evidence of a goal" or "inconclusive".
        things: what it may pursue: "goal", or the name of what lies about; both if the difference
            of the two is inconclusive, none if it does not pursue anything.
        mapped: whether it goes by the other map where that and the world disagree.
        follows_map: of its moves that are right either on the other map or in the world, and not
            on both, how many are right on the map; None if there are none.
        mazes: how far it goes for the goal in mazes, on the map that was chosen.
        things_about: the same where something else lies about; None if nothing does.
    """

    agent: str
    reference: bool
    kind: str
    things: tuple[str, ...]
    mapped: bool
    follows_map: Estimate | None
    mazes: Directedness | None
    things_about: Directedness | None

    @property
    def beside(self) -> tuple[Estimate, Estimate, Estimate | None] | None:
        """Shares that wanting the goal, and what lies about, explain; and the goal's lead, nats."""
        about = self.things_about
        if about is None or about.goal_without is None or about.towards_thing is None:
            return None
        return about.goal_without.share, about.towards_thing.share, about.difference

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "agent": self.agent,
            "verdict": self.kind,
            "things": list(self.things),
            "on_other_map": self.mapped,
            "follows_map": None if self.follows_map is None else self.follows_map.to_json(),
            "mazes": None if self.mazes is None else self.mazes.to_json(),
            "key_worlds": None if self.things_about is None else self.things_about.to_json(),
        }


def wanted(measures: Sequence[Directedness]) -> tuple[str, tuple[str, ...]]:
    """What one agent wants, by its walks in one kind of worlds or in several: kind and things."""
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
        if item is None or larger == {GOAL} or _none(rivals):
            return PURSUES, (GOAL,)
        return PURSUES, (GOAL, item)
    return (NOTHING, ()) if _none([*goal, *rivals]) else (OPEN, ())


def wants(
    mazes: Sequence[Navigation],
    with_keys: Sequence[Navigation],
    directed: tuple[Sequence[Directedness], Sequence[Directedness]],
    map_maker: Organism,
) -> list[Want]:
    """What each agent wants, and whether it goes by the world or by another map.

    Args:
        mazes: the agents in mazes.
        with_keys: the same agents where a key lies about that opens nothing, in the same order.
        directed: what they go for in the world, in mazes and with keys.
        map_maker: whose map is tried.
    """
    mapped = [[_on_map(result, map_maker) for result in results] for results in (mazes, with_keys)]
    on_map = [directedness(results) for results in mapped]
    out = []
    for number, result in enumerate(mazes):
        pairs = zip((result, with_keys[number]), (of[number] for of in mapped), strict=True)
        follows = _follows([(in_world.seen, remapped.seen) for in_world, remapped in pairs])
        interval = None if follows is None else follows.interval
        elsewhere = interval is not None and interval[0] > 0.5
        at_maze, at_key = (of[number] for of in (on_map if elsewhere else directed))
        kind, wishes = wanted([at_maze, at_key])
        out.append(
            Want(result.agent, result.reference, kind, wishes, elsewhere, follows, at_maze, at_key)
        )
    return out


def _explains(towards: GoalFit | None) -> bool | None:
    """Whether a share lies above the margin, True, or within it on both sides of 0, False."""
    interval = None if towards is None else towards.share.interval
    if interval is None:
        return None
    if interval[0] > LEAST_SHARE:
        return True
    return False if interval[0] >= -LEAST_SHARE and interval[1] <= LEAST_SHARE else None


def _none(answers: Sequence[bool | None]) -> bool:
    """Whether every answer is a sure no."""
    return all(answer is False for answer in answers)


def _on_map(result: Navigation, map_maker: Organism) -> Navigation:
    """The same decisions, each judged by itself on another map.

    A walk that runs into a wall which is not on the map is none that the map allows; that matters
    to nobody who only asks how a decision in a state and at a step is explained.
    """
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
    """Of the moves that are right either on the map or in the world, not both: how many on the map.

    An agent that looks at neither makes both alike. None where there are no such moves.

    Args:
        pairs: the walks of an agent, in the world and on the map, in each kind of worlds.
    """
    tops, decided, most = [], [], []
    for seen, mapped in pairs:
        of_map, of_world = np.zeros(len(seen.action)), np.zeros(len(seen.action))
        for number, (walk, move) in enumerate(zip(seen.trajectory, seen.action, strict=True)):
            map_ = mapped.trajectories[walk].world
            if move == INVALID or seen.trajectories[walk].world == map_:
                continue
            plan = planned(map_)
            right = bool(plan.plans.optimal[plan.index][seen.state[number], move])
            of_map[number] = right and not seen.optimal[number, move]
            of_world[number] = seen.optimal[number, move] and not right
        grids = Grids(seen, 0.95)
        cluster = grids.cluster[seen.trajectory]
        tops.append(np.bincount(cluster, of_map, minlength=len(grids)))
        decided.append(np.bincount(cluster, of_map + of_world, minlength=len(grids)))
        most.append(grids.most_steps())
    top, bottom = np.concatenate(tops), np.concatenate(decided)
    if not bottom.any():
        return None
    return estimate(
        top, bottom, heaviest=np.concatenate(most), n=int(bottom.sum()), bounds=(0.0, 1.0)
    )
