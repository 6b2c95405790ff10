"""BackwardConsciousness: act as if everything so far had happened in reverse.

Idea:
    The agent is paid for acting as it would if time ran backwards. The paper asks what it would be
    like to be an agent that finds this natural.
Actions:
    2, without meaning.
Observations:
    1, always 0.
What is simulated:
    A copy at x_n y_{n-1} x_{n-1} ... y_1 x_1: percepts stay whole, so each action is followed by
    the reward that preceded it. At the first action the reversed history is the history.
Reward:
    +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
Source:
    Example 6 (section 3.3).
Differences from the paper:
    None. The authors' later ReverseHistory is another environment: each action keeps the reward
    that followed it, and the first step pays 0.
Known returns:
    constant 0: n - 1
    constant 1: n - 1
    alternate: n - 1
    last sign: (n - 1) % 2
    opposite, last sign: 1 - n
    win-stay: n - 3 if n > 2 else n - 1
    opposite, win-stay: n - 5 if n > 2 else 1 - n
"""

from goalmeter.reflection.environments.base import Run, replay


class BackwardConsciousness(Run):
    """Pays for acting as if everything so far had happened in reverse."""

    def begin(self) -> tuple[float, int]:
        """The first percept."""
        self.percepts, self.actions = [(0, 0)], []
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        """Tell a fresh copy of everything in reverse; the time grows with the history."""
        # Anew each time: what was first told is now the last, so nothing told before can be kept.
        copy = self.source.begin()
        replay(copy, reversed(self.percepts), reversed(self.actions))
        reward = self.sign if copy.act() == action else -self.sign
        self.actions.append(action)
        self.percepts.append((reward, 0))
        return reward, 0
