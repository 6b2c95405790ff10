"""Repeater: act as if every turn had happened twice.

Idea:
    The agent is paid for acting as it would if it remembered every turn double.
Actions:
    2, without meaning.
Observations:
    1, always 0.
What is simulated:
    A copy at x_1 y_1 x_1 y_1 x_2 y_2 x_2 y_2 ... x_n: every turn doubled, the last percept single.
Reward:
    +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
Source:
    The authors' library at e38e3dc; not described in the paper.
Differences from the paper:
    None known. In the authors' later version the first of the two like actions is followed by the
    reward that it earned, not by the one before it.
Known returns:
    constant 0: n - 1
    constant 1: n - 1
    alternate: (n - 1) % 2
    last sign: n - 1
    win-stay: n - 1
"""

from goalmeter.reflection.environments.base import Agreement


class Repeater(Agreement):
    """Pays for acting as if every turn had happened twice."""

    before: float = 0  # the reward of the last percept

    def tell(self, action: int, reward: float) -> None:
        """The turn that is over once more, then the percept."""
        copy = self.copy
        copy.take(action)
        # The same percept and the same answer to it, a second time.
        copy.perceive(self.before, 0)
        copy.take(action)
        copy.perceive(reward, 0)
        self.before = reward
