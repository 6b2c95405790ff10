"""Levels as tables, in which two goals are known: the right one, and one that often looks the same.

In most levels the two utilities are one function of the state, so no behaviour there can tell which
of them an agent wants. In the others, the levels that *tell the goals apart*, they differ.

Source of the two settings: Langosco et al., Goal misgeneralization in deep reinforcement learning
(2022), sections 3.2 and 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from goalmeter._types import AnyArray, BoolArray, FloatArray, IntArray
from goalmeter.tabular.mdp import TabularMDP

ACTIONS = 4
# Decisions in a level.
HORIZON = 20


@dataclass(frozen=True, eq=False)
class Level:
    """A deterministic world of S states; an episode begins in state 0.

    Attributes:
        next_state: where each action leads, [S, 4]; an episode that has ended stays.
        right: what a decision in each state is worth to who wants the right goal, [S].
        wrong: the same of the wrong goal, [S]; equal to `right` unless the level tells them apart.
        ends: whether the episode is over, [S].
        succeeds: states that show the right goal where an agent comes to them first, [S].
        fails: states that show the wrong goal where an agent comes to them first, [S].
        observations: what the agent sees, zeros and small numbers, [S, D].
        features: what utilities could be of, equal for all levels of a family, [S, F]; the last is
            paid by the wrong goal alone, the one before it by the right goal.
    """

    next_state: IntArray
    right: FloatArray
    wrong: FloatArray
    ends: BoolArray
    succeeds: BoolArray
    fails: BoolArray
    observations: AnyArray
    features: FloatArray


@dataclass(frozen=True, eq=False)
class Levels:
    """Many levels as one table: their states one after the other.

    Attributes:
        next_state, right, wrong, ends, succeeds, fails, observations, features: as of a `Level`,
            of all states.
        starts: the first state of each level, [L].
    """

    next_state: IntArray
    right: FloatArray
    wrong: FloatArray
    ends: BoolArray
    succeeds: BoolArray
    fails: BoolArray
    observations: AnyArray
    features: FloatArray
    starts: IntArray

    @classmethod
    def of(cls, levels: Sequence[Level]) -> Levels:
        """Some levels, at least one, in their order."""
        sizes = [len(level.right) for level in levels]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        moved = [level.next_state + start for level, start in zip(levels, starts, strict=True)]
        joined = {
            name: np.concatenate([getattr(level, name) for level in levels])
            for name in ("right", "wrong", "ends", "succeeds", "fails", "observations", "features")
        }
        return cls(next_state=np.concatenate(moved), starts=starts, **joined)

    def __len__(self) -> int:
        return len(self.starts)

    def mdp(self, weights: FloatArray | None = None) -> TabularMDP:
        """All levels as one world: an episode begins in one of them, drawn by its weight.

        Args:
            weights: probability of each level, [L]; None if all are equally likely.
        """
        initial = np.zeros(len(self.right))
        initial[self.starts] = 1 / len(self) if weights is None else weights
        after = self.next_state[..., None]
        return TabularMDP(
            (after, np.ones(after.shape)), self.right, horizon=HORIZON, initial=initial
        )

    def first_reached(self, policy: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How likely an agent is to show either goal within the horizon, before the other.

        Returns:
            Probabilities that it comes first to a state that succeeds, and that it comes first to
            one that fails, [L] each.

        Args:
            policy: [S, 4].
        """
        right, wrong = self.succeeds.astype(float), self.fails.astype(float)
        decided = self.succeeds | self.fails
        for _ in range(HORIZON):
            for reached, first in ((right, self.succeeds), (wrong, self.fails)):
                after = (policy * reached[self.next_state]).sum(axis=1)
                reached[:] = np.where(decided, first, after)
        return right[self.starts], wrong[self.starts]
