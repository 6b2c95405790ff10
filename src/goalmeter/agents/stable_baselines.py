"""A2C, DQN and PPO of Stable-Baselines3, trained on a history."""

from __future__ import annotations

import random
import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache, partial
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from goalmeter._errors import InvalidParameterError, require
from goalmeter._types import FloatArray
from goalmeter.agents.history import ConvertedAgent, LearnerMind, Prefix, prefix, uniform

_FEATURE = "An agent of Stable-Baselines3"


def installed(module: str = "stable_baselines3") -> ModuleType:
    """Import a module of the extra `sb3`."""
    return require(module, extra="sb3", feature=_FEATURE)


def _generators() -> tuple[Any, Any, Any]:
    torch = sys.modules.get("torch")
    return random.getstate(), np.random.get_state(), torch and torch.get_rng_state()  # noqa: NPY002


def _set_generators(states: tuple[Any, Any, Any]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002
    if states[2] is not None:
        installed("torch").set_rng_state(states[2])


@contextmanager
def kept_generators() -> Iterator[None]:
    """Restore the global generators of Python, NumPy and, if it was loaded, torch afterwards."""
    before = _generators()
    try:
        yield
    finally:
        _set_generators(before)


@contextmanager
def borrowed_generators() -> Iterator[None]:
    """Run a block in one thread, and restore the global random generators afterwards.

    With several threads the order of summation varies, and with it the last bits of a sum.
    """
    torch = installed("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with kept_generators():
            yield
    finally:
        torch.set_num_threads(threads)


# --- Tables ---------------------------------------------------------------------------------------
Table = list[list[float]]  # cumulative probabilities of the actions, by observation


def cumulative(table: FloatArray) -> Table:
    """Return the cumulative probabilities of each row; the last one is exactly 1."""
    sums = np.minimum(np.cumsum(table, axis=1), 1.0)
    sums[:, -1] = 1.0
    rows: Table = sums.tolist()
    return rows


def drawn(table: Table, observation: int, number: float, agent: object) -> int:
    """Return the action for an observation, drawn by a uniform number in [0, 1)."""
    if not 0 <= observation < len(table):
        raise InvalidParameterError(
            f"{agent!r} received observation {observation}, expected 0 to {len(table) - 1}; the "
            f"environment declares fewer observations than it returns"
        )
    return bisect_right(table[observation], number)


# --- Learners -------------------------------------------------------------------------------------
# A history is written directly into the buffer, and the library's `train` performs the updates. The
# weights equal those of `learn` on a replay of the history with forced actions, at less cost. Each
# training starts from the initial weights, optimizer state and random states.

# Hyperparameters that the conversion sets itself or that have no effect in it.
SETTLED = frozenset(
    {"_init_setup_model", "batch_size", "buffer_size", "device", "env", "learning_starts"}
    | {"n_steps", "optimize_memory_usage", "policy", "replay_buffer_class", "seed"}
    | {"replay_buffer_kwargs", "rollout_buffer_class", "rollout_buffer_kwargs", "tensorboard_log"}
)


class Learner:
    """A2C or PPO for given numbers of actions and observations; it can be trained repeatedly."""

    needed: ClassVar[dict[str, Any]] = {}  # hyperparameters required by the conversion

    def __init__(
        self, agent: StableBaselinesAgent, n_actions: int, n_observations: int, rate: float | None
    ) -> None:
        self.name, self.as_published = agent.algorithm.upper(), agent.as_published
        self.counts = {"action": n_actions, "observation": n_observations}
        # The library modifies dictionaries that it receives.
        settings = deepcopy(agent.hyperparameters)
        if rate is not None:
            settings["learning_rate"] = rate
        library, gymnasium = installed(), installed("gymnasium")
        from stable_baselines3.common.logger import Logger

        env = gymnasium.Env()  # only its spaces are used
        spaces = map(gymnasium.spaces.Discrete, self.counts.values())
        env.action_space, env.observation_space = spaces
        # NumPy's global generator accepts seeds below 2**32.
        common = {"seed": agent.seed % 2**32, "device": "cpu"}
        with borrowed_generators():
            try:
                algorithm = getattr(library, self.name)
                self.model = algorithm("MlpPolicy", env, **common, **self.needed, **settings)
            except TypeError as cause:
                raise InvalidParameterError(
                    f"{self.name} of Stable-Baselines3 does not accept "
                    f"{', '.join(settings) or 'its default hyperparameters'}: {cause}"
                ) from cause
            self.model.set_logger(Logger(folder=None, output_formats=[]))
            self._generators = _generators()
        self.least_steps = self._least_steps()  # with fewer steps the action is 0, untrained
        self._weights = deepcopy(self.model.policy.state_dict())
        self._optimizer = deepcopy(self.model.policy.optimizer.state_dict())

    def train(self, experience: Prefix) -> Table:
        """Return cumulative probabilities [n_observations][n_actions] after training."""
        data = {"action": experience.actions, "observation": experience.observations}
        for what, count in self.counts.items():
            if wrong := [value for value in data[what] if not 0 <= value < count]:
                raise InvalidParameterError(
                    f"{self.name} cannot learn from {what} {wrong[0]}, expected 0 to {count - 1}; "
                    f"the environment declares fewer than it uses"
                )
        if len(experience.actions) < self.least_steps:
            return [[1.0] * self.counts["action"]] * self.counts["observation"]
        model = self.model
        with borrowed_generators():
            model.policy.load_state_dict(self._weights)
            # `load_state_dict` would keep the old moments if the saved state is empty.
            model.policy.optimizer.state = defaultdict(dict)
            model.policy.optimizer.load_state_dict(deepcopy(self._optimizer))
            model.num_timesteps = model._n_updates = 0
            _set_generators(self._generators)
            if experience.actions:
                cause = None
                try:
                    self._learn(experience, len(experience.actions))
                except ValueError as error:  # torch rejects NaN probabilities
                    cause = error
                if cause or not all(p.isfinite().all() for p in model.policy.parameters()):
                    raise InvalidParameterError(
                        f"{self.name} has non-finite weights after training on "
                        f"{len(experience.rewards)} percepts; use smaller rewards or a smaller "
                        f"learning rate"
                    ) from cause
            model.policy.set_training_mode(False)
            every = np.arange(self.counts["observation"])
            return cumulative(self._probabilities(model.policy.obs_to_tensor(every)[0]))

    def _least_steps(self) -> int:
        # The library rejects batches of size one, since they have no standard deviation.
        return 2 if self.name == "PPO" or self.model.normalize_advantage else 0

    def _learn(self, experience: Prefix, steps: int) -> None:
        """Train on one rollout of all steps, starting from the current weights."""
        torch = installed("torch")
        from stable_baselines3.common.buffers import RolloutBuffer

        model, policy = self.model, self.model.policy
        policy.set_training_mode(False)
        with torch.no_grad():
            observations = policy.obs_to_tensor(np.array(experience.observations))[0]
            actions = torch.tensor(experience.actions)
            values, log_probs, _ = policy.evaluate_actions(observations[:-1], actions)
            if self.as_published:
                _, _, log_probs = policy(observations[:-1])  # of newly sampled actions
            last_value = policy.predict_values(observations[-1:])
        spaces = model.observation_space, model.action_space
        buffer = RolloutBuffer(
            steps, *spaces, device="cpu", gae_lambda=model.gae_lambda, gamma=model.gamma
        )
        for i in range(steps):
            buffer.add(
                np.array([experience.observations[i]]),
                np.array([[experience.actions[i]]]),
                np.array([experience.rewards[i + 1]], dtype=np.float32),
                np.array([i == 0]),
                values[i],
                log_probs[i].reshape(1),
            )
        buffer.compute_returns_and_advantage(last_value, np.array([False]))
        model.rollout_buffer = buffer
        model.n_steps = model.num_timesteps = steps
        model._update_current_progress_remaining(steps, steps)
        model.batch_size = steps  # PPO's
        model.train()

    def _probabilities(self, observations: Any) -> FloatArray:
        """Return the action probabilities, [n_observations, n_actions]."""
        distribution = self.model.policy.get_distribution(observations).distribution
        return np.asarray(distribution.probs.detach().numpy(), dtype=np.float64)


class _DQN(Learner):
    """DQN, which adds transitions one by one, with gradient steps at the library's intervals."""

    # Each training replaces the buffer by one of the size of its experience.
    needed: ClassVar[dict[str, Any]] = {"learning_starts": 1, "buffer_size": 1}

    def _least_steps(self) -> int:
        self.model._convert_train_freq()
        frequency, unit = self.model.train_freq
        if unit.value != "step":
            raise InvalidParameterError(
                f"train_freq is {frequency} {unit.value}s, expected steps: a history is one episode"
            )
        return int(frequency)

    def _learn(self, experience: Prefix, steps: int) -> None:
        from stable_baselines3.common.buffers import ReplayBuffer

        model, interval = self.model, self.least_steps
        steps = steps // interval * interval
        model._n_calls = 0
        model.replay_buffer = buffer = ReplayBuffer(
            steps, model.observation_space, model.action_space, device="cpu"
        )
        updates = model.gradient_steps if model.gradient_steps >= 0 else interval
        for i in range(steps):
            buffer.add(
                np.array([experience.observations[i]]),
                np.array([experience.observations[i + 1]]),
                np.array([experience.actions[i]]),
                np.array([experience.rewards[i + 1]]),
                np.array([False]),
                [{}],
            )
            model.num_timesteps = i + 1
            model._update_current_progress_remaining(i + 1, steps)
            model._on_step()
            if (i + 1) % interval == 0 and i + 1 > model.learning_starts and updates > 0:
                model.train(gradient_steps=updates, batch_size=model.batch_size)

    def _probabilities(self, observations: Any) -> FloatArray:
        best = self.model.q_net(observations).argmax(dim=1).numpy()
        n_actions, exploration = self.counts["action"], self.model.exploration_rate
        out = np.full((len(best), n_actions), exploration / n_actions)
        out[np.arange(len(best)), best] += 1 - exploration
        return out


ALGORITHMS = {"a2c": Learner, "dqn": _DQN, "ppo": Learner}

# --- The agent ------------------------------------------------------------------------------------
# A trained learner is a table: a distribution over actions for each observation. A2C and PPO train
# on one rollout of all k-1 steps, PPO in one batch; DQN starts to learn after the first step, in
# whole training intervals. PPO below 4 percepts and DQN below 8 are untrained (action 0).
#
# The authors' library differs in two respects, reproduced by `as_published`. For PPO it stores the
# probability of a newly sampled action instead of the action taken, so the ratio is wrong. A copy
# with another learning rate returns the learner that was trained first, so only the draw differs.
#
# Source: section 2.1 and section 5; Raffin et al., Stable-Baselines3 (JMLR 2021).

# Maximum numbers of cached tables and of their cells together. DejaVu and BackwardConsciousness
# need a new table at every step, other environments two at each power of two.
_MOST_TABLES = 4096
_MOST_CELLS = 1_000_000
# Random stream of a copy with another learning rate, as published: the same table, another draw.
_PUBLISHED_COPY = 1


class StableBaselinesAgent(ConvertedAgent):
    """Learner of Stable-Baselines3 ("a2c", "dqn" or "ppo"), by the power-of-two conversion."""

    def __init__(
        self, algorithm: str, seed: int = 0, *, as_published: bool = False, **hyperparameters: Any
    ) -> None:
        if algorithm not in ALGORITHMS:
            raise InvalidParameterError(
                f"algorithm is {algorithm!r}, expected one of {', '.join(ALGORITHMS)}"
            )
        if fixed := sorted(SETTLED & hyperparameters.keys()):
            raise InvalidParameterError(
                f"{algorithm}: {', '.join(fixed)} cannot be changed; the conversion of a learner "
                f"to a function of the history sets {', '.join(sorted(SETTLED))}"
            )
        super().__init__(seed)
        self.algorithm = algorithm
        self.as_published = as_published
        self.hyperparameters = deepcopy(hyperparameters)
        self._learner = cache(partial(ALGORITHMS[algorithm], self))  # by counts and learning rate

    def __repr__(self) -> str:
        published = ", as_published=True" if self.as_published else ""
        settings = "".join(f", {name}={value!r}" for name, value in self.hyperparameters.items())
        return f"StableBaselinesAgent({self.algorithm!r}, seed={self.seed}{published}{settings})"

    def check_installed(self) -> None:
        """Import the packages required for training."""
        installed()

    def _own_rate(self, n_actions: int, n_observations: int) -> float:
        # The initial value, if the learning rate has a schedule.
        return float(self._learner(n_actions, n_observations, None).model.lr_schedule(1.0))

    def _choose(self, mind: LearnerMind) -> int:
        assert mind.turn is not None, "queried before the first percept"
        # The authors' library ignores the learning rate of a copy.
        rate, stream = mind.rate, 0
        if rate is not None and self.as_published:
            rate, stream = None, _PUBLISHED_COPY
        if mind.learned is None:
            # The hash distinguishes histories, seeds and counts, but not learning rates.
            key = (mind.trained_state, mind.n.bit_length(), rate)
            most = max(1, min(_MOST_TABLES, _MOST_CELLS // (mind.counts[0] * mind.counts[1])))

            def trained() -> Table:
                return self._learner(*mind.counts, rate).train(prefix(mind.trained_on))

            mind.learned = self.remembered(key, trained, most)
        return drawn(mind.learned, mind.turn.observation, uniform(mind.state, stream), self)
