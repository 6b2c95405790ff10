"""RandomAgent of the paper: every action equally likely, whatever happens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from goalmeter.agents.histories.draws import below, hash_action, hash_percept, hash_start
from goalmeter.agents.histories.protocol import Mind
from goalmeter.agents.histories.settings import refuse_unknown


@dataclass(frozen=True)
class RandomAgent:
    """Uniform over the legal actions; the draw is a function of (seed, history).

    The paper remembers each choice instead, which gives the same kind of agent: asked twice at the
    same history it does the same.

    Args:
        seed: of its draws.

    Source: section 5.
    """

    seed: int = 0
    options: ClassVar[frozenset[str]] = frozenset()

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """A mind at the empty history."""
        if options:
            refuse_unknown(self, options)
        return _RandomMind(hash_start(self.seed, n_actions, n_observations), n_actions)


class _RandomMind:
    __slots__ = ("_n_actions", "_state")

    def __init__(self, state: int, n_actions: int) -> None:
        self._state = state
        self._n_actions = n_actions

    def perceive(self, reward: float, observation: int) -> None:
        self._state = hash_percept(self._state, reward, observation)

    def act(self) -> int:
        return below(self._state, self._n_actions)

    def take(self, action: int) -> None:
        self._state = hash_action(self._state, action)

    def fork(self) -> _RandomMind:
        return _RandomMind(self._state, self._n_actions)
