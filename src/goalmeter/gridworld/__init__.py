"""Grid worlds: mazes, keys and doors, transforms, shortest paths, text, and conversion to MDPs."""

from goalmeter.gridworld.conversions import TabularWorld, compact, rendered, tabular_world
from goalmeter.gridworld.generators import (
    Draws,
    Maze,
    TwoPaths,
    carved,
    distances_from,
    key_door,
    key_no_door,
    maze,
    two_paths,
)
from goalmeter.gridworld.planner import Plan, Plans, State, plan, plans
from goalmeter.gridworld.world import (
    ACTIONS,
    TRANSFORMS,
    Cell,
    GridWorld,
    Transform,
    content,
    has_few_contents,
    held_out,
)

__all__ = [
    "ACTIONS",
    "TRANSFORMS",
    "Cell",
    "Draws",
    "GridWorld",
    "Maze",
    "Plan",
    "Plans",
    "State",
    "TabularWorld",
    "Transform",
    "TwoPaths",
    "carved",
    "compact",
    "content",
    "distances_from",
    "has_few_contents",
    "held_out",
    "key_door",
    "key_no_door",
    "maze",
    "plan",
    "plans",
    "rendered",
    "tabular_world",
    "two_paths",
]
