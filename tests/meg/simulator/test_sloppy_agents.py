"""Agents that answer in odd forms, or not always alike."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from meg.simulator.worlds import ROW, Corridor, table

from goalmeter.meg import known_utility
from goalmeter.meg.simulator import from_simulator
from goalmeter.meg.simulator.result import SimulatorResult

EXACT = known_utility(table(0, 5), [ROW] * 4).value


def measured(agent: Any, env: Any = None, budget: int = 3000, **options: Any) -> SimulatorResult:
    options = {"state": "observation", "chance": "generator", "horizon": 5} | options
    options = {"bounds": (-1, -1)} | options
    result = from_simulator(Corridor() if env is None else env, agent, budget=budget, **options)
    assert isinstance(result, SimulatorResult)
    return result


def drawing(answer: Callable[[int], Any]) -> Callable[[Any], Any]:
    """An agent that draws its action itself, and says only which."""
    return lambda seen: answer(int(random.random() < ROW[1]))


def test_an_agent_that_draws_its_action_itself() -> None:
    result = measured(drawing(int))
    assert result.interval[0] <= EXACT <= result.interval[1]
    assert result.interval[1] - result.interval[0] > 0.05
    # Draws from the global generator are of the seed, too.
    assert result.to_json() == measured(drawing(int)).to_json()


class Alternates:
    """Remembers the number of the decision."""

    rows = np.array([[0.1, 0.9], [0.3, 0.7]])

    def begin(self, generator: np.random.Generator) -> Callable[[Any], Any]:
        rows = cycle(self.rows)
        return lambda seen: next(rows)


def test_an_agent_with_a_memory() -> None:
    by_time = np.stack([np.tile(Alternates.rows[t % 2], (4, 1)) for t in range(5)])
    exact = known_utility(table(0, 5), by_time).value
    result = measured(Alternates())
    # The world is deterministic, and the policy by time is known from its answers.
    assert result.interval == pytest.approx((exact, exact), abs=1e-9)


def test_a_name_of_the_state_that_is_coarser_than_what_the_agent_sees() -> None:
    class Clocked(Corridor):
        """Shows the step, which decides nothing, beside the cell."""

        at = 0

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.at = 0
            return super().reset(seed=seed)

        def step(self, action: int) -> Any:
            self.at += 1
            return super().step(action)

        def shown(self) -> Any:
            return np.array([self.cell, self.at])

    rows = np.array([[0.3, 0.7], [0.8, 0.2]])
    # The agent's row depends on the step, so MEG is that of the policy by time in the table.
    by_time = np.stack([np.tile(rows[t % 2], (4, 1)) for t in range(5)])
    exact = known_utility(table(0, 5), by_time).value
    result = measured(
        lambda seen: rows[int(seen[1]) % 2], Clocked(), state=lambda seen, info: int(seen[0])
    )
    assert "different" in result.notes[0]
    assert result.interval == pytest.approx((exact, exact), abs=1e-9)
