"""The two forms of an agent, made from each other: a function of the history, and minds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from goalmeter.reflection.protocol import Agent, History, Mind, Percept

# A user's agent: (history, n_actions, n_observations) -> action.
HistoryFunction = Callable[[History, int, int], int]


class FunctionAgent:
    """An agent from a function of the history (Definition 1 of the paper).

    Every question hands the function the whole history, so a run of n steps costs at least
    O(n^2); an agent that learns step by step is faster as a mind of its own.
    """

    def __init__(self, function: HistoryFunction) -> None:
        self.function = function
        self.options: frozenset[str] = frozenset()

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """A mind that remembers the history for the function."""
        return _FunctionMind(self.function, n_actions, n_observations, [], [])


class _FunctionMind:
    __slots__ = ("_actions", "_function", "_known", "_n_actions", "_n_observations", "_percepts")

    def __init__(
        self,
        function: HistoryFunction,
        n_actions: int,
        n_observations: int,
        percepts: list[Percept],
        actions: list[int],
    ) -> None:
        self._function = function
        self._n_actions = n_actions
        self._n_observations = n_observations
        self._percepts = percepts
        self._actions = actions
        self._known: int | None = None

    def perceive(self, reward: float, observation: int) -> None:
        self._percepts.append(Percept(reward, observation))
        self._known = None

    def act(self) -> int:
        if self._known is None:
            history = History(tuple(self._percepts), tuple(self._actions))
            self._known = self._function(history, self._n_actions, self._n_observations)
        return self._known

    def take(self, action: int) -> None:
        self._actions.append(action)

    def fork(self) -> _FunctionMind:
        return _FunctionMind(
            self._function,
            self._n_actions,
            self._n_observations,
            self._percepts.copy(),
            self._actions.copy(),
        )


def as_function(agent: Agent, **options: Any) -> HistoryFunction:
    """The function of the history that an agent is: a fresh mind is told all of it."""

    def act(history: History, n_actions: int, n_observations: int) -> int:
        mind = agent.begin(n_actions, n_observations, **options)
        for percept, action in zip(history.percepts, (*history.actions, None), strict=True):
            mind.perceive(*percept)
            if action is not None:
                mind.take(action)
        return mind.act()

    return act
