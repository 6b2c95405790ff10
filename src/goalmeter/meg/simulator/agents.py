"""Agents in simulators: tables, functions, models and named agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidPolicyError, shown
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.agents.abilities import Ability, NamedAgent
from goalmeter.agents.grid_agents import Memoryless
from goalmeter.agents.registry import agent as named
from goalmeter.agents.stable_baselines import borrowed_generators
from goalmeter.gridworld.generators import Draws
from goalmeter.meg.simulator.states import name_of


# --- Spaces ---------------------------------------------------------------------------------------
def count_of(space: Any) -> int | None:
    """Return the number of elements of a discrete space; None for other spaces."""
    # The n of a `MultiBinary` counts bits, and its elements are arrays.
    is_numbered = hasattr(space, "n") and not getattr(space, "shape", ())
    return int(space.n) if is_numbered else None


def first_of(space: Any) -> int:
    """Return the first element of a discrete space."""
    return int(getattr(space, "start", 0))


def is_box(space: Any) -> bool:
    """Return whether the elements of a space are arrays of real numbers between bounds."""
    ends = hasattr(space, "low") and hasattr(space, "high")
    return ends and np.issubdtype(space.dtype, np.floating)


# --- Answers --------------------------------------------------------------------------------------
_SUM_TOLERANCE = 1e-5  # rows that sum to 1 within this tolerance are normalised


class Distribution(NamedTuple):
    """Validated distribution over A actions, with what each decision needs of it."""

    row: FloatArray  # probabilities, [A]
    cumulative: list[float]
    information: float  # relative entropy to free choice in nats

    @classmethod
    def of(cls, row: FloatArray) -> Distribution:
        """Return a distribution from its probabilities, [A]."""
        used = row[row > 0]
        information = float(np.log(len(row)) + used @ np.log(used))
        return cls(row, np.cumsum(row).tolist(), information)


class SampledAnswer(NamedTuple):
    """Action drawn by the agent itself, and its distribution, [A]."""

    action: int
    probabilities: FloatArray


@dataclass(frozen=True, eq=False)
class GaussianAnswer:
    """Answer of an agent with continuous actions: independent normals, one per dimension.

    The action is drawn from them and clipped to the environment's box.
    """

    mean: ArrayLike  # in the shape of an action, in the environment's units
    std: ArrayLike  # positive standard deviations, in the same shape or one for all dimensions
    # Lower bound of all standard deviations of this agent, the same in all answers. The upper bound
    # of MEG needs it: without it, nothing limits the predictability of the agent in unobserved
    # states.
    least_std: ArrayLike | None = None


def checked_rows(rows: FloatArray, name: str) -> FloatArray:
    """Validate and normalise distributions over the last axis."""
    sums = rows.sum(axis=-1, keepdims=True)
    if not ((rows >= 0).all() and (np.abs(sums - 1.0) <= _SUM_TOLERANCE).all()):
        raise InvalidPolicyError(
            f"{name} has rows that are not distributions over actions (they sum to "
            f"{float(sums.min()):.6g} to {float(sums.max()):.6g}, and the smallest entry is "
            f"{float(rows.min()):.6g}), expected probabilities of at least 0 that sum to 1"
        )
    return np.asarray(rows / sums)


def parse_answer(
    answer: Any, n_actions: int, name: str, first: int = 0
) -> tuple[int | None, Distribution | None]:
    """Return the action of an answer, from 0, its distribution, or both."""
    if isinstance(answer, Distribution):
        return None, answer
    if isinstance(answer, SampledAnswer):
        return answer.action, Distribution.of(answer.probabilities)
    array = np.asarray(answer)
    # An array of one integer is an action too: the answer of a model to one copy of a world.
    if array.size == 1 and array.dtype.kind in "iu":
        action = int(array.reshape(())) - first
        if 0 <= action < n_actions:
            return action, None
    elif array.shape == (n_actions,) and array.dtype.kind == "f":
        row = checked_rows(array.astype(np.float64), f"the answer of {name}")
        return None, Distribution.of(row)
    raise InvalidPolicyError(
        f"{name} answered {answer!r}, expected an action {first}..{first + n_actions - 1} or an "
        f"array [{n_actions}] of probabilities"
    )


# --- Agents ---------------------------------------------------------------------------------------
# An agent is a table over integer observations, a policy trained by Stable-Baselines3, a function
# of the observation, or any object whose `begin(generator)` returns such a function for one episode
# (which may therefore have a memory).

# Answer to an observation at a decision (its number, from 0).
Answer = Callable[[Any, int], Any]
# Answers to several observations at one decision, drawn with a generator if they are actions.
Batch = Callable[[Sequence[Any], int, np.random.Generator], Sequence[Any]]


@dataclass(frozen=True, eq=False)
class SimulatorAgent:
    """Agent in a world with A actions."""

    name: str  # name in messages
    begin: Callable[[np.random.Generator], Answer]  # returns the answer function of one episode
    remembers: bool = False  # whether answers depend on more than observation and decision number
    is_function: bool = False  # whether equal observations are known to get equal answers
    # Table over integer observations, [T, S, A], with rows that sum to 1; None for other agents.
    table: FloatArray | None = None
    batch: Batch | None = None  # of a network, which answers many observations at little more cost

    @property
    def timed(self) -> bool:
        """Whether answers depend on the number of the decision."""
        return self.table is not None and len(self.table) > 1


def actor_of_rows(table: FloatArray, name: str = "policy", first: int = 0) -> SimulatorAgent:
    """Return the agent of a table [T, S, A]; `first` is the number of the first observation."""

    @cache
    def row(decision: int, state: int) -> Distribution:
        return Distribution.of(table[decision, state])

    def answer(observation: Any, decision: int) -> Distribution:
        return row(min(decision, len(table) - 1), int(observation) - first)

    return SimulatorAgent(name, lambda generator: answer, is_function=True, table=table)


def table_actor(
    policy: Any, n_states: int, n_actions: int, horizon: int, first: int = 0
) -> SimulatorAgent:
    """Return the agent of a table [S, A] or [H, S, A]."""
    try:
        table = np.asarray(policy, dtype=np.float64)
    except (TypeError, ValueError):  # names, functions and ragged rows
        table = np.zeros(0)
    stacked = table[None] if table.ndim == 2 else table
    if stacked.shape not in [(steps, n_states, n_actions) for steps in (1, horizon)]:
        raise InvalidPolicyError(
            f"the agent is {shown(policy)} of shape {list(table.shape)}, expected a table "
            f"[{n_states}, {n_actions}] or [{horizon}, {n_states}, {n_actions}]: a distribution "
            f"over actions for each observation"
        )
    return actor_of_rows(checked_rows(stacked, "the agent's table"), first=first)


def _function_actor(agent: Any) -> SimulatorAgent:
    """Return the agent of a function, or of an object with `begin`."""
    name = str(getattr(agent, "__name__", type(agent).__name__))
    if hasattr(agent, "begin"):

        def begin(generator: np.random.Generator) -> Answer:
            function = agent.begin(generator)
            return lambda observation, decision: function(observation)

        return SimulatorAgent(name, begin, remembers=True)
    if callable(agent):
        return SimulatorAgent(name, lambda generator: lambda seen, decision: agent(seen))
    raise InvalidParameterError(
        f"agent is {agent!r}, expected a name, a Stable-Baselines3 model, a table, a function of "
        f"the observation that returns an action, a distribution or a GaussianAnswer, or an object "
        f"with begin(generator)"
    )


# --- Models ---------------------------------------------------------------------------------------
_MOST = 20_000  # maximum number of cached observations; 250 MB for 64 x 64 colour images


def _stacked(observations: Sequence[Any]) -> Any:
    """Return observations as a batch, [N, ...], or a dictionary of these."""
    if isinstance(observations[0], dict):
        return {key: np.stack([seen[key] for seen in observations]) for key in observations[0]}
    return np.stack(observations)


def actor_of_batch(batch: Batch, name: str, *, is_function: bool = False) -> SimulatorAgent:
    """Return the agent of a function from a batch of observations to answers."""

    def begin(generator: np.random.Generator) -> Answer:
        return lambda observation, decision: batch([observation], decision, generator)[0]

    return SimulatorAgent(name, begin, is_function=is_function, batch=batch)


def _cached_actor(rows_of: Callable[[Any], FloatArray], name: str) -> SimulatorAgent:
    """Return the agent of a function from a batch of observations to rows, [N, A], with a cache."""
    known: dict[Any, Distribution] = {}

    def batch(
        observations: Sequence[Any], decision: int, generator: np.random.Generator
    ) -> list[Distribution]:
        keys = [name_of(observation) for observation in observations]
        if len(known) + len(keys) > _MOST:
            known.clear()
        new = {k: seen for k, seen in zip(keys, observations, strict=True) if k not in known}
        if new:
            rows = checked_rows(np.asarray(rows_of(_stacked([*new.values()])), np.float64), name)
            known.update(zip(new, map(Distribution.of, rows), strict=True))
        return [known[key] for key in keys]

    return actor_of_batch(batch, name, is_function=True)


def discrete_model(model: Any) -> SimulatorAgent:
    """Return the agent of a Stable-Baselines3 model with discrete actions."""
    policy = model.policy
    # In training mode some layers are random, and answers to equal observations would differ.
    policy.set_training_mode(False)

    def rows_of(observations: Any) -> FloatArray:
        if not hasattr(policy, "get_distribution"):
            # A Q-network takes the best action deterministically.
            best = model.predict(observations, deterministic=True)[0]
            return np.asarray(np.eye(int(model.action_space.n))[best])
        import torch

        with torch.no_grad():
            tensor, _ = policy.obs_to_tensor(observations)
            return np.asarray(policy.get_distribution(tensor).distribution.probs.numpy())

    return _cached_actor(rows_of, type(model).__name__)


def continuous_model(model: Any) -> SimulatorAgent:
    """Return the agent of a Stable-Baselines3 model with continuous actions."""
    policy, shape = model.policy, model.action_space.shape
    policy.set_training_mode(False)
    normal = type(getattr(policy, "action_dist", None)).__name__ == "DiagGaussianDistribution"

    def normals(
        observations: Sequence[Any], decision: int, generator: np.random.Generator
    ) -> list[Any]:
        import torch

        with torch.no_grad():
            tensor, _ = policy.obs_to_tensor(_stacked(observations))
            found = policy.get_distribution(tensor).distribution
            # One parameter for all states is the bound of all answers.
            least = policy.log_std.exp().numpy().reshape(shape)
        mean, std = (part.numpy().reshape(-1, *shape) for part in (found.mean, found.stddev))
        return [GaussianAnswer(*each, least) for each in zip(mean, std, strict=True)]

    def actions(observations: Sequence[Any], decision: int, generator: np.random.Generator) -> Any:
        import torch

        with borrowed_generators():
            torch.manual_seed(int(generator.integers(2**31)))
            # State-dependent exploration reuses its noise; here each decision draws new noise.
            if getattr(model, "use_sde", False):
                holder = policy if hasattr(policy, "reset_noise") else policy.actor
                holder.reset_noise(len(observations))
            return model.predict(_stacked(observations), deterministic=False)[0]

    known = normal and hasattr(policy, "get_distribution")
    return actor_of_batch(normals if known else actions, type(model).__name__)


# --- Agents of any kind ---------------------------------------------------------------------------
_ASKER = "MEG from a simulator"


def actor_of(agent: Any, env: Any, horizon: int) -> SimulatorAgent:
    """Return an agent of any kind in a Gymnasium environment."""
    if isinstance(agent, str):
        agent = named(agent)
    if isinstance(agent, NamedAgent):
        return _of_name(agent, env)
    if all(hasattr(agent, name) for name in ("predict", "policy", "action_space")):
        spaces = _size(agent.observation_space), _size(agent.action_space)
        _check_spaces(type(agent).__name__, spaces, env)
        return continuous_model(agent) if is_box(env.action_space) else discrete_model(agent)
    if isinstance(agent, (np.ndarray, list, tuple)):
        observations, actions = count_of(env.observation_space), count_of(env.action_space)
        if observations is None or actions is None:
            raise InvalidParameterError(
                f"the agent is a table, but the environment has the spaces "
                f"{env.observation_space} and {env.action_space}, expected Discrete(n); pass a "
                f"function of the observation"
            )
        return table_actor(agent, observations, actions, horizon, first_of(env.observation_space))
    return _function_actor(agent)


def _of_name(agent: NamedAgent, env: Any) -> SimulatorAgent:
    bare = env.unwrapped
    if type(bare).__module__.startswith("goalmeter.gridworld"):
        agent.require(Ability.GRID, asker=_ASKER)
        return _walker(agent.in_grids(asker=_ASKER), bare, agent.name)
    if not agent.name.startswith("sb3:"):
        raise InvalidParameterError(
            f"{agent.name!r} acts only in grid worlds, but this environment is "
            f"{type(bare).__name__}; pass a trained policy (sb3:PATH.zip) or a function"
        )
    from goalmeter.agents.trained_policies import read_policy

    policy = read_policy(agent.name.removeprefix("sb3:"))
    count, length = policy.observations.count, policy.observations.length
    observations = count, () if length is None else (length,)
    _check_spaces(agent.name, (observations, (policy.n_actions, ())), env)
    return _cached_actor(policy.probabilities, agent.name)


def _check_spaces(name: str, trained: tuple[Any, Any], env: Any) -> None:
    """Require that a model was trained with spaces of the sizes of an environment."""
    seen, actions = env.observation_space, env.action_space
    if trained != (_size(seen), _size(actions)):
        raise InvalidParameterError(
            f"{name} was trained with other spaces (sizes and shapes {trained[0]} of observations, "
            f"{trained[1]} of actions) than those of the environment, {seen} and {actions}; create "
            f"it as for training, with the same wrappers"
        )


def _size(space: Any) -> tuple[Any, tuple[int, ...]]:
    shape = space.shape if isinstance(getattr(space, "shape", None), tuple) else ()
    # Images have the colour axis first in some spaces and last in others.
    return getattr(space, "n", None), tuple(sorted(shape) if len(shape) == 3 else shape)


def _walker(navigator: Any, env: Any, name: str) -> SimulatorAgent:
    """Return the agent of a navigator in a grid world of goalmeter, which reads the state."""

    def begin(generator: np.random.Generator) -> Answer:
        walk = navigator.begin(env.world, Draws(int(generator.integers(2**31))))

        def answer(observation: Any, decision: int) -> int | SampledAnswer:
            move = walk.act(env.state)
            if move.action is None:
                raise InvalidParameterError(
                    f"{name} returned no action ({move.invalid}), and a decision without an action "
                    f"has no evidence; measure an agent that always acts"
                )
            if move.probabilities is None:
                return int(move.action)
            return SampledAnswer(move.action, np.asarray(move.probabilities, dtype=np.float64))

        return answer

    is_policy = isinstance(navigator, Memoryless)
    return SimulatorAgent(name, begin, remembers=not is_policy, is_function=is_policy)
