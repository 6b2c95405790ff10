"""Intervals of few clusters: by their definition, by hand, and at the rate that they promise."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from goalmeter._types import FloatArray
from goalmeter.statistics.clusters import bounded_ends, estimate

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
