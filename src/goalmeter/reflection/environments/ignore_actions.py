"""IgnoreActions: act as if every action so far had been 0.

Idea:
    The agent is paid for taking no notice of what it has done.
Actions:
    2, without meaning.
Observations:
    1, always 0.
What is simulated:
    A copy at the history with every action set to 0.
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

from goalmeter.reflection.environments.base import Agreement


class IgnoreActions(Agreement):
    """Pays for acting as if every action so far had been 0."""

    def tell(self, action: int, reward: float) -> None:
        """The reward, but action 0."""
        self.copy.take(0)
        self.copy.perceive(reward, 0)
