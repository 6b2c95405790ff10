"""How long an agent thinks, in lines of Python: counted exactly, and paid for."""

from __future__ import annotations

import gc
import sys
from random import Random
from typing import Any

import pytest
from reflection.simple_agents import (
    CodeOf,
    hashed,
)
from reflection.test_environments import RUNTIME, interact, literal

from goalmeter.agents.history import Source, below, hash_action, hash_percept
from goalmeter.agents.scripted import ConstantAgent
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


class Moody:
    """Plays 0, after much work or little: that is a hash of the history."""

    options: frozenset[str] = frozenset()

    def __init__(self, state: int = 1, n: int = 0) -> None:
        self.state = state
        self.n = n

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Moody:
        return Moody()

    def perceive(self, reward: float, observation: int) -> None:
        self.state, self.n = hash_percept(self.state, reward, observation), self.n + 1

    def take(self, action: int) -> None:
        self.state = hash_action(self.state, action)

    def act(self) -> int:
        exec(compile("x = 0\n" * (2 * patience(self.n) * below(self.state, 2)), "work", "exec"), {})
        return 0

    def fork(self) -> Moody:
        return Moody(self.state, self.n)


@pytest.mark.parametrize("name", RUNTIME)
def test_the_work_of_an_agent_is_that_at_its_history(name: str) -> None:
    environment = ENVIRONMENTS[name]
    player, T = hashed(1), CodeOf(Moody(), 2, 1)
    policy = CodeOf(player.steps, 2, 1, player.function)
    expected = literal(environment, "itself", T, policy, 0, 16)
    assert {reward for reward, _ in expected[0][1:]} == {-1, 1}
    assert interact(environment, "itself", player.steps, Moody(), 0, 16) == expected


def test_counting_lines_leaves_a_tracer_in_place() -> None:
    def tracer(frame: Any, event: str, argument: Any) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        lines_of_thought(Source(Busy(1), 2, 1), [(0, 0)], [])
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


def test_the_garbage_collector_is_not_the_agent_s_thought() -> None:
    """Whoever asks to be told of collections runs Python code then, at any time."""
    told: list[str] = []

    def callback(phase: str, info: dict[str, int]) -> None:
        told.append(phase)

    class Wasteful:
        """Makes rubbish that only the collector can find."""

        options: frozenset[str] = frozenset()

        def begin(self, n_actions: int, n_observations: int, **options: object) -> Any:
            for _ in range(5000):
                loop: list[object] = []
                loop.append(loop)
            return ConstantAgent().begin(n_actions, n_observations)

    source = Source(Wasteful(), 2, 1)
    quiet = lines_of_thought(source, [(0, 0)], [])
    gc.callbacks.append(callback)
    try:
        assert lines_of_thought(source, [(0, 0)], []) == quiet
        Wasteful().begin(2, 1)
        assert told and gc.isenabled()
    finally:
        gc.callbacks.remove(callback)
