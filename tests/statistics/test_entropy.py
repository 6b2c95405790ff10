"""Entropies and divergences in bits: by hand, against SciPy, and what the correction is worth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from goalmeter.statistics.discrimination import (
    jensen_shannon,
    miller_madow_entropy,
    plug_in_entropy,
)


def test_by_hand() -> None:
    counts = [[4, 0, 0, 0, 0], [2, 2, 0, 0, 0], [1, 1, 1, 1, 0], [3, 1, 0, 0, 0]]
    quarter = 0.75 * np.log2(4 / 3) + 0.25 * 2
    assert plug_in_entropy(counts) == pytest.approx([0, 1, 2, quarter])
    # (K - 1) / (2 n ln 2) with n = 4.
    added = np.array([0, 1, 3, 1]) / (8 * np.log(2))
    assert miller_madow_entropy(counts) == pytest.approx(np.array([0, 1, 2, quarter]) + added)
    assert not np.signbit(plug_in_entropy([5, 0]))


def test_against_scipy() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, size=(40, 5)) + np.eye(5, dtype=int)[rng.integers(0, 5, 40)]
    assert plug_in_entropy(counts) == pytest.approx(entropy(counts, base=2, axis=1))
    p, q = rng.dirichlet(np.full(4, 0.3), size=(2, 30))
    assert jensen_shannon(p, q) == pytest.approx(jensenshannon(p, q, base=2, axis=1) ** 2)
