"""Agents as people have them: small models of Stable-Baselines3, trained here, in known worlds."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

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


# --- Classic control ------------------------------------------------------------------------------
def test_a_cartpole_that_balances_is_goal_directed() -> None:
    env = gymnasium.make("CartPole-v1")
    before, after = (ppo(env, steps) for steps in (256, 5120))
    options: dict[str, Any] = {"horizon": 60, "budget": 15_000, "bounds": (1, 1, 0, 60)}
    new, old = (single(from_simulator(env, model, **options)) for model in (before, after))
    # Every episode starts elsewhere, so only episodes from the start bound it.
    assert "from the start" in old.method and "more states can be reached" in old.notes[0]
    assert old.lower > 0.05 and old.upper_bound < 0.9 * 60 * math.log(2)
    assert new.lower < old.lower


class OneStart(gymnasium.Wrapper):  # type: ignore[misc, name-defined, unused-ignore]
    """An environment whose episodes all begin in one state."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.env.reset(seed=1)


def soft_value(env: Any, utility: Any, beta: float, horizon: int) -> float:
    """By trying all actions, from copies: log of the sum over them, at each decision."""
    if horizon == 0:
        return 0.0
    values = []
    for action in range(int(env.action_space.n)):
        branch = copy.deepcopy(env)
        observation, _, ended, _, info = branch.step(action)
        after = 0.0 if ended else soft_value(branch, utility, beta, horizon - 1)
        values.append(beta * utility(observation, info) + after)
    return float(np.logaddexp.reduce(values))


def collected(env: Any, observation: Any, act: Any, utility: Any, horizon: int) -> float:
    """What an agent collects in expectation, by trying all of its actions."""
    if horizon == 0:
        return 0.0
    total = 0.0
    for action, chance in enumerate(act(observation)):
        if chance > 0:
            branch = copy.deepcopy(env)
            seen, _, ended, _, info = branch.step(action)
            after = 0.0 if ended else collected(branch, seen, act, utility, horizon - 1)
            total += chance * (utility(seen, info) + after)
    return total


def speed(observation: Any, info: Any) -> float:
    return abs(float(observation[1])) * 100


def height(observation: Any, info: Any) -> float:
    cosine, sine, cosine_2, sine_2 = (float(x) for x in observation[:4])
    return -cosine - (cosine * cosine_2 - sine * sine_2)


@pytest.mark.parametrize(
    ("name", "kind", "utility"),
    [("MountainCar-v0", dqn, speed), ("Acrobot-v1", ppo, height)],
)
def test_from_one_start_control_is_measured_exactly(name: str, kind: Any, utility: Any) -> None:
    horizon = 4
    env = OneStart(gymnasium.make(name))
    model = kind(env, 512)

    def act(observation: Any) -> Any:
        if kind is dqn:
            return np.eye(3)[int(model.predict(observation, deterministic=True)[0])]
        with torch.no_grad():
            seen = torch.as_tensor(observation)[None]
            return model.policy.get_distribution(seen).distribution.probs[0].numpy()

    first, _ = env.reset()
    world = copy.deepcopy(env)
    mean = collected(world, first, act, utility, horizon)

    def less(beta: float) -> float:
        return soft_value(world, utility, beta, horizon) - beta * mean

    # Both signs of the rationality; 3 actions at each of the 4 decisions.
    fits = [
        minimize_scalar(less, bounds=sorted((0.0, end)), method="bounded", options={"xatol": 1e-4})
        for end in (200.0, -200.0)
    ]
    exact = horizon * math.log(3) - min(fit.fun for fit in fits)
    result = single(
        from_simulator(
            env,
            model,
            horizon=horizon,
            budget=6000,
            utility=utility,
            state="observation",
            chance="generator",
        )
    )
    np.testing.assert_allclose(result.interval, exact, atol=2e-3)


def test_a_model_is_asked_once_for_each_observation(
    walker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    ask = type(walker.policy).get_distribution

    def counted(policy: Any, seen: Any) -> Any:
        asked.append(int(seen[0]))
        return ask(policy, seen)

    monkeypatch.setattr(type(walker.policy), "get_distribution", counted)
    result = single(from_simulator(maze(), walker, horizon=12, budget=10_000))
    assert result.episodes > 10 and len(asked) == len(set(asked)) > 3
