"""How well sequences of actions are told: the same scores for readers, baselines and the ceiling.

    prefix at n        of the sequences with at least n actions, those whose first n are all told
    conditional at n   of the sequences with at least n actions whose first n - 1 are told, those
                       whose n-th is told as well
    ends at n          of the sequences that arrive after n actions and whose n are all told, those
                       of which it is told that they end there

Prefix accuracy is the product of the conditional ones only where all sequences are as long: those
that are shorter have left. Whoever says an end too early has the action there wrong.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 5, for prefix accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.representation.plan.targets import END
from goalmeter.statistics.clustered import Estimate, estimate

UNIT, DIFFERENCE = (0.0, 1.0), (-1.0, 1.0)


@dataclass(frozen=True)
class PlanScore:
    """The scores of one length, as shares with intervals over grids.

    Attributes:
        n: actions.
        prefix: see above, like those that follow.
        conditional: NaN with n = 0 where no sequence is told so far.
        ends: NaN with n = 0 where no sequence ends there.
    """

    n: int
    prefix: Estimate
    conditional: Estimate
    ends: Estimate

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        shares = ("prefix", "conditional", "ends")
        return {"n": self.n} | {name: getattr(self, name).to_json() for name in shares}


def plan_score(predicted: IntArray, actions: IntArray, grids: IntArray, n: int) -> PlanScore:
    """Score some predictions.

    Args:
        predicted: what is said of each step, [N, queries]; what is neither an action nor `END` is
            never right.
        actions: what was done, [N, queries], as in `Plans`.
        grids: number of the grid of each sequence, by which intervals are clustered, [N].
        n: actions, from 1 to the number of queries.
    """
    _check(predicted, actions, grids, n)
    known, told = _known(actions, n), told_so_far(predicted, actions)
    before = known & (told[:, n - 2] if n > 1 else True)
    ends, ends_told = np.zeros(len(actions), dtype=bool), np.zeros(len(actions), dtype=bool)
    if n < actions.shape[1]:
        ends, ends_told = (actions[:, n] == END) & told[:, n - 1], predicted[:, n] == END
    return PlanScore(
        n,
        share(told[:, n - 1], known, grids),
        share(told[:, n - 1], before, grids),
        share(ends_told, ends, grids),
    )


def prefix_beyond(
    ours: IntArray, theirs: IntArray, actions: IntArray, grids: IntArray, n: int
) -> Estimate:
    """Prefix accuracy of one prediction less that of another, on the same sequences.

    Arguments are those of `plan_score`.
    """
    for predicted in (ours, theirs):
        _check(predicted, actions, grids, n)
    both = [told_so_far(each, actions)[:, n - 1].astype(float) for each in (ours, theirs)]
    return share(both[0] - both[1], _known(actions, n), grids, paired=True)


def told_so_far(predicted: IntArray, actions: IntArray) -> BoolArray:
    """Whether all steps up to each are told, [N, queries]."""
    return np.logical_and.accumulate((predicted == actions) & (actions >= 0), axis=1)


def share(
    values: BoolArray | FloatArray, among: BoolArray, grids: IntArray, *, paired: bool = False
) -> Estimate:
    """The mean of some values, clustered by grid.

    Args:
        values: [N], shares, or differences of shares if they are paired.
        among: which of them count, [N].
        grids: [N].
        paired: whether values are differences.
    """
    of = np.unique(grids[among], return_inverse=True)[1]
    if not len(of):
        return Estimate(float("nan"), None, 0, 0)
    return estimate(
        np.bincount(of, np.asarray(values, dtype=float)[among]),
        np.bincount(of),
        heaviest=np.unique(grids, return_counts=True)[1].max(),
        n=len(of),
        bounds=DIFFERENCE if paired else UNIT,
        paired=paired,
    )


def _known(actions: IntArray, n: int) -> BoolArray:
    return np.asarray((actions[:, n - 1] >= 0) & (actions[:, n - 1] < END))


def _check(predicted: IntArray, actions: IntArray, grids: IntArray, n: int) -> None:
    if predicted.shape != actions.shape or actions.ndim != 2 or len(grids) != len(actions):
        raise InvalidParameterError(
            f"predictions have shape {predicted.shape} and actions {actions.shape} of {len(grids)} "
            f"grids, expected the same [sequences, queries] and a grid for each sequence"
        )
    if not 1 <= n <= actions.shape[1]:
        raise InvalidParameterError(
            f"n is {n!r}, expected 1 to {actions.shape[1]}, the number of queries"
        )
