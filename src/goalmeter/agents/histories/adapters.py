"""The two forms of an agent, made from each other: a function of the history, and minds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import Parameter, signature
from operator import index
from typing import Any, SupportsIndex, cast

from goalmeter._errors import InvalidParameterError
from goalmeter._text import shown
from goalmeter.agents.histories.protocol import (
    Agent,
    History,
    Mind,
    NoActionError,
    Percept,
    refuse_unknown,
)

# A user's agent: (history, n_actions, n_observations) -> action.
HistoryFunction = Callable[[History, int, int], int]
FUNCTION = "a function (history, n_actions, n_observations) -> int"


class FunctionAgent:
    """An agent from a function of the history (Definition 1 of the paper).

    Every question hands the function the whole history, so a run of n steps costs at least
    O(n^2); an agent that learns step by step is faster as a mind of its own.

    Keyword-only parameters of the function are settings that environments may ask it to assume:
    with `def agent(history, n_actions, n_observations, *, learning_rate=0.1)` it can be asked what
    it would do if it learnt at another rate.

    Args:
        function: of (history, n_actions, n_observations), gives an integer: an `int`, or anything
            that Python can index a list with, such as NumPy's integers.

    Raises:
        InvalidParameterError: it cannot be called with these three.
    """

    def __init__(self, function: Callable[..., SupportsIndex]) -> None:
        if not callable(function):
            raise InvalidParameterError(f"{shown(function)} cannot be called, expected {FUNCTION}")
        check_call(function, 3, _name(function), FUNCTION)
        self.function = function
        self.options: frozenset[str] = _keywords(function)

    def __repr__(self) -> str:
        return f"FunctionAgent({_name(self.function)})"

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """A mind that remembers the history for the function."""
        if options:
            refuse_unknown(self, options, self.options)
        function = partial(self.function, **options) if options else self.function
        return _FunctionMind(function, n_actions, n_observations, [], [])


class _FunctionMind:
    def __init__(
        self,
        function: Callable[..., SupportsIndex],
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
        known = self._known
        if known is None:
            history = History(tuple(self._percepts), tuple(self._actions))
            answer = self._function(history, self._n_actions, self._n_observations)
            # Only that it is an integer: whether it is legal is said by whoever asked.
            try:
                self._known = known = index(answer)
            except TypeError:
                raise self._no_action(answer) from None
        return known

    def take(self, action: int) -> None:
        self._actions.append(action)

    def fork(self) -> _FunctionMind:
        counts = self._n_actions, self._n_observations
        twin = _FunctionMind(self._function, *counts, self._percepts.copy(), self._actions.copy())
        twin._known = self._known
        return twin

    def _no_action(self, answer: object) -> NoActionError:
        n = len(self._percepts)
        return NoActionError(
            f"{_name(self._function)} returned {shown(answer)} "
            f"({type(answer).__name__}) at a history of {n} percept{'s' * (n > 1)}, "
            f"expected an integer in 0 .. {self._n_actions - 1}"
        )


def _keywords(function: Callable[..., Any]) -> frozenset[str]:
    """The keyword-only parameters; of builtins that have no signature, none."""
    try:
        parameters = signature(function).parameters.values()
    except (ValueError, TypeError):
        return frozenset()
    return frozenset(p.name for p in parameters if p.kind is Parameter.KEYWORD_ONLY)


def _name(function: Callable[..., Any]) -> str:
    function = function.func if isinstance(function, partial) else function
    return getattr(function, "__name__", None) or shown(function)


def check_call(function: Callable[..., Any], arguments: int, name: str, expected: str) -> None:
    """Refuse what cannot be called with so many arguments; builtins do not say, and pass."""
    try:
        takes = signature(function)
    except (ValueError, TypeError):
        return
    try:
        takes.bind(*[None] * arguments)
    except TypeError as cause:
        raise InvalidParameterError(
            f"{name}({', '.join(map(str, takes.parameters))}) cannot be called as it will be: "
            f"{cause}; expected {expected}"
        ) from cause


def as_agent(candidate: object, name: str = "the agent") -> Agent:
    """An agent as it is; of a function of the history, the agent that it makes.

    Args:
        candidate: an object with the method `begin`, or a function.
        name: what it is called in an error.
    """
    begin = getattr(candidate, "begin", None)
    if isinstance(candidate, type) or not (callable(begin) or callable(candidate)):
        kind = (
            "a class without the method 'begin'"
            if isinstance(candidate, type)
            else shown(candidate)
        )
        raise InvalidParameterError(
            f"{name} is {kind}, expected {FUNCTION}, an object with the method 'begin', or a class "
            f"of such objects"
        )
    if callable(begin):
        expected = f"begin(n_actions, n_observations), as {name} is an object"
        check_call(begin, 2, f"{type(candidate).__name__}.begin", expected)
        return cast(Agent, candidate)
    assert callable(candidate)
    try:
        return FunctionAgent(candidate)
    except InvalidParameterError as cause:
        raise InvalidParameterError(f"{name}: {cause}") from cause


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
