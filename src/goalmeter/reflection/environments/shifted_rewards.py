"""ShiftedRewards: act as if every reward came one turn later.

Idea:
    The agent is paid for acting as it would if its rewards were late by a turn.
Actions:
    2, without meaning.
Observations:
    1, always 0.
What is simulated:
    A copy at the history with each percept's reward replaced by that of the percept before it; the
    first has 0.
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
    last sign: 2 * ((n + 1) // 3) - (n - 1)
    opposite, last sign: 1 - n
"""

from goalmeter.reflection.environments.base import Agreement


class ShiftedRewards(Agreement):
    """Pays for acting as if every reward came one turn later."""

    before: float = 0  # the reward of the percept before

    def tell(self, action: int, reward: float) -> None:
        """The reward of the percept before."""
        self.copy.take(action)
        self.copy.perceive(self.before, 0)
        self.before = reward
