"""PunishFastAgent: think at length.

Idea:
    The agent is paid for deciding with much work.
Actions:
    2, without meaning.
Observations:
    1, always 0.
What is simulated:
    A copy at the history as it is, begun anew and told of all of it, while the lines of Python that
    it runs through are counted (`goalmeter.reflection.environments.runtime` says exactly which).
Reward:
    +1 if the count is more than 15 times the length of the history written as one row of numbers
    r_1 o_1 y_1 ... r_n o_n, that is 15 (3n - 1); else -1. The first percept is (0, 0).
Source:
    Named in section 3.5; rules from the authors' library at e38e3dc, outside the battery.
Differences from the paper:
    As in PunishSlowAgent, of which this is almost the opposite: a count of exactly 15 (3n - 1) is
    punished in both.
Known returns:
    constant 0: 1 - n
    constant 1: 1 - n
    alternate: 1 - n
    last sign: 1 - n
"""

from goalmeter.reflection.environments.punish_slow_agent import PunishSlowAgent


class PunishFastAgent(PunishSlowAgent):
    """Pays for thinking at length."""

    def is_right(self, lines: int, limit: int) -> bool:
        """Whether an agent is paid for running through so many lines."""
        return lines > limit
