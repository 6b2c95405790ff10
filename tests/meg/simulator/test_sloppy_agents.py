"""Agents that answer in odd forms, or not always alike; and calls that are interrupted."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from meg.simulator.worlds import ROW, Corridor, table

from goalmeter.meg import known_utility
from goalmeter.meg.simulator import SimulatorInterrupted, from_simulator
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


class Interrupted(Corridor):
    """The keyboard interrupts its k-th step or reset."""

    def __init__(self, at: int, tally: list[int]) -> None:
        super().__init__()
        self.at, self.tally = at, tally

    def __deepcopy__(self, memo: Any) -> Any:
        made = Interrupted(self.at, self.tally)
        made.cell = self.cell
        return made

    def _count(self) -> None:
        self.tally[0] += 1
        if self.tally[0] == self.at:
            raise KeyboardInterrupt

    def reset(self, **options: Any) -> Any:
        self._count()
        return super().reset(**options)

    def step(self, action: int) -> Any:
        self._count()
        return super().step(action)

    def slips(self) -> bool:
        return bool(self.np_random.random() < 0.25)


NOISY = known_utility(table(0.25, 5), [ROW] * 4).value


@pytest.mark.slow
@pytest.mark.parametrize("state", ["observation", None])
def test_an_interruption_at_any_step(state: str | None) -> None:
    gave_results = 0
    for at in [*range(1, 40), *range(40, 1000, 61)]:
        with pytest.raises(KeyboardInterrupt) as caught:
            measured(lambda seen: ROW, Interrupted(at, [0]), budget=1500, state=state)
        if isinstance(caught.value, SimulatorInterrupted):
            gave_results += 1
            result = caught.value.results["reward"]
            assert result.stopped == "interrupt"
            assert 0 <= result.interval[0] <= NOISY <= result.interval[1]
            assert result.interval[1] <= 5 * np.log(2) + 1e-9
            # Of a world in which no state was tried yet nothing is estimated.
            assert result.steps.get("states", 1) or result.value == result.lower
        else:
            # Only before the first episode is over nothing was played.
            assert at < 15
    assert gave_results > 30
