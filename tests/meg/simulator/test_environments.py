"""`from_simulator` in Gymnasium environments: what it takes, and what it says when it cannot."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meg.simulator.worlds import ROW, Corridor, gymnasium, table

from goalmeter import _gymnasium_ids as gymnasium_ids
from goalmeter._errors import InvalidParameterError, InvalidPolicyError
from goalmeter.meg import known_utility
from goalmeter.meg.simulator import from_simulator
from goalmeter.meg.simulator.states import saver_of
from goalmeter.tabular import TabularMDP, epsilon_greedy, optimal_policy

gymnasium_ids.register()


class Slippery(Corridor):
    """`slip` is the chance that a step goes nowhere."""

    def __init__(self, slip: float) -> None:
        super().__init__()
        self.slip = slip

    def slips(self) -> bool:
        return bool(self.np_random.random() < self.slip)


def agent(observation: int) -> np.ndarray:
    return ROW


@pytest.mark.parametrize("horizon", [3, 10])
def test_an_end_is_an_absorbing_state_of_a_table(horizon: int) -> None:
    exact = known_utility(table(0.0, horizon), [ROW] * 4)
    result = from_simulator(
        Corridor(), agent, horizon=horizon, state="observation", chance="none", budget=500
    )
    np.testing.assert_allclose(result.interval, exact.value, atol=2e-4)


def test_a_time_limit_is_the_horizon_and_no_end() -> None:
    limited = gymnasium.wrappers.TimeLimit(Corridor(), 3)
    exact = known_utility(table(0.0, 3), [ROW] * 4).value
    assert from_simulator(limited, agent, state="observation", chance="none", budget=500).interval[
        0
    ] == pytest.approx(exact, abs=2e-4)
    with pytest.raises(InvalidParameterError, match="give a horizon up to 3"):
        from_simulator(limited, agent, horizon=5)

    class Hurried(Corridor):
        def step(self, action: int) -> Any:
            seen, reward, end, _, info = super().step(action)
            return seen, reward, end, True, info

    with pytest.raises(InvalidParameterError, match="after 1 decisions without terminating"):
        from_simulator(Hurried(), agent, horizon=5, state="observation")
    with pytest.raises(InvalidParameterError, match="give horizon="):
        from_simulator(Corridor(), agent)


class Wearing(Corridor):
    """Pays 5 at the third step, which no observation shows."""

    def reset(self, **options: Any) -> Any:
        self.steps = 0
        return super().reset(**options)

    def step(self, action: int) -> Any:
        self.steps += 1
        return *super().step(action)[:4], {"steps": self.steps}

    def pays(self) -> float:
        return 5.0 if self.steps == 3 else -1.0


def test_a_reward_of_a_hidden_state() -> None:
    # From the start nothing is asked of states, so the bound holds.
    open_ = from_simulator(Wearing(), agent, horizon=6, budget=5000, bounds=(-1, 5))
    assert open_.interval[0] >= 0
    # Told that the observation is the state, the steps contradict it.
    with pytest.raises(InvalidParameterError, match="leaves out something"):
        from_simulator(Wearing(), agent, horizon=6, state="observation", chance="none", budget=5000)
    # A name that holds the count mends it.
    mended = from_simulator(
        Wearing(),
        agent,
        horizon=6,
        state=lambda seen, info: (seen, info.get("steps", 0)),
        chance="none",
        budget=5000,
    )
    assert mended.method.startswith("table of states")


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
    assert saver is not None
    env.reset(seed=3)
    env.step(1)
    saved, key = saver.save(env), saver.key()
    first = [env.step(a)[0] for a in (1, 0, 1)]
    saver.restore(saved)
    assert saver.key() == key
    np.testing.assert_array_equal(first, [env.step(a)[0] for a in (1, 0, 1)])


@pytest.mark.slow
def test_many_states_are_bounded_from_the_start() -> None:
    result = from_simulator(
        "CartPole-v1",
        lambda seen: int(seen[2] + 0.3 * seen[3] > 0),
        horizon=60,
        budget=60_000,
        bounds=(0, 1),
    )
    assert "give a larger budget" in result.notes[0]
    # Free choice rarely balances for sixty steps, and the agent does.
    assert 1.0 < result.interval[0] < math.log(60_000)
    # The steps that looked for states are told too.
    assert result.steps["states"] >= 0.3 * 60_000
    assert 0.95 * 60_000 <= sum(result.steps.values()) <= 60_200


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


def _probabilities(model: Any, state: int) -> np.ndarray:
    import torch

    with torch.no_grad():
        seen, _ = model.policy.obs_to_tensor(np.array(state))
        return model.policy.get_distribution(seen).distribution.probs[0].numpy()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"env": "Nowhere-v0"}, InvalidParameterError, "cannot make 'Nowhere-v0'"),
        ({"env": "Pendulum-v1"}, InvalidParameterError, "no reference says what"),
        ({"agent": "greedy"}, InvalidParameterError, "walks in grid worlds"),
        ({"agent": lambda seen: [0.5, 0.6]}, InvalidPolicyError, "sum to"),
        ({"utility": {}}, InvalidParameterError, "empty dictionary"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], words: str) -> None:
    given = {"env": Corridor(), "agent": agent, "horizon": 4, "budget": 500} | arguments
    with pytest.raises(error, match=words):
        from_simulator(given.pop("env"), given.pop("agent"), **given)


@pytest.mark.slow
def test_a_faultless_agent_where_chance_is_has_a_finite_rationality() -> None:
    def right(observation: int) -> np.ndarray:
        return np.array([0.0, 1.0])

    exact = known_utility(table(0.1, 8), [[0.0, 1.0]] * 4).value
    for seed in range(3):
        result = from_simulator(
            Slippery(0.1),
            right,
            horizon=8,
            state="observation",
            chance="generator",
            budget=10_000,
            seed=seed,
            bounds=(-1, -1),
        )
        # Its sample may do better than what was seen of the world allows, by luck.
        assert abs(result.rationality) < 1e3
        assert result.interval[0] <= exact <= result.interval[1]
        assert result.value > 0.7 * exact and result.interval[0] > 0.3 * exact
