"""Base classes of extended environments, opposites, and the count of executed lines."""

# ruff: noqa: D102 (`begin`, `react` and `tell` are those of the base classes)
from __future__ import annotations

import gc
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from types import FrameType
from typing import Any, ClassVar

from goalmeter._errors import InvalidParameterError, shown
from goalmeter.agents.history import Mind, Source


class Run(ABC):
    """Run of an environment with one agent.

    `begin` is called once, then `react` with each action in turn. A run stores what it needs of the
    history. `sign` is -1 in the opposite environment; a run must multiply every reward by it, both
    those that it returns and those that it passes to copies.

    Environments with rooms draw one number with `draws.random()` for each percept, the first
    included, whether or not it is used, so that the rooms do not depend on the agent.

    The docstring of an environment is its specification, under the headings of
    `registry.HEADINGS`. A missing heading is inherited from the base classes; the defaults are:

    Actions: 2, without meaning.
    Observations: 1, always 0.
    Source: the authors' library at e38e3dc; not described in the paper.
    Differences from the paper: none known.

    `source` begins copies of the agent; `draws` is the run's random generator, the same for an
    environment and its opposite.
    """

    n_actions: ClassVar[int] = 2  # legal actions are 0 .. n_actions - 1
    n_observations: ClassVar[int] = 1  # observations are 0 .. n_observations - 1
    # Other readings of the rules: name -> values, the default first; they are keyword arguments of
    # the class.
    options: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    copy: Mind  # copy of the agent, in environments that simulate one throughout

    def __init__(self, source: Source, draws: Random, sign: int) -> None:
        self.source, self.draws, self.sign = source, draws, sign

    @abstractmethod
    def begin(self) -> tuple[float, int]:
        """Return the first percept: (reward, observation)."""

    @abstractmethod
    def react(self, action: int) -> tuple[float, int]:
        """Return the percept that follows an action: (reward, observation)."""

    def observe(self) -> int:
        """Return the next observation if it depends only on the draws."""
        return 0


class Agreement(Run):
    """Environment that pays for acting as a copy would at another history; observations are 0.

    After the agent plays y_n, the copy acts at g(h_n). Subclasses define g by the method `tell`.

    Reward: +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
    """

    def begin(self) -> tuple[float, int]:
        self.copy = self.source.begin()
        self.copy.perceive(0, 0)
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        reward = self.sign if self.copy.act() == action else -self.sign
        self.tell(action, reward)
        return reward, 0

    @abstractmethod
    def tell(self, action: int, reward: float) -> None:
        """Pass an action and its reward, possibly altered, to the copy."""


class Retold(Agreement):
    """Environment whose copy gets the true history; its start, or the payment, differs."""

    def tell(self, action: int, reward: float) -> None:
        self.copy.take(action)
        self.copy.perceive(reward, 0)


class Forgetful(Run):
    """Environment that pays for acting as a copy would that has forgotten some turns.

    A forgotten percept is removed with the action that follows it. If the last percept is removed,
    so is the action before it, so that the copy's history ends at the last remaining percept. The
    first percept always remains.

    Reward: +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
    """

    is_left = True  # whether the last percept remains
    follows = 0  # action after the last remaining percept
    answer: int  # action of the copy at the end of its history

    def begin(self) -> tuple[float, int]:
        self.copy = self.source.begin()
        self.copy.perceive(0, 0)
        self.answer = self.copy.act()
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        reward = self.sign if self.answer == action else -self.sign
        observation = self.observe()
        # Actions in forgotten turns are removed; the action before them precedes the next percept.
        if self.is_left:
            self.follows = action
        self.is_left = self.keeps(reward, observation)
        if self.is_left:
            self.copy.take(self.follows)
            self.copy.perceive(reward, observation)
            self.answer = self.copy.act()
        return reward, observation

    @abstractmethod
    def keeps(self, reward: float, observation: int) -> bool:
        """Return whether the copy remembers a turn with this percept."""


class WholeHistory(Run):
    """Environment that stores the history to replay it; the time of a step grows with it.

    Reward: +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
    """

    percepts: list[tuple[float, int]]  # x_1 ... x_n
    actions: list[int]  # y_1 ... y_{n-1}

    def begin(self) -> tuple[float, int]:
        self.percepts, self.actions = [(0, 0)], []
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        reward = self.sign if self.is_right(action) else -self.sign
        self.actions.append(action)
        self.percepts.append((reward, 0))
        return reward, 0

    @abstractmethod
    def is_right(self, action: int) -> bool:
        """Return whether the agent is paid for an action."""


class Counterfactual(Run):
    """Environment that pays for what the agent would do at another current observation."""

    percept: tuple[float, int]  # latest percept of the agent

    def begin(self) -> tuple[float, int]:
        # The copy is one percept behind the agent, so that a fork can get another percept.
        self.copy = self.source.begin()
        self.percept = 0, self.observe()
        return self.percept

    def react(self, action: int) -> tuple[float, int]:
        pay = self.sign * self.pay(action)
        self.copy.perceive(*self.percept)
        self.copy.take(action)
        self.percept = pay, self.observe()
        return self.percept

    def would_do(self, observation: int) -> int:
        """Return the action of the agent if its current observation were this one."""
        other = self.copy.fork()
        other.perceive(self.percept[0], observation)
        return other.act()

    @abstractmethod
    def pay(self, action: int) -> int:
        """Return the payment for an action at the current observation, without the sign."""


def replay(mind: Mind, percepts: Iterable[tuple[float, int]], actions: Iterable[int]) -> None:
    """Replay percepts (reward, observation), with the actions between them, to a mind.

    A mind may have an attribute `settled`, which is true once no further input can change its
    actions; the replay then stops, and the mind must support `act` at that point. This shortens the
    replay of long histories for agents that freeze early.
    """
    turns = iter(percepts)
    perceive, take = mind.perceive, mind.take
    # Actions come first in the zips, so that the last percept remains in `turns`. Minds without
    # `settled` have their own loop, which avoids a check at every turn.
    if not hasattr(mind, "settled"):
        for action, (reward, observation) in zip(actions, turns, strict=False):
            perceive(reward, observation)
            take(action)
    elif mind.settled:
        return
    else:
        for action, (reward, observation) in zip(actions, turns, strict=False):
            perceive(reward, observation)
            take(action)
            if mind.settled:
                return
    perceive(*next(turns))


def shown_to_agent(run: Run, action: int) -> int:
    """Validate a copy's action that becomes the agent's next observation, and return it."""
    if not 0 <= action < run.n_observations:
        raise InvalidParameterError(
            f"a copy of the agent in {type(run).__name__} took action {shown(action)}, the next "
            f"observation, expected 0 to {run.n_observations - 1}; return a legal action at every "
            f"history"
        )
    return action


def check_option(run: type[Run], option: str, value: str) -> str:
    """Validate and return the value of an option of an environment."""
    if option not in run.options:
        has = ", ".join(run.options) or "none"
        raise InvalidParameterError(f"{run.__name__} has no option {option!r}; it has: {has}")
    return one_of(f"{run.__name__}: {option}", value, run.options[option])


def one_of(name: str, value: str, known: Sequence[str]) -> str:
    """Require that a value is a known one, and return it."""
    if value not in known:
        raise InvalidParameterError(
            f"{name} is {value!r}, expected {' or '.join(map(repr, known))}"
        )
    return value


# The paper defines the opposite as the environment "obtained by multiplying all rewards by -1".
# The environment is a function of the history, which contains the negated rewards, so *literally*
# the opposite is -mu(T, h) at the history h of the agent: copies receive negated rewards. The
# published results use this reading, which the sign of a `Run` implements.
#
# The authors' later library keeps the environment unchanged and negates its output: -mu(T, g),
# where g is h with *unnegated* rewards; copies live in the environment itself. The readings differ
# if copies receive rewards: a copy at the unchanged history certainly agrees in one reading and may
# disagree in the other.
LITERAL, UNNEGATED = READINGS = ("literal", "unnegated")


class Unnegated(Run):
    """Opposite that negates the rewards of a run of the environment itself, with sign 1."""

    def __init__(self, source: Source, draws: Random, inner: Run) -> None:
        super().__init__(source, draws, -1)
        self.inner = inner

    def begin(self) -> tuple[float, int]:
        reward, observation = self.inner.begin()
        return -reward, observation

    def react(self, action: int) -> tuple[float, int]:
        reward, observation = self.inner.react(action)
        return -reward, observation


# An agent is slow if it executes more lines than this for each number of the history.
LINES_A_NUMBER = 15


def lines_of_thought(
    source: Source, percepts: Sequence[tuple[float, int]], actions: Sequence[int]
) -> int:
    """Count the lines of Python that a new agent executes to act at a history."""
    # Counts the line events (`sys.settrace`) of all Python code that the agent executes in `begin`,
    # `perceive`, `take` and `act`; compiled code counts only by the lines that call it, and other
    # threads are ignored. The number is the same on every machine, but may depend on the version of
    # Python, which determines the division of code into lines.
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if frame.f_code is Source.begin.__code__:
            return None  # not code of the agent; its calls are traced
        if event == "line":
            count += 1
        return trace

    # Tracing affects only frames that start later, so lines of this function do not count. The
    # garbage collector is disabled because it may execute unrelated Python code at any time.
    before, collecting = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(trace)
    try:
        mind = source.begin()
        for (reward, observation), action in zip(percepts[:-1], actions, strict=True):
            mind.perceive(reward, observation)
            mind.take(action)
        mind.perceive(*percepts[-1])
        mind.act()
    finally:
        sys.settrace(before)
        if collecting:
            gc.enable()
    return count


def patience(n: int) -> int:
    """Return the number of lines between fast and slow at n percepts, that is 3n - 1 numbers."""
    return LINES_A_NUMBER * (3 * n - 1)
