"""Section 2.1 of the second paper, literally: the library's own `learn` in a world that replays.

The library draws its actions as it likes; they are replaced by those of the history before the
world or the buffer sees them, and with them the log-probability that PPO keeps of them.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import stable_baselines3
import torch
from numpy.typing import NDArray


class Replay(gymnasium.Env[int, int]):
    def __init__(
        self, rewards: list[float], observations: list[int], actions: list[int], counts: Any
    ) -> None:
        self.rewards, self.observations, self.actions = rewards, observations, actions
        self.action_space = gymnasium.spaces.Discrete(counts[0])
        self.observation_space = gymnasium.spaces.Discrete(counts[1])

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        self.at = 0
        return self.observations[0], {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        assert action == self.actions[self.at]
        self.at += 1
        return self.observations[self.at], self.rewards[self.at], False, False, {}


def trained(
    algorithm: str,
    rewards: list[float],
    observations: list[int],
    actions: list[int],
    n_actions: int,
    n_observations: int,
    seed: int,
    **settings: Any,
) -> NDArray[Any]:
    """After training on k percepts, [n_observations, n_actions]: probabilities, of DQN values Q."""
    world = Replay(rewards, observations, actions, (n_actions, n_observations))
    steps = len(actions)
    if algorithm == "dqn":
        model: Any = stable_baselines3.DQN(
            "MlpPolicy",
            world,
            seed=seed,
            device="cpu",
            learning_starts=1,
            buffer_size=10_000,
            **settings,
        )

        def sample(*_: Any) -> Any:
            forced = np.array([actions[model.num_timesteps]])
            return forced, forced

        model._sample_action = sample
        model.learn(steps - steps % settings.get("train_freq", 4))
        everything = model.policy.obs_to_tensor(np.arange(n_observations))[0]
        with torch.no_grad():
            return np.asarray(model.q_net(everything))
    batch = {"batch_size": steps} if algorithm == "ppo" else {}
    model = getattr(stable_baselines3, algorithm.upper())(
        "MlpPolicy", world, seed=seed, device="cpu", n_steps=max(steps, 1), **batch, **settings
    )
    forward = model.policy.forward

    def forced(seen: Any) -> Any:
        action = torch.tensor([actions[model.num_timesteps]])
        value, chance, _ = model.policy.evaluate_actions(seen, action)
        return action, value, chance

    model.policy.forward = forced
    if steps:
        model.learn(steps)
    model.policy.forward = forward
    everything = model.policy.obs_to_tensor(np.arange(n_observations))[0]
    with torch.no_grad():
        return np.asarray(model.policy.get_distribution(everything).distribution.probs)
