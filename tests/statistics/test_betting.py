"""Limits by betting hold as often as they say, whatever the sample size at which one looks."""

from __future__ import annotations

import numpy as np
import pytest

from goalmeter.statistics.intervals import _SHARES, lower_limit, upper_limit


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
