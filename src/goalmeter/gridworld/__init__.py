"""Grid worlds: mazes, keys and doors, transforms, plans, text; each one also a finite MDP."""

from goalmeter.gridworld.contents import content as content
from goalmeter.gridworld.contents import held_out as held_out
from goalmeter.gridworld.gymnasium_ids import register as _register
from goalmeter.gridworld.key_worlds import TwoPaths as TwoPaths
from goalmeter.gridworld.key_worlds import key_door as key_door
from goalmeter.gridworld.key_worlds import key_no_door as key_no_door
from goalmeter.gridworld.key_worlds import two_paths as two_paths
from goalmeter.gridworld.maze import Maze as Maze
from goalmeter.gridworld.maze import maze as maze
from goalmeter.gridworld.planner import Plan as Plan
from goalmeter.gridworld.planner import Plans as Plans
from goalmeter.gridworld.planner import State as State
from goalmeter.gridworld.planner import plan as plan
from goalmeter.gridworld.planner import plans as plans
from goalmeter.gridworld.tabular_world import TabularWorld as TabularWorld
from goalmeter.gridworld.tabular_world import tabular_world as tabular_world
from goalmeter.gridworld.text import rendered as rendered
from goalmeter.gridworld.transforms import TRANSFORMS as TRANSFORMS
from goalmeter.gridworld.transforms import Transform as Transform
from goalmeter.gridworld.world import ACTIONS as ACTIONS
from goalmeter.gridworld.world import Cell as Cell
from goalmeter.gridworld.world import GridWorld as GridWorld

# So that `gymnasium.make("goalmeter/KeyDoor-v0")` works; Gymnasium itself is not imported for it.
_register()
