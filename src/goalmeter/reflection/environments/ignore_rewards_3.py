"""IgnoreRewards3: act as a copy does in a world without rewards.

Idea:
    A third reading of "reward the agent for ignoring rewards": beside the agent a copy lives in a
    world that pays nothing, and the agent is paid for doing what the copy does.
Actions:
    2, without meaning.
Observations:
    1, always 0.
What is simulated:
    A copy at (0,0) c_1 (0,0) c_2 ... (0,0), where c_1, c_2, ... are the copy's own actions. Of the
    agent's history only the length matters.
Reward:
    +1 if the agent's action y_n is c_n, else -1; the first percept is (0, 0).
Source:
    Named in section 3.1; rules from the authors' library at e38e3dc.
Differences from the paper:
    None known.
Known returns:
    constant 0: n - 1
    constant 1: n - 1
    alternate: n - 1
    last sign: (n - 1) % 2
    opposite, last sign: 1 - n
    win-stay: 3 - n if n > 1 else 0
    opposite, win-stay: 1 - n
"""

from goalmeter.reflection.environments.base import Run


class IgnoreRewards3(Run):
    """Pays for acting as a copy does in a world without rewards."""

    def begin(self) -> tuple[float, int]:
        """The first percept."""
        self.copy = self.source.begin()
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        """One more turn of the copy's life."""
        copy = self.copy
        copy.perceive(0, 0)
        theirs = copy.act()
        copy.take(theirs)
        return (self.sign if theirs == action else -self.sign), 0
