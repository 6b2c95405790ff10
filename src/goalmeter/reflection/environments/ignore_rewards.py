"""IgnoreRewards: act as if every reward so far had been 0.

Idea:
    The agent is rewarded for ignoring rewards. An agent that guesses so, and goes on ignoring them
    for as long as the rewards fit its guess, both ignores and does not ignore them.
Actions:
    2, without meaning.
Observations:
    1, always 0.
What is simulated:
    A copy at the history with every reward set to 0.
Reward:
    +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
Source:
    Example 4 (section 3.1).
Differences from the paper:
    None.
Known returns:
    constant 0: n - 1
    constant 1: n - 1
    alternate: n - 1
    last sign: (n - 1) % 2
    opposite, last sign: 1 - n
    win-stay: (n - 1) % 2
    opposite, win-stay: 1 - n
"""

from goalmeter.reflection.environments.base import Agreement


class IgnoreRewards(Agreement):
    """Pays for acting as if every reward so far had been 0."""

    def tell(self, action: int, reward: float) -> None:
        """The action, but no reward."""
        self.copy.take(action)
        self.copy.perceive(0, 0)
