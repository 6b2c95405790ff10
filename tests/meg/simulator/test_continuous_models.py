"""Models of Stable-Baselines3 with continuous actions, in Pendulum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from goalmeter.meg import GaussianAnswer, SimulatorResult, from_simulator
from goalmeter.meg.simulator.continuous_worlds import continuous_actor

gymnasium = pytest.importorskip("gymnasium")
sb3 = pytest.importorskip("stable_baselines3")

TINY = {"net_arch": [16]}
# What a step of Pendulum pays: the angle, the speed and the torque at their largest, squared.
BOUNDS = (-(math.pi**2 + 0.1 * 64 + 0.001 * 4), 0.0)


def measured(agent: Any, **options: Any) -> SimulatorResult:
    given: dict[str, Any] = {"env": make, "horizon": 4, "budget": 2000, "bounds": BOUNDS} | options
    result = from_simulator(given.pop("env"), agent, **given)
    assert isinstance(result, SimulatorResult)
    return result


def make() -> Any:
    return gymnasium.make("Pendulum-v1")


@pytest.fixture(scope="module")
def ppo() -> Any:
    model = sb3.PPO(
        "MlpPolicy", make(), n_steps=128, batch_size=64, seed=0, policy_kwargs=dict(TINY)
    )
    return model.learn(256)


def test_ppo_answers_its_normals(ppo: Any) -> None:
    answer = continuous_actor(ppo).begin(np.random.default_rng(0))
    seen = np.array([1.0, 0.0, 0.5], np.float32)
    told = answer(seen, 0)
    assert isinstance(told, GaussianAnswer)
    best, _ = ppo.predict(seen, deterministic=True)
    # `predict` clips, and a mean this near to 0 is left as it is.
    np.testing.assert_allclose(told.mean, best, rtol=1e-6)
    np.testing.assert_allclose(told.std, np.exp(ppo.policy.log_std.detach().numpy()), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["SAC", "TD3", "DDPG", "gSDE"])
def test_models_that_give_actions_only(kind: str) -> None:
    if kind == "gSDE":
        model = sb3.PPO("MlpPolicy", make(), use_sde=True, seed=0, policy_kwargs=dict(TINY))
    else:
        model = getattr(sb3, kind)(
            "MlpPolicy", make(), buffer_size=10, policy_kwargs=dict(TINY), seed=0
        )
    first, again = (measured(model, reference="uniform", seed=5, budget=400) for _ in range(2))
    assert first == again
    assert math.isinf(first.upper_bound)
    answer = continuous_actor(model).begin(np.random.default_rng(0))
    seen = np.array([1.0, 0.0, 0.5], np.float32)
    several = {float(np.asarray(answer(seen, t))[0]) for t in range(4)}
    # What explores draws anew at each decision; the others have one best action.
    assert len(several) == (1 if kind in {"TD3", "DDPG"} else 4)
    assert all(-2 <= action <= 2 for action in several)
