"""Agents in simulators, and the references with which their decisions are compared.

Free choice takes all discrete actions with the same probability. Continuous actions have no such
default: the density of an agent without a goal must be specified.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidPolicyError, finite
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.agents.abilities import NamedAgent
from goalmeter.agents.grid_agents import Memoryless
from goalmeter.agents.registry import agent as named
from goalmeter.agents.stable_baselines import borrowed_generators
from goalmeter.gridworld.generators import Draws
from goalmeter.meg.simulator.states import name_of
from goalmeter.tabular.arrays import (
    ROW_TOLERANCE,
    as_floats,
    check_distributions,
    check_finite,
    wrong_shape,
)


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


class ChosenAction(NamedTuple):
    """Action chosen by an agent, and what is known of the choice."""

    action: Any  # as the environment takes it
    number: int  # from 0; -1 if actions are continuous
    information: float = math.nan  # relative entropy to the reference in nats; NaN if unknown
    row: FloatArray | None = None  # distribution over discrete actions, [A], if known


def checked_rows(rows: FloatArray, name: str) -> FloatArray:
    """Validate and normalise distributions over the last axis."""
    check_finite(rows, name, InvalidPolicyError)
    check_distributions(rows, name, InvalidPolicyError, ROW_TOLERANCE)
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))


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
    table = as_floats(policy, "the agent (a table of probabilities)", InvalidPolicyError)
    stacked = table[None] if table.ndim == 2 else table
    if stacked.shape not in [(steps, n_states, n_actions) for steps in (1, horizon)]:
        expected = (
            f"[{n_states}, {n_actions}] or [{horizon}, {n_states}, {n_actions}]: a distribution "
            f"over actions for each observation"
        )
        raise wrong_shape("the agent's table", table.shape, expected, InvalidPolicyError)
    return actor_of_rows(checked_rows(stacked, "the agent's table"), first=first)


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


def _distribution(policy: Any, observations: Any) -> Any:
    """Return the distribution of a policy of Stable-Baselines3 at a batch of observations."""
    import torch

    with torch.no_grad():
        return policy.get_distribution(policy.obs_to_tensor(observations)[0]).distribution


def discrete_model(model: Any) -> SimulatorAgent:
    """Return the agent of a Stable-Baselines3 model with discrete actions."""
    policy = model.policy
    # In training mode some layers are random, and answers to equal observations would differ.
    policy.set_training_mode(False)

    def rows_of(observations: Any) -> FloatArray:
        if hasattr(policy, "get_distribution"):
            return np.asarray(_distribution(policy, observations).probs.numpy())
        # A Q-network takes the best action deterministically.
        best = model.predict(observations, deterministic=True)[0]
        return np.asarray(np.eye(int(model.action_space.n))[best])

    return _cached_actor(rows_of, type(model).__name__)


def continuous_model(model: Any) -> SimulatorAgent:
    """Return the agent of a Stable-Baselines3 model with continuous actions."""
    policy, shape = model.policy, model.action_space.shape
    policy.set_training_mode(False)

    def normals(
        observations: Sequence[Any], decision: int, generator: np.random.Generator
    ) -> list[Any]:
        law = _distribution(policy, _stacked(observations))
        mean, std = (part.numpy().reshape(-1, *shape) for part in (law.mean, law.stddev))
        return [GaussianAnswer(*each) for each in zip(mean, std, strict=True)]

    def actions(observations: Sequence[Any], decision: int, generator: np.random.Generator) -> Any:
        import torch

        with borrowed_generators():
            torch.manual_seed(int(generator.integers(2**31)))
            # State-dependent exploration reuses its noise; here each decision draws new noise.
            if getattr(model, "use_sde", False):
                holder = policy if hasattr(policy, "reset_noise") else policy.actor
                holder.reset_noise(len(observations))
            return model.predict(_stacked(observations), deterministic=False)[0]

    normal = type(getattr(policy, "action_dist", None)).__name__ == "DiagGaussianDistribution"
    known = normal and hasattr(policy, "get_distribution")
    return actor_of_batch(normals if known else actions, type(model).__name__)


# --- Agents of any kind ---------------------------------------------------------------------------
def actor_of(agent: Any, env: Any, horizon: int) -> SimulatorAgent:
    """Return an agent of any kind in a Gymnasium environment."""
    if isinstance(agent, str):
        agent = named(agent)
    if isinstance(agent, NamedAgent):
        return _of_name(agent, env)
    if all(hasattr(agent, name) for name in ("predict", "policy", "action_space")):
        _check_spaces(type(agent).__name__, agent.observation_space, agent.action_space, env)
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


def _of_name(agent: NamedAgent, env: Any) -> SimulatorAgent:
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
    observations = SimpleNamespace(n=count, shape=() if length is None else (length,))
    _check_spaces(agent.name, observations, SimpleNamespace(n=policy.n_actions), env)
    return _cached_actor(policy.probabilities, agent.name)


def _check_spaces(name: str, observations: Any, actions: Any, env: Any) -> None:
    """Require that a model was trained with spaces of the sizes of an environment."""
    for trained, space in ((observations, env.observation_space), (actions, env.action_space)):
        if _size(trained) != _size(space):
            raise InvalidParameterError(
                f"{name} was trained with another space (size and shape {_size(trained)}) than "
                f"{space} of the environment; create it as for training, with the same wrappers"
            )


def _size(space: Any) -> tuple[Any, tuple[int, ...]]:
    shape = getattr(space, "shape", None) or ()
    # Images have the colour axis first in some spaces and last in others.
    return getattr(space, "n", None), tuple(sorted(shape) if len(shape) == 3 else shape)


def _walker(navigator: Any, env: Any, name: str) -> SimulatorAgent:
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
    return SimulatorAgent(name, begin, remembers=not is_policy, is_function=is_policy)


# --- References -----------------------------------------------------------------------------------
FREE_CHOICE = "free choice"  # reference of discrete actions
_MOST_ACTIONS = 10**6  # each decision of free choice has a row of this length


class FreeChoice:
    """The same probability for each of A discrete actions."""

    name, quantile = FREE_CHOICE, None

    def __init__(self, n_actions: int, first: int = 0) -> None:
        self.n_actions, self._first = n_actions, first

    def agent(self) -> SimulatorAgent:
        """Return the reference as an agent."""
        row = Distribution.of(np.full(self.n_actions, 1.0 / self.n_actions))
        answer: Answer = lambda observation, decision: row  # noqa: E731
        return SimulatorAgent(self.name, lambda generator: answer, is_function=True)

    def decide(self, answer: Any, generator: np.random.Generator, name: str) -> ChosenAction:
        """Return the decision of an answer; draw it if necessary."""
        first, count = self._first, self.n_actions
        if not isinstance(answer, Distribution):
            array = np.asarray(answer)
            # An array of one integer is an action too: the answer of a model to one observation.
            if array.size == 1 and array.dtype.kind in "iu":
                taken = int(array.flat[0]) - first
                if 0 <= taken < count:
                    return self.decision(taken)
            if array.shape != (count,) or array.dtype.kind != "f":
                raise InvalidPolicyError(
                    f"{name} answered {answer!r}, expected an action {first}..{first + count - 1} "
                    f"or an array [{count}] of probabilities"
                )
            row = checked_rows(array.astype(np.float64), f"the answer of {name}")
            answer = Distribution.of(row)
        action = answer.action
        if action is None:
            action = min(bisect_right(answer.cumulative, generator.random()), count - 1)
        return ChosenAction(action + first, action, answer.information, answer.row)

    def decision(self, action: int) -> ChosenAction:
        """Return the decision for an action, from 0."""
        return ChosenAction(int(action) + self._first, int(action))


class BoxReference:
    """Density of continuous actions without a goal, the same at every decision."""

    n_actions = 0

    def __init__(
        self,
        space: Any,
        name: str,
        draw: Callable[[np.random.Generator], FloatArray],
        quantile: Callable[[FloatArray], FloatArray] | None = None,
    ) -> None:
        # `quantile` maps the unit cube to actions with this density, [..., k] to [..., k].
        self.name, self.draw, self.quantile = f"reference {name}", draw, quantile
        self._space, self.shape = space, space.shape

    def agent(self) -> SimulatorAgent:
        """Return the reference as an agent."""

        def begin(generator: np.random.Generator) -> Answer:
            return lambda observation, decision: self.draw(generator)

        return SimulatorAgent(self.name, begin, is_function=True)

    def decide(self, answer: Any, generator: np.random.Generator, name: str) -> ChosenAction:
        """Return the decision of an answer, clipped to the box; draw it if necessary."""
        if isinstance(answer, ChosenAction):
            return answer
        if isinstance(answer, GaussianAnswer):
            answer = generator.normal(
                *(np.broadcast_to(x, self.shape) for x in (answer.mean, answer.std))
            )
        array = np.asarray(answer, dtype=np.float64)
        if array.shape != self.shape or not np.isfinite(array).all():
            raise InvalidPolicyError(
                f"{name} answered {answer!r}, expected a finite action of shape "
                f"{list(self.shape)} or a GaussianAnswer"
            )
        clipped = np.clip(array, self._space.low, self._space.high)
        return ChosenAction(clipped.astype(self._space.dtype), -1)

    def decision(self, action: FloatArray) -> ChosenAction:
        """Return the decision for an action of the box, [k], in the order of its entries."""
        return ChosenAction(action.reshape(self.shape).astype(self._space.dtype), -1)


Reference = FreeChoice | BoxReference
_REAL = r"\s*([-+.\de]+)\s*"
_GAUSSIAN = re.compile(rf"\s*gaussian\({_REAL}(?:,{_REAL})?\)\s*")


def reference_of(given: Any, space: Any) -> Reference:
    """Return the requested reference over a space of actions."""
    if not is_box(space):
        n_actions = count_of(space)
        if n_actions is None or n_actions > _MOST_ACTIONS:
            raise InvalidParameterError(
                f"the environment has action space {space}, expected Discrete(n) with up to "
                f"{_MOST_ACTIONS:,} actions, or a Box of real numbers; wrap it to have one of them "
                f"(gymnasium.wrappers.TransformAction)"
            )
        if given is not None:
            raise InvalidParameterError(
                f"reference is {given!r}, but discrete actions are always compared with free "
                f"choice; omit reference="
            )
        return FreeChoice(n_actions, first_of(space))
    low, high = (np.asarray(end, dtype=np.float64).ravel() for end in (space.low, space.high))
    if given == "uniform" and np.isfinite([low, high]).all():
        return BoxReference(
            space,
            given,
            lambda rng: rng.uniform(space.low, space.high),
            lambda share: low + (high - low) * share,
        )
    if isinstance(given, str) and (match := _GAUSSIAN.fullmatch(given)):
        scale = finite(float(match[1]), "SCALE of the reference", least=1e-12, most=1e12)
        centre = finite(float(match[2] or 0), "CENTRE of the reference", least=-1e12, most=1e12)

        def quantile(share: FloatArray) -> FloatArray:
            from scipy.special import ndtri

            return np.asarray(np.clip(centre + scale * ndtri(share), low, high))

        return BoxReference(
            space, given, lambda rng: rng.normal(centre, scale, space.shape), quantile
        )
    if hasattr(given, "draw") and hasattr(given, "name"):
        return BoxReference(space, given.name, given.draw, getattr(given, "quantile", None))
    raise InvalidParameterError(
        f"reference is {given!r}, but the environment has continuous actions, {space}, which need "
        f"a reference for comparison: 'uniform' (over the box), 'gaussian(SCALE)' or "
        f"'gaussian(SCALE,CENTRE)' (independent normals, clipped to the box), or an object with "
        f"draw(generator) and a name; an unbounded box has no uniform density"
    )
