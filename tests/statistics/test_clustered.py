"""Estimates by cluster: by hand, against theory, and where a bootstrap knows nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, t, ttest_1samp

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.statistics.clusters import (
    NO_SPREAD,
    ONE_CLUSTER,
    Estimate,
    estimate,
    estimate_of_sums,
)


def test_the_same_share_in_each_cluster_is_no_certainty() -> None:
    """Of any number nothing can be said; a share is one of four that were like each other."""
    numbers, shares = [1, 2, 3, 10], [2, 4, 6, 20]
    refused = estimate(numbers, shares)
    assert (refused.value, refused.interval, refused.reason) == (0.5, None, NO_SPREAD)
    assert refused.to_json()["reason"] == NO_SPREAD
    alike = estimate([2, 2, 2, 2], [4, 4, 4, 4], heaviest=4, bounds=(0, 1))
    # Four of four with probability q: q ** 4 = 0.025, and the rest at a bound.
    q = 0.025**0.25
    assert alike.interval == pytest.approx((0.5 * q, 1 - 0.5 * q))
    # The largest cluster is half of the mean: it is as if there were fewer.
    wider = estimate(numbers, shares, heaviest=20, bounds=(0, 1)).interval
    widest = estimate(numbers, shares, heaviest=40, bounds=(0, 1)).interval
    assert wider is not None and widest is not None and alike.interval is not None
    assert widest[0] < wider[0] < alike.interval[0] < alike.interval[1] < wider[1] < widest[1]
    # Of what may weigh any amount nothing is known.
    with pytest.raises(InvalidParameterError, match="needs `heaviest`, the greatest denominator"):
        estimate(numbers, shares, bounds=(0, 1))


@pytest.mark.parametrize("value", [0.984, 0.968, 0.5, 0.004])
def test_equal_clusters_never_close_the_interval(value: float) -> None:
    """What was shown as 98.4% [98, 98], 96.8% [97, 97] and 50.0% [50, 50]."""
    widths = []
    for n in (2, 3, 5, 10, 20, 100):
        result = estimate(np.full(n, value), bounds=(0, 1)).interval
        assert result is not None and result[0] < value < result[1]
        widths.append(result[1] - result[0])
    assert widths == sorted(widths, reverse=True) and widths[0] > 0.8 and widths[-1] > 0.02
    # Nor do clusters that are nearly equal.
    rng = np.random.default_rng(0)
    nearly = estimate(value + 1e-9 * rng.normal(size=5), bounds=(0, 1)).interval
    exactly = estimate(np.full(5, value), bounds=(0, 1)).interval
    assert nearly == pytest.approx(exactly, abs=0.03)


def test_differences_have_student_s_interval_and_bounds_where_they_are_all_the_same() -> None:
    rng = np.random.default_rng(4)
    values = np.clip(rng.normal(0.1, 0.2, size=8), -1, 1)
    expected = ttest_1samp(values, 0).confidence_interval(0.95)
    result = estimate(values, bounds=(-1, 1), paired=True).interval
    assert result == pytest.approx((expected.low, expected.high))
    assert estimate([0.0, 1.0], bounds=(-1, 1), paired=True).interval == (-1, 1)
    same = estimate(np.zeros(5), bounds=(-1, 1), paired=True).interval
    assert same == pytest.approx((0.025**0.2 - 1, 1 - 0.025**0.2))
    assert estimate(np.zeros(5), paired=True).reason == NO_SPREAD


def test_weighted_clusters_have_the_variance_of_the_least_squares_fit() -> None:
    """CR2 of the weighted mean, by its matrices: (1 - h)^(-1/2) e, and no less than one freedom."""
    values, weights = np.array([0.2, 0.9, 0.4]), np.array([1.0, 2.0, 5.0])
    parts = weights / weights.sum()
    adjusted = (values - parts @ values) / np.sqrt(1 - parts)
    error = np.sqrt(((parts * adjusted) ** 2).sum())
    result = estimate(values * weights, weights)
    freedom = max(1.0, 1 / (parts**2).sum() - 1)
    half = t.ppf(0.975, freedom) * error
    assert result.interval == pytest.approx((result.value - half, result.value + half))


def test_at_a_bound_the_interval_is_clopper_and_pearson_s() -> None:
    for n in (2, 5, 30):
        exact = binomtest(n, n).proportion_ci(0.95)
        assert estimate(np.ones(n), bounds=(0, 1)).interval == pytest.approx((exact.low, 1))
        assert estimate(np.zeros(n), bounds=(0, 1)).interval == pytest.approx((0, 1 - exact.low))
        # In a wider range it is that much wider.
        assert estimate(np.full(n, 3.0), bounds=(-1, 3)).interval == pytest.approx(
            (3 - 4 * (1 - exact.low), 3)
        )
    assert estimate([4, 2], [4, 2], heaviest=4, bounds=(0, 1)).value == 1


def test_what_tells_nothing() -> None:
    assert estimate([0.3]).interval is None
    # One cluster is one, whatever bounds it: 1 - 0.025 of the way to them would be left open.
    alone = estimate([1.0], bounds=(0, 1))
    assert (alone.interval, alone.reason) == (None, ONE_CLUSTER)
    assert alone.to_json()["reason"] == ONE_CLUSTER
    nothing = estimate([], n=0)
    assert np.isnan(nothing.value) and nothing.interval is None and nothing.clusters == 0
    assert np.isnan(estimate([0, 0], [0, 0]).value)
    assert nothing.to_json() == {"value": None, "interval": None, "n": 0, "clusters": 0}


def test_functions_of_sums_over_strata() -> None:
    rng = np.random.default_rng(8)
    strata = np.repeat([0, 1], [10, 20])
    values = rng.normal(10 * strata, 1)
    # Every stratum counts alike: as the mean over strata of the means of clusters.
    weight = 1 / np.where(strata == 0, 10, 20)
    sums = np.stack([values, np.ones(30)], axis=1) * weight[:, None]
    result = estimate_of_sums(sums, lambda s: s[..., 0] / s[..., 1], n=30, strata=strata)
    plain = estimate(values, strata=strata)
    assert result.value == pytest.approx(plain.value)
    assert result.interval == pytest.approx(plain.interval)
    # Few clusters of a kind may agree by luck.
    lonely = np.array([0] * 26 + [1] * 4)
    pooled = estimate_of_sums(sums, lambda s: s[..., 0] / s[..., 1], n=30, strata=lonely)
    assert pooled == estimate_of_sums(sums, lambda s: s[..., 0] / s[..., 1], n=30)
    # Within bounds a mean over strata has the same interval either way, but for rounding.
    shares = rng.random(12)
    uneven = np.repeat([0, 1], [3, 9])
    weight = 1 / np.where(uneven == 0, 3, 9)
    sums = np.stack([shares, np.ones(12)], axis=1) * weight[:, None]
    of_sums = estimate_of_sums(
        sums, lambda s: s[..., 0] / s[..., 1], n=12, strata=uneven, bounds=(0, 1)
    )
    plain = estimate(shares, strata=uneven, bounds=(0, 1))
    assert of_sums.value == pytest.approx(plain.value)
    assert of_sums.interval == pytest.approx(plain.interval, abs=0.12)


def test_the_bias_of_a_fit_is_taken_off() -> None:
    """The best of -(m - b)² + m² over b, at b = m, is m²: too high by the variance of the mean."""
    rng = np.random.default_rng(9)
    values = rng.normal(3, 1, size=50)
    sums = np.stack([values, np.ones(50)], axis=1)
    mean, variance = values.mean(), values.var(ddof=1) / 50

    def squared(s: FloatArray) -> FloatArray:
        return np.asarray((s[..., 0] / s[..., 1]) ** 2)

    def held(s: FloatArray) -> FloatArray:
        return np.asarray(2 * mean * s[..., 0] / s[..., 1] - mean**2)

    plain = estimate_of_sums(sums, squared, n=50)
    result = estimate_of_sums(sums, squared, n=50, held=held)
    assert plain.value == pytest.approx(mean**2)
    assert result.value == pytest.approx(mean**2 - variance, abs=0.1 * variance)
    assert plain.interval is not None and result.interval is not None
    # Both ends are as far from the estimate as before.
    shift = np.subtract(plain.interval, result.interval)
    assert shift == pytest.approx(plain.value - result.value)


@pytest.mark.parametrize("values", [[1.0, 2.0, 6.0], [3.0], []])
def test_an_estimate_is_read_back_from_its_json(values: list[float]) -> None:
    """With an interval, without one, and of nothing, whose value is NaN."""
    result = estimate(values)
    back = Estimate.from_json(result.to_json())
    np.testing.assert_equal(back.value, result.value)
    assert (back.interval, back.n, back.clusters) == (result.interval, result.n, result.clusters)
