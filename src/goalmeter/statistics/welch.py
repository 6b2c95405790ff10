"""Averages over a few runs, judged by Student's t: what Welch's test says, and when nothing is."""

from __future__ import annotations

import math
from collections.abc import Sequence

# Below so many runs the spread tells too little of the error: no interval and no verdict.
FEWEST = 5
LEVEL = 0.95
TOO_FEW = "too few seeds"


def reach(errors: Sequence[float], runs: Sequence[int]) -> float:
    """How many standard errors a 95% interval of a difference, or a sum, of averages reaches.

    Args:
        errors: the standard error of each average, from its own runs.
        runs: how many each has.

    Returns:
        The quantile of Student's t with the degrees of freedom of Welch and Satterthwaite; NaN
        where an average has fewer than 5 runs.

    Source: B. L. Welch, The generalization of "Student's" problem when several different
    population variances are involved, Biometrika 34 (1947).
    """
    if min(runs) < FEWEST:
        return math.nan
    from scipy.stats import t

    squares = [error**2 for error in errors]
    pooled = sum(square**2 / (n - 1) for square, n in zip(squares, runs, strict=True))
    freedom = sum(squares) ** 2 / pooled if pooled > 0 else min(runs) - 1  # or an exact number
    return float(t.ppf((1 + LEVEL) / 2, freedom))
