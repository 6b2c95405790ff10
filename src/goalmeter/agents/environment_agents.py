"""Agents in Gymnasium environments: tables, trained models, named agents, functions.

Any of them becomes an `Actor`, whose answer to an observation is an action or a distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidPolicyError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.agents.abilities import NamedAgent
from goalmeter.agents.grid_agents import Memoryless
from goalmeter.agents.registry import agent as named
from goalmeter.agents.stable_baselines import borrowed_generators
from goalmeter.gridworld.generators import Draws
from goalmeter.tabular.arrays import (
    ROW_TOLERANCE,
    as_floats,
    check_distributions,
    check_finite,
    wrong_shape,
)


# --- Spaces and observations ----------------------------------------------------------------------
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


def key_of(thing: Any, seen: dict[int, int] | None = None) -> Hashable:
    """Return a hashable key of the content of an observation or of attributes.

    `seen` numbers the objects of attributes: one that occurs twice is another state than two equal
    ones. An observation has no objects other than collections of numbers and strings.
    """
    if thing is None or isinstance(thing, (str, bytes, int, float, np.generic, Enum)):
        return thing
    if hasattr(thing, "__array__") and (array := np.asarray(thing)).dtype != object:
        # Positions are tuples at first and arrays later.
        is_place = array.ndim == 1 and array.dtype.kind in "iu"
        return tuple(array.tolist()) if is_place else (array.tobytes(), array.shape)
    if callable(thing):
        return getattr(thing, "__module__", ""), getattr(thing, "__qualname__", id(thing))
    if seen is not None and not isinstance(thing, tuple):
        if id(thing) in seen:
            return ("again", seen[id(thing)])
        seen[id(thing)] = len(seen)
    if isinstance(thing, (tuple, list, np.ndarray)):
        return tuple(key_of(each, seen) for each in thing)
    if isinstance(thing, dict):
        return tuple((key_of(k, seen), key_of(v, seen)) for k, v in thing.items())
    if isinstance(thing, (set, frozenset)):
        return tuple(sorted(repr(key_of(each, seen)) for each in thing))
    if seen is None:
        raise InvalidParameterError(
            f"an observation contains {thing!r}, expected numbers, strings and collections of "
            f"these; pass as state= a function of (observation, info) that returns a key"
        )
    values = getattr(thing, "__dict__", None)
    return repr(thing) if values is None else (type(thing).__name__, key_of(values, seen))


# --- Answers --------------------------------------------------------------------------------------
class Distribution(NamedTuple):
    """Validated distribution over A actions, with what each decision needs of it."""

    row: FloatArray  # probabilities, [A]
    cumulative: list[float]
    information: float  # relative entropy to free choice in nats
    action: int | None = None  # drawn by the agent itself, from 0

    @classmethod
    def of(cls, row: FloatArray, action: int | None = None) -> Distribution:
        """Return a distribution from its probabilities, [A]."""
        used = row[row > 0]
        information = float(np.log(len(row)) + used @ np.log(used))
        return cls(row, np.cumsum(row).tolist(), information, action)


@dataclass(frozen=True, eq=False)
class GaussianAnswer:
    """Answer of an agent with continuous actions: independent normals, one per dimension.

    The action is drawn from them and clipped to the environment's box.
    """

    mean: ArrayLike  # in the shape of an action, in the environment's units
    std: ArrayLike  # standard deviations, in the same shape or one for all dimensions


# Answer to an observation at a decision (its number, from 0).
Answer = Callable[[Any, int], Any]
# Answers to several observations at one decision, drawn with a generator if they are actions.
Batch = Callable[[Sequence[Any], int, np.random.Generator], Sequence[Any]]


@dataclass(frozen=True, eq=False)
class Actor:
    """Agent in an environment with A actions."""

    name: str  # name in messages
    begin: Callable[[np.random.Generator], Answer]  # returns the answer function of one episode
    remembers: bool = False  # whether answers depend on more than observation and decision number
    is_function: bool = False  # whether equal observations are known to get equal answers
    # Table over integer observations, [T, S or 1, A], with rows that sum to 1; None for others.
    table: FloatArray | None = None
    batch: Batch | None = None  # of a network, which answers many observations at little more cost

    @property
    def timed(self) -> bool:
        """Whether answers depend on the number of the decision."""
        return self.table is not None and len(self.table) > 1


# --- Tables and batches ---------------------------------------------------------------------------
def checked_rows(rows: FloatArray, name: str) -> FloatArray:
    """Validate and normalise distributions over the last axis."""
    check_finite(rows, name, InvalidPolicyError)
    check_distributions(rows, name, InvalidPolicyError, ROW_TOLERANCE)
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))


def actor_of_rows(table: FloatArray, name: str = "policy", first: int = 0) -> Actor:
    """Return the agent of a table [T, S, A]; `first` is the number of the first observation."""

    @cache
    def row(decision: int, state: int) -> Distribution:
        return Distribution.of(table[decision, state])

    def answer(observation: Any, decision: int) -> Distribution:
        return row(min(decision, len(table) - 1), int(observation) - first)

    return Actor(name, lambda generator: answer, is_function=True, table=table)


def table_actor(policy: Any, n_states: int, n_actions: int, horizon: int, first: int = 0) -> Actor:
    """Return the agent of a table [S, A] or [H, S, A]."""
    table = as_floats(policy, "the agent (a table of probabilities)", InvalidPolicyError)
    stacked = table[None] if table.ndim == 2 else table
    if stacked.shape not in [(steps, n_states, n_actions) for steps in (1, horizon)]:
        expected = (
            f"[{n_states}, {n_actions}] or [{horizon}, {n_states}, {n_actions}]: a distribution "
            f"over actions for each observation"
        )
        raise wrong_shape("the agent's table", table.shape, expected, InvalidPolicyError)
    return actor_of_rows(checked_rows(stacked, "the agent's table"), first=first)


def actor_of_batch(batch: Batch, name: str, *, is_function: bool = False) -> Actor:
    """Return the agent of a function from a batch of observations to answers."""

    def begin(generator: np.random.Generator) -> Answer:
        return lambda observation, decision: batch([observation], decision, generator)[0]

    return Actor(name, begin, is_function=is_function, batch=batch)


_MOST = 20_000  # maximum number of cached observations; 250 MB for 64 x 64 colour images


def _cached_actor(rows_of: Callable[[Any], FloatArray], name: str) -> Actor:
    """Return the agent of a function from a batch of observations to rows, [N, A], with a cache."""
    known: dict[Any, Distribution] = {}

    def batch(
        observations: Sequence[Any], decision: int, generator: np.random.Generator
    ) -> list[Distribution]:
        keys = [key_of(observation) for observation in observations]
        if len(known) + len(keys) > _MOST:
            known.clear()
        new = {k: seen for k, seen in zip(keys, observations, strict=True) if k not in known}
        if new:
            rows = checked_rows(np.asarray(rows_of(_stacked([*new.values()])), np.float64), name)
            known.update(zip(new, map(Distribution.of, rows), strict=True))
        return [known[key] for key in keys]

    return actor_of_batch(batch, name, is_function=True)


def _stacked(observations: Sequence[Any]) -> Any:
    """Return observations as a batch, [N, ...], or a dictionary of these."""
    if isinstance(observations[0], dict):
        return {key: np.stack([seen[key] for seen in observations]) for key in observations[0]}
    return np.stack(observations)


# --- Models of Stable-Baselines3 ------------------------------------------------------------------
def actor_of_model(model: Any) -> Actor:
    """Return the agent of a Stable-Baselines3 model."""
    policy, name, space = model.policy, type(model).__name__, model.action_space
    has_law = hasattr(policy, "get_distribution")
    # In training mode some layers are random, and answers to equal observations would differ.
    policy.set_training_mode(False)

    def law(observations: Any) -> Any:
        import torch

        with torch.no_grad():
            return policy.get_distribution(policy.obs_to_tensor(observations)[0]).distribution

    def rows_of(observations: Any) -> FloatArray:
        if has_law:
            return np.asarray(law(observations).probs.numpy())
        # A Q-network takes the best action deterministically.
        return np.asarray(np.eye(int(space.n))[model.predict(observations, deterministic=True)[0]])

    if not is_box(space):
        return _cached_actor(rows_of, name)

    def normals(
        observations: Sequence[Any], decision: int, generator: np.random.Generator
    ) -> list[Any]:
        normal = law(_stacked(observations))
        ends = (part.numpy().reshape(-1, *space.shape) for part in (normal.mean, normal.stddev))
        return [GaussianAnswer(*each) for each in zip(*ends, strict=True)]

    def actions(observations: Sequence[Any], decision: int, generator: np.random.Generator) -> Any:
        import torch

        with borrowed_generators():
            torch.manual_seed(int(generator.integers(2**31)))
            # State-dependent exploration reuses its noise; here each decision draws new noise.
            if getattr(model, "use_sde", False):
                holder = policy if hasattr(policy, "reset_noise") else policy.actor
                holder.reset_noise(len(observations))
            return model.predict(_stacked(observations), deterministic=False)[0]

    is_normal = type(getattr(policy, "action_dist", None)).__name__ == "DiagGaussianDistribution"
    return actor_of_batch(normals if is_normal and has_law else actions, name)


def _check_spaces(name: str, sizes: tuple[Any, Any], env: Any) -> None:
    """Require that a model was trained with spaces of the sizes of an environment."""
    for size, space in zip(sizes, (env.observation_space, env.action_space), strict=True):
        if size != _size(space):
            raise InvalidParameterError(
                f"{name} was trained with another space (size and shape {size}) than {space} of "
                f"the environment; create it as for training, with the same wrappers"
            )


def _size(space: Any) -> tuple[Any, tuple[int, ...]]:
    shape = getattr(space, "shape", None) or ()
    # Images have the colour axis first in some spaces and last in others.
    return getattr(space, "n", None), tuple(sorted(shape) if len(shape) == 3 else shape)


# --- Agents of any kind ---------------------------------------------------------------------------
def actor_of(agent: Any, env: Any, horizon: int) -> Actor:
    """Return an agent of any kind in a Gymnasium environment.

    The agent is a table over integer observations, a policy trained by Stable-Baselines3, a name, a
    function of the observation, or an object whose `begin(generator)` returns such a function for
    one episode (which may therefore have a memory).
    """
    if isinstance(agent, str):
        agent = named(agent)
    if isinstance(agent, NamedAgent):
        return _actor_of_name(agent, env)
    if all(hasattr(agent, name) for name in ("predict", "policy", "action_space")):
        sizes = _size(agent.observation_space), _size(agent.action_space)
        _check_spaces(type(agent).__name__, sizes, env)
        return actor_of_model(agent)
    if isinstance(agent, (np.ndarray, list, tuple)):
        observations, actions = count_of(env.observation_space), count_of(env.action_space)
        if observations is None or actions is None:
            raise InvalidParameterError(
                f"the agent is a table, but the environment has the spaces "
                f"{env.observation_space} and {env.action_space}, expected Discrete(n); pass a "
                f"function of the observation"
            )
        return table_actor(agent, observations, actions, horizon, first_of(env.observation_space))
    name = str(getattr(agent, "__name__", type(agent).__name__))
    if hasattr(agent, "begin"):

        def begin(generator: np.random.Generator) -> Answer:
            function = agent.begin(generator)
            return lambda observation, decision: function(observation)

        return Actor(name, begin, remembers=True)
    if callable(agent):
        return Actor(name, lambda generator: lambda seen, decision: agent(seen))
    raise InvalidParameterError(
        f"agent is {agent!r}, expected a name, a Stable-Baselines3 model, a table, a function of "
        f"the observation that returns an action, a distribution or a GaussianAnswer, or an object "
        f"with begin(generator)"
    )


def _actor_of_name(agent: NamedAgent, env: Any) -> Actor:
    bare = env.unwrapped
    if type(bare).__module__.startswith("goalmeter.gridworld"):
        return _walker(agent.in_grids(asker="MEG from a simulator"), bare, agent.name)
    if not agent.name.startswith("sb3:"):
        raise InvalidParameterError(
            f"{agent.name!r} acts only in grid worlds, but this environment is "
            f"{type(bare).__name__}; pass a trained policy (sb3:PATH.zip) or a function"
        )
    from goalmeter.agents.trained_policies import read_policy

    policy = read_policy(agent.name.removeprefix("sb3:"))
    count, length = policy.observations.count, policy.observations.length
    size = count, () if length is None else (length,)
    _check_spaces(agent.name, (size, (policy.n_actions, ())), env)
    return _cached_actor(policy.probabilities, agent.name)


def _walker(navigator: Any, env: Any, name: str) -> Actor:
    """Return the agent of a navigator in a grid world of goalmeter, which reads the state."""

    def begin(generator: np.random.Generator) -> Answer:
        walk = navigator.begin(env.world, Draws(int(generator.integers(2**31))))

        def answer(observation: Any, decision: int) -> int | Distribution:
            move = walk.act(env.state)
            if move.action is None:
                raise InvalidParameterError(
                    f"{name} returned no action ({move.invalid}), and a decision without an action "
                    f"has no evidence; measure an agent that always acts"
                )
            if move.probabilities is None:
                return int(move.action)
            return Distribution.of(np.asarray(move.probabilities, np.float64), move.action)

        return answer

    is_policy = isinstance(navigator, Memoryless)
    return Actor(name, begin, remembers=not is_policy, is_function=is_policy)
