"""A history that is shared by its forks: each turn knows the one before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


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
