"""Agents that a simulator asks for actions: tables, functions, models and named agents."""

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
    """How many numbers a space has; None for a space of anything else."""
    # The n of a `MultiBinary` counts bits, and what it shows is an array.
    is_numbered = hasattr(space, "n") and not getattr(space, "shape", ())
    return int(space.n) if is_numbered else None


def first_of(space: Any) -> int:
    """What the first number of a space is."""
    return int(getattr(space, "start", 0))


# --- Kinds of agents ------------------------------------------------------------------------------
# An agent is a table over integer observations, a policy that Stable-Baselines3 trained, a function
# of the observation, or any object whose `begin(generator)` gives such a function for one episode
# (and which may therefore remember it).

_SUM_TOLERANCE = 1e-5  # rows that sum to 1 within this are divided by their sum, as everywhere


class SampledAnswer(NamedTuple):
    """An action that the agent drew itself, and the distribution that it drew from, [A]."""

    action: int
    probabilities: FloatArray


# What an agent answers at a decision (its number, from 0) for an observation: an action, a
# distribution, or both.
Answer = Callable[[Any, int], "int | FloatArray | SampledAnswer"]


@dataclass(frozen=True, eq=False)
class SimulatorAgent:
    """An agent in a world with A actions."""

    name: str  # in words
    begin: Callable[[np.random.Generator], Answer]  # its answers during one episode
    remembers: bool = False  # answers depend on more than the observation and the decision's number
    is_function: bool = False  # it is known to answer an observation always alike
    # over integer observations, [T, S, A], rows summing to 1; else None
    table: FloatArray | None = None

    @property
    def timed(self) -> bool:
        """Whether answers depend on the decision's number."""
        return self.table is not None and len(self.table) > 1


def actor_of_function(
    function: Callable[[Any], Any], name: str, *, is_function: bool = False
) -> SimulatorAgent:
    """Return the actor of a function from the observation to an action or a distribution."""
    answer: Answer = lambda observation, decision: function(observation)  # noqa: E731
    return SimulatorAgent(name, lambda generator: answer, is_function=is_function)


def actor_of_rows(table: FloatArray, name: str = "policy", first: int = 0) -> SimulatorAgent:
    """Return the actor of a table [T, S, A]; `first` is the number of the first observation."""

    def answer(observation: Any, decision: int) -> FloatArray:
        return np.asarray(table[min(decision, len(table) - 1), int(observation) - first])

    return SimulatorAgent(name, lambda generator: answer, is_function=True, table=table)


def is_stable_baselines(agent: Any) -> bool:
    """Whether an agent is a model of Stable-Baselines3, by what it has."""
    return all(hasattr(agent, name) for name in ("predict", "policy", "action_space"))


def function_actor(agent: Any) -> SimulatorAgent | None:
    """A function of the observation, or an object whose `begin` gives one; None for others."""
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
    """A table [S, A] or [H, S, A] as an actor."""
    try:
        table = np.asarray(policy, dtype=np.float64)
    # Names, functions, rows of unequal length.
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


def checked_rows(rows: FloatArray, what: str) -> FloatArray:
    """Distributions over the last axis, divided by their sums."""
    sums = rows.sum(axis=-1, keepdims=True)
    if not ((rows >= 0).all() and (np.abs(sums - 1.0) <= _SUM_TOLERANCE).all()):
        raise InvalidPolicyError(
            f"{what} has rows that are no distributions over actions (they sum to "
            f"{float(sums.min()):.6g} to {float(sums.max()):.6g}, and the least entry is "
            f"{float(rows.min()):.6g}), expected probabilities from 0 on that sum to 1"
        )
    return np.asarray(rows / sums)


def chosen(
    answer: Any, n_actions: int, generator: np.random.Generator, name: str, first: int = 0
) -> tuple[int, FloatArray | None]:
    """The action that an answer stands for, from 0, drawn from it if it is a distribution."""
    action, row = told(answer, n_actions, name, first)
    if action is not None or row is None:
        assert action is not None, "an answer is an action or a distribution"
        return action, row
    # As `Generator.choice` does it, without its checks.
    drawn = int(np.searchsorted(np.cumsum(row), generator.random(), side="right"))
    return min(drawn, n_actions - 1), row


def told(
    answer: Any, n_actions: int, name: str, first: int = 0
) -> tuple[int | None, FloatArray | None]:
    """What an answer says: an action, from 0, its distribution [A], or both; see `chosen`."""
    if isinstance(answer, SampledAnswer):
        return answer
    try:
        array = np.asarray(answer)
    # Lists of unequal length, and whatever else NumPy makes no array of.
    except (ValueError, TypeError, RuntimeError):
        array = np.asarray(None)
    # An array of one whole number is an action too: so models answer for one copy of a world.
    if array.size == 1 and np.issubdtype(array.dtype, np.integer):
        action = int(array.reshape(())) - first
        if 0 <= action < n_actions:
            return action, None
    elif array.shape == (n_actions,) and np.issubdtype(array.dtype, np.floating):
        return None, checked_rows(array.astype(np.float64), f"what {name} answered")
    raise InvalidPolicyError(
        f"{name} answered {answer!r}, expected an action {first}..{first + n_actions - 1} or an "
        f"array [{n_actions}] of their probabilities"
    )


def information(row: FloatArray | None, n_actions: int) -> float:
    """The difference of log A and the entropy of a choice, nats; NaN where it is not told."""
    if row is None:
        return float("nan")
    used = row[row > 0]
    return float(np.log(n_actions) + used @ np.log(used))


def stable_baselines_actor(model: Any) -> SimulatorAgent:
    """A model of Stable-Baselines3 with discrete actions."""
    n_actions = count_of(model.action_space)
    if n_actions is None:
        raise InvalidParameterError(
            f"the model acts in {model.action_space}, expected Discrete(n) or a Box of real "
            f"numbers; give the environment numbered actions by a wrapper "
            f"(gymnasium.wrappers.TransformAction), and a function that numbers the model's"
        )
    name = type(model).__name__
    policy = model.policy
    if not hasattr(policy, "get_distribution"):
        # A Q-network takes the best action, and nothing is left to chance.
        one_hot = np.eye(n_actions)
        return _cached_actor(
            lambda seen: one_hot[int(model.predict(seen, deterministic=True)[0])], name
        )

    def probabilities(seen: Any) -> FloatArray:
        import torch

        # In training some layers draw, and the same observation would get several answers.
        policy.set_training_mode(False)
        with torch.no_grad():
            tensor, _ = policy.obs_to_tensor(seen)
            return np.asarray(policy.get_distribution(tensor).distribution.probs[0].numpy())

    return _cached_actor(lambda seen: probabilities(seen).astype(np.float64), name)


# --- Cached answers -------------------------------------------------------------------------------
# Observations that are kept; of pictures of 64 by 64 in colours this is 250 MB.
_MOST = 20_000


def _cached_actor(ask: Callable[[Any], FloatArray], name: str) -> SimulatorAgent:
    """Return an actor that calls its function once per observation, except for dictionaries."""
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
    """Return the actor of a navigator in one of our grid worlds, which sees the state itself."""

    def begin(generator: np.random.Generator) -> Answer:
        walk = navigator.begin(env.world, Draws(int(generator.integers(2**31))))

        def answer(observation: Any, decision: int) -> int | SampledAnswer:
            made = walk.act(env.state)
            if made.action is None:
                raise InvalidParameterError(
                    f"{name} gave no action ({made.invalid}), and a decision without one has "
                    f"no evidence; measure an agent that always acts"
                )
            if made.probabilities is None:
                return int(made.action)
            return SampledAnswer(made.action, np.asarray(made.probabilities, dtype=np.float64))

        return answer

    is_policy = isinstance(navigator, Memoryless)
    return SimulatorAgent(name, begin, remembers=not is_policy, is_function=is_policy)


def actor_of(agent: Any, env: Any, horizon: int) -> SimulatorAgent:
    """An agent of any kind in a Gymnasium environment."""
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
                f"the agent is a table, but the environment shows {env.observation_space}, "
                f"expected Discrete(n); give a function of the observation"
            )
        actions = count_of(env.action_space)
        # An environment with other actions is refused as a whole.
        first = first_of(env.observation_space)
        return table_actor(agent, observations, actions or 1, horizon, first)
    if (actor := function_actor(agent)) is not None:
        return actor
    raise InvalidParameterError(
        f"agent is {agent!r}, expected a name, a model of Stable-Baselines3, a table, a function "
        f"of the observation that gives an action or a distribution, or an object with "
        f"begin(generator)"
    )


def _of_name(agent: NamedAgent, env: Any) -> SimulatorAgent:
    bare = env.unwrapped
    if agent.name.startswith(_SB3) and not type(bare).__module__.startswith("goalmeter.gridworld"):
        return _cached_actor(_saved(agent.name, env), agent.name)
    if not type(bare).__module__.startswith("goalmeter.gridworld"):
        raise InvalidParameterError(
            f"{agent.name!r} walks in grid worlds, and this environment is "
            f"{type(bare).__name__}; give a trained policy (sb3:PATH.zip) or a function"
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
        sees = "arrays of length" if seen.count is None else "observations, numbered, to"
        raise InvalidParameterError(
            f"{name} was trained to see {sees} {seen.length or seen.count} and to choose among "
            f"{policy.n_actions} actions, but the environment shows {shown} and takes {actions}; "
            f"make it as it was for training, with the same wrappers"
        )
    return lambda observation: policy.probabilities(np.asarray(observation)[None])[0]


def check_spaces(name: str, model: Any, env: Any) -> None:
    """See that a model of Stable-Baselines3 can act in an environment."""
    for what in ("observation_space", "action_space"):
        of_model, of_env = getattr(model, what), getattr(env, what)
        # Pictures have their colours first in one of them and last in the other.
        if _size(of_model) != _size(of_env):
            raise InvalidParameterError(
                f"the model {name} has the {what.replace('_', ' ')} {of_model}, but that of the "
                f"environment is {of_env}; make it as it was for training, with the same wrappers"
            )


def _size(space: Any) -> tuple[Any, ...]:
    shape = space.shape if isinstance(getattr(space, "shape", None), tuple) else ()
    return getattr(space, "n", None), tuple(sorted(shape) if len(shape) == 3 else shape)
