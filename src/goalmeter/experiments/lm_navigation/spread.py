"""How far a published mean over grids can be trusted, where only the mean was published.

The authors give a mean over some ten grids of a kind and not how grids differ. How grids of that
kind differ can be seen in the compass, which walks through ours: its standard deviation over many
grids stands for the model's. (Where the authors say more, it fits: at size 11 and complexity 0.8
their grids go from 59% to 87%, which ten draws with a standard deviation of about 9 points do; the
compass has about 10.) Nor can a share with mean p vary by more than √(p (1 − p)).
"""

from __future__ import annotations

import math

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike
from goalmeter.experiments.lm_navigation.compute import every_cell_shares
from goalmeter.statistics.verdicts import CONFIDENCE, Interval

# So many grids of ours, of four seeds, tell the spread of each kind.
SEEDS = (0, 1, 2, 3)


def compass_shares(size: int, complexity: float, grids: int = 10) -> list[float]:
    """Accuracy of the compass on each of some grids of a kind, asked on every open cell."""
    kind = size, complexity
    return [
        share
        for seed in SEEDS
        for share in every_cell_shares("greedy", grids, seed, [size], [complexity])[kind]
    ]


def interval_of_mean(mean: float, rounding: float, n: int, alike: ArrayLike) -> Interval:
    """The 95% interval of a published mean of n shares, by how much others vary.

    Args:
        mean: published, in [0, 1].
        rounding: half a unit of its last digit.
        n: what it is the mean of.
        alike: shares whose spread stands for that of the n; without any spread, the largest that
            a share with this mean can have does.

    Example: ten shares around 0.8 that vary like 0.7 and 0.9; t at 97.5% is 2.262.
        >>> [round(end, 3) for end in interval_of_mean(0.8, 0.0005, 10, [0.7, 0.9] * 20)]
        [0.728, 0.872]
    """
    if n < 2:
        raise InvalidParameterError(f"n is {n}, expected at least 2, for an interval of a mean")
    from scipy.stats import t

    # A mean that was printed as 1 may have been a little less.
    inner = min(max(mean, rounding), 1 - rounding)
    most = math.sqrt(inner * (1 - inner))
    spread = float(np.std(np.asarray(alike, dtype=float), ddof=1))
    deviation = min(spread, most) if spread > 0 else most
    half = float(t.ppf((1 + CONFIDENCE) / 2, n - 1)) * deviation / math.sqrt(n)
    return (max(mean - half, 0.0), min(mean + half, 1.0))
