"""Relative entropies of clipped normals: against quadrature, and never above their bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from goalmeter.meg.simulator.continuous_worlds import largest_relative_entropy, relative_entropy


def by_quadrature(
    mean: float, std: float, centre: float, scale: float, low: float, high: float
) -> float:
    """The definition: what the ends catch, and the integral between them."""
    p, q = norm(mean, std), norm(centre, scale)
    total = 0.0
    for mine, others in ((p.cdf(low), q.cdf(low)), (p.sf(high), q.sf(high))):
        total += mine * math.log(mine / others) if mine > 0 else 0.0
    inside, _ = quad(
        lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)),
        max(low, mean - 40 * std),
        min(high, mean + 40 * std),
        points=[min(max(mean, low), high)],
        limit=200,
    )
    return float(total + inside)


def array(value: float) -> np.ndarray:
    return np.array([value])


@pytest.mark.parametrize(
    "case",
    [
        (0.0, 0.5, 0.0, 1.0, -1.0, 2.0),
        (1.9, 0.3, 0.0, 1.0, -2.0, 2.0),
        (3.0, 0.7, 0.5, 1.5, -2.0, 2.0),
        (-0.4, 2.5, 0.0, 0.5, -1.0, 1.0),
    ],
)
def test_against_quadrature(case: tuple[float, ...]) -> None:
    assert relative_entropy(*map(array, case)) == pytest.approx(by_quadrature(*case), rel=1e-7)


def test_nothing_exceeds_the_bound() -> None:
    rng = np.random.default_rng(0)
    for _ in range(500):
        low, high = np.sort(rng.normal(0, 2, (2, 3)), axis=0)
        centre, scale, least = rng.normal(0, 1, 3), rng.gamma(2, 1, 3), rng.gamma(2, 0.2, 3)
        mean, std = rng.normal(0, 5, 3), least * (1 + rng.gamma(1, 1, 3))
        told = relative_entropy(mean, std, centre, scale, low, high)
        assert 0.0 <= told <= largest_relative_entropy(least, centre, scale, low, high)
