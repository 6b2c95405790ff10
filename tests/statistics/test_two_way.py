"""Two crossed samples are resampled, each independently of the other."""

from __future__ import annotations

import numpy as np
import pytest

from goalmeter.statistics.clusters import at_least_binomial, two_way_draws, two_way_interval


def test_a_resample_is_that_of_a_literal_double_loop() -> None:
    table = np.arange(12.0).reshape(4, 3) ** 2
    draws = two_way_draws(4, 3, resamples=50, seed=3)
    for rows, weights in zip(draws.rows, draws.columns, strict=True):
        total = count = 0.0
        for row in rows:
            for column in range(3):
                total += table[row, column] * weights[column]
                count += weights[column]
        assert (table[rows] @ weights).mean() / weights.sum() == pytest.approx(total / count)


def test_the_spread_of_a_mean_adds_up_from_rows_and_columns() -> None:
    # x[i, j] = a[i] + b[j]: the variance of the mean is that of mean(a) and that of mean(b).
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=40), rng.normal(size=12)
    draws = two_way_draws(40, 12, resamples=20_000)
    means = ((a[:, None] + b)[draws.rows] @ draws.columns[:, :, None])[..., 0].mean(axis=1) / 12
    expected = a.var() / 40 + b.var(ddof=1) / 12
    assert means.var() == pytest.approx(expected, rel=0.05)


def test_no_end_is_the_estimate_itself() -> None:
    """Resamples that are all above the value, or below, say nothing of its other side."""
    above = np.linspace(0.2, 0.6, 1001)
    low, high = two_way_interval(0.1, above, 10_000) or (0, 0)
    # 0.21 to 0.59, mirrored at 0.1: from 0.2 - 0.59 on. So the value is not shown to be above 0.
    assert (low, high) == pytest.approx((-0.39, 0.59), abs=1e-3)
    assert two_way_interval(-0.1, -above, 10_000) == pytest.approx((-high, -low))
    # A share is never below 0.
    assert two_way_interval(0.1, above, 10_000, bounds=(0.0, 1.0)) == (0.0, pytest.approx(high))


def test_a_share_is_never_surer_than_so_many_coins() -> None:
    # 20 of 20: the lower end p has p**20 = 0.025.
    assert at_least_binomial((1.0, 1.0), 1.0, 20) == pytest.approx((0.025 ** (1 / 20), 1.0))
    assert at_least_binomial((0.0, 0.0), 0.0, 20) == pytest.approx((0.0, 1 - 0.025 ** (1 / 20)))
    # 5 of 10, from tables of Clopper and Pearson's interval: 18.71% to 81.29%.
    assert at_least_binomial((0.5, 0.5), 0.5, 10) == pytest.approx((0.1871, 0.8129), abs=1e-4)
    assert at_least_binomial((0.1, 0.9), 0.5, 10) == (0.1, 0.9)
    assert at_least_binomial(None, 1.0, 20) == pytest.approx((0.025 ** (1 / 20), 1.0))
    assert at_least_binomial((1.0, 1.0), 1.0, 0) is None
