"""The mixed-effects model: what was put in comes out; what cannot be fitted is said."""

from __future__ import annotations

import json

import numpy as np
import pytest
from navigation.walked import taken, task
from scipy.stats import t

from goalmeter.navigation.behaviour import mixed_model

RIGHT, UP = 1, 2


def test_what_was_put_in_comes_out() -> None:
    """Corridors of different lengths, and answers that are wrong more often in longer ones."""
    pytest.importorskip("statsmodels")
    rng = np.random.default_rng(0)
    walks, spread = [], []
    for seed in range(40):
        length = int(rng.integers(2, 12))
        corridor = ["#" * (length + 3), "#A" + "_" * (length - 1) + "G#", "#" * (length + 3)]
        alone = rng.normal(0, 0.08)
        spread.append(alone)
        for index in range(4):
            share = 0.9 - 0.04 * length + alone + rng.normal(0, 0.03)
            wrong = round(length * (1 / share - 1))
            walks.append(
                taken(
                    task(corridor, seed=seed, cap=500, complexity=float(seed % 2)),
                    *[UP] * wrong,
                    *[RIGHT] * length,
                    index=index,
                )
            )
    measured = mixed_model(walks)
    terms = {term.name: term for term in measured.terms}
    assert list(terms) == ["intercept", "complexity", "distance"]  # all grids have three rows
    slope = terms["distance"]
    assert abs(slope.coefficient + 0.04) < 4 * slope.stderr and slope.stderr < 0.008
    assert slope.interval[0] < -0.04 < slope.interval[1] and slope.p_value < 1e-9
    assert abs(terms["complexity"].coefficient) < 4 * terms["complexity"].stderr
    assert measured.between_grids == pytest.approx(np.std(spread), rel=0.25)
    assert (measured.walks, measured.grids) == (160, 40)
    written = measured.to_json()
    assert json.loads(json.dumps(written)) == written
    wide = mixed_model(walks, confidence=0.999).terms[2].interval
    assert wide[0] < slope.interval[0] < slope.interval[1] < wide[1]
    # 40 grids and three terms.
    reach = t.ppf(0.975, 37) * slope.stderr
    assert slope.interval == pytest.approx((slope.coefficient - reach, slope.coefficient + reach))
