"""Whether an agent that is sure is right, where its probabilities were recorded.

Confidence is the greatest probability of an action; it is right if that action is optimal, and by
halves if it is one of two equally probable ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._json import JsonFields
from goalmeter.navigation.measures.grids import UNIT
from goalmeter.navigation.measures.observed import Observed
from goalmeter.statistics.clustered import Estimate, estimate, estimate_of_sums
from goalmeter.statistics.discrimination import (
    calibration_of_sums,
    calibration_sums,
    confidence_bins,
)

BINS = 10


@dataclass(frozen=True)
class Bin(JsonFields):
    """Steps of like confidence: how sure, how often right, how many."""

    confidence: float
    accuracy: float
    steps: int


@dataclass(frozen=True)
class Calibration(JsonFields):
    """Calibration over steps, with intervals clustered by grid.

    Attributes:
        error: expected calibration error over 10 bins, the last one closed.
        brier: mean squared distance between confidence and being right.
        steps: with probabilities.
        unknown: steps without.
        bins: those that have steps.
    """

    error: Estimate
    brier: Estimate
    steps: int
    unknown: int
    bins: tuple[Bin, ...]


def calibration(seen: Observed, *, confidence: float = 0.95) -> Calibration | None:
    """The calibration of some trajectories; None if no step has probabilities."""
    known = np.asarray(~np.isnan(seen.probabilities).any(axis=1))
    steps = int(known.sum())
    if not steps:
        return None
    probabilities, optimal = seen.probabilities[known], seen.optimal[known]
    sure = probabilities.max(axis=1)
    modal = probabilities >= sure[:, None] - 1e-12
    right = (modal & optimal).sum(axis=1) / modal.sum(axis=1)
    names, cluster = np.unique(seen.grid[seen.trajectory[known]], return_inverse=True)
    bin_of = confidence_bins(sure, BINS)
    squares = np.bincount(cluster, (sure - right) ** 2, len(names))
    steps_of = np.bincount(cluster, minlength=len(names))
    caps = np.array([walk.cap for walk in seen.trajectories])
    most_steps = np.array([caps[seen.grid == name].sum() for name in names])
    return Calibration(
        error=estimate_of_sums(
            calibration_sums(sure, right, cluster, len(names), BINS),
            calibration_of_sums,
            n=steps,
            heaviest=float(most_steps.max() / steps_of.mean()),
            bounds=UNIT,
            confidence=confidence,
        ),
        brier=estimate(
            squares,
            steps_of,
            heaviest=most_steps,
            n=steps,
            bounds=UNIT,
            confidence=confidence,
        ),
        steps=steps,
        unknown=len(known) - steps,
        bins=tuple(
            Bin(float(sure[bin_of == b].mean()), float(right[bin_of == b].mean()), int(n))
            for b, n in enumerate(np.bincount(bin_of, minlength=BINS))
            if n
        ),
    )
