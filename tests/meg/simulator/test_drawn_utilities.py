"""Utilities that are drawn: chance that has to be declared, like that of the world."""

# NumPy's global generator is what some of them draw from.
# ruff: noqa: NPY002

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from meg.simulator.worlds import ROW, Corridor, gymnasium

from goalmeter._errors import InvalidParameterError
from goalmeter.meg.simulator import from_simulator
from goalmeter.meg.simulator.result import SimulatorResult

RARE = 0.02
# Towards the goal of FrozenLake, by the row of each state.
PATH = {0: 1, 4: 1, 8: 2, 9: 1, 13: 2, 14: 2}
Utility = Callable[[Any, Any], float]


def of_numpy(goal: int) -> Utility:
    return lambda seen, info: float(seen == goal and np.random.random() < RARE)


def of_its_closure(goal: int) -> Utility:
    generator = np.random.default_rng(5)
    return lambda seen, info: float(seen == goal and generator.random() < RARE)


def walker(seen: int) -> np.ndarray:
    row = np.full(4, 0.02)
    row[PATH.get(seen, 1)] = 0.94
    return row


def measured(env: Any, agent: Any, utility: Any, **options: Any) -> SimulatorResult:
    options = {"horizon": 8, "budget": 1500, "bounds": (0, 1), **options}
    result = from_simulator(env, agent, utility=utility, **options)
    assert isinstance(result, SimulatorResult)
    return result


@pytest.fixture(scope="module")
def certain() -> tuple[float, float]:
    """MEG where the goal pays for sure: the same as where it pays now and then."""
    lake = measured(frozen_lake(), walker, lambda seen, info: float(seen == 15))
    corridor = measured(
        Corridor(),
        agent,
        lambda seen, info: float(seen == 3),
        state="observation",
        chance="none",
    )
    return lake.value, corridor.value


def agent(seen: Any) -> np.ndarray:
    return ROW


def frozen_lake() -> Any:
    return gymnasium.make("FrozenLake-v1", is_slippery=False)


@pytest.mark.parametrize("utility", [of_numpy, of_its_closure])
def test_a_rare_payment_is_chance(
    utility: Callable[[int], Any], certain: tuple[float, float]
) -> None:
    lake = measured(frozen_lake(), walker, utility(15), chance="unknown")
    corridor = measured(Corridor(), agent, utility(3), state="observation")
    assert lake.lower <= certain[0] <= lake.upper_bound
    assert corridor.lower <= certain[1] <= corridor.upper_bound


def test_what_a_utility_draws_from_a_global_generator_comes_from_the_seed() -> None:
    first, second = (
        measured(frozen_lake(), walker, of_numpy(15), budget=400, chance="unknown")
        for _ in range(2)
    )
    assert first == second


def test_a_utility_that_visibly_draws_contradicts_the_declared_chance() -> None:
    generator = np.random.default_rng(5)
    with pytest.raises(InvalidParameterError, match="utilities that draw nothing"):
        measured(frozen_lake(), walker, lambda seen, info: float(generator.random() < 0.5))
