"""How far published means over grids can be trusted."""

from __future__ import annotations

import numpy as np
import pytest

from goalmeter._errors import InvalidParameterError
from replications import ledger
from replications.lm_navigation import measurements

ROWS = ledger.load(measurements.LEDGER_PREFIX)


def test_the_intervals_of_published_means_are_of_the_spread_between_grids() -> None:
    rows = {row.id.removeprefix("lm-navigation/greedy/"): row for row in ROWS}
    for name, n in (("every-cell/7/0.2", 4), ("every-cell/7/1", 10)):
        _, size, complexity = name.split("/")
        row = rows[name]
        shares = measurements.compass_shares(int(size), float(complexity))
        assert len(shares) == 40 and row.published_seeds == n
        low, high = measurements.interval_of_mean(row.published_value / 100, 0.0005, n, shares)
        assert row.published_interval == pytest.approx((100 * low, 100 * high), abs=0.01)
    # Their grids at size 11, complexity 0.8 go from 59% to 87%: ten draws span 3.08 deviations.
    shares = measurements.compass_shares(11, 0.8)
    assert np.std(shares, ddof=1) == pytest.approx((0.87 - 0.59) / 3.08, abs=0.015)


def test_a_share_varies_no_more_than_its_mean_allows() -> None:
    # By hand: √(0.004 · 0.996) = 0.0631, over √10, times t = 2.262: 0.0451.
    low, high = measurements.interval_of_mean(0.996, 0.0005, 10, [1.0] * 40)
    assert (low, high) == (pytest.approx(0.996 - 0.0451, abs=1e-4), 1.0)
    # A large spread of others cannot be that of a share near 1.
    assert measurements.interval_of_mean(0.996, 0.0005, 10, [0.0, 1.0] * 5)[0] == pytest.approx(low)
    with pytest.raises(InvalidParameterError, match="n is 1, expected at least 2"):
        measurements.interval_of_mean(0.5, 0.0005, 1, [0.4, 0.6])
