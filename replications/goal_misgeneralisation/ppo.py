"""Training by PPO, of Stable-Baselines3, in levels that are drawn again and again."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from replications.common import AnyArray, IntArray
from replications.goal_misgeneralisation.levels import ACTIONS, HORIZON, Levels


def ppo_layers(levels: Levels, hidden: tuple[int, ...], seed: int, steps: int) -> list[Any]:
    """Return the linear layers of the policy that PPO learns in some levels."""
    sizes = {"pi": list(hidden), "vf": list(hidden)}
    model = PPO(
        "MlpPolicy",
        _LevelsEnvironment(levels, 128, seed),
        n_steps=32,
        batch_size=1024,
        n_epochs=4,
        gamma=0.95,
        learning_rate=lambda left: 1.5e-3 * left,
        ent_coef=0.005,
        policy_kwargs={"net_arch": sizes, "activation_fn": nn.ReLU},
        seed=seed,
        device="cpu",
    )
    model.learn(steps)
    policy: Any = model.policy
    layers = [part for part in policy.mlp_extractor.policy_net if isinstance(part, nn.Linear)]
    return [*layers, policy.action_net]


class _LevelsEnvironment(VecEnv):
    # A step pays what the state after it is worth more, for the right goal, than the one before it:
    # each good thing counts once.

    def __init__(self, levels: Levels, number: int, seed: int) -> None:
        seen = gym.spaces.Box(0.0, 4.0, (levels.observations.shape[1],), np.float32)
        super().__init__(number, seen, gym.spaces.Discrete(ACTIONS))
        self._levels, self._rng = levels, np.random.default_rng(seed)
        self._state, self._step, self._actions = np.zeros((3, number), dtype=np.int64)

    def reset(self) -> AnyArray:
        self._state = self._drawn(self.num_envs)
        # Episodes end at different times: not all begin at decision 0.
        self._step = self._rng.integers(HORIZON, size=self.num_envs)
        return self._seen()

    def step_async(self, actions: AnyArray) -> None:
        self._actions = np.asarray(actions)

    def step_wait(self) -> Any:
        before = self._state
        after = self._levels.next_state[before, self._actions]
        paid = self._levels.right[after] - self._levels.right[before]
        self._state, self._step = after, self._step + 1
        ended, late = self._levels.ends[after], self._step >= HORIZON
        over = ended | late
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for place in np.flatnonzero(over):
            infos[place]["terminal_observation"] = self._levels.observations[after[place]]
            infos[place]["TimeLimit.truncated"] = bool(late[place] and not ended[place])
        self._state = np.where(over, self._drawn(self.num_envs), after)
        self._step = np.where(over, 0, self._step)
        return self._seen(), paid.astype(np.float32), over, infos

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name, None)] * self.num_envs

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs

    # PPO calls none of these.
    close = set_attr = env_method = None  # type: ignore[assignment]

    def _drawn(self, number: int) -> IntArray:
        return self._levels.starts[self._rng.integers(len(self._levels), size=number)]

    def _seen(self) -> AnyArray:
        return np.asarray(self._levels.observations[self._state])
