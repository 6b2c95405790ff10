"""The agent that keeps a hand on the wall."""

from __future__ import annotations

from dataclasses import dataclass

from goalmeter.agents.navigators.protocol import Decision
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.planner import Plan, State, planned
from goalmeter.gridworld.world import GridWorld

LEFT, RIGHT, UP, DOWN = range(4)
# Headings in the order in which one turns right.
CLOCKWISE = (UP, RIGHT, DOWN, LEFT)
FIRST_HEADING = UP


@dataclass(frozen=True)
class WallFollower:
    """The right-hand rule: turn right if that way is open, else go on, else left, else back.

    The heading is the last move, and up at first. In a perfect maze it finds every goal; in open
    rooms it walks in circles, which is what becomes of the rule there.
    """

    name: str = "wall-follower"

    def begin(self, world: GridWorld, draws: Draws) -> WallFollowerWalk:
        """Set out in a world; nothing is drawn."""
        return WallFollowerWalk(planned(world))


class WallFollowerWalk:
    """A walk along the wall."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._heading = FIRST_HEADING

    def act(self, state: State) -> Decision:
        """The first open way from the right."""
        facing = CLOCKWISE.index(self._heading)
        for turn in (1, 0, -1, 2):  # right, ahead, left, back
            action = CLOCKWISE[(facing + turn) % 4]
            if self._plan.step(state, action) != state:
                self._heading = action
                break
        else:
            action = self._heading  # walled in
        left, right, up, down = (float(action == a) for a in range(4))
        return Decision(action, (left, right, up, down))
