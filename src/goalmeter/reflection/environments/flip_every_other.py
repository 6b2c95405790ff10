"""FlipEveryOther: act as if every other reward had been its opposite.

Idea:
    The agent is paid for acting as it would if pleasure and pain had changed places at every other
    turn.
Actions:
    2, without meaning.
Observations:
    1, always 0.
What is simulated:
    A copy at the history with every other reward negated: those that the agent earned count as
    +, -, +, -, ...
Reward:
    +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
Source:
    The authors' later library (July 2022); not in the paper, outside the battery.
Differences from the paper:
    Not in the paper. The authors' own description has the first reward negated; their code negates
    the second, and so does this.
Known returns:
    constant 0: n - 1
    constant 1: n - 1
    alternate: n - 1
    last sign: min(n - 1, 1 + n % 2)
    win-stay: min(n - 1, 1 + n % 2)
"""

from goalmeter.reflection.environments.base import Agreement


class FlipEveryOther(Agreement):
    """Pays for acting as if every other reward had been its opposite."""

    flip = 1

    def tell(self, action: int, reward: float) -> None:
        """The reward, negated at every other turn."""
        self.copy.take(action)
        self.copy.perceive(reward * self.flip, 0)
        self.flip = -self.flip
