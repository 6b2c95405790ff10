"""How far published means over grids can be trusted."""

from __future__ import annotations

import pytest

from goalmeter._errors import InvalidParameterError
from replications import ledger
from replications.lm_navigation import measurements

ROWS = ledger.load(measurements.LEDGER_PREFIX)


def test_a_share_varies_no_more_than_its_mean_allows() -> None:
    # By hand: √(0.004 · 0.996) = 0.0631, over √10, times t = 2.262: 0.0451.
    low, high = measurements.interval_of_mean(0.996, 0.0005, 10, [1.0] * 40)
    assert (low, high) == (pytest.approx(0.996 - 0.0451, abs=1e-4), 1.0)
    # A large spread of others cannot be that of a share near 1.
    assert measurements.interval_of_mean(0.996, 0.0005, 10, [0.0, 1.0] * 5)[0] == pytest.approx(low)
    with pytest.raises(InvalidParameterError, match="n is 1, expected at least 2"):
        measurements.interval_of_mean(0.5, 0.0005, 1, [0.4, 0.6])
