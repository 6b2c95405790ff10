"""After how many steps a walk is ended.

The paper allows 1.5 times the shortest path, and 30 steps in worlds with a key. Such a cap makes
success depend on how long the path of a grid is; 3 times leaves room to err and to recover.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from goalmeter._arguments import finite, whole
from goalmeter._errors import InvalidParameterError
from goalmeter.agents.navigators import planned
from goalmeter.gridworld.paths import distances_from
from goalmeter.gridworld.planner import WITH_KEY, State
from goalmeter.gridworld.world import GridWorld

PAPER_FACTOR, PAPER_STEPS_WITH_KEYS = 1.5, 30
FACTOR = 3.0
# Every step of a walk is kept: a lost agent in so many steps takes a hundred megabytes.
MOST_STEPS, MOST_FACTOR = 100_000, 100.0


@dataclass(frozen=True, kw_only=True)
class Cap:
    """How long walks may be.

    Attributes:
        fixed: in steps, everywhere; None to take a multiple of the shortest way.
        factor: that multiple; None for the default.
        paper: whether the defaults are the paper's: 1.5, and 30 steps in worlds with a key.
        mazes: whether the worlds are mazes.

    Raises:
        InvalidParameterError: both are given, or one is less than 1 or without measure.
    """

    fixed: int | None
    factor: float | None
    paper: bool
    mazes: bool

    def __post_init__(self) -> None:
        if self.fixed is not None and self.factor is not None:
            raise InvalidParameterError("give either cap or cap_factor, not both")
        if self.fixed is not None:
            whole(self.fixed, "cap", least=1, most=MOST_STEPS)
        if self.factor is not None:
            finite(self.factor, "cap_factor", least=1, most=MOST_FACTOR)

    def steps(self, world: GridWorld) -> int:
        """The cap in one world."""
        if self.fixed is not None:
            return self.fixed
        if self.paper and not self.mazes and self.factor is None:
            return PAPER_STEPS_WITH_KEYS
        factor = self.factor or (PAPER_FACTOR if self.paper else FACTOR)
        # As a fraction of what is written: 1.1 x 10 is more than 11 in floating point.
        return ceil(Fraction(repr(float(factor))) * by_way_of_key(world))


def by_way_of_key(world: GridWorld) -> int:
    """Steps from the start over the key or the neutral object, if there is one, to the goal."""
    plan = planned(world)
    if world.thing is None or world.door is not None:
        return plan.distance
    walls = world.walls.copy()
    walls[world.goal] = True
    to_thing = int(distances_from(walls, [world.start])[0][world.thing])
    if to_thing < 0:
        return plan.distance
    return to_thing + plan.distance_from(State(world.thing, WITH_KEY))
