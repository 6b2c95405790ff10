"""Agents simple enough to be followed by hand: a state with pure steps.

Those that the specifications of the environments name are in `KNOWN`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from goalmeter.agents.history import (
    Agent,
    FunctionAgent,
    History,
    HistoryFunction,
    Percept,
    below,
    hash_action,
    hash_percept,
    hash_start,
)


def as_function(agent: Agent, **options: Any) -> HistoryFunction:
    """Return the function of the history that an agent is: a fresh mind is told all of it."""

    def act(history: History, n_actions: int, n_observations: int) -> int:
        mind = agent.begin(n_actions, n_observations, **options)
        for percept, action in zip(history.percepts, (*history.actions, None), strict=True):
            mind.perceive(*percept)
            if action is not None:
                mind.take(action)
        return mind.act()

    return act


@dataclass(frozen=True)
class StepAgent:
    """An agent from a state and what percepts and actions do to it."""

    start: Callable[..., Any]  # (n_actions, n_observations, **options) -> state
    perceived: Callable[[Any, float, int], Any]
    taken: Callable[[Any, int], Any]
    choice: Callable[[Any], int]
    options: frozenset[str] = field(default=frozenset())

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> StepMind:
        return StepMind(self, self.start(n_actions, n_observations, **options))


class StepMind:
    """Holds the state, and holds environments to the protocol: percepts and actions in turn."""

    def __init__(self, agent: StepAgent, state: Any, has_perceived: bool = False) -> None:
        self.agent = agent
        self.state = state
        self.has_perceived = has_perceived

    def perceive(self, reward: float, observation: int) -> None:
        assert not self.has_perceived, "two percepts without an action between them"
        assert type(observation) is int and type(reward) is int
        self.state = self.agent.perceived(self.state, reward, observation)
        self.has_perceived = True

    def act(self) -> int:
        assert self.has_perceived, "asked before a percept"
        return self.agent.choice(self.state)

    def take(self, action: int) -> None:
        assert self.has_perceived, "an action before a percept"
        assert type(action) is int
        self.state = self.agent.taken(self.state, action)
        self.has_perceived = False

    def fork(self) -> StepMind:
        return StepMind(self.agent, self.state, self.has_perceived)


class Simple(NamedTuple):
    """An agent as a mind, and the function of the history that it is."""

    name: str
    steps: Agent

    @property
    def forms(self) -> tuple[Agent, Agent]:
        return FunctionAgent(as_function(self.steps)), self.steps


def constant(action: int) -> Simple:
    """One action always."""
    nothing = lambda *_: None  # noqa: E731
    return Simple(f"constant {action}", StepAgent(nothing, nothing, nothing, lambda _: action))


# 0, 1, 0, 1, ... by turn, whatever happens.
alternate = Simple(
    "alternate", StepAgent(lambda *_: 0, lambda k, *_: k, lambda k, _: 1 - k, lambda k: k)
)
# 1 after a positive reward, else 0.
last_sign = Simple(
    "last sign",
    StepAgent(lambda *_: 0, lambda _, r, o: int(r > 0), lambda k, _: k, lambda k: k),
)
# First 0; after a positive reward the last action, otherwise the next one, cyclically.
win_stay = Simple(
    "win-stay",
    StepAgent(
        lambda n_actions, _: (n_actions, None, 0),
        lambda s, r, o: (s[0], s[1], 0 if s[1] is None else s[1] if r > 0 else (s[1] + 1) % s[0]),
        lambda s, a: (s[0], a, None),
        lambda s: s[2],
    ),
)
# The last observation, modulo the number of actions.
echo = Simple(
    "echo",
    StepAgent(
        lambda n, _: (n, 0), lambda s, r, o: (s[0], o % s[0]), lambda s, _: s, lambda s: s[1]
    ),
)

KNOWN = {
    agent.name: agent for agent in (constant(0), constant(1), alternate, last_sign, win_stay, echo)
}
BLIND = ("constant 0", "constant 1", "alternate")  # they notice no reward


def hashed(seed: int) -> Simple:
    """Anything: a hash of the whole history, of what is legal and of a seed."""
    return Simple(
        f"hashed {seed}",
        StepAgent(
            lambda n, m: (n, hash_start(seed, n, m)),
            lambda s, r, o: (s[0], hash_percept(s[1], r, o)),
            lambda s, a: (s[0], hash_action(s[1], a)),
            lambda s: below(s[1], s[0]),
        ),
    )


def doubtful(seed: int) -> Simple:
    """Hashed, until the history has an action that it would not have taken; then it alternates."""

    def taken(s: tuple[int, int, int, bool], action: int) -> tuple[int, int, int, bool]:
        n, turn, state, is_sure = s
        return n, 1 - turn, hash_action(state, action), is_sure and action == below(state, n)

    return Simple(
        f"doubtful {seed}",
        StepAgent(
            lambda n, m: (n, 0, hash_start(seed, n, m), True),
            lambda s, r, o: (s[0], s[1], hash_percept(s[2], r, o), s[3]),
            taken,
            lambda s: below(s[2], s[0]) if s[3] else s[1],
        ),
    )


RATE = 0.3


class Rated(NamedTuple):
    """Plays 1 while its average reward is above 0.2; can be asked to assume another rate."""

    options: frozenset[str] = frozenset({"learning_rate", "learning_rate_scale"})

    def begin(
        self,
        n_actions: int,
        n_observations: int,
        *,
        learning_rate: float = RATE,
        learning_rate_scale: float = 1,
    ) -> StepMind:
        rate = learning_rate * learning_rate_scale
        steps = StepAgent(
            lambda: 0.0, lambda v, r, o: v + rate * (r - v), lambda v, _: v, lambda v: int(v > 0.2)
        )
        return StepMind(steps, 0.0)


DETERMINISTIC: tuple[Simple, ...] = (
    *(KNOWN[name] for name in ("constant 1", "alternate", "last sign", "win-stay", "echo")),
    hashed(1),
    hashed(2),
    doubtful(3),
)


class CodeOf:
    """An agent's code T for the oracle."""

    def __init__(self, agent: Agent, n_actions: int, n_observations: int) -> None:
        self.agent = agent
        self.counts = n_actions, n_observations

    def __call__(self, x: Any, y: Any, *, n_actions: int | None = None, **options: float) -> int:
        if not self.agent.options.issuperset(options):
            raise TypeError(f"unexpected keyword arguments {sorted(options)}")
        n, m = self.counts
        function = as_function(self.agent, **options)
        return function(_history(x, y), n if n_actions is None else n_actions, m)

    def lines(self, x: Any, y: Any) -> int:
        """Lines executed at the history, less those of the adapter that tells a mind of it."""
        function, history, count = as_function(self.agent), _history(x, y), 0

        def trace(frame: Any, event: str, argument: Any) -> Any:
            nonlocal count
            count += event == "line" and frame.f_code is not function.__code__
            return trace

        before = sys.gettrace()
        gc.disable()  # it may run anybody's code, at any time
        sys.settrace(trace)
        try:
            function(history, *self.counts)
        finally:
            sys.settrace(before)
            gc.enable()
        return count


def _history(x: Any, y: Any) -> History:
    return History(tuple(Percept(*percept) for percept in x), tuple(y))
