"""Agents as people have them: small models of Stable-Baselines3, trained here, in known worlds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from goalmeter import _gymnasium_ids as gymnasium_ids
from goalmeter.gridworld.conversions import tabular_world
from goalmeter.meg import known_utility
from goalmeter.meg.simulator import SimulatorResult, from_simulator

gymnasium = pytest.importorskip("gymnasium")
sb3 = pytest.importorskip("stable_baselines3")
torch = pytest.importorskip("torch")
gymnasium_ids.register()

# One worker trains all, rather than each a part.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("trained agents")]
PLAIN: dict[str, Any] = {"seed": 0, "device": "cpu"}


def trained(model: Any, steps: int) -> Any:
    """A model after its training, which leaves no folder of logs behind."""
    from stable_baselines3.common.logger import Logger

    model.set_logger(Logger(folder=None, output_formats=[]))
    return model.learn(steps)


def ppo(env: Any, steps: int, policy: str = "MlpPolicy", **options: Any) -> Any:
    sizes = {"n_steps": 256, "batch_size": 64, "n_epochs": 4, "learning_rate": 3e-3}
    return trained(sb3.PPO(policy, env, **PLAIN, **(sizes | options)), steps)


def dqn(env: Any, steps: int) -> Any:
    sizes = {"learning_starts": 50, "buffer_size": 2000, "target_update_interval": 100}
    rates = {"learning_rate": 3e-3, "exploration_fraction": 0.5}
    return trained(sb3.DQN("MlpPolicy", env, **PLAIN, **sizes, **rates), steps)


def single(result: Any) -> SimulatorResult:
    assert isinstance(result, SimulatorResult)
    low, high = result.interval
    assert result.maximum is not None
    assert 0 <= low <= result.value <= high <= result.maximum + 1e-9
    return result


# --- Our mazes, whose table is known --------------------------------------------------------------
def maze() -> Any:
    return gymnasium.make(
        "goalmeter/Maze-v0", size=5, seed=3, reward="step", observation="state", max_steps=40
    )


@pytest.fixture(scope="module")
def walker() -> Any:
    return ppo(maze(), 3072)


def table_of(model: Any, count: int) -> Any:
    """The model's policy in every state, [S, A]."""
    if not hasattr(model.policy, "get_distribution"):
        actions = [int(model.predict(s, deterministic=True)[0]) for s in range(count)]
        return np.eye(4)[actions]
    with torch.no_grad():
        rows = model.policy.get_distribution(torch.arange(count)).distribution.probs
    return np.asarray(rows, dtype=np.float64)


def test_ppo_and_dqn_in_a_maze_have_the_meg_of_its_table(walker: Any) -> None:
    table = tabular_world(maze().unwrapped.world, horizon=12)
    # A step pays -1 until the goal is reached, and nothing is decided after it.
    reward = [0.0 if s.cell == table.world.goal else -1.0 for s in table.states]
    mdp = table.mdp.replace(reward=reward)
    for model in (walker, dqn(maze(), 2000)):
        exact = known_utility(mdp, table_of(model, len(table.states)))
        result = single(from_simulator(maze(), model, horizon=12, budget=10_000))
        np.testing.assert_allclose(result.interval, exact.value, atol=2e-3)
        assert result.value > 2
