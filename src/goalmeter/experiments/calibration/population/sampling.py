"""A planner that samples: it tries each move out in its head a few times, and counts arrivals.

From the cell after each move it imagines random walks of a fixed length, and takes the move of
which most of them arrive; ties are broken at random.
"""

from __future__ import annotations

from math import comb

import numpy as np

from goalmeter._types import FloatArray, IntArray

IMAGINED_STEPS = 20


def chosen_by_samples(after: IntArray, target: int, rollouts: int) -> FloatArray:
    """How likely each move has the most arrivals, [cells, 4].

    Args:
        after: the cell after each move on the planner's map, [cells, 4].
        target: number of the cell where a walk arrives.
        rollouts: random walks that are imagined for each move.
    """
    return most_arrivals(arrival_chances(after, target, IMAGINED_STEPS)[after], rollouts)


def arrival_chances(after: IntArray, target: int, steps: int) -> FloatArray:
    """The probability that a walk of uniform moves arrives within some steps, [cells]."""
    chance = np.zeros(len(after))
    chance[target] = 1.0
    for _ in range(steps):
        chance = chance[after].mean(axis=1)
        chance[target] = 1.0
    return chance


def most_arrivals(chances: FloatArray, rollouts: int) -> FloatArray:
    """How likely each of four binomial counts is the largest, ties broken evenly, [cells, 4].

    Args:
        chances: of an arrival after each move, [cells, 4].
        rollouts: of which arrivals are counted.

    Example: one rollout each; the first move always arrives and the others never do.
        >>> most_arrivals(np.array([[1.0, 0.0, 0.0, 0.0]]), 1)
        array([[1., 0., 0., 0.]])
    """
    # How many arrive is binomial, so that no walk has to be drawn.
    counts = np.arange(rollouts + 1)
    orders = np.array([comb(rollouts, int(count)) for count in counts], dtype=float)
    once = chances[..., None]
    equal = orders * once**counts * (1 - once) ** (rollouts - counts)  # [cells, 4, counts]
    below = np.cumsum(equal, axis=-1) - equal
    out = np.zeros(chances.shape)
    for move in range(chances.shape[1]):
        # ties[j]: how likely none of the others has more and j of them have as many.
        ties = [np.ones_like(equal[:, 0])]
        for rival in (m for m in range(chances.shape[1]) if m != move):
            level, less = equal[:, rival], below[:, rival]
            pairs = zip([*ties, np.zeros_like(level)], [np.zeros_like(level), *ties], strict=True)
            ties = [less * same + level * fewer for same, fewer in pairs]
        share = sum(part / (j + 1) for j, part in enumerate(ties))
        out[:, move] = (equal[:, move] * share).sum(axis=-1)
    return np.asarray(out / out.sum(axis=1, keepdims=True))
