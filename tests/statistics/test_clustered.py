"""Estimates by cluster: by hand, against theory, and where a bootstrap knows nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, t

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.statistics.clustered import Estimate, estimate, estimate_of_sums


def test_values_by_hand() -> None:
    assert estimate([1.0, 2.0, 6.0]).value == 3
    assert estimate([1, 2, 6], [1, 2, 3]).value == pytest.approx(9 / 6)
    # Two strata: (1 + 2) / 2 and 6, each as heavy as the other.
    assert estimate([1, 2, 6], strata=["a", "a", "b"]).value == pytest.approx((1.5 + 6) / 2)
    # Clusters without anything to say are left out, and so are strata of such.
    found = estimate([1, 0, 2, 0], [1, 0, 1, 0], n=17, strata=[0, 0, 0, 1])
    assert (found.value, found.n, found.clusters) == (1.5, 17, 2)


def test_one_stratum_gets_its_t_interval() -> None:
    rng = np.random.default_rng(0)
    sample = rng.normal(size=12)
    found = estimate(sample)
    half = t.ppf(0.975, 11) * sample.std(ddof=1) / np.sqrt(12)
    assert found.interval == pytest.approx(
        (sample.mean() - half, sample.mean() + half), abs=0.12 * half
    )
    narrow = estimate(sample, confidence=0.5).interval
    assert narrow is not None and found.interval is not None
    assert found.interval[0] < narrow[0] < narrow[1] < found.interval[1]


def test_strata_are_resampled_by_themselves() -> None:
    """Means that lie far apart add nothing to the spread; Welch's variance is what is left."""
    rng = np.random.default_rng(1)
    low, high = rng.normal(size=15), 1000 + rng.normal(size=15)
    found = estimate(np.concatenate([low, high]), strata=[0] * 15 + [1] * 15)
    error = np.sqrt(low.var(ddof=1) / 15 + high.var(ddof=1) / 15) / 2
    assert found.interval is not None
    width = found.interval[1] - found.interval[0]
    assert width == pytest.approx(2 * t.ppf(0.975, 28) * error, rel=0.12)


def test_a_ratio_is_resampled_with_its_denominator() -> None:
    """The same share in each cluster: whatever is drawn, that is the ratio."""
    found = estimate([1, 2, 3, 10], [2, 4, 6, 20])
    assert found.value == 0.5 and found.interval == pytest.approx((0.5, 0.5))


def test_strata_of_one_are_resampled_together() -> None:
    values = [0.0, 0.3, 0.7, 1.0]
    found = estimate(values, strata=[0, 1, 2, 3])
    assert found == Estimate(0.5, estimate(values).interval, 4, 4)
    # Unequal strata keep their weights: a stratum of one counts as much as one of three.
    mixed = estimate([0, 0, 0, 1], strata=[0, 0, 0, 1])
    assert mixed.value == 0.5 and mixed.interval is not None
    assert mixed.interval[0] <= 0.01 and mixed.interval[1] >= 0.7


def test_coverage() -> None:
    """Intervals of the mean of ten grids, each with its own share of right decisions."""
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(300):
        shares = rng.beta(4, 2, size=10)
        right = rng.binomial(20, shares)
        interval = estimate(right, np.full(10, 20.0), bounds=(0, 1)).interval
        assert interval is not None
        held += interval[0] <= 4 / 6 <= interval[1]
    assert 0.91 <= held / 300 <= 0.98


def test_at_a_bound_the_interval_is_clopper_and_pearson_s() -> None:
    for n in (1, 5, 30):
        exact = binomtest(n, n).proportion_ci(0.95)
        assert estimate(np.ones(n), bounds=(0, 1)).interval == pytest.approx((exact.low, 1))
        assert estimate(np.zeros(n), bounds=(0, 1)).interval == pytest.approx((0, 1 - exact.low))
        # In a wider range it is that much wider.
        assert estimate(np.full(n, 3.0), bounds=(-1, 3)).interval == pytest.approx(
            (3 - 4 * (1 - exact.low), 3)
        )
    assert estimate([4, 2], [4, 2], bounds=(0, 1)).value == 1


def test_what_tells_nothing() -> None:
    assert estimate([0.3]).interval is None
    nothing = estimate([], n=0)
    assert np.isnan(nothing.value) and nothing.interval is None and nothing.clusters == 0
    assert np.isnan(estimate([0, 0], [0, 0]).value)
    assert nothing.to_json() == {"value": None, "interval": None, "n": 0, "clusters": 0}


def test_as_json_and_shifted() -> None:
    found = Estimate(0.5, (0.25, 0.75), 10, 3)
    assert found.to_json() == {"value": 0.5, "interval": [0.25, 0.75], "n": 10, "clusters": 3}
    assert found.shifted(0.25) == Estimate(0.75, (0.5, 1.0), 10, 3)
    assert Estimate(0.5, None, 1, 1).shifted(1) == Estimate(1.5, None, 1, 1)


def test_functions_of_sums() -> None:
    rng = np.random.default_rng(5)
    pairs = np.stack([rng.normal(3, 1, size=20), np.ones(20)], axis=1)
    found = estimate_of_sums(pairs, lambda s: s[..., 0] / s[..., 1], n=99)
    plain = estimate(pairs[:, 0])
    assert found.value == pytest.approx(plain.value)
    assert found.interval == pytest.approx(plain.interval)
    assert (found.n, found.clusters) == (99, 20)
    assert estimate_of_sums(pairs[:1], lambda s: s[..., 0], n=1).interval is None
    assert np.isnan(estimate_of_sums(pairs[:0], lambda s: s[..., 0], n=0).value)


def test_functions_of_sums_over_strata() -> None:
    rng = np.random.default_rng(8)
    strata = np.repeat([0, 1], [4, 8])
    values = rng.normal(10 * strata, 1)
    # Every stratum counts alike: as the mean over strata of the means of clusters.
    weight = 1 / np.where(strata == 0, 4, 8)
    sums = np.stack([values, np.ones(12)], axis=1) * weight[:, None]
    found = estimate_of_sums(sums, lambda s: s[..., 0] / s[..., 1], n=12, strata=strata)
    plain = estimate(values, strata=strata)
    assert found.value == pytest.approx(plain.value)
    assert found.interval == pytest.approx(plain.interval)
    # One cluster of a kind does not tell its spread.
    lonely = np.array([0] * 11 + [1])
    pooled = estimate_of_sums(sums, lambda s: s[..., 0] / s[..., 1], n=12, strata=lonely)
    assert pooled == estimate_of_sums(sums, lambda s: s[..., 0] / s[..., 1], n=12)


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
    found = estimate_of_sums(sums, squared, n=50, held=held)
    assert plain.value == pytest.approx(mean**2)
    assert found.value == pytest.approx(mean**2 - variance, abs=0.1 * variance)
    assert plain.interval is not None and found.interval is not None
    shift = np.subtract(plain.interval, found.interval)
    assert shift == pytest.approx(2 * (plain.value - found.value))


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, float("nan")])
def test_confidence_is_a_probability(confidence: float) -> None:
    with pytest.raises(InvalidParameterError, match="expected a number between 0 and 1, such as"):
        estimate([1.0, 2.0], confidence=confidence)
    with pytest.raises(InvalidParameterError, match="expected a number between 0 and 1, such as"):
        estimate_of_sums([[1.0], [2.0]], lambda s: s[..., 0], n=2, confidence=confidence)
