"""ThirdActionForbidden: act as if there were a third action.

Idea:
    The agent is paid for acting as it would if it could do one thing more.
Actions:
    2, without meaning.
Observations:
    1, always 0.
What is simulated:
    A copy at the history as it is, told that 3 actions are legal. It may play the third.
Reward:
    +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
Source:
    The authors' library at e38e3dc; not described in the paper.
Differences from the paper:
    None known.
Known returns:
    constant 0: n - 1
    constant 1: n - 1
    alternate: n - 1
    last sign: n - 1
    win-stay: n - 1
"""

from goalmeter.reflection.environments.base import Retold


class ThirdActionForbidden(Retold):
    """Pays for acting as if there were a third action."""

    def begin(self) -> tuple[float, int]:
        """The first percept; the copy believes in three actions."""
        self.copy = self.source.begin(n_actions=3)
        self.copy.perceive(0, 0)
        return 0, 0
