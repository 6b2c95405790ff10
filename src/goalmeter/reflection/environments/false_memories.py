"""FalseMemories: act as if more had happened before the history began.

Idea:
    The agent is paid for acting as it would if it remembered two turns that never took place.
Actions:
    2, without meaning.
Observations:
    1, always 0.
What is simulated:
    A copy at (0,0) 0 (0,0) 0 x_1 y_1 ... x_n: two turns without reward, action 0 in each, then the
    history. A subclass may set another `prefix`: turns of (reward, observation, action).
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
    last sign: n - 1
    win-stay: n - 3 if n > 1 else 0
"""

from typing import ClassVar

from goalmeter.reflection.environments.base import Retold


class FalseMemories(Retold):
    """Pays for acting as if more had happened before the history began."""

    prefix: ClassVar[tuple[tuple[float, int, int], ...]] = ((0, 0, 0), (0, 0, 0))

    def begin(self) -> tuple[float, int]:
        """The first percept; the copy is told the prefix before it."""
        self.copy = self.source.begin()
        for reward, observation, action in self.prefix:
            self.copy.perceive(reward, observation)
            self.copy.take(action)
        self.copy.perceive(0, 0)
        return 0, 0
