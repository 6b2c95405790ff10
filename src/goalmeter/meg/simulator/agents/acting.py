"""Agents as the measure asks them: an action, with its distribution where they tell it.

An agent is a table over integer observations, a policy that Stable-Baselines3 trained, a function
of the observation, or any object whose `begin(generator)` gives such a function for one episode
(and which may therefore remember it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidPolicyError
from goalmeter._text import shown
from goalmeter._types import FloatArray
from goalmeter.meg.simulator.agents.numbered_spaces import count_of

# Rows that sum to 1 within this are divided by their sum, as everywhere.
_SUM_TOLERANCE = 1e-5


class Answered(NamedTuple):
    """An action that the agent drew itself, and the distribution that it drew from, [A]."""

    action: int
    probabilities: FloatArray


# What an agent answers at a decision (its number, from 0) for an observation: an action, a
# distribution, or both.
Answer = Callable[[Any, int], "int | FloatArray | Answered"]


class Actor(Protocol):
    """An agent in a world with A actions."""

    @property
    def name(self) -> str:
        """In words."""

    @property
    def remembers(self) -> bool:
        """Whether its answers may depend on more than the observation and the decision's number."""

    @property
    def timed(self) -> bool:
        """Whether they depend on the decision's number."""

    @property
    def is_function(self) -> bool:
        """Whether it is known to answer an observation always alike; else that is a promise."""

    def begin(self, generator: np.random.Generator) -> Answer:
        """Its answers during one episode."""


@dataclass(frozen=True, eq=False)
class TableActor:
    """A policy as a table over integer observations.

    Attributes:
        table: [T, S, A], rows summing to 1.
        name: in words.
        first: what the first observation is.
    """

    table: FloatArray
    name: str = "policy"
    remembers: bool = False
    is_function: bool = True
    first: int = 0

    @property
    def timed(self) -> bool:
        """Whether its rows depend on the decision's number."""
        return len(self.table) > 1

    def begin(self, generator: np.random.Generator) -> Answer:
        """The row of the observation at this decision."""

        def answer(observation: Any, decision: int) -> FloatArray:
            row = int(observation) - self.first
            return np.asarray(self.table[min(decision, len(self.table) - 1), row])

        return answer


@dataclass(frozen=True, eq=False)
class FunctionActor:
    """A function of the observation, which gives an action or a distribution."""

    function: Callable[[Any], Any]
    name: str
    remembers: bool = False
    timed: bool = False
    is_function: bool = False

    def begin(self, generator: np.random.Generator) -> Answer:
        """The function itself: it has no memory of ours."""
        return lambda observation, decision: self.function(observation)


@dataclass(frozen=True, eq=False)
class EpisodicActor:
    """An agent that begins anew in each episode."""

    agent: Any
    name: str
    remembers: bool = True
    timed: bool = False
    is_function: bool = False

    def begin(self, generator: np.random.Generator) -> Answer:
        """Its function for one episode."""
        function = self.agent.begin(generator)
        return lambda observation, decision: function(observation)


def is_stable_baselines(agent: Any) -> bool:
    """Whether an agent is a model of Stable-Baselines3, by what it has."""
    return all(hasattr(agent, name) for name in ("predict", "policy", "action_space"))


def function_actor(agent: Any) -> Actor | None:
    """A function of the observation, or an object whose `begin` gives one; None for others."""
    name = str(getattr(agent, "__name__", type(agent).__name__))
    if hasattr(agent, "begin"):
        return EpisodicActor(agent, name)
    return FunctionActor(agent, name) if callable(agent) else None


def table_actor(policy: Any, n_states: int, n_actions: int, horizon: int) -> TableActor:
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
    return TableActor(checked_rows(stacked, "the agent's table"))


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
    """The action that an answer stands for, from 0, drawn from it if it is a distribution.

    Args:
        answer: of the agent.
        n_actions: A.
        generator: of the draw.
        name: of the agent, for errors.
        first: what the agent calls the first action.
    """
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
    if isinstance(answer, Answered):
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


def stable_baselines_actor(model: Any) -> FunctionActor:
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
        return FunctionActor(
            lambda seen: one_hot[int(model.predict(seen, deterministic=True)[0])],
            name,
            is_function=True,
        )

    def probabilities(seen: Any) -> FloatArray:
        import torch

        # In training some layers draw, and the same observation would get several answers.
        policy.set_training_mode(False)
        with torch.no_grad():
            tensor, _ = policy.obs_to_tensor(seen)
            return np.asarray(policy.get_distribution(tensor).distribution.probs[0].numpy())

    return FunctionActor(
        lambda seen: probabilities(seen).astype(np.float64), name, is_function=True
    )
