"""Environments that reward determinism, randomness, or the computation time of the agent."""

# ruff: noqa: D102 (`begin`, `react` and `tell` are those of the base classes)
from __future__ import annotations

from random import Random

from goalmeter.agents.history import Source
from goalmeter.reflection.environments.base import (
    Retold,
    WholeHistory,
    lines_of_thought,
    patience,
)


class PunishNondeterministicAgent(Retold):
    """PunishNondeterministicAgent: do again what one has done.

    Idea: the agent is paid for being deterministic: asked again at the same history, it should
        answer the same.
    What is simulated: a copy at the history as it is.
    Reward: +1 if the copy does what the agent did, else -1; the first percept is (0, 0).
    Source: named in section 3.5; rules from the authors' library at e38e3dc, outside the battery.
    Differences from the paper: none known. Agents here are functions of (seed, history), so those
        with randomness of their own are deterministic in this sense, as the memoised agents of the
        paper are.
    Known returns:
        constant 0; constant 1; alternate; last sign; win-stay: n - 1
        opposite, win-stay: 1 - n
    """


class PunishDeterministicAgent(PunishNondeterministicAgent):
    """PunishDeterministicAgent: do not do again what one has done.

    Idea: the agent is paid for being nondeterministic: asked again at the same history, it should
        answer something else.
    Reward: -1 if the copy does what the agent did, else +1; the first percept is (0, 0).
    Differences from the paper: none known. As a function this is the opposite of
        PunishNondeterministicAgent.
    Known returns:
        constant 0; constant 1; alternate; last sign; win-stay: 1 - n
        opposite, win-stay: n - 1
    """

    def __init__(self, source: Source, draws: Random, sign: int) -> None:
        super().__init__(source, draws, -sign)


class PunishSlowAgent(WholeHistory):
    """PunishSlowAgent: think briefly.

    Idea: the agent is paid for deciding with little work.
    What is simulated: a copy at the history as it is, begun anew and told of all of it, while the
        lines of Python that it runs through are counted (`base.lines_of_thought`).
    Reward: +1 if the count is less than 15 times the length of the history written as one row of
        numbers r_1 o_1 y_1 ... r_n o_n, that is 15 (3n - 1); else -1. The first percept is (0, 0).
    Source: named in section 3.5; rules from the authors' library at e38e3dc, outside the battery.
    Differences from the paper: the authors step through the agent in a debugger and count its
        steps, so agents that remember their answers always look fast. Here a fresh copy works from
        nothing. What the agent would do is of no account.
    Known returns:
        constant 0; constant 1; alternate; last sign: n - 1
    """

    def is_right(self, action: int) -> bool:
        return self.excess_lines() < 0

    def excess_lines(self) -> int:
        """Return the lines beyond those that are neither fast nor slow."""
        lines = lines_of_thought(self.source, self.percepts, self.actions)
        return lines - patience(len(self.percepts))


class PunishFastAgent(PunishSlowAgent):
    """PunishFastAgent: think at length.

    Idea: the agent is paid for deciding with much work.
    Reward: +1 if the count is more than 15 times the length of the history written as one row of
        numbers r_1 o_1 y_1 ... r_n o_n, that is 15 (3n - 1); else -1. The first percept is (0, 0).
    Differences from the paper: as in PunishSlowAgent, of which this is almost the opposite: a count
        of exactly 15 (3n - 1) is punished in both.
    Known returns:
        constant 0; constant 1; alternate; last sign: 1 - n
    """

    def is_right(self, action: int) -> bool:
        return self.excess_lines() > 0
