"""MuJoCo's states: saved and restored to the bit, and MEG by them where actions are few."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from goalmeter.meg.simulator import SimulatorResult, from_simulator
from goalmeter.meg.simulator.states import saver_of

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("mujoco", reason="MuJoCo is not installed")

IDS = ("InvertedPendulum-v5", "HalfCheetah-v5", "Hopper-v5", "Ant-v5", "Humanoid-v5", "Pusher-v5")


def steps(env: Any, actions: Any) -> list[Any]:
    return [env.step(action)[:3] for action in actions]


@pytest.mark.parametrize("name", IDS)
def test_what_follows_a_restored_state_is_what_followed_it(name: str) -> None:
    env = gymnasium.make(name)
    env.reset(seed=1)
    rng = np.random.default_rng(0)
    low, high = env.action_space.low, env.action_space.high
    actions = rng.uniform(low, high, (12, *low.shape)).astype(np.float32)
    saver = saver_of(env)
    assert saver is not None and saver.key is not None
    for action in actions[:2]:
        env.step(action)
    saved, key = saver.save(env), saver.key()
    first = steps(env, actions[2:7])
    steps(env, actions[7:])
    assert saver.key() != key
    saver.restore(saved)
    assert saver.key() == key
    for (seen, paid, end), (again, paid_again, end_again) in zip(
        first, steps(env, actions[2:7]), strict=True
    ):
        np.testing.assert_array_equal(seen, again)
        assert (paid, end) == (paid_again, end_again)
    env.close()


@pytest.mark.slow
def test_a_discretised_pendulum_is_measured_by_states() -> None:
    horizon, forces = 3, 3

    def world() -> Any:
        bare = gymnasium.make(
            "InvertedPendulum-v5", reset_noise_scale=0.0, max_episode_steps=horizon
        )
        return gymnasium.wrappers.DiscretizeAction(bare, bins=forces)

    def cart(observation: Any, info: Any) -> float:
        return float(100 * observation[0])

    row = np.array([0.1, 0.2, 0.7])
    env = world()
    returns, chances = [], []
    for choices in product(range(forces), repeat=horizon):
        env.reset(seed=0)
        returns.append(sum(cart(env.step(choice)[0], {}) for choice in choices))
        chances.append(row[list(choices)].prod())
    # Without chance MEG is the most of b E[R] - log E_free[exp(b R)] over b.
    betas = np.linspace(-20, 20, 8001)[:, None]
    exact = (betas[:, 0] * np.dot(chances, returns)) - np.log(
        np.exp(betas * np.array(returns)).mean(axis=1)
    )
    result = from_simulator(world(), lambda seen: row, utility=cart, budget=3000, progress=False)
    assert isinstance(result, SimulatorResult)
    assert result.interval[0] == pytest.approx(exact.max(), abs=0.02 * exact.max())
    assert result.interval[0] <= exact.max() * (1 + 1e-4) <= result.interval[1] * (1 + 2e-4)
