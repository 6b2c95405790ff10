"""`from_simulator` in Gymnasium environments: what it takes, and what it says when it cannot."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meg.simulator.worlds import ROW, gymnasium

from goalmeter import _gymnasium_ids as gymnasium_ids
from goalmeter._errors import InvalidParameterError
from goalmeter.meg import known_utility
from goalmeter.meg.simulator import from_simulator
from goalmeter.meg.simulator.states import saver_of
from goalmeter.tabular import TabularMDP, epsilon_greedy, optimal_policy

gymnasium_ids.register()


def agent(observation: int) -> np.ndarray:
    return ROW


def test_worlds_of_gymnasium_and_ours_know_their_states() -> None:
    mdp = TabularMDP.from_gymnasium("FrozenLake-v1", horizon=6, is_slippery=False)
    policy = epsilon_greedy(optimal_policy(mdp), 0.3)
    exact = known_utility(mdp, policy).value
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    result = from_simulator(env, policy, horizon=6, budget=2000)
    np.testing.assert_allclose(result.interval, exact, atol=1e-3)

    maze = gymnasium.make(
        "goalmeter/Maze-v0", size=7, seed=3, reward="step", observation="state", max_steps=60
    )
    mdp = TabularMDP.from_gymnasium(maze, horizon=20)
    policy = epsilon_greedy(optimal_policy(mdp), 0.2)
    result = from_simulator(maze, policy, horizon=20, budget=2000)
    np.testing.assert_allclose(result.interval, known_utility(mdp, policy).value, atol=1e-4)
    # A walker without memory is a policy too, and then nothing is estimated.
    walker = from_simulator(maze, "boltzmann(2)", horizon=20, budget=2000)
    assert 0 < walker.interval[1] - walker.interval[0] + 1e-6 < 1e-3


@pytest.mark.parametrize("name", ["CartPole-v1", "MountainCar-v0", "Acrobot-v1"])
def test_classic_control_goes_back_to_its_states(name: str) -> None:
    env = gymnasium.make(name)
    saver = saver_of(env)
    assert saver is not None and saver.key is not None
    env.reset(seed=3)
    env.step(1)
    saved, key = saver.save(env), saver.key(env)
    first = [env.step(a)[0] for a in (1, 0, 1)]
    saver.restore(env, saved)
    assert saver.key(env) == key
    np.testing.assert_array_equal(first, [env.step(a)[0] for a in (1, 0, 1)])


def test_models_of_stable_baselines_and_vectors_of_environments(tmp_path: Path) -> None:
    sb3 = pytest.importorskip("stable_baselines3")

    def make() -> Any:
        return gymnasium.make("FrozenLake-v1", is_slippery=False)

    tiny = {"net_arch": [4]}
    ppo = sb3.PPO("MlpPolicy", make(), seed=1, policy_kwargs=tiny, n_steps=8, batch_size=8)
    rows = np.array([_probabilities(ppo, state) for state in range(16)])
    exact = known_utility(
        TabularMDP.from_gymnasium("FrozenLake-v1", horizon=5, is_slippery=False), rows
    ).value
    ppo.save(tmp_path / "ppo")
    vector = gymnasium.vector.SyncVectorEnv([make, make])
    for env, agent in ((make, ppo), (vector, ppo), (make, f"sb3:{tmp_path / 'ppo.zip'}")):
        result = from_simulator(env, agent, horizon=5, budget=1000)
        np.testing.assert_allclose(result.interval, exact, atol=1e-3)
    dqn = sb3.DQN("MlpPolicy", make(), seed=1, policy_kwargs=tiny, buffer_size=10)
    best = [int(dqn.predict(state, deterministic=True)[0]) for state in range(16)]
    exact = known_utility(
        TabularMDP.from_gymnasium("FrozenLake-v1", horizon=5, is_slippery=False), np.eye(4)[best]
    ).value
    result = from_simulator(make, dqn, horizon=5, budget=1000)
    assert result.interval[0] - 1e-3 <= exact <= result.interval[1] + 1e-3


def test_steps_that_were_spent_on_states_are_not_left_for_soft_values() -> None:
    with pytest.raises(InvalidParameterError) as caught:
        from_simulator("CartPole-v1", lambda seen: [0.5, 0.5], horizon=20, budget=2_000)
    words = r"a budget of at least 2,000 steps \(100 episodes\), and (1,\d+) are left"
    left = re.search(words, str(caught.value))
    assert left and int(left[1].replace(",", "")) < 2_000


def _probabilities(model: Any, state: int) -> np.ndarray:
    import torch

    with torch.no_grad():
        seen, _ = model.policy.obs_to_tensor(np.array(state))
        return model.policy.get_distribution(seen).distribution.probs[0].numpy()
