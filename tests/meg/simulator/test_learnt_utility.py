"""Utilities that are learnt first: they hold up on other episodes, and nothing leaks from these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from goalmeter.meg import LearntUtility, SimulatorResult, from_simulator

gymnasium = pytest.importorskip("gymnasium")
torch = pytest.importorskip("torch")

CELLS = 6


class Cells(gymnasium.Env[Any, Any]):
    """Six cells in a row, from the third; the last pays 1. `scrambled` from some step on."""

    def __init__(self, slip: float = 0.0, scrambled: float = np.inf) -> None:
        self.observation_space = gymnasium.spaces.Discrete(CELLS)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.slip, self.scrambled, self.steps, self.cell = slip, scrambled, 0, 2

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.cell = 2
        return self.cell, {}

    def step(self, action: int) -> Any:
        self.steps += 1
        if self.steps > self.scrambled:
            action = 1 - action
        if not self.slip or self.np_random.random() >= self.slip:
            self.cell = min(max(self.cell + 2 * int(action) - 1, 0), CELLS - 1)
        return self.cell, float(self.cell == CELLS - 1), False, False, {}


def going(observation: int) -> np.ndarray:
    return np.array([0.1, 0.9])


def network(inputs: int = CELLS) -> Any:
    torch.manual_seed(0)
    layers = torch.nn.Linear(inputs, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
    return torch.nn.Sequential(*layers)


def measured(agent: Any, utility: Any, **options: Any) -> Any:
    given: dict[str, Any] = {"horizon": 10, "budget": 6000, "chance": "generator"} | options
    return from_simulator(given.pop("env", None) or Cells(), agent, utility=utility, **given)


def paid(result: SimulatorResult) -> list[float]:
    assert result.utility_function is not None
    return [result.utility_function(cell, {}) for cell in range(CELLS)]


@pytest.mark.parametrize(
    ("slip", "state"), [(0.0, "observation"), pytest.param(0.1, None, marks=pytest.mark.slow)]
)
def test_most_of_what_the_true_utility_explains_is_learnt(slip: float, state: Any) -> None:
    asked = {"reward": "reward", "linear": LearntUtility(), "net": LearntUtility(module=network())}
    # Fitted soft values need more steps than counts for a lower end that is far from 0.
    budget = 10_000 if state else 40_000
    results = measured(
        going, asked, env=Cells(slip), state=state, bounds={"reward": (0, 1)}, budget=budget
    )
    for name in ("linear", "net"):
        result = results[name]
        assert result.interval[0] > 0.2 and result.value > 0.6 * results["reward"].value
        # The goal is worth more than where it began, and all in [-1, 1].
        assert paid(result)[-1] * np.sign(result.rationality) > paid(result)[2]
        assert np.abs(paid(result)).max() <= 1.0
        assert result.fitted_episodes > 100
        assert f"{result.steps['fit']:,} fit" in str(result)
        assert "measured on other episodes" in result.notes[-1]
        assert not any("no bounds were given" in note for note in result.notes)


def test_both_guaranteed_ends_are_of_the_learnt_utility() -> None:
    options = {"state": "observation", "budget": 2000, "guarantee": True}
    result = measured(going, LearntUtility(), env=Cells(0.1), **options)
    assert result.guaranteed is not None and not result.rests_on_assumption
    assert result.guaranteed[0] <= result.value <= result.guaranteed[1] < result.maximum


@pytest.mark.slow
def test_the_fit_sees_nothing_of_the_episodes_that_bound_it() -> None:
    asked = LearntUtility(steps=1000)
    first = measured(going, asked, env=Cells(scrambled=1000))
    other = measured(going, asked, env=Cells())
    assert first.steps["fit"] == other.steps["fit"] == 1000
    assert paid(first) == paid(other)
    # The agent walked away from what it had gone to, in all episodes that bound it.
    assert first.rationality <= 0.0 < other.rationality
