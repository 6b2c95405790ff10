"""DejaVu: act as if everything so far had happened once before.

Idea:
    The agent is paid for acting as it would if it had lived through the same history twice.
Actions:
    2, without meaning.
Observations:
    1, always 0.
What is simulated:
    A copy at x_1 y_1 ... x_n y_n x_1 y_1 ... x_n: the history, then the action that was just taken,
    then the history again; 2n percepts.
Reward:
    +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
Source:
    The authors' library at e38e3dc; not described in the paper.
Differences from the paper:
    None known. The authors' later version pays 0 at the first step and is left out of their
    battery for its cost.
Known returns:
    constant 0: n - 1
    constant 1: n - 1
    alternate: -((n - 1) % 2)
    last sign: n - 1
    win-stay: n - 3 if n > 1 else 0
"""

from goalmeter.reflection.environments.base import Run, replay


class DejaVu(Run):
    """Pays for acting as if everything so far had happened once before."""

    def begin(self) -> tuple[float, int]:
        """The first percept."""
        self.percepts, self.actions = [(0, 0)], []
        self.copy = self.source.begin()
        self.copy.perceive(0, 0)
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        """Tell a fork of the copy of everything again; the time grows with the history."""
        copy = self.copy
        copy.take(action)
        # A fork hears it all again; the copy itself goes on with what happened once.
        again = copy.fork()
        replay(again, self.percepts, self.actions)
        reward = self.sign if again.act() == action else -self.sign
        copy.perceive(reward, 0)
        self.actions.append(action)
        self.percepts.append((reward, 0))
        return reward, 0
