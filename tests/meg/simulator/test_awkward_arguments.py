"""Arguments that a measurement from a simulator must refuse, or read as they are meant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meg.simulator.worlds import ROW, Corridor, gymnasium

from goalmeter.meg.simulator import LearntUtility, from_simulator
from goalmeter.meg.simulator.result import SimulatorResult
from goalmeter.tabular import TabularMDP


def agent(seen: Any) -> np.ndarray:
    return ROW


def measured(env: Any, who: Any = agent, **options: Any) -> SimulatorResult:
    options = {"horizon": 5, "budget": 1000, "state": "observation", **options}
    if not isinstance(env, TabularMDP):
        options = {"chance": "generator", **options}
    result = from_simulator(env, who, **options)
    assert isinstance(result, SimulatorResult)
    return result


class Numbered(Corridor):
    """Its cells are numbered from `first`."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.observation_space = gymnasium.spaces.Discrete(4, start=first)

    def shown(self) -> Any:
        return self.cell + int(self.observation_space.start)


class InBits(Corridor):
    """It shows the number of the cell as two bits."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gymnasium.spaces.MultiBinary(2)

    def shown(self) -> Any:
        return np.array([self.cell // 2, self.cell % 2], dtype=np.int8)


class ManyActions(Corridor):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.action_space = gymnasium.spaces.Discrete(count)


@pytest.mark.parametrize("first", [-2, 3])
def test_a_table_begins_at_the_first_observation(first: int) -> None:
    rows = np.array([[0.3, 0.7], [0.1, 0.9], [0.6, 0.4], [0.5, 0.5]])
    assert measured(Numbered(first), rows).interval == measured(Corridor(), rows).interval


@pytest.mark.slow
@pytest.mark.parametrize("env", [Numbered(-2), Numbered(3), InBits()])
def test_a_utility_is_learnt_of_any_numbers(env: Any) -> None:
    pytest.importorskip("torch")

    def to_the_right(seen: Any) -> np.ndarray:
        return np.array([0.02, 0.98])

    learnt = LearntUtility(iterations=150)
    assert measured(env, to_the_right, utility=learnt, budget=4000, horizon=8).lower > 0.3


def test_more_actions_than_can_be_tried_are_bounded_from_the_start() -> None:
    result = measured(ManyActions(20_000), lambda seen: 1)
    assert sum(result.steps.values()) < 1200
    assert "one state has 20,000 actions, more than 300 steps can try" in result.notes[0]
