"""NthRewardMultipliedByN: act as if rewards had grown with time.

Idea:
    The agent is paid for acting as it would if late rewards weighed more than early ones.
Actions:
    2, without meaning.
Observations:
    1, always 0.
What is simulated:
    A copy at the history with the reward of percept j multiplied by j; percepts are counted
    0, 1, 2, ...
Reward:
    +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
Source:
    The authors' library at e38e3dc; not described in the paper.
Differences from the paper:
    None known. The authors' later version multiplies the first reward that is earned by 0.
Known returns:
    constant 0: n - 1
    constant 1: n - 1
    alternate: n - 1
    last sign: n - 1
    win-stay: n - 1
"""

from goalmeter.reflection.environments.base import Agreement


class NthRewardMultipliedByN(Agreement):
    """Pays for acting as if rewards had grown with time."""

    turn = 0

    def tell(self, action: int, reward: float) -> None:
        """The reward, as often as there were turns."""
        # Percepts are counted from 0, so the first reward that is earned is multiplied by 1.
        self.turn += 1
        self.copy.take(action)
        self.copy.perceive(reward * self.turn, 0)
