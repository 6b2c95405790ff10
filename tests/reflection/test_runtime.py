"""How long an agent thinks, in lines of Python: counted exactly, and paid for."""

from __future__ import annotations

from random import Random
from typing import Any

from goalmeter.agents.history import Source
from goalmeter.reflection.environments import (
    ENVIRONMENTS,
)
from goalmeter.reflection.environments.base import lines_of_thought, patience


class Busy:
    """Executes so many lines to act, one to perceive, one to take and one to begin."""

    options: frozenset[str] = frozenset()

    def __init__(self, lines: int) -> None:
        self.work = compile("x = 0\n" * lines, "work", "exec")

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Busy:
        return self

    def perceive(self, reward: float, observation: int) -> None:
        pass

    def take(self, action: int) -> None:
        pass

    def act(self) -> int:
        exec(self.work, {})
        return 0

    def fork(self) -> Busy:
        return self


def test_lines_are_counted_exactly() -> None:
    def lines(busy: Busy, n: int) -> int:
        return lines_of_thought(Source(busy, 2, 1), [(0, 0)] * n, [0] * (n - 1))

    # begin 1, perceive n, take n - 1, act 2 and what it executes. What a version of Python counts
    # for entering compiled text cancels in the differences.
    assert lines(Busy(8), 1) - lines(Busy(1), 1) == 7
    assert lines(Busy(1), 5) - lines(Busy(1), 1) == 8
    assert 5 <= lines(Busy(1), 1) <= 6


def test_patience_is_fifteen_lines_a_number() -> None:
    # One percept is two numbers, 30 lines; a turn more has three numbers more.
    assert [patience(1), patience(2), patience(3)] == [30, 75, 120]
    few = lines_of_thought(Source(Busy(1), 2, 1), [(0, 0)], [])
    for lines, slow, fast in ((29, 1, -1), (30, -1, -1), (31, -1, 1)):
        agent = Busy(lines - few + 1)
        assert lines_of_thought(Source(agent, 2, 1), [(0, 0)], []) == lines
        for name, reward in (("PunishSlowAgent", slow), ("PunishFastAgent", fast)):
            run = ENVIRONMENTS[name].start(agent, Random(0))
            run.begin()
            assert run.react(0) == (reward, 0)
