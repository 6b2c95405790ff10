"""How Stable-Baselines3's learners are trained on a history. Nothing else here knows the library.

A history is experience that is already made, so it goes straight into the learner's buffer, and the
learner's own `train` does the updates: the same weights as if the library's `learn` had walked
through an environment that replays the history, with the actions forced, at a fraction of the cost
(the tests hold the two to each other). A learner is built once and set back to its first weights,
first optimiser and first random numbers before each training. Global random generators, which the
library seeds and uses, are put back as they were.
"""

from __future__ import annotations

from collections import defaultdict
from copy import deepcopy
from itertools import accumulate
from types import ModuleType
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, require
from goalmeter._types import FloatArray
from goalmeter.agents.learners.global_generators import (
    borrowed_generators,
    generators,
    set_generators,
)
from goalmeter.agents.learners.turns import Prefix

_FEATURE = "An agent of Stable-Baselines3"
# Hyperparameters that the conversion sets itself, or that would mean nothing in it.
SETTLED = frozenset(
    {
        "_init_setup_model",
        "batch_size",
        "buffer_size",
        "device",
        "env",
        "learning_starts",
        "n_steps",
        "optimize_memory_usage",
        "policy",
        "replay_buffer_class",
        "replay_buffer_kwargs",
        "rollout_buffer_class",
        "rollout_buffer_kwargs",
        "seed",
        "tensorboard_log",
    }
)


class Learner:
    """One algorithm in a world of these counts, ready to be trained again and again.

    Args:
        n_actions: legal actions.
        n_observations: possible observations; the network sees them one-hot.
        seed: of its weights and its batches.
        settings: hyperparameters that are not the library's own.
        as_published: see `StableBaselinesAgent`.
    """

    name = ""
    least_steps = 0  # below them there is no training, and the action is 0

    def __init__(
        self,
        n_actions: int,
        n_observations: int,
        seed: int,
        settings: dict[str, Any],
        as_published: bool,
    ) -> None:
        self.n_actions = n_actions
        self.n_observations = n_observations
        self.as_published = as_published
        with borrowed_generators():
            self.model = self._built(seed, settings)
            self._generators = generators()
        self._weights = deepcopy(self.model.policy.state_dict())
        self._optimizer = deepcopy(self.model.policy.optimizer.state_dict())

    @property
    def learning_rate(self) -> float:
        """At the beginning, if it follows a schedule."""
        return float(self.model.lr_schedule(1.0))

    def train(self, experience: Prefix) -> tuple[tuple[float, ...], ...]:
        """What it does after training: cumulative probabilities [n_observations][n_actions]."""
        self._check(experience)
        if len(experience.actions) < self.least_steps:
            return (tuple([1.0] * self.n_actions),) * self.n_observations
        with borrowed_generators():
            self._set_back()
            if experience.actions:
                try:
                    self._learn(experience)
                except ValueError as cause:  # torch refuses probabilities that are NaN
                    raise self._diverged(len(experience.rewards)) from cause
                if not all(p.isfinite().all() for p in self.model.policy.parameters()):
                    raise self._diverged(len(experience.rewards))
            probabilities = self._probabilities()
        return tuple(_cumulative(row) for row in probabilities)

    def _diverged(self, k: int) -> InvalidParameterError:
        return InvalidParameterError(
            f"{self.name} has no finite weights after training on {k} percepts: rewards are too "
            f"large for it, or a hyperparameter is"
        )

    def _built(self, seed: int, settings: dict[str, Any]) -> Any:
        library = installed()
        from stable_baselines3.common.logger import Logger

        try:
            model = getattr(library, self.name)(
                "MlpPolicy",
                _world(self.n_actions, self.n_observations),
                seed=seed % 2**32,  # what NumPy's global generator takes
                device="cpu",
                **self._needed(),
                **settings,
            )
        except TypeError as cause:
            raise InvalidParameterError(
                f"{self.name} of Stable-Baselines3 cannot be made with "
                f"{', '.join(settings) or 'its own hyperparameters'}: {cause}"
            ) from cause
        model.set_logger(Logger(folder=None, output_formats=[]))
        return model

    def _set_back(self) -> None:
        model = self.model
        model.policy.load_state_dict(self._weights)
        # The state first: loading a dictionary without one leaves old moments where they are.
        model.policy.optimizer.state = defaultdict(dict)
        model.policy.optimizer.load_state_dict(deepcopy(self._optimizer))
        model.num_timesteps = model._n_updates = 0
        set_generators(self._generators)

    def _check(self, experience: Prefix) -> None:
        for what, values, count in (
            ("action", experience.actions, self.n_actions),
            ("observation", experience.observations, self.n_observations),
        ):
            for value in values:
                if not 0 <= value < count:
                    raise InvalidParameterError(
                        f"{self.name} cannot learn from {what} {value}, expected 0 to {count - 1}: "
                        f"the environment tells of one that it does not have"
                    )

    def _needed(self) -> dict[str, Any]:
        """Hyperparameters that the conversion needs when the model is built."""
        return {}

    def _learn(self, experience: Prefix) -> None:
        raise NotImplementedError

    def _probabilities(self) -> FloatArray:
        """Of each action at each observation, [n_observations, n_actions]."""
        raise NotImplementedError

    def _every_observation(self) -> Any:
        return self.model.policy.obs_to_tensor(np.arange(self.n_observations))[0]


class _OnPolicy(Learner):
    """A2C and PPO: one rollout of all steps, then one call of `train`."""

    def _learn(self, experience: Prefix) -> None:
        torch = require("torch", extra="sb3", feature=_FEATURE)
        from stable_baselines3.common.buffers import RolloutBuffer

        model, policy = self.model, self.model.policy
        steps = len(experience.actions)
        policy.set_training_mode(False)
        with torch.no_grad():
            seen = policy.obs_to_tensor(np.array(experience.observations))[0]
            taken = torch.tensor(experience.actions)
            values, chances, _ = policy.evaluate_actions(seen[:-1], taken)
            if self.as_published:
                _, _, chances = policy(seen[:-1])  # of actions that the network samples itself
            last_value = policy.predict_values(seen[-1:])
        buffer = RolloutBuffer(
            steps,
            model.observation_space,
            model.action_space,
            device="cpu",
            gae_lambda=model.gae_lambda,
            gamma=model.gamma,
        )
        for i in range(steps):
            buffer.add(
                np.array([experience.observations[i]]),
                np.array([[experience.actions[i]]]),
                np.array([experience.rewards[i + 1]], dtype=np.float32),
                np.array([i == 0]),
                values[i],
                chances[i].reshape(1),
            )
        buffer.compute_returns_and_advantage(last_value, np.array([False]))
        model.rollout_buffer = buffer
        model.n_steps = steps
        model.num_timesteps = steps
        model._update_current_progress_remaining(steps, steps)
        self._set_batch(steps)
        model.train()

    def _set_batch(self, steps: int) -> None:
        pass

    def _probabilities(self) -> FloatArray:
        policy = self.model.policy
        policy.set_training_mode(False)
        distribution = policy.get_distribution(self._every_observation()).distribution
        return np.asarray(distribution.probs.detach().numpy(), dtype=np.float64)


class _A2C(_OnPolicy):
    name = "A2C"

    def _built(self, seed: int, settings: dict[str, Any]) -> Any:
        model = super()._built(seed, settings)
        self.least_steps = 2 if model.normalize_advantage else 0  # one has no deviation
        return model


class _PPO(_OnPolicy):
    name = "PPO"
    least_steps = 2  # the library refuses batches of one

    def _set_batch(self, steps: int) -> None:
        self.model.batch_size = steps


class _DQN(Learner):
    """DQN: a transition at a time, and gradient steps at the library's intervals."""

    name = "DQN"

    def _needed(self) -> dict[str, Any]:
        # The buffer is replaced by one of the size of the experience before each training.
        return {"learning_starts": 1, "buffer_size": 1}

    def _built(self, seed: int, settings: dict[str, Any]) -> Any:
        model = super()._built(seed, settings)
        model._convert_train_freq()
        self.least_steps = self._interval(model)
        return model

    def _learn(self, experience: Prefix) -> None:
        from stable_baselines3.common.buffers import ReplayBuffer

        model = self.model
        interval = self._interval(model)
        steps = len(experience.actions) // interval * interval
        model._n_calls = 0
        model.replay_buffer = buffer = ReplayBuffer(
            steps, model.observation_space, model.action_space, device="cpu"
        )
        updates = model.gradient_steps if model.gradient_steps >= 0 else interval
        going_on = np.array([False])
        for i in range(steps):
            buffer.add(
                np.array([experience.observations[i]]),
                np.array([experience.observations[i + 1]]),
                np.array([experience.actions[i]]),
                np.array([experience.rewards[i + 1]]),
                going_on,
                [{}],
            )
            model.num_timesteps = i + 1
            model._update_current_progress_remaining(i + 1, steps)
            model._on_step()
            if (i + 1) % interval == 0 and i + 1 > model.learning_starts and updates > 0:
                model.train(gradient_steps=updates, batch_size=model.batch_size)

    def _probabilities(self) -> FloatArray:
        model = self.model
        model.policy.set_training_mode(False)
        best = model.q_net(self._every_observation()).argmax(dim=1).numpy()
        explored = model.exploration_rate / self.n_actions
        out = np.full((self.n_observations, self.n_actions), explored)
        out[np.arange(self.n_observations), best] += 1 - model.exploration_rate
        return out

    @staticmethod
    def _interval(model: Any) -> int:
        """Steps between trainings."""
        if model.train_freq.unit.value != "step":
            raise InvalidParameterError(
                f"train_freq is {model.train_freq.frequency} {model.train_freq.unit.value}s, "
                f"expected steps: a history is one episode"
            )
        return int(model.train_freq.frequency)


ALGORITHMS: dict[str, type[Learner]] = {"a2c": _A2C, "dqn": _DQN, "ppo": _PPO}


def installed() -> ModuleType:
    """Stable-Baselines3."""
    return require("stable_baselines3", extra="sb3", feature=_FEATURE)


def _cumulative(row: FloatArray) -> tuple[float, ...]:
    """Running sums of probabilities; the last is 1, whatever the rounding."""
    sums = [min(total, 1.0) for total in accumulate(row.tolist())]
    return (*sums[:-1], 1.0)


def _world(n_actions: int, n_observations: int) -> Any:
    """An environment with these spaces. It is never stepped through."""
    gymnasium = require("gymnasium", extra="sb3", feature=_FEATURE)

    class Spaces(gymnasium.Env):  # type: ignore[name-defined,misc]
        action_space = gymnasium.spaces.Discrete(n_actions)
        observation_space = gymnasium.spaces.Discrete(n_observations)

    return Spaces()
