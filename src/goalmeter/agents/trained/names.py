"""Trained policies by name, `sb3:PATH.zip` and `policy:PATH.npz`, and at histories."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidPolicyError
from goalmeter._types import FloatArray
from goalmeter.agents.abilities import Ability, Makers, NamedAgent
from goalmeter.agents.histories.draws import hash_action, hash_percept, hash_start, uniform
from goalmeter.agents.histories.protocol import Mind, refuse_unknown
from goalmeter.agents.trained.in_grids import saved_walker, table_walker
from goalmeter.agents.trained.sb3_file import SavedPolicy, read_policy
from goalmeter.agents.user_code import from_here
from goalmeter.gridworld.world import ACTIONS
from goalmeter.tabular.files import load_policy
from goalmeter.tabular.mdp import TabularMDP

# Prefix -> (ending of the file, what its agents are).
TRAINED = {
    "sb3": (".zip", "a policy that Stable-Baselines3 saved: PPO, A2C or DQN"),
    "policy": (".npz", "a policy file, [S, A] or [H, S, A], over the states of a world"),
}


def is_trained(name: str) -> bool:
    """Whether a name is that of a trained policy in a file.

    >>> is_trained("sb3:models/ppo.zip"), is_trained("mine.py:agent")
    (True, False)
    """
    return name.partition(":")[0].strip() in TRAINED and ":" in name


def trained_agent(name: str) -> NamedAgent:
    """The agent of a trained policy; the file is read, but neither torch nor its weights are."""
    prefix, _, path = name.partition(":")
    prefix, path = prefix.strip(), path.strip()
    ending, about = TRAINED[prefix]
    if not path.endswith(ending):
        raise InvalidParameterError(
            f"{name!r} names no {ending} file; a trained policy is named {prefix}:PATH{ending}"
        )
    # One spelling for each file, so that a run is continued from wherever it is named.
    path = from_here(path)
    name = f"{prefix}:{path}"
    makers = _sb3(name, read_policy(path)) if prefix == "sb3" else _table(name, path)
    return NamedAgent(name, about, makers, files=(path,))


def _sb3(name: str, policy: SavedPolicy) -> Makers:
    makers: Makers = {}
    if policy.n_actions == len(ACTIONS):
        makers = {Ability.GRID: lambda: saved_walker(name, policy)}
    count = policy.observations.count
    if count is None:
        return makers

    @cache  # one pass through the network, which is asked again for every seed
    def table() -> FloatArray:
        return policy.probabilities(np.arange(count))

    return {
        **makers,
        Ability.HISTORY: lambda seed=0: TableAgent(name, table(), seed),
        Ability.TABLE: lambda world: _fitted(name, world, table),
    }


def _table(name: str, path: str) -> Makers:
    policy = load_policy(path)
    makers: Makers = {Ability.TABLE: lambda world: _fitted(name, world, lambda: policy)}
    if policy.shape[-1] == len(ACTIONS):
        makers = {**makers, Ability.GRID: lambda: table_walker(name, policy)}
    if policy.ndim == 2:
        makers = {**makers, Ability.HISTORY: lambda seed=0: TableAgent(name, policy, seed)}
    return makers


def _fitted(name: str, world: TabularMDP, table: Callable[[], FloatArray]) -> FloatArray:
    """A table, if it is one of a world's states and actions."""
    policy = table()
    if policy.shape[-2:] != (world.n_states, world.n_actions):
        states, actions = policy.shape[-2:]
        raise InvalidPolicyError(
            f"{name} is a policy over {states} states and {actions} actions, and the world has "
            f"{world.n_states} and {world.n_actions}; measure it in the world it was trained in"
        )
    return policy


# --- At histories ---------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class TableAgent:
    """A policy over numbered observations: it acts on the latest one alone, by its row of a table.

    Attributes:
        name: as on the command line.
        table: [observations, actions].
        seed: of its draws.
    """

    name: str
    table: FloatArray
    seed: int = 0
    options: ClassVar[frozenset[str]] = frozenset()

    def __repr__(self) -> str:
        return f"TableAgent({self.name!r}, seed={self.seed})"

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """A mind at the empty history."""
        refuse_unknown(self, options)
        self.check_counts(n_actions, n_observations)
        start = hash_start(self.seed, n_actions, n_observations)
        return _TableMind(self._cumulative, start)

    def check_counts(self, n_actions: int, n_observations: int) -> None:
        """See that an environment has the actions and observations that the table has."""
        observations, actions = self.table.shape
        if (actions, observations) != (n_actions, n_observations):
            raise InvalidParameterError(
                f"{self.name} was trained with {actions} actions and {observations} observations, "
                f"and the environment has {n_actions} and {n_observations}; name environments of "
                f"its own numbers with --environment"
            )

    @cached_property
    def _cumulative(self) -> list[list[float]]:
        sums = np.minimum(np.cumsum(self.table, axis=1), 1.0)
        sums[:, -1] = 1.0  # whatever the rounding
        rows: list[list[float]] = sums.tolist()
        return rows


class _TableMind:
    __slots__ = ("_observation", "_rows", "_state")

    def __init__(self, rows: list[list[float]], state: int, observation: int = 0) -> None:
        self._rows, self._state, self._observation = rows, state, observation

    def perceive(self, reward: float, observation: int) -> None:
        self._state = hash_percept(self._state, reward, observation)
        self._observation = observation

    def act(self) -> int:
        if not 0 <= self._observation < len(self._rows):
            raise InvalidParameterError(
                f"a trained policy is told of observation {self._observation}, expected 0 to "
                f"{len(self._rows) - 1}: the environment tells of one that it does not have"
            )
        return bisect_right(self._rows[self._observation], uniform(self._state))

    def take(self, action: int) -> None:
        self._state = hash_action(self._state, action)

    def fork(self) -> _TableMind:
        return _TableMind(self._rows, self._state, self._observation)
