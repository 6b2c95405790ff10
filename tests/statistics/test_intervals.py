"""Limits by betting, bootstrap intervals and the likelihood-ratio test."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, t

from goalmeter.statistics import likelihood_ratio_test, percentile_interval
from goalmeter.statistics.intervals import _SHARES, contradict, lower_limit, upper_limit


def test_one_share_by_hand() -> None:
    # Ten ones: a share c has grown to (1 - c + c / m)^10; the limit is where their mean is 20.
    limit = lower_limit(np.ones(10), low=0, high=1, error=0.05)

    def mean_fortune(m: float) -> float:
        return float(np.mean([(1 - c + c / m) ** 10 for c in _SHARES]))

    assert mean_fortune(limit) >= 20
    assert mean_fortune(limit + 1e-5) < 20
    # Nobody can do better than the share 1, whose fortune is m^-10.
    assert limit < 0.05 ** (1 / 10)


@pytest.mark.parametrize(
    ("name", "draw", "mean"),
    [
        ("coin", lambda rng, n: (rng.random(n) < 0.5) * 1.0, 0.5),
        ("rare", lambda rng, n: (rng.random(n) < 0.02) * 1.0, 0.02),
        ("narrow", lambda rng, n: 0.4 + 0.2 * rng.random(n), 0.5),
        # Heavy towards its upper end: exp of a normal variable, cut off.
        ("heavy", lambda rng, n: rng.beta(0.05, 5.0, n), 0.05 / 5.05),
    ],
)
def test_limits_hold_at_every_look(name: str, draw: object, mean: float) -> None:
    rng = np.random.default_rng(7)
    above = below = 0
    runs = 120
    for _ in range(runs):
        values = draw(rng, 400)  # type: ignore[operator]
        looks = (20, 60, 150, 400)
        below += any(lower_limit(values[:n], low=0, high=1, error=0.1) > mean for n in looks)
        above += any(upper_limit(values[:n], low=0, high=1, error=0.1) < mean for n in looks)
    # With a true rate of 10% more than 18% of 120 runs happen once in 300 times.
    assert below <= 0.18 * runs, name
    assert above <= 0.18 * runs, name


def test_the_limit_is_monotone_and_ignores_order() -> None:
    rng = np.random.default_rng(1)
    x = rng.random(50)
    limit = lower_limit(x, low=0, high=1, error=0.05)
    assert lower_limit(rng.permutation(x), low=0, high=1, error=0.05) == pytest.approx(
        limit, abs=1e-9
    )
    less = np.minimum(x, rng.random(50))
    assert lower_limit(less, low=0, high=1, error=0.05) <= limit
    assert upper_limit(-x, low=-1, high=0, error=0.05) == pytest.approx(-limit, abs=1e-12)


def test_percentiles_by_hand() -> None:
    # Many units: t and normal agree, and the 90 % interval of 0..100 is 5..95; the bias is
    # taken out twice.
    replicates = np.arange(101.0)
    assert percentile_interval(replicates, 0.0, 10**9, 0.9) == pytest.approx((5.0, 95.0))
    assert percentile_interval(replicates, 2.0, 10**9, 0.9) == pytest.approx((1.0, 91.0))
    low, high = percentile_interval(replicates, 0.0, 1, 0.9)  # one unit has no t
    assert (low, high) == pytest.approx((5.0, 95.0))


@pytest.mark.parametrize("n", [5, 10, 40])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_mean_of_a_normal_sample_gets_its_t_interval(n: int, confidence: float) -> None:
    # Replicates of a mean spread like s sqrt((n - 1) / n) / sqrt(n); the correction makes that s.
    rng = np.random.default_rng(n)
    sample = rng.normal(size=n)
    sample = (sample - sample.mean()) / sample.std(ddof=1)
    spread = np.sqrt((n - 1) / n) / np.sqrt(n)
    replicates = spread * rng.normal(size=2_000_000)
    low, high = percentile_interval(replicates, 0.0, n, confidence)
    half = t.ppf(0.5 + confidence / 2, n - 1) / np.sqrt(n)
    assert (low, high) == (pytest.approx(-half, rel=0.01), pytest.approx(half, rel=0.01))


@pytest.mark.parametrize("statistic", [0.0, 0.5, 3.841458820694124, 20.0])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_plain_log_likelihood_is_a_chi_square(statistic: float, d: int) -> None:
    root = np.random.default_rng(d).normal(size=(d, d))
    information = root @ root.T
    result = likelihood_ratio_test(statistic, information, information)
    assert result.degrees_of_freedom == pytest.approx(d)
    assert result.scale == pytest.approx(1.0)
    assert result.p_value == pytest.approx(chi2.sf(statistic, d), rel=1e-9)
    assert result.statistic == statistic


def test_directions_without_information_do_not_count() -> None:
    information = np.array([[1.0, 1.0], [1.0, 1.0]])
    result = likelihood_ratio_test(3.0, information, information)
    assert result.degrees_of_freedom == pytest.approx(1.0)
    nothing = likelihood_ratio_test(0.0, np.zeros((2, 2)), np.zeros((2, 2)))
    assert nothing == (0.0, 0.0, 1.0, 1.0)
    silent = likelihood_ratio_test(1.0, np.eye(2), np.zeros((2, 2)))
    assert (silent.degrees_of_freedom, silent.p_value) == (0.0, 1.0)


def test_unequal_weights_are_matched_in_mean_and_variance() -> None:
    # sum_i w_i chi2(1): mean sum w, variance 2 sum w^2.
    w = np.array([1.0, 0.5, 0.1])
    result = likelihood_ratio_test(2.0, np.eye(3), np.diag(w))
    mean = result.scale * result.degrees_of_freedom
    variance = 2 * result.scale * mean
    assert mean == pytest.approx(w.sum())
    assert variance == pytest.approx(2 * (w**2).sum())
    sums = np.random.default_rng(0).chisquare(1, size=(200_000, 3)) @ w
    for share in (0.5, 0.9, 0.95, 0.99):
        p = likelihood_ratio_test(np.quantile(sums, share), np.eye(3), np.diag(w)).p_value
        assert p == pytest.approx(1 - share, abs=0.02)


def test_samples_of_one_distribution_contradict_it_rarely() -> None:
    rng, p = np.random.default_rng(0), [0.6, 0.3, 0.1]
    first, second = (rng.multinomial(n, p, size=2_000).tolist() for n in (30, 200))
    refused = [contradict(a, b, 0.1) for a, b in zip(first, second, strict=True)]
    assert np.mean(refused) <= 0.1
    assert contradict([40, 0, 0], [0, 0, 40], 1e-4) and contradict([300, 100], [100, 300], 1e-4)
    # An outcome that only one of them has, once, may have been missed by the other.
    assert not contradict([20, 1], [20, 0], 0.01)
