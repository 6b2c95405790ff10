"""What minds that train share: a history that forks share too, and where training ends in it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeVar

from goalmeter.agents.histories.draws import hash_action, hash_percept

V = TypeVar("V")


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
    """The start of a history, as a learner is trained on it.

    Attributes:
        rewards: r_1 ... r_k.
        observations: o_1 ... o_k.
        actions: y_1 ... y_{k-1}.
    """

    rewards: tuple[float, ...]
    observations: tuple[int, ...]
    actions: tuple[int, ...]


def prefix(turn: Turn) -> Prefix:
    """The history up to a turn, told forwards."""
    rewards, observations, actions = [], [], []
    at: Turn | None = turn
    while at is not None:
        rewards.append(at.reward)
        observations.append(at.observation)
        if at.action is not None:
            actions.append(at.action)
        at = at.before
    return Prefix(tuple(rewards[::-1]), tuple(observations[::-1]), tuple(actions[::-1]))


class LearningMind:
    """A mind at a history of n percepts, marked at the first k, the largest power of two in n.

    Those are what is trained on (the conversion of section 2.1), once the mind is asked.
    """

    def __init__(self, start: int) -> None:
        self._state = self._trained_state = start  # hashes of the history, and of what is learnt
        self._turn: Turn | None = None  # the latest
        self._action: int | None = None  # taken since the latest percept
        self._trained_on: Turn | None = None  # up to percept k
        self._n = self._k = 0

    def perceive(self, reward: float, observation: int) -> None:
        """Go on by a percept."""
        self._state = state = hash_percept(self._state, reward, observation)
        self._turn = turn = Turn(self._turn, self._action, reward, observation)
        self._n = n = self._n + 1
        if not n & (n - 1):  # a power of two
            self._trained_on, self._trained_state, self._k = turn, state, n

    def take(self, action: int) -> None:
        """Go on by an action."""
        self._state = hash_action(self._state, action)
        self._action = action

    def fork(self) -> Self:
        """Another mind at the same point."""
        # All that a mind holds is replaced and never changed in place, so both can share it.
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin


def remembered(
    known: OrderedDict[Hashable, V], key: Hashable, make: Callable[[], V], most: int
) -> V:
    """What is known under a key, or is made now; what was not asked for longest is forgotten."""
    if key not in known:
        known[key] = make()
        while len(known) > most:
            known.popitem(last=False)
    known.move_to_end(key)
    return known[key]
