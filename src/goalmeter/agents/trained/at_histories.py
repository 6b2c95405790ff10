"""A policy over numbered observations as an agent of a history: it acts on the latest one alone."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.agents.histories.draws import hash_action, hash_percept, hash_start, uniform
from goalmeter.agents.histories.protocol import Mind, refuse_unknown


@dataclass(frozen=True, eq=False)
class TableAgent:
    """Draws its action from the row of its table that the latest observation names.

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
        """A mind at the empty history.

        Raises:
            InvalidParameterError: the environment has other numbers of actions or observations.
        """
        refuse_unknown(self, options)
        self.check_counts(n_actions, n_observations)
        start = hash_start(self.seed, n_actions, n_observations)
        return _TableMind(self._cumulative, start)

    def check_counts(self, n_actions: int, n_observations: int) -> None:
        """See that an environment has the actions and observations that the table has.

        Raises:
            InvalidParameterError: it has others.
        """
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
