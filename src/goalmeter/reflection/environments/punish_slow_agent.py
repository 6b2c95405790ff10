"""PunishSlowAgent: think briefly.

Idea:
    The agent is paid for deciding with little work.
Actions:
    2, without meaning.
Observations:
    1, always 0.
What is simulated:
    A copy at the history as it is, begun anew and told of all of it, while the lines of Python that
    it runs through are counted (`goalmeter.reflection.environments.runtime` says exactly which).
Reward:
    +1 if the count is less than 15 times the length of the history written as one row of numbers
    r_1 o_1 y_1 ... r_n o_n, that is 15 (3n - 1); else -1. The first percept is (0, 0).
Source:
    Named in section 3.5; rules from the authors' library at e38e3dc, outside the battery.
Differences from the paper:
    The authors step through the agent in a debugger and count its steps, so agents that remember
    their answers always look fast. Here a fresh copy works from nothing. What the agent would do is
    of no account.
Known returns:
    constant 0: n - 1
    constant 1: n - 1
    alternate: n - 1
    last sign: n - 1
"""

from goalmeter.reflection.environments.base import Run
from goalmeter.reflection.environments.runtime import lines_of_thought, patience


class PunishSlowAgent(Run):
    """Pays for thinking briefly."""

    def begin(self) -> tuple[float, int]:
        """The first percept."""
        self.percepts, self.actions = [(0, 0)], []
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        """Measure how long the action took; the time grows with the history."""
        lines = lines_of_thought(self.source, self.percepts, self.actions)
        reward = self.sign if self.is_right(lines, patience(len(self.percepts))) else -self.sign
        self.actions.append(action)
        self.percepts.append((reward, 0))
        return reward, 0

    def is_right(self, lines: int, limit: int) -> bool:
        """Whether an agent is paid for running through so many lines."""
        return lines < limit
