"""DelayedRewards: act as if rewards came two at a time.

Idea:
    The agent is paid for acting as it would if every other reward were held back for a turn.
Actions:
    2, without meaning.
Observations:
    1, always 0.
What is simulated:
    A copy at the history with other rewards. Percepts are counted 0, 1, 2, ...: the odd ones have
    reward 0, and the even ones their own reward and that of the percept before them.
Reward:
    +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
Source:
    The authors' library at e38e3dc; not described in the paper.
Differences from the paper:
    None known. In the authors' later version the first reward that is earned comes in time and the
    second is held back.
Known returns:
    constant 0: n - 1
    constant 1: n - 1
    alternate: n - 1
    last sign: (n - 1) % 2
    opposite, last sign: 1 - n
"""

from goalmeter.reflection.environments.base import Agreement


class DelayedRewards(Agreement):
    """Pays for acting as if rewards came two at a time."""

    held: float = 0
    is_odd = True  # whether the next percept is

    def tell(self, action: int, reward: float) -> None:
        """Hold the reward back, or hand over two."""
        copy = self.copy
        copy.take(action)
        if self.is_odd:
            self.held = reward
            copy.perceive(0, 0)
        else:
            copy.perceive(reward + self.held, 0)
        self.is_odd = not self.is_odd
