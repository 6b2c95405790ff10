"""Base classes of extended environments, their opposites, and the count of executed lines."""

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
    """One run of an environment with one agent.

    `begin` is called once, then `react` with each action in turn. A run keeps what it needs of the
    history. `sign` is -1 in the opposite environment, and a run must multiply every reward by it
    itself: those that it gives, and those that copies are told of.

    Environments with rooms draw one number of `draws.random()` for each percept, the first
    included, whether or not it is used; so the rooms depend on nothing that the agent does.

    The docstring of an environment is its specification, under the headings of
    `registry.HEADINGS`. A heading that it leaves out is inherited, from here at last:

    Actions: 2, without meaning.
    Observations: 1, always 0.
    Source: the authors' library at e38e3dc; not described in the paper.
    Differences from the paper: none known.

    Of the agent there is a source, which begins copies of it; `draws` is the run's own randomness,
    the same for an environment and its opposite.
    """

    n_actions: ClassVar[int] = 2  # legal ones are 0 .. n_actions - 1
    n_observations: ClassVar[int] = 1  # 0 .. n_observations - 1
    # Names of other readings of the rules, with the values of each, the default first; they are
    # keyword arguments of the class.
    options: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    copy: Mind  # a copy of the agent, in environments that keep one

    def __init__(self, source: Source, draws: Random, sign: int) -> None:
        self.source, self.draws, self.sign = source, draws, sign

    @abstractmethod
    def begin(self) -> tuple[float, int]:
        """Return the first percept: (reward, observation)."""

    @abstractmethod
    def react(self, action: int) -> tuple[float, int]:
        """Return the percept that follows an action: (reward, observation)."""

    def observe(self) -> int:
        """Return the next observation, where it depends on nothing but the draws."""
        return 0


class Agreement(Run):
    """Pays for acting as a copy would at another history; the observation is always 0.

    After the agent plays y_n the copy is asked at g(h_n). Subclasses define g by what they `tell`
    the copy.

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
        """Tell the copy, in some way, of an action and the reward that it brought."""


class Retold(Agreement):
    """Tells the copy everything as it was; what differs is how the copy begins, or the reward."""

    def tell(self, action: int, reward: float) -> None:
        self.copy.take(action)
        self.copy.perceive(reward, 0)


class Forgetful(Run):
    """Pays for acting as a copy would that has forgotten some turns.

    With a percept goes the action that follows it. If the last percept goes, so does the action
    before it, so that the copy's history ends at the last percept that is left. The first always
    is.

    Reward: +1 if the copy would do what the agent did, else -1; the first percept is (0, 0).
    """

    is_left = True  # whether the last percept is
    follows = 0  # the action after the last percept that is left
    answer: int  # what the copy does at the end of its history

    def begin(self) -> tuple[float, int]:
        self.copy = self.source.begin()
        self.copy.perceive(0, 0)
        self.answer = self.copy.act()
        return 0, 0

    def react(self, action: int) -> tuple[float, int]:
        reward = self.sign if self.answer == action else -self.sign
        observation = self.observe()
        # What was done in forgotten turns is gone; the action before them leads to what follows.
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
    """Keeps all of the history to tell it anew; the time of a step grows with the history.

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
    """Pays for what the agent would do if the present observation were another."""

    percept: tuple[float, int]  # the latest one of the agent

    def begin(self) -> tuple[float, int]:
        # One percept behind the agent, so that a fork of it can be shown another one.
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
        """Return what the agent would do if it saw this observation now."""
        other = self.copy.fork()
        other.perceive(self.percept[0], observation)
        return other.act()

    @abstractmethod
    def pay(self, action: int) -> int:
        """Return what an action brings at the present observation, without the sign."""


def replay(mind: Mind, percepts: Iterable[tuple[float, int]], actions: Iterable[int]) -> None:
    """Tell a mind of percepts (reward, observation), with the actions between them.

    A mind may have an attribute `settled`, true once nothing that it can be told will change what
    it does; such a mind is told no more, and must answer `act` wherever it was left. This keeps the
    replay of a long history short for an agent that freezes early in it.
    """
    turns = iter(percepts)
    perceive, take = mind.perceive, mind.take
    # Actions come first in the zips, so that the last percept is left in `turns`. Minds that
    # cannot settle have a loop of their own, without the look at every turn.
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
    """Return a copy's action that becomes the agent's next observation, if it is legal."""
    if not 0 <= action < run.n_observations:
        raise InvalidParameterError(
            f"a copy of the agent in {type(run).__name__} did {shown(action)}, which the agent was "
            f"to see; expected 0 to {run.n_observations - 1}: give a legal action at every history"
        )
    return action


def check_option(run: type[Run], option: str, value: str) -> str:
    """Return the value of an option of an environment."""
    if option not in run.options:
        has = ", ".join(run.options) or "none"
        raise InvalidParameterError(f"{run.__name__} has no option {option!r}; it has: {has}")
    return one_of(f"{run.__name__}: {option}", value, run.options[option])


def one_of(name: str, value: str, known: Sequence[str]) -> str:
    """Return a value, if it is a known one."""
    if value not in known:
        raise InvalidParameterError(
            f"{name} is {value!r}, expected {' or '.join(map(repr, known))}"
        )
    return value


# The paper: the environment "obtained by multiplying all rewards by -1". The negated rewards are in
# the history, and the history is what the environment is a function of, so *literally* the opposite
# is -mu(T, h) at the history h as the agent saw it: copies that are told of rewards are told of
# negated ones. The published results are from this reading, and the sign of a `Run` implements it.
#
# The authors' later library keeps the environment as it was and negates what comes out of it: it is
# -mu(T, g) where g is h with the rewards *unnegated*, and copies live in the environment itself.
# The readings differ wherever copies are told of rewards: asked again at the history as it is, a
# copy agrees for certain in one and may disagree in the other.
LITERAL, UNNEGATED = READINGS = ("literal", "unnegated")


class Unnegated(Run):
    """An opposite that negates what comes out of a run of the environment itself, with sign 1."""

    def __init__(self, source: Source, draws: Random, inner: Run) -> None:
        super().__init__(source, draws, -1)
        self.inner = inner

    def begin(self) -> tuple[float, int]:
        reward, observation = self.inner.begin()
        return -reward, observation

    def react(self, action: int) -> tuple[float, int]:
        reward, observation = self.inner.react(action)
        return -reward, observation


# An agent is slow if it runs through more lines than this for each number of the history.
LINES_A_NUMBER = 15


def lines_of_thought(
    source: Source, percepts: Sequence[tuple[float, int]], actions: Sequence[int]
) -> int:
    """Return the lines of Python that an agent runs through to act at a history, from nothing."""
    # Counted are the line events (`sys.settrace`) of all Python code that the agent runs in
    # `begin`, `perceive`, `take` and `act`; compiled code counts only for the lines that call it,
    # and other threads do not count. The number is the same on every machine; it may differ between
    # versions of Python, which do not divide all code into lines alike.
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if frame.f_code is Source.begin.__code__:
            return None  # not the agent's; what it calls is traced all the same
        if event == "line":
            count += 1
        return trace

    # This function's own lines are not counted: tracing takes hold of frames that begin after it.
    # The garbage collector may come at any time, and runs Python code of anybody who has asked it
    # to; reference counts go on freeing what they free.
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
    """Return the lines that are neither fast nor slow at n percepts, that is 3n - 1 numbers."""
    return LINES_A_NUMBER * (3 * n - 1)
