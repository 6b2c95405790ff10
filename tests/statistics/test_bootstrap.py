"""Bootstrap weights, and intervals against those that are known exactly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from goalmeter.statistics import percentile_interval


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
