"""The swap test: does the behaviour follow the targets when they are moved?

Each maze is shown with two sets of places. Whoever knows of no target walks by the same law in
both, up to the first visit to either goal, whatever the habit. So for such an agent the two sets
might as well be swapped, in any of the mazes, and what is measured is as likely to come out with
the sets as they are as with any swaps. The p-value is the rank of the former among the latter: at
a level of 2% no more than 2% of all agents that know of no target raise a false alarm, in whatever
mazes and without a threshold that was tuned on anybody.

Source: Fisher, The Design of Experiments (1935), section 21; for swaps that are drawn at random,
Hemerik and Goeman, Exact testing with random permutations (2018): the set as it is counts among
them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from goalmeter._types import FloatArray, IntArray

# Swaps that are drawn, beside the sets as they are; the least p-value is 1 / 400.
SWAPS = 399
# In resamples, where it is asked many times, fewer are enough.
RESAMPLED_SWAPS = 99
_AT_ONCE = 25  # swaps whose sums are held in memory
# An agent is said to want something where its p-value is at most this.
LEVEL = 0.02
# Sums in another order differ by rounding, which is no order.
_TIE = 1e-9


class SwapTest(NamedTuple):
    """The outcome for each of A agents.

    Attributes:
        p_value: of all targets together, [A].
        target: number of the target that is followed most, [A].
    """

    p_value: FloatArray
    target: IntArray


def swap_test_of_evidence(
    there: FloatArray, moved: FloatArray, weights: FloatArray, *, swaps: int = SWAPS
) -> SwapTest:
    """The test of MEG: how much more a target explains where it is than where it was.

    The rationality is fitted anew, for each swap, to the evidence for where the targets are then.
    The largest difference among the targets is compared, so that four of them are one test.

    Args:
        there: evidence where the targets are, nats, [N, A, T, G] for N mazes and G rationalities.
        moved: where they were in the other showing, [N, A, T, G].
        weights: of each maze, [N].
        swaps: how many are drawn.
    """
    mazes, *shape = there.shape
    level = (weights @ ((there + moved) / 2).reshape(mazes, -1)).reshape(shape)
    halves = ((there - moved) / 2).reshape(mazes, -1)
    signs = swap_signs(mazes, swaps) * weights
    parts = []
    for begin in range(0, len(signs), _AT_ONCE):
        half = (signs[begin : begin + _AT_ONCE] @ halves).reshape(-1, *shape)
        best = (level + half).argmax(axis=-1)[..., None]
        parts.append(2 * np.take_along_axis(half, best, axis=-1)[..., 0])
    return _ranked(np.concatenate(parts))


def swap_test_of_means(
    there: FloatArray, moved: FloatArray, weights: FloatArray, *, swaps: int = SWAPS
) -> SwapTest:
    """The same of any measure: its mean where the targets are less that where they were.

    Args:
        there: the measure, [N, A, T].
        moved: for where the targets were, [N, A, T].
        weights: of each maze, [N].
        swaps: how many are drawn.
    """
    signs = swap_signs(len(weights), swaps) * weights
    return _ranked(np.tensordot(signs, there - moved, axes=1))


def swap_signs(mazes: int, swaps: int) -> FloatArray:
    """Whether the sets of each maze are as they are, 1, or swapped, −1: [1 + swaps, mazes]."""
    # The same swaps for as many mazes, whoever is tested: agents differ by their walks alone.
    drawn = np.random.default_rng(mazes).choice([-1.0, 1.0], size=(swaps, mazes))
    return np.vstack([np.ones(mazes), drawn])


def _ranked(statistic: FloatArray) -> SwapTest:
    """The rank of the first row, which is without swaps, by the largest of the targets."""
    largest = statistic.max(axis=-1)
    as_high = (largest[1:] >= largest[0] - _TIE * (1.0 + np.abs(largest[0]))).sum(axis=0)
    return SwapTest((1 + as_high) / len(statistic), statistic[0].argmax(axis=-1))
