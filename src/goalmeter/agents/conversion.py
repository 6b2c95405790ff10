"""Learners as functions of the history, by the power-of-two conversion.

A learner that trains on a stream of experience becomes an agent in the sense of Definition 1: at a
history of n percepts a new learner is trained on the first k, the largest power of two that n
allows, is held to the actions that the history says were taken, and then acts on what follows
without learning.

Source: "Extending Environments To Measure Self-Reflection In Reinforcement Learning", section 2.1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from goalmeter.agents.history import (
    Mind,
    hash_action,
    hash_percept,
    hash_start,
    refuse_unknown,
)


class Turn(NamedTuple):
    """A percept, the action that it followed, and the turn before; None before the first.

    Going on from a turn makes a new one and leaves it as it is, so a fork costs nothing.
    """

    before: Turn | None
    action: int | None
    reward: float
    observation: int


@dataclass(frozen=True)
class Prefix:
    """The start of a history: r_1 ... r_k, o_1 ... o_k and y_1 ... y_{k-1}."""

    rewards: tuple[float, ...]
    observations: tuple[int, ...]
    actions: tuple[int, ...]


def prefix(turn: Turn) -> Prefix:
    """Return the history up to a turn."""
    turns: list[Turn] = []
    at: Turn | None = turn
    while at is not None:
        turns.append(at)
        at = at.before
    turns.reverse()
    return Prefix(
        tuple(turn.reward for turn in turns),
        tuple(turn.observation for turn in turns),
        tuple(turn.action for turn in turns if turn.action is not None),
    )


class ConvertedAgent(ABC):
    """An agent that trains on the first k percepts of a history.

    It can be asked to assume a `learning_rate`, or a `learning_rate_scale` times its own.
    """

    options: ClassVar[frozenset[str]] = frozenset({"learning_rate", "learning_rate_scale"})

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._learned: OrderedDict[Hashable, Any] = OrderedDict()

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """Return a mind at the empty history."""
        refuse_unknown(self, options)
        rate = options.get("learning_rate")
        if "learning_rate_scale" in options:
            own = self.own_rate(n_actions, n_observations) if rate is None else rate
            rate = own * options["learning_rate_scale"]
        mind = LearnerMind()
        mind.agent = self
        mind.counts = n_actions, n_observations
        mind.rate = rate
        mind.start = mind.state = hash_start(self.seed, n_actions, n_observations)
        mind.turn = mind.action = mind.trained_on = mind.learned = mind.known = None
        mind.n = mind.trained_state = 0
        return mind

    @abstractmethod
    def own_rate(self, n_actions: int, n_observations: int) -> float:
        """Return the learning rate that it has if it is asked to assume none."""

    @abstractmethod
    def choose(self, mind: LearnerMind) -> int:
        """Return what it does at a history."""

    def remembered(self, key: Hashable, train: Callable[[], Any], most: int) -> Any:
        """Return what a training gave, from memory if it is among the `most` latest ones used."""
        if key in self._learned:
            self._learned.move_to_end(key)
        else:
            self._learned[key] = train()
            while len(self._learned) > most:
                self._learned.popitem(last=False)
        return self._learned[key]


@dataclass(slots=True, init=False, eq=False)
class LearnerMind:
    """The history, marked where the training ends; training waits until it is asked.

    Made without arguments and filled in, which takes half the time.
    """

    agent: ConvertedAgent
    counts: tuple[int, int]  # legal actions, and observations
    rate: float | None  # the learning rate, if it is not the agent's own
    start: int  # the hash of the empty history
    state: int  # the hash of the history
    turn: Turn | None  # the latest
    action: int | None  # taken since the latest percept
    n: int  # percepts
    trained_on: Turn | None  # percept k
    trained_state: int  # the hash up to percept k
    learned: Any  # what the agent has trained on them, once that was needed
    known: int | None  # what it does here, if it was asked

    def perceive(self, reward: float, observation: int) -> None:
        """Go on by a percept."""
        self.state = state = hash_percept(self.state, reward, observation)
        self.turn = turn = Turn(self.turn, self.action, reward, observation)
        self.known = None
        self.n = n = self.n + 1
        if not n & (n - 1):  # a power of two
            self.trained_on, self.trained_state, self.learned = turn, state, None

    def act(self) -> int:
        """Return what the agent does here."""
        if self.known is None:
            self.known = self.agent.choose(self)
        return self.known

    def take(self, action: int) -> None:
        """Go on by an action."""
        self.state = hash_action(self.state, action)
        self.action = action

    def fork(self) -> LearnerMind:
        """Return another mind at the same point."""
        twin = LearnerMind()
        for name in LearnerMind.__slots__:
            setattr(twin, name, getattr(self, name))
        return twin
