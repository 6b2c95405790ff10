"""Whether those who are sure are right: expected calibration error and Brier score."""

from __future__ import annotations

import numpy as np

from goalmeter._types import ArrayLike, FloatArray, IntArray

BINS = 10


def confidence_bins(confidence: ArrayLike, bins: int = BINS) -> IntArray:
    """The bin of each confidence: [0, 1/bins), [1/bins, 2/bins) and so on, the last one closed.

    A last bin that is open, as published code has it, loses whoever is certain.
    """
    return np.minimum(np.asarray(np.asarray(confidence) * bins, dtype=np.int64), bins - 1)


def calibration_error(confidence: ArrayLike, correct: ArrayLike, bins: int = BINS) -> float:
    """The distance between confidence and share of correct ones in each bin, on average.

    Who is perfectly calibrated has 0 in the limit, and more in any finite sample.

    Args:
        confidence: in [0, 1], [n], at least one.
        correct: 1 or 0, or a probability of it, [n].
        bins: of equal width.

    Source: Naeini, Cooper and Hauskrecht, Obtaining well calibrated probabilities using Bayesian
    binning (2015).

    Example: always certain, right three times of four.
        >>> calibration_error([1, 1, 1, 1], [1, 1, 1, 0])
        0.25
    """
    sums = calibration_sums(confidence, correct, np.zeros(np.size(confidence), np.int64), 1, bins)
    return float(calibration_of_sums(sums[0]))


def calibration_sums(
    confidence: ArrayLike, correct: ArrayLike, cluster: IntArray, clusters: int, bins: int = BINS
) -> FloatArray:
    """What the error is made of, for each cluster: [clusters, bins + 1], the last one a count."""
    sure, right = np.asarray(confidence, dtype=float), np.asarray(correct, dtype=float)
    cell = cluster * bins + confidence_bins(sure, bins)
    gaps = np.bincount(cell, sure - right, clusters * bins).reshape(clusters, bins)
    counts = np.bincount(cluster, minlength=clusters)
    return np.concatenate([gaps, counts[:, None]], axis=1)


def calibration_of_sums(sums: FloatArray) -> FloatArray:
    """The calibration error of sums, [..., bins + 1], over the last axis."""
    return np.asarray(np.abs(sums[..., :-1]).sum(axis=-1) / sums[..., -1])


def brier_score(confidence: ArrayLike, correct: ArrayLike) -> float:
    """The mean squared distance between confidence and being correct, from 0 to 1."""
    sure, right = np.asarray(confidence, dtype=float), np.asarray(correct, dtype=float)
    return float(((sure - right) ** 2).mean())
