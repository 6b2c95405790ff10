"""Grid worlds: mazes, keys and doors, transforms, plans, text; each one also a finite MDP."""

from goalmeter.gridworld.contents import content, held_out
from goalmeter.gridworld.key_worlds import TwoPaths, key_door, key_no_door, two_paths
from goalmeter.gridworld.maze import Maze, maze
from goalmeter.gridworld.planner import Plan, Plans, State, plan, plans
from goalmeter.gridworld.tabular_world import TabularWorld, tabular_world
from goalmeter.gridworld.text import rendered
from goalmeter.gridworld.transforms import TRANSFORMS, Transform
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld

__all__ = [
    "ACTIONS",
    "TRANSFORMS",
    "Cell",
    "GridWorld",
    "Maze",
    "Plan",
    "Plans",
    "State",
    "TabularWorld",
    "Transform",
    "TwoPaths",
    "content",
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
