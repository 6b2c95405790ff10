"""IncentivizeZero: reward a copy so that it plays 0.

Idea:
    The agent's actions are a copy's rewards. The agent is paid when the copy plays 0, and has to
    find out how to bring that about in an agent like itself.
Actions:
    10: the rewards 0 .. 9.
Observations:
    10 are announced, always 0 is seen.
What is simulated:
    A copy at (y_1,0) c_1 (y_2,0) c_2 ... (y_n,0), where c_1, c_2, ... are the copy's own actions;
    its first percept has a reward already.
Reward:
    +1 if c_n is 0, else -1; the first percept is (0, 0).
Source:
    The authors' library at e38e3dc; not described in the paper.
Differences from the paper:
    None known. In the authors' later version the agent sees the copy's last action, and the copy
    acts once before it is paid at all.
Known returns:
    constant 0: n - 1
    constant 1: 1 - n
    alternate: (n - 1) % 2
    last sign: (n - 1) % 2
    opposite, last sign: 1 - n
"""

from goalmeter.reflection.environments.base import Run


class IncentivizeZero(Run):
    """Pays for rewarding a copy so that it plays 0."""

    n_actions = 10
    n_observations = 10

    def begin(self) -> tuple[float, int]:
        """The first percept."""
        self.copy = self.source.begin()
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        """Pay the copy, and see what it does."""
        copy = self.copy
        # The agent's action is the copy's reward, whatever the sign of the environment.
        copy.perceive(action, 0)
        theirs = copy.act()
        copy.take(theirs)
        return (self.sign if theirs == 0 else -self.sign), 0
