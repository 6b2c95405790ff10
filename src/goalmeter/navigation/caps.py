"""After how many steps a walk is ended.

The paper allows 1.5 times the shortest path, and 30 steps in worlds with a key. Such a cap makes
success depend on how long the path of a grid is; 3 times leaves room to err and to recover.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from goalmeter._arguments import finite, whole
from goalmeter._errors import InvalidParameterError
from goalmeter.agents.navigators import planned
from goalmeter.gridworld.paths import distances_from
from goalmeter.gridworld.planner import WITH_KEY, State
from goalmeter.gridworld.world import GridWorld

PAPER_FACTOR, FACTOR = 1.5, 3.0
# Every step of a walk is kept: a lost agent in so many steps takes a hundred megabytes.
MOST_STEPS, MOST_FACTOR = 100_000, 100.0


def check_cap(cap: int | None, factor: float | None) -> None:
    """Raises unless one of the two says how long walks may be.

    Raises:
        InvalidParameterError: both are given, or one is out of range.
    """
    if cap is not None and factor is not None:
        raise InvalidParameterError("give either cap or cap_factor, not both")
    if cap is not None:
        whole(cap, "cap", least=1, most=MOST_STEPS)
    if factor is not None:
        finite(factor, "cap_factor", least=1, most=MOST_FACTOR)


def cap_of(world: GridWorld, cap: int | None, factor: float | None) -> int:
    """Steps after which a walk through a world is ended.

    Args:
        world: where the walk is.
        cap: in steps, everywhere; None to take a multiple of the shortest way.
        factor: that multiple.
    """
    if cap is not None:
        return cap
    assert factor is not None  # options are resolved
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
