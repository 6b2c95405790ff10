"""The confidence set: by hand, against a search over all distributions, and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from goalmeter.meg.simulator.confidence import (
    ConfidenceSet,
    OutcomeArrays,
)


def one_pair(counts: list[int], unlisted: int = 0, *, certain: bool = False) -> OutcomeArrays:
    """The table of one pair with these counts, the first of its lists."""
    return OutcomeArrays(
        np.arange(len(counts))[None],
        np.zeros((1, len(counts), 1)),
        np.array([counts], dtype=float),
        np.array([float(unlisted)]),
        np.array([certain]),
        np.array([len(counts)]),
        np.array([0]),
    )


def test_the_radius_by_hand() -> None:
    # Three draws, a b a: the predictor gives 1/2.02 * 0.5/2.02... in the order 0.5/1.02,
    # 0.5/2.02, 1.5/3.02; the frequencies give (2/3)^2 (1/3).
    predicted = (0.5 / 1.02) * (0.5 / 2.02) * (1.5 / 3.02)
    fitted = (2 / 3) ** 2 * (1 / 3)
    price = math.log(2.11 * 2 * math.log(2) ** 2 / 0.1)
    expected = (price + math.log(fitted) - math.log(predicted)) / 3
    assert ConfidenceSet(one_pair([2, 1]), 0.1).radius[0] == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(2))
def test_the_bound_is_the_supremum_over_the_set(seed: int) -> None:
    # Over a fine grid of distributions on two outcomes and the unlisted one.
    rng = np.random.default_rng(seed)
    counts, unlisted = rng.integers(1, 60, 2), int(rng.integers(0, 3))
    worlds = ConfidenceSet(one_pair(counts.tolist(), unlisted), 0.05)
    values, best = rng.normal(size=2) * 3, 9.0
    frequencies = np.append(worlds.frequencies[0], worlds.unlisted[0])
    a, b = np.meshgrid(np.linspace(1e-6, 1, 1200), np.linspace(1e-6, 1, 1200))
    kept = a + b < 1
    p = np.stack([a[kept], b[kept], 1 - a[kept] - b[kept]])
    used = frequencies > 0
    divergence = (frequencies[used, None] * np.log(frequencies[used, None] / p[used])).sum(axis=0)
    inside = divergence <= worlds.radius[0]
    most = (p * np.append(values, best)[:, None]).sum(axis=0)[inside].max()
    bound = worlds.highest(values[None], best)[0]
    assert bound >= most - 1e-9
    assert bound <= most + 0.02 * (best - values.min())
    assert worlds.lowest(values[None], -best)[0] == pytest.approx(
        -worlds.highest(-values[None], best)[0]
    )


def test_the_truth_stays_in_the_set_at_every_look() -> None:
    truth = np.array([0.55, 0.3, 0.149, 0.001])
    rng = np.random.default_rng(5)
    outside, runs = 0, 300
    for _ in range(runs):
        counts, left = np.zeros(3), 0
        for n in (10, 30, 100, 400, 2000):
            more = rng.multinomial(n, truth)
            counts, left = counts + more[:3], left + int(more[3])
            worlds = ConfidenceSet(one_pair(counts.astype(int).tolist(), left), 0.2)
            f = np.append(worlds.frequencies[0], worlds.unlisted[0])
            used = f > 0
            gone = (f[used] * np.log(f[used] / truth[used])).sum() > worlds.radius[0]
            if gone:
                outside += 1
                break
    # The first list has 0.2 / (2.11 * 2 * log(2)^2) = 0.0986 of the error.
    assert outside / runs < 0.0986
