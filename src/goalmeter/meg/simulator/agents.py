"""Agents in simulators: tables, functions, models and named agents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidPolicyError, shown
from goalmeter._types import FloatArray
from goalmeter.agents.abilities import Ability, NamedAgent
from goalmeter.agents.grid_agents import Memoryless
from goalmeter.agents.registry import agent as named
from goalmeter.gridworld.generators import Draws


# --- Numbered spaces ------------------------------------------------------------------------------
def count_of(space: Any) -> int | None:
    """Return the number of elements of a discrete space; None for other spaces."""
    # The n of a `MultiBinary` counts bits, and its elements are arrays.
    is_numbered = hasattr(space, "n") and not getattr(space, "shape", ())
    return int(space.n) if is_numbered else None


def first_of(space: Any) -> int:
    """Return the first element of a discrete space."""
    return int(getattr(space, "start", 0))


# --- Kinds of agents ------------------------------------------------------------------------------
# An agent is a table over integer observations, a policy trained by Stable-Baselines3, a function
# of the observation, or any object whose `begin(generator)` returns such a function for one episode
# (which may therefore have a memory).

_SUM_TOLERANCE = 1e-5  # rows that sum to 1 within this tolerance are normalised


class SampledAnswer(NamedTuple):
    """Action drawn by the agent itself, and its distribution, [A]."""

    action: int
    probabilities: FloatArray


# Answer to an observation at a decision (its number, from 0): an action, a distribution, or both.
Answer = Callable[[Any, int], "int | FloatArray | SampledAnswer"]


@dataclass(frozen=True, eq=False)
class SimulatorAgent:
    """Agent in a world with A actions."""

    name: str  # name in messages
    begin: Callable[[np.random.Generator], Answer]  # returns the answer function of one episode
    remembers: bool = False  # whether answers depend on more than observation and decision number
    is_function: bool = False  # whether equal observations are known to get equal answers
    # Table over integer observations, [T, S, A], with rows that sum to 1; None for other agents.
    table: FloatArray | None = None

    @property
    def timed(self) -> bool:
        """Whether answers depend on the number of the decision."""
        return self.table is not None and len(self.table) > 1


def actor_of_function(
    function: Callable[[Any], Any], name: str, *, is_function: bool = False
) -> SimulatorAgent:
    """Return the agent of a function from the observation to an action or a distribution."""
    answer: Answer = lambda observation, decision: function(observation)  # noqa: E731
    return SimulatorAgent(name, lambda generator: answer, is_function=is_function)


def actor_of_rows(table: FloatArray, name: str = "policy", first: int = 0) -> SimulatorAgent:
    """Return the agent of a table [T, S, A]; `first` is the number of the first observation."""

    def answer(observation: Any, decision: int) -> FloatArray:
        return np.asarray(table[min(decision, len(table) - 1), int(observation) - first])

    return SimulatorAgent(name, lambda generator: answer, is_function=True, table=table)


def is_stable_baselines(agent: Any) -> bool:
    """Return whether an agent is a Stable-Baselines3 model, by its attributes."""
    return all(hasattr(agent, name) for name in ("predict", "policy", "action_space"))


def function_actor(agent: Any) -> SimulatorAgent | None:
    """Return the agent of a function, or of an object with `begin`; None for others."""
    name = str(getattr(agent, "__name__", type(agent).__name__))
    if hasattr(agent, "begin"):

        def begin(generator: np.random.Generator) -> Answer:
            function = agent.begin(generator)
            return lambda observation, decision: function(observation)

        return SimulatorAgent(name, begin, remembers=True)
    return actor_of_function(agent, name) if callable(agent) else None


def table_actor(
    policy: Any, n_states: int, n_actions: int, horizon: int, first: int = 0
) -> SimulatorAgent:
    """Return the agent of a table [S, A] or [H, S, A]."""
    try:
        table = np.asarray(policy, dtype=np.float64)
    # Raised for names, functions and ragged rows.
    except (TypeError, ValueError):
        raise InvalidPolicyError(
            f"the agent is {shown(policy)}, expected a table [{n_states}, {n_actions}] of "
            f"probabilities of actions for each observation"
        ) from None
    stacked = table[None] if table.ndim == 2 else table
    fits = stacked.ndim == 3 and stacked.shape[1:] == (n_states, n_actions)
    if not fits or len(stacked) not in (1, horizon):
        raise InvalidPolicyError(
            f"the agent is a table of shape {list(table.shape)}, expected [{n_states}, "
            f"{n_actions}] or [{horizon}, {n_states}, {n_actions}]: a distribution over actions "
            f"for each observation"
        )
    return actor_of_rows(checked_rows(stacked, "the agent's table"), first=first)


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


def choose_action(
    answer: Any, n_actions: int, generator: np.random.Generator, name: str, first: int = 0
) -> tuple[int, FloatArray | None]:
    """Return the action of an answer, from 0, and its distribution; draw it if necessary."""
    action, row = parse_answer(answer, n_actions, name, first)
    if action is not None or row is None:
        assert action is not None, "an answer is an action or a distribution"
        return action, row
    # The method of `Generator.choice` without its checks.
    drawn = int(np.searchsorted(np.cumsum(row), generator.random(), side="right"))
    return min(drawn, n_actions - 1), row


def parse_answer(
    answer: Any, n_actions: int, name: str, first: int = 0
) -> tuple[int | None, FloatArray | None]:
    """Return the action of an answer, from 0, its distribution [A], or both."""
    if isinstance(answer, SampledAnswer):
        return answer
    try:
        array = np.asarray(answer)
    # Raised for ragged lists and other objects that NumPy cannot convert.
    except (ValueError, TypeError, RuntimeError):
        array = np.asarray(None)
    # An array of one integer is an action too: the answer of a model to one copy of a world.
    if array.size == 1 and np.issubdtype(array.dtype, np.integer):
        action = int(array.reshape(())) - first
        if 0 <= action < n_actions:
            return action, None
    elif array.shape == (n_actions,) and np.issubdtype(array.dtype, np.floating):
        return None, checked_rows(array.astype(np.float64), f"the answer of {name}")
    raise InvalidPolicyError(
        f"{name} answered {answer!r}, expected an action {first}..{first + n_actions - 1} or an "
        f"array [{n_actions}] of probabilities"
    )


def information(row: FloatArray | None, n_actions: int) -> float:
    """Return log A minus the entropy of a choice in nats; NaN if its distribution is unknown."""
    if row is None:
        return float("nan")
    used = row[row > 0]
    return float(np.log(n_actions) + used @ np.log(used))


def stable_baselines_actor(model: Any) -> SimulatorAgent:
    """Return the agent of a Stable-Baselines3 model with discrete actions."""
    n_actions = count_of(model.action_space)
    if n_actions is None:
        raise InvalidParameterError(
            f"the model has action space {model.action_space}, expected Discrete(n) or a Box of "
            f"real numbers; wrap the environment to have discrete actions "
            f"(gymnasium.wrappers.TransformAction), and pass a function that returns them"
        )
    name = type(model).__name__
    policy = model.policy
    if not hasattr(policy, "get_distribution"):
        # A Q-network takes the best action deterministically.
        one_hot = np.eye(n_actions)
        return _cached_actor(
            lambda array: one_hot[int(model.predict(array, deterministic=True)[0])], name
        )

    def probabilities(array: Any) -> FloatArray:
        import torch

        # In training mode some layers are random, and answers to equal observations would differ.
        policy.set_training_mode(False)
        with torch.no_grad():
            tensor, _ = policy.obs_to_tensor(array)
            return np.asarray(policy.get_distribution(tensor).distribution.probs[0].numpy())

    return _cached_actor(lambda array: probabilities(array).astype(np.float64), name)


# --- Cached answers -------------------------------------------------------------------------------
# Maximum number of cached observations; 250 MB for 64 x 64 colour images.
_MOST = 20_000


def _cached_actor(ask: Callable[[Any], FloatArray], name: str) -> SimulatorAgent:
    """Return an agent that calls its function once per observation, except for dictionaries."""
    answers: dict[tuple[bytes, tuple[int, ...], str], FloatArray] = {}

    def function(observation: Any) -> FloatArray:
        if isinstance(observation, (dict, tuple)):
            return ask(observation)
        array = np.asarray(observation)
        key = array.tobytes(), array.shape, array.dtype.str
        answer = answers.get(key)
        if answer is None:
            answer = ask(observation)
            if len(answers) < _MOST:
                answers[key] = answer
        return answer

    return actor_of_function(function, name, is_function=True)


# --- Agents of any kind ---------------------------------------------------------------------------
_ASKER = "MEG from a simulator"
_SB3 = "sb3:"


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


def actor_of(agent: Any, env: Any, horizon: int) -> SimulatorAgent:
    """Return an agent of any kind in a Gymnasium environment."""
    if isinstance(agent, str):
        agent = named(agent)
    if isinstance(agent, NamedAgent):
        return _of_name(agent, env)
    if is_stable_baselines(agent):
        check_spaces(type(agent).__name__, agent, env)
        return stable_baselines_actor(agent)
    if isinstance(agent, (np.ndarray, list, tuple)):
        observations = count_of(env.observation_space)
        if observations is None:
            raise InvalidParameterError(
                f"the agent is a table, but the environment has observation space "
                f"{env.observation_space}, expected Discrete(n); pass a function of the observation"
            )
        actions = count_of(env.action_space)
        # Environments with other action spaces are refused elsewhere.
        first = first_of(env.observation_space)
        return table_actor(agent, observations, actions or 1, horizon, first)
    if (actor := function_actor(agent)) is not None:
        return actor
    raise InvalidParameterError(
        f"agent is {agent!r}, expected a name, a Stable-Baselines3 model, a table, a function of "
        f"the observation that returns an action or a distribution, or an object with "
        f"begin(generator)"
    )


def _of_name(agent: NamedAgent, env: Any) -> SimulatorAgent:
    bare = env.unwrapped
    if agent.name.startswith(_SB3) and not type(bare).__module__.startswith("goalmeter.gridworld"):
        return _cached_actor(_saved(agent.name, env), agent.name)
    if not type(bare).__module__.startswith("goalmeter.gridworld"):
        raise InvalidParameterError(
            f"{agent.name!r} acts only in grid worlds, but this environment is "
            f"{type(bare).__name__}; pass a trained policy (sb3:PATH.zip) or a function"
        )
    agent.require(Ability.GRID, asker=_ASKER)
    return _walker(agent.in_grids(asker=_ASKER), bare, agent.name)


def _saved(name: str, env: Any) -> Callable[[Any], FloatArray]:
    from goalmeter.agents.trained_policies import read_policy

    policy = read_policy(name.removeprefix(_SB3))
    seen, shown, actions = policy.observations, env.observation_space, env.action_space
    sizes = (getattr(shown, "n", None), None if hasattr(shown, "n") else shown.shape)
    expected = (seen.count, None if seen.length is None else (seen.length,))
    if sizes != expected or getattr(actions, "n", None) != policy.n_actions:
        sees = "arrays of length" if seen.count is None else "a number of observations of"
        raise InvalidParameterError(
            f"{name} was trained with {sees} {seen.length or seen.count} and {policy.n_actions} "
            f"actions, but the environment has the spaces {shown} and {actions}; create it as for "
            f"training, with the same wrappers"
        )
    return lambda observation: policy.probabilities(np.asarray(observation)[None])[0]


def check_spaces(name: str, model: Any, env: Any) -> None:
    """Require that a Stable-Baselines3 model has the spaces of an environment."""
    for space in ("observation_space", "action_space"):
        of_model, of_env = getattr(model, space), getattr(env, space)
        # Images have the colour axis first in one of them and last in the other.
        if _size(of_model) != _size(of_env):
            raise InvalidParameterError(
                f"the model {name} has the {space.replace('_', ' ')} {of_model}, but that of the "
                f"environment is {of_env}; create it as for training, with the same wrappers"
            )


def _size(space: Any) -> tuple[Any, ...]:
    shape = space.shape if isinstance(getattr(space, "shape", None), tuple) else ()
    return getattr(space, "n", None), tuple(sorted(shape) if len(shape) == 3 else shape)
