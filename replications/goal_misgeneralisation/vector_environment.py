"""Levels as the vector environment that Stable-Baselines3 trains in; it needs the library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from replications.goal_misgeneralisation.levels import ACTIONS, HORIZON, Levels
from replications.kinds import AnyArray, IntArray


class LevelsEnvironment(VecEnv):
    """Episodes in levels that are drawn again and again.

    A step pays what the state after it is worth more, for the right goal, than the one before it:
    each good thing counts once.
    """

    def __init__(self, levels: Levels, number: int, seed: int) -> None:
        seen = gym.spaces.Box(0.0, 4.0, (levels.observations.shape[1],), np.float32)
        super().__init__(number, seen, gym.spaces.Discrete(ACTIONS))
        self._levels, self._rng = levels, np.random.default_rng(seed)
        self._state, self._step, self._actions = np.zeros((3, number), dtype=np.int64)

    def reset(self) -> VecEnvObs:
        """Begin all episodes. They end at different times: not all begin at decision 0."""
        self._state = self._drawn(self.num_envs)
        self._step = self._rng.integers(HORIZON, size=self.num_envs)
        return self._seen()

    def step_async(self, actions: AnyArray) -> None:
        """Store the actions."""
        self._actions = np.asarray(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Take the stored actions."""
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
        """Return an attribute of each episode's environment."""
        return [getattr(self, attr_name, None)] * self.num_envs

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Return no seeds: the seed is given when the environment is made."""
        return [None] * self.num_envs

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return that no episode's environment is wrapped."""
        return [False] * self.num_envs

    def close(self) -> None:
        """Do nothing."""

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Raise: levels have no settings."""
        raise AttributeError(attr_name)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        """Raise: levels have no methods."""
        raise AttributeError(method_name)

    def _drawn(self, number: int) -> IntArray:
        return self._levels.starts[self._rng.integers(len(self._levels), size=number)]

    def _seen(self) -> AnyArray:
        return np.asarray(self._levels.observations[self._state])
