"""How far an intervention moves the distribution of the next action, in nats.

A flip says that the likeliest answer is another one. Answers that are drawn say more: how the
probabilities of the four moves, and of an answer that cannot be read, have shifted. The distance is
the Jensen-Shannon divergence,

    JSD(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2

which is 0 for equal distributions and log 2 for such as have nothing in common. Taken of the shares
of few answers it is never negative and so too large. What it would be if the change did nothing is
known: then which answers were given with the change and which without is a matter of labels, so
its mean over all relabellings of the pooled answers is subtracted. The mean is exact, and no
permutation is drawn: pooled shares are the same under each, and the number of an outcome's answers
that fall to one side is hypergeometric.

Source: Lin (1991), Divergence measures based on the Shannon entropy, for the divergence;
relabelling as in a permutation test (Fisher 1935).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import comb, log

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray, IntArray
from goalmeter.gridworld.world import ACTIONS
from goalmeter.statistics.clustered import Estimate, estimate
from goalmeter.statistics.entropy import jensen_shannon

# The four moves, and an answer that cannot be read.
OUTCOMES = len(ACTIONS) + 1


def action_counts(actions: Sequence[int | None]) -> IntArray:
    """How often each move was chosen, and last how many answers could not be read, [5]."""
    places = [len(ACTIONS) if action is None else action for action in actions]
    return np.bincount(np.array(places, dtype=np.int64), minlength=OUTCOMES)


def divergence(first: IntArray, second: IntArray) -> tuple[float, float]:
    """The divergence of two samples of answers, and its mean if their labels meant nothing.

    Args:
        first: counts of outcomes, [5] or of any other number of outcomes.
        second: counts of as many answers, [5].

    Returns:
        Both in nats; the first less the second has a mean of 0 where nothing has changed.

    Example: two answers each, without a common one. Of the six relabellings two are like this, and
    four have both moves on either side.
        >>> both, mean = divergence(np.array([2, 0]), np.array([0, 2]))
        >>> round(both, 4), round(mean, 4)
        (0.6931, 0.231)
    """
    draws = int(first.sum())
    if draws != int(second.sum()) or not draws:
        raise InvalidParameterError(
            f"there are {draws} answers with a change and {int(second.sum())} without, expected as "
            f"many of each, and at least one"
        )
    pooled = first + second
    observed = log(2) * float(jensen_shannon(first / draws, second / draws))
    middle = sum(_x_log_x(count / (2 * draws)) for count in pooled.tolist())
    mean = sum(_mean_x_log_x(count, draws) for count in pooled.tolist()) - middle
    return observed, mean


def effect_in_nats(
    changed: Sequence[IntArray], unchanged: Sequence[IntArray], grids: Sequence[str]
) -> Estimate:
    """The mean divergence over decisions, corrected for its bias, with an interval over grids.

    The correction is that of no effect, so the largest value is a little below log 2.

    Args:
        changed: counts of outcomes of each decision under the change, [5] each.
        unchanged: the same without it, of as many answers.
        grids: name of each decision's grid.
    """
    pairs = [divergence(*pair) for pair in zip(changed, unchanged, strict=True)]
    nats = np.array([observed - mean for observed, mean in pairs])
    numbers = np.unique(np.array(grids), return_inverse=True)[1]
    # No divergence is negative, so none less its correction lies below the largest one.
    least = -max((mean for _, mean in pairs), default=0.0)
    counts = np.bincount(numbers)
    return estimate(
        np.bincount(numbers, nats),
        counts,
        heaviest=counts.max(initial=0),
        n=len(nats),
        bounds=(least, log(2)),
    )


def _x_log_x(share: float) -> float:
    return share * log(share) if share > 0 else 0.0


@lru_cache(maxsize=4096)
def _mean_x_log_x(count: int, draws: int) -> float:
    """The mean of x log x, where x is the share of an outcome on one side of a relabelling.

    `count` of 2 `draws` answers have the outcome, and `draws` of them fall to that side.
    """
    least, most = max(0, count - draws), min(count, draws)
    ways: FloatArray = np.array(
        [comb(count, k) * comb(2 * draws - count, draws - k) for k in range(least, most + 1)],
        dtype=float,
    )
    values = [_x_log_x(k / draws) for k in range(least, most + 1)]
    return float(ways @ np.array(values) / ways.sum())
