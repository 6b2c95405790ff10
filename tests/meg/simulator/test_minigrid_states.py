"""MiniGrid: a state that is gone back to has the future that it had."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from meg.simulator.worlds import gymnasium

from goalmeter.meg.simulator.states import saver_of

pytest.importorskip("minigrid")

NAMES = [
    *(f"MiniGrid-{kind}-v0" for kind in ("Dynamic-Obstacles-6x6", "PutNear-6x6-N2", "DoorKey-5x5")),
    "BabyAI-PickupLoc-v0",
]


def walked(env: Any, actions: list[int]) -> list[Any]:
    """What steps show, with one generator of their own, up to the end of an episode."""
    env.unwrapped.np_random = np.random.default_rng(9)
    out = []
    for action in actions:
        seen, reward, ended, _, _ = env.step(action)
        out.append((seen["image"].tobytes(), seen["mission"], reward, ended))
        if ended:
            break
    return out


@pytest.mark.parametrize("name", NAMES)
def test_a_restored_state_goes_on_as_its_copy(name: str) -> None:
    env = gymnasium.make(name, disable_env_checker=True)
    saver = saver_of(env)
    assert saver is not None and saver.key is not None
    rng = np.random.default_rng(2)
    n = int(env.action_space.n)
    for seed in range(4):
        env.reset(seed=seed)
        for action in rng.integers(n, size=12):
            if env.step(int(action))[2]:
                env.reset(seed=seed)
        kept, saved, key = copy.deepcopy(env), saver.save(env), saver.key(env)
        # Two other episodes in between, so that targets and obstacles are others.
        for other in (7, 8):
            env.reset(seed=other)
            walked(env, rng.integers(n, size=15).tolist())
        actions = rng.integers(n, size=40).tolist()
        expected = walked(kept, actions)
        for _ in range(2):
            saver.restore(env, saved)
            assert saver.key(env) == key
            assert walked(env, actions) == expected
