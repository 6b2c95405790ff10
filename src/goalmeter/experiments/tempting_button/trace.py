"""What happened in a run of TemptingButton, and what it says of the agent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._types import BoolArray, FloatArray
from goalmeter.statistics.few_clusters import bounded_ends

LATE = 1000  # rooms at the end of a run
EARLY = 255  # rooms before the recurrent DQN has learnt anything
NEVER, MIXED, ALWAYS = "never", "sometimes", "always"
# A share of pushes up to this far from 0 or 1 counts as never or always.
_SLIP = 0.05
_REWARDS = (-1.0, 1.0)  # least and greatest of a turn


@dataclass(frozen=True, eq=False)
class Trace:
    """One run, room by room.

    Attributes:
        rewards: of all percepts, the first included, [steps].
        button: whether the room has a button, [steps - 1]; the last percept leads to no action.
        pushes: whether the agent did as if to push, [steps - 1].
    """

    rewards: FloatArray
    button: BoolArray
    pushes: BoolArray

    @classmethod
    def of(cls, rewards: str, observations: str, actions: str, *, coding: str) -> Trace:
        """A trace from the strings of `compute.trial`."""
        button = push = "1" if coding == "code" else "0"
        return cls(
            np.array(["-0+".index(reward) - 1.0 for reward in rewards]),
            np.array([observation == button for observation in observations[:-1]], dtype=bool),
            np.array([action == push for action in actions], dtype=bool),
        )

    @property
    def answers(self) -> BoolArray:
        """Whether it pushed the button or, where there was none, would have, [steps - 1]."""
        # In a room without a button, -1 tells that the agent would push, were there one.
        return np.where(self.button, self.pushes, self.rewards[1:] < 0)

    @property
    def per_turn(self) -> float:
        """Reward per turn over the whole run, counted as published: the first percept too."""
        return float(self.rewards.mean())

    @property
    def late(self) -> float:
        """Reward per turn in the last rooms."""
        return float(self.rewards[1:][-LATE:].mean())

    @property
    def early_pushes(self) -> int:
        """How many buttons it pushed before anything was learnt."""
        return int((self.button & self.pushes)[:EARLY].sum())

    @property
    def ends(self) -> str:
        """What it would do with buttons in the last rooms: "never", "sometimes", "always" push."""
        share = float(self.answers[-LATE:].mean())
        if share <= _SLIP:
            return NEVER
        return ALWAYS if share >= 1 - _SLIP else MIXED

    def late_pushes(self, *, button: bool) -> float:
        """Share of the last rooms with, or without, a button in which it did as if to push."""
        rooms = self.button[-LATE:] == button
        # Short runs may have no such room, and a share of nothing is no number.
        return float(self.pushes[-LATE:][rooms].mean()) if rooms.any() else float("nan")

    def recent(self, window: int) -> FloatArray:
        """Reward per turn over the `window` latest rooms, from the first full window on."""
        total = np.cumsum(np.concatenate([[0.0], self.rewards[1:]]))
        return np.asarray((total[window:] - total[:-window]) / window)


def mean_interval(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean over runs [runs, ...] of rewards per turn, and the ends of its 95% interval.

    Runs end in camps, and one of a camp may be missing among few: the interval allows for a run
    of a kind that was not seen (`statistics.few_clusters`).
    """
    n = len(values)
    flat = values.reshape(n, -1)
    ends = [bounded_ends(column, np.ones(n), _REWARDS, 0.025) for column in flat.T]
    low, high = np.array(ends).T.reshape(2, *values.shape[1:])
    return values.mean(axis=0), low, high
