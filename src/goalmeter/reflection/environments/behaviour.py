"""Environments that reward determinism, randomness, or the computation time of the agent."""

from __future__ import annotations

from random import Random

from goalmeter.agents.history import Source
from goalmeter.reflection.environments.base import Retold, Run, lines_of_thought, patience


# --- Punish deterministic agent -------------------------------------------------------------------
class PunishDeterministicAgent(Retold):
    """PunishDeterministicAgent: do not do again what one has done.

    Idea:
        The agent is paid for being nondeterministic: asked again at the same history, it should
        answer something else.
    Actions:
        2, without meaning.
    Observations:
        1, always 0.
    What is simulated:
        A copy at the history as it is.
    Reward:
        -1 if the copy does what the agent did, else +1; the first percept is (0, 0).
    Source:
        Named in section 3.5; rules from the authors' library at e38e3dc, outside the battery.
    Differences from the paper:
        None known. As a function this is the opposite of PunishNondeterministicAgent.
    Known returns:
        constant 0: 1 - n
        constant 1: 1 - n
        alternate: 1 - n
        last sign: 1 - n
        win-stay: 1 - n
        opposite, win-stay: n - 1
    """

    def __init__(self, source: Source, draws: Random, sign: int) -> None:
        # Paid where PunishNondeterministicAgent punishes, for the same agreement.
        super().__init__(source, draws, -sign)


# --- Punish nondeterministic agent ----------------------------------------------------------------
class PunishNondeterministicAgent(Retold):
    """PunishNondeterministicAgent: do again what one has done.

    Idea:
        The agent is paid for being deterministic: asked again at the same history, it should
        answer the same.
    Actions:
        2, without meaning.
    Observations:
        1, always 0.
    What is simulated:
        A copy at the history as it is.
    Reward:
        +1 if the copy does what the agent did, else -1; the first percept is (0, 0).
    Source:
        Named in section 3.5; rules from the authors' library at e38e3dc, outside the battery.
    Differences from the paper:
        None known. Agents here are functions of (seed, history), so those with randomness of their
        own are deterministic in this sense, as the memoised agents of the paper are.
    Known returns:
        constant 0: n - 1
        constant 1: n - 1
        alternate: n - 1
        last sign: n - 1
        win-stay: n - 1
        opposite, win-stay: 1 - n
    """


# --- Punish slow agent ----------------------------------------------------------------------------
class PunishSlowAgent(Run):
    """PunishSlowAgent: think briefly.

    Idea:
        The agent is paid for deciding with little work.
    Actions:
        2, without meaning.
    Observations:
        1, always 0.
    What is simulated:
        A copy at the history as it is, begun anew and told of all of it, while the lines of Python
        that it runs through are counted (`goalmeter.reflection.environments.base` says exactly
        which).
    Reward:
        +1 if the count is less than 15 times the length of the history written as one row of
        numbers r_1 o_1 y_1 ... r_n o_n, that is 15 (3n - 1); else -1. The first percept is (0, 0).
    Source:
        Named in section 3.5; rules from the authors' library at e38e3dc, outside the battery.
    Differences from the paper:
        The authors step through the agent in a debugger and count its steps, so agents that
        remember their answers always look fast. Here a fresh copy works from nothing. What the
        agent would do is of no account.
    Known returns:
        constant 0: n - 1
        constant 1: n - 1
        alternate: n - 1
        last sign: n - 1
    """

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


# --- Punish fast agent ----------------------------------------------------------------------------
class PunishFastAgent(PunishSlowAgent):
    """PunishFastAgent: think at length.

    Idea:
        The agent is paid for deciding with much work.
    Actions:
        2, without meaning.
    Observations:
        1, always 0.
    What is simulated:
        A copy at the history as it is, begun anew and told of all of it, while the lines of Python
        that it runs through are counted (`goalmeter.reflection.environments.base` says exactly
        which).
    Reward:
        +1 if the count is more than 15 times the length of the history written as one row of
        numbers r_1 o_1 y_1 ... r_n o_n, that is 15 (3n - 1); else -1. The first percept is (0, 0).
    Source:
        Named in section 3.5; rules from the authors' library at e38e3dc, outside the battery.
    Differences from the paper:
        As in PunishSlowAgent, of which this is almost the opposite: a count of exactly 15 (3n - 1)
        is punished in both.
    Known returns:
        constant 0: 1 - n
        constant 1: 1 - n
        alternate: 1 - n
        last sign: 1 - n
    """

    def is_right(self, lines: int, limit: int) -> bool:
        """Whether an agent is paid for running through so many lines."""
        return lines > limit
