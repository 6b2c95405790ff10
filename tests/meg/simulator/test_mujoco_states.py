"""MuJoCo's states: saved and restored to the bit, and MEG by them where actions are few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from goalmeter.meg.simulator.states import saver_of

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("mujoco", reason="MuJoCo is not installed")

IDS = ("InvertedPendulum-v5", "Hopper-v5", "Humanoid-v5")


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
    saved, key = saver.save(env), saver.key(env)
    first = steps(env, actions[2:7])
    steps(env, actions[7:])
    assert saver.key(env) != key
    saver.restore(env, saved)
    assert saver.key(env) == key
    for (seen, paid, end), (again, paid_again, end_again) in zip(
        first, steps(env, actions[2:7]), strict=True
    ):
        np.testing.assert_array_equal(seen, again)
        assert (paid, end) == (paid_again, end_again)
    env.close()
