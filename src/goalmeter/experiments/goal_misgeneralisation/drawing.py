"""Which levels agents are trained on, measured in, and shifted to.

No level that anything is measured in has the content of one that any agent is trained on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.experiments.goal_misgeneralisation.corner_mazes import (
    corner_maze,
    shifted_maze,
)
from goalmeter.experiments.goal_misgeneralisation.keys_and_chests import (
    room_with_chests,
    shifted_room,
)
from goalmeter.experiments.goal_misgeneralisation.levels import Level, Levels
from goalmeter.gridworld.draws import Draws

CORNER, KEYS = "corner mazes", "keys and chests"
FAMILIES: dict[str, Callable[..., Level]] = {CORNER: corner_maze, KEYS: room_with_chests}
# Shifted levels come from generators of their own, which differ from those of training.
SHIFTED_FAMILIES: dict[str, Callable[[Draws], Level]] = {CORNER: shifted_maze, KEYS: shifted_room}
# Levels that an agent is trained on.
TRAINED_ON = 2000
# Training-like levels in which behaviour is looked at. Of those that tell the goals apart, and of
# the others, at most so many are worked out: of a share of 1e-3 these are all that there are.
TRAINING_LIKE, MOST_OF_A_KIND = 10_000, 60
SHIFTED = 200


def number_apart(share: float, levels: int) -> int:
    """How many of some levels tell the goals apart."""
    return round(share * levels)


@lru_cache(maxsize=2)
def training_levels(family: str, share: float, seed: int, number: int) -> Levels:
    """Levels to train on; a share of them tells the goals apart."""
    apart = number_apart(share, number)
    return _drawn("training", family, seed, number - apart, apart, kept=False)


@dataclass(frozen=True, eq=False)
class TrainingLike:
    """Fresh levels like those of training.

    Attributes:
        levels: those in which the goals are the same, then those that tell them apart.
        weights: how likely each is, [L].
        apart: how many tell the goals apart.
    """

    levels: Levels
    weights: FloatArray
    apart: int

    def with_more_apart(self, share: float) -> FloatArray:
        """Other weights of the same levels, [L]: those that tell the goals apart have this share.

        Where there are none, or no others, all levels are equally likely.
        """
        together = len(self.levels) - self.apart
        if not (together and self.apart):
            return np.full(len(self.levels), 1 / len(self.levels))
        numbers, shares = (together, self.apart), (1 - share, share)
        return np.concatenate(
            [np.full(n, part / n) for n, part in zip(numbers, shares, strict=True)]
        )


@lru_cache(maxsize=8)
def training_like(family: str, share: float, seed: int, most: int) -> TrainingLike:
    """Fresh levels, of which a share tells the goals apart.

    Of `TRAINING_LIKE` levels the first of each kind, at most so many, stand for all of that kind.
    """
    apart = number_apart(share, TRAINING_LIKE)
    numbers = min(TRAINING_LIKE - apart, most), min(apart, most)
    levels = _drawn("training-like", family, seed, *numbers, kept=True)
    shares = (1 - share, share)
    each = [np.full(n, part / max(n, 1)) for n, part in zip(numbers, shares, strict=True)]
    return TrainingLike(levels, np.concatenate(each), numbers[1])


@lru_cache(maxsize=8)
def shifted(family: str, seed: int, number: int) -> Levels:
    """Levels of another generator than training levels; all of them tell the goals apart."""
    make = SHIFTED_FAMILIES[family]
    return Levels.of([make(Draws("shifted generator", family, seed, i)) for i in range(number)])


def _drawn(what: str, family: str, seed: int, together: int, apart: int, *, kept: bool) -> Levels:
    # One stream a level, so that more of them do not change the first ones.
    make = FAMILIES[family]
    kinds = [(False, i) for i in range(together)] + [(True, i) for i in range(apart)]
    return Levels.of(
        [make(Draws(what, family, seed, str(a), i), apart=a, kept=kept) for a, i in kinds]
    )
