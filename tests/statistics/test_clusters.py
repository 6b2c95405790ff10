"""Estimates by cluster: by definition, by hand, and at the rate that they promise."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from oracles import intervals as oracle
from scipy.stats import binom, binomtest, t, ttest_1samp

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.statistics.clusters import (
    NO_SPREAD,
    ONE_CLUSTER,
    Estimate,
    at_least_binomial,
    bounded_ends,
    estimate,
    estimate_of_sums,
    two_way_draws,
    two_way_interval,
)

UNIT = (0.0, 1.0)
RUNS = 200
# Three standard errors of a share of 200 runs below 95%.
LEAST = 0.95 - 3 * np.sqrt(0.95 * 0.05 / RUNS)


def test_the_ends_are_those_of_the_published_bound() -> None:
    """Learned-Miller and Thomas: 1 - sum of u_(i) (x_(i+1) - x_(i)), x_(n+1) the bound."""
    values = np.array([0.2, 0.25, 0.9])
    drawn = np.sort(np.random.default_rng(0).random((400_000, 3)), axis=1)
    upper = 1 - drawn @ np.diff(np.append(values, 1.0))
    low, high = bounded_ends(values, np.ones(3), UNIT, 0.025)
    assert high == pytest.approx(np.quantile(upper, 0.975), abs=0.01)
    mirrored = 1 - drawn @ np.diff(np.append(1 - values[::-1], 1.0))
    assert low == pytest.approx(1 - np.quantile(mirrored, 0.975), abs=0.01)


def test_units_and_signs_do_not_matter() -> None:
    rng = np.random.default_rng(1)
    values, weights = rng.random(7), rng.uniform(1, 4, 7)
    low, high = bounded_ends(values, weights, UNIT, 0.025)
    assert 0 < low < values @ weights / weights.sum() < high < 1
    scaled = bounded_ends(3 * values - 1, 10 * weights, (-1.0, 2.0), 0.025)
    assert scaled == pytest.approx((3 * low - 1, 3 * high - 1))
    mirrored = bounded_ends(-values, weights, (-1.0, 0.0), 0.025)
    assert mirrored == pytest.approx((-high, -low))
    wider = bounded_ends(values, weights, UNIT, 0.005)
    assert wider[0] < low < high < wider[1]


def test_an_unseen_cluster_weighs_as_much_as_it_can() -> None:
    """All ratios that the published bound of the mean of w (x - ratio) does not reject."""
    values, weights = np.array([0.2, 0.9, 0.4]), np.array([3.0, 1.0, 2.0])
    low, high = bounded_ends(values, weights, UNIT, 0.025, 5.0)
    drawn = np.random.default_rng(0).dirichlet(np.ones(4), size=200_000)
    for ratio, bound, tail in ((low, 0.0, 0.975), (high, 1.0, 0.025)):
        terms = np.append(weights * (values - ratio), 5.0 * (bound - ratio))
        assert np.mean(drawn @ terms > 0) == pytest.approx(tail, abs=0.004)


UNEVEN = [(2, 8), (2, 18), (1, 9)]


# Differences in even strata have Student's t, which is not exact.
@pytest.mark.parametrize(("sizes", "paired"), [*product(UNEVEN, [False, True]), ((10, 10), False)])
def test_strata_of_few_and_many_are_covered(sizes: tuple[int, int], paired: bool) -> None:
    """Exact rates, summed over all outcomes of binary clusters: no draws."""
    stratum = np.repeat([0, 1], sizes)
    bounds = (-1.0, 1.0) if paired else UNIT
    low, high = np.empty((2, sizes[0] + 1, sizes[1] + 1))
    for ones in np.ndindex(*low.shape):
        values = np.concatenate([np.arange(n) < k for n, k in zip(sizes, ones, strict=True)])
        ends = estimate(values, strata=stratum, bounds=bounds, paired=paired).interval
        assert ends is not None
        low[ones], high[ones] = ends
    chances = (0.01, 0.05, 0.2, 0.5, 0.7, 0.9, 0.98)
    rates = {}
    for chance in product(chances, chances):
        truth = np.mean(chance)
        likely = [binom.pmf(np.arange(n + 1), n, p) for n, p in zip(sizes, chance, strict=True)]
        held = (low - 1e-9 <= truth) & (truth <= high + 1e-9)
        rates[chance] = likely[0] @ held @ likely[1]
    assert min(rates.values()) >= 0.95, min(rates, key=rates.__getitem__)


def _seldom(value: float, rare: float) -> Callable[[int, Any], FloatArray]:
    """A value in nine clusters of ten, another one in the tenth."""
    return lambda n, rng: np.where(rng.random(n) < 0.1, rare, value)


SETTINGS: dict[str, tuple[Callable[[int, Any], FloatArray], float]] = {
    "success, all or none": (_seldom(1.0, 0.0), 0.9),
    "JSD, stuck in one grid of ten": (_seldom(0.05, 1.0), 0.145),
    "invalid answers": (lambda n, rng: rng.binomial(30, rng.beta(0.2, 19.8, n)) / 30, 0.01),
    "accuracy, smooth": (lambda n, rng: rng.beta(8.5, 1.5, n), 0.85),
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("n", [2, 5, 20])
def test_bounded_statistics_are_covered_at_least_at_the_nominal_rate(name: str, n: int) -> None:
    draw, truth = SETTINGS[name]
    rng = np.random.default_rng([n, len(name)])
    held = 0
    for _ in range(RUNS):
        interval = estimate(draw(n, rng), bounds=UNIT).interval
        assert interval is not None and interval[0] < interval[1]
        held += interval[0] <= truth <= interval[1]
    assert held / RUNS >= LEAST


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


@pytest.mark.parametrize(("successes", "n"), [(0, 4), (1, 4), (8, 10), (19, 20), (36, 40)])
def test_clusters_of_0_and_1_have_the_interval_of_the_definition(successes: int, n: int) -> None:
    """Up to the error of 4000 random divisions, which moves an end by 0.01 at most."""
    values = np.arange(n) < successes
    expected = oracle.exact_interval(successes, n)
    assert estimate(values, bounds=UNIT).interval == pytest.approx(expected, abs=0.01)
    reference = binomtest(successes, n).proportion_ci(0.95)
    assert expected == pytest.approx((reference.low, reference.high), abs=1e-9)


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
