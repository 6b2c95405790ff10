"""The two simplest agents of the paper, which learn nothing: ConstantAgent and RandomAgent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.histories.draws import below, hash_action, hash_percept, hash_start
from goalmeter.agents.histories.protocol import Mind, refuse_unknown


@dataclass(frozen=True)
class ConstantAgent:
    """Takes one action whatever happens, also where that action is not legal.

    Args:
        action: the action; 0 in the paper's library.

    Source: section 5.
    """

    action: int = 0
    options: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if self.action < 0:
            raise InvalidParameterError(
                f"action is {self.action}, expected 0 or more: actions are counted from 0"
            )

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """A mind at the empty history."""
        if options:
            refuse_unknown(self, options)
        return _ConstantMind(self.action)


class _ConstantMind:
    __slots__ = ("_action",)

    settled = True  # from the start: see `environments.base.replay`

    def __init__(self, action: int) -> None:
        self._action = action

    def perceive(self, reward: float, observation: int) -> None:
        pass

    def act(self) -> int:
        return self._action

    def take(self, action: int) -> None:
        pass

    def fork(self) -> _ConstantMind:
        return self  # nothing that it is told changes it


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
