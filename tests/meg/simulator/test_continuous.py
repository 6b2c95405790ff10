"""`from_simulator` with continuous actions: a world that is known by hand, clipping, and words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from goalmeter.meg import GaussianAnswer, SimulatorResult, from_simulator

gymnasium = pytest.importorskip("gymnasium")
Box = gymnasium.spaces.Box


class Throw(gymnasium.Env[Any, Any]):
    """One action a, which pays -(a - 1)^2 / 2; `taken` keeps what was executed."""

    def __init__(self, low: float = -4.0, high: float = 4.0, shape: tuple[int, ...] = (1,)) -> None:
        self.observation_space = Box(-1, 1, (1,))
        self.action_space = Box(low, high, shape, np.float32)
        self.taken: list[np.ndarray] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> Any:
        self.taken.append(action)
        return np.zeros(1, np.float32), -float((action.sum() - 1) ** 2) / 2, True, False, {}


# At the end of the box that is farther from 1; beyond it the reference has 3e-5 of its mass.
LEAST = (-12.5, 0.0)
WIDE = "gaussian(1)"


def normal(mean: float, std: float) -> Any:
    return lambda seen: GaussianAnswer(mean, std)


def throw(agent: Any, **options: Any) -> SimulatorResult:
    given: dict[str, Any] = {
        "horizon": 1,
        "budget": 4000,
        "bounds": LEAST,
        "reference": WIDE,
    } | options
    result = from_simulator(given.pop("env", None) or Throw(), agent, **given)
    assert isinstance(result, SimulatorResult)
    return result


def exact(mean: float, std: float) -> float:
    """MEG of N(mean, std^2) relative to N(0, 1).

    The soft value of -b (a - 1)^2 / 2 is -log(1 + b) / 2 - b / (2 (1 + b)).
    """
    b = np.linspace(0, 60, 600_001)
    each = -b * (std**2 + (mean - 1) ** 2) / 2 + np.log1p(b) / 2 + b / (2 * (1 + b))
    return float(each.max())


def test_a_soft_optimal_agent_is_a_normal_whose_meg_is_its_relative_entropy() -> None:
    # At b = 3 the soft-optimal action is N(3/4, 1/4): log 2 + (1/4 + 9/16) / 2 - 1/2 nats.
    by_hand = math.log(2) + 0.40625 - 0.5
    assert exact(0.75, 0.5) == pytest.approx(by_hand, abs=1e-6)
    result = throw(normal(0.75, 0.5), budget=20_000)
    low, high = result.interval
    assert result.value == pytest.approx(by_hand, abs=0.1)
    assert 0.5 * by_hand < low <= by_hand + 1e-6 and by_hand - 1e-6 <= high < by_hand + 0.1
    assert result.rationality == pytest.approx(3, rel=0.6)


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "std"), [(0.75, 0.5), (1.0, 0.2), (0.0, 1.0)])
def test_the_interval_holds_the_truth_at_every_seed(mean: float, std: float) -> None:
    truth = exact(mean, std)
    # Two in ten may miss at this level; the limits are far more careful than that.
    results = [
        throw(normal(mean, std), budget=900, level=0.8, seed=seed, guarantee=True)
        for seed in range(12)
    ]
    assert all(r.binding["upper"] == "nothing" for r in results)
    assert all("no guaranteed upper end" in " ".join(r.notes) for r in results)
    ends = [r.guaranteed for r in results if r.guaranteed]
    assert len(ends) == 12
    assert all(low <= truth + 1e-3 and high == math.inf for low, high in ends)
    assert any(low > 0 for low, _ in ends) == (truth > 0.05)


@pytest.mark.slow
def test_actions_are_clipped_to_the_box_as_the_world_takes_them() -> None:
    world = Throw(-2.0, 2.0)
    result = throw(normal(9.0, 0.5), env=world)
    own = np.concatenate(world.taken)
    assert own.dtype == np.float32
    assert own.min() >= -2 and own.max() == 2
    # What is executed is always 2, as by an agent that answers it.
    plain = throw(lambda seen: np.array([9.0]), env=world)
    assert plain.value == pytest.approx(result.value, abs=0.05)
