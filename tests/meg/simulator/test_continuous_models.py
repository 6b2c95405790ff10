"""Models of Stable-Baselines3 with continuous actions, in Pendulum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from goalmeter.agents.environment_agents import actor_of_model
from goalmeter.meg import GaussianAnswer

gymnasium = pytest.importorskip("gymnasium")
sb3 = pytest.importorskip("stable_baselines3")

TINY = {"net_arch": [16]}


def make() -> Any:
    return gymnasium.make("Pendulum-v1")


@pytest.fixture(scope="module")
def ppo() -> Any:
    model = sb3.PPO(
        "MlpPolicy", make(), n_steps=128, batch_size=64, seed=0, policy_kwargs=dict(TINY)
    )
    return model.learn(256)


def test_ppo_answers_its_normals(ppo: Any) -> None:
    answer = actor_of_model(ppo).begin(np.random.default_rng(0))
    seen = np.array([1.0, 0.0, 0.5], np.float32)
    told = answer(seen, 0)
    assert isinstance(told, GaussianAnswer)
    best, _ = ppo.predict(seen, deterministic=True)
    # `predict` clips, and a mean this near to 0 is left as it is.
    np.testing.assert_allclose(told.mean, best, rtol=1e-6)
    np.testing.assert_allclose(told.std, np.exp(ppo.policy.log_std.detach().numpy()), rtol=1e-6)
