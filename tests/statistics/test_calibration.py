"""Calibration: by hand, and whoever is certain stays in."""

from __future__ import annotations

import numpy as np
import pytest

from goalmeter._types import ArrayLike
from goalmeter.statistics.discrimination import (
    BINS,
    calibration_of_sums,
    calibration_sums,
)


def error(sure: ArrayLike, right: ArrayLike, bins: int = BINS) -> float:
    cluster = np.zeros(np.size(sure), dtype=np.int64)
    return float(calibration_of_sums(calibration_sums(sure, right, cluster, 1, bins)[0]))


def test_by_hand() -> None:
    # Bin [0.4, 0.5): 0.4 and 0.45, one right; bin [0.9, 1]: 0.9 and 1, both right.
    sure, right = [0.4, 0.45, 0.9, 1.0], [1, 0, 1, 1]
    assert error(sure, right) == pytest.approx((abs(0.85 - 1) + abs(1.9 - 2)) / 4)
    assert error(sure, right, bins=1) == pytest.approx(abs(2.75 - 3) / 4)


def test_sums_add_up_over_clusters() -> None:
    rng = np.random.default_rng(0)
    sure, right = rng.random(50), rng.integers(0, 2, 50)
    cluster = rng.integers(0, 4, 50)
    sums = calibration_sums(sure, right, cluster, 4)
    assert sums.shape == (4, 11) and sums[:, -1].tolist() == np.bincount(cluster).tolist()
    total = calibration_of_sums(sums.sum(axis=0))
    assert float(total) == pytest.approx(error(sure, right))
