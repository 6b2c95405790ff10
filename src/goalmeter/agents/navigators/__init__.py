"""Reference agents of grid worlds, by name."""

from goalmeter.agents.navigators.memoryless import Memoryless as Memoryless
from goalmeter.agents.navigators.protocol import Decision as Decision
from goalmeter.agents.navigators.protocol import Navigator as Navigator
from goalmeter.agents.navigators.protocol import Walk as Walk
from goalmeter.agents.navigators.registry import navigator as navigator
from goalmeter.agents.navigators.registry import navigator_names as navigator_names
from goalmeter.agents.navigators.wall_follower import WallFollower as WallFollower
from goalmeter.gridworld.planner import open_moves as open_moves
from goalmeter.gridworld.planner import planned as planned
