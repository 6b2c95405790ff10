"""Areas under the curve: by hand, pair by pair, and at the coverage that intervals promise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, norm

from goalmeter.statistics.discrimination import (
    area_under_curve,
    area_within_bands,
    clustered_area,
    graded_area,
)


def test_areas_by_hand() -> None:
    assert area_under_curve([2, 3], [0, 1]) == 1
    assert area_under_curve([0, 1], [2, 3]) == 0
    assert area_under_curve([1, 1, 1], [1, 1]) == 0.5
    # 4 above all three; 2 above one, level with one, below one.
    assert area_under_curve([4, 2], [1, 2, 3]) == (3 + 1.5) / 6
    assert np.isnan(area_under_curve([], [1])) and np.isnan(area_under_curve([1], []))
    assert area_under_curve([np.inf, 1], [-np.inf, 1]) == 3.5 / 4


def test_areas_are_the_pairs_counted_and_scipy_s_u() -> None:
    rng = np.random.default_rng(0)
    for n, m in ((1, 7), (9, 4), (20, 31)):
        above, below = (np.round(rng.normal(size=size), 1) for size in (n, m))
        area = area_under_curve(above, below)
        assert area == pytest.approx(mannwhitneyu(above, below).statistic / (n * m))
        assert area_under_curve(below, above) == pytest.approx(1 - area)
        assert area_under_curve(np.exp(above), np.exp(below)) == pytest.approx(area)


def test_where_all_pairs_agree_the_interval_is_that_of_a_share() -> None:
    """Of 6 of 6 grids: 1 - 0.025 ** (1 / 6) is the room that is left."""
    grids = np.arange(6)
    room = 1 - 0.025 ** (1 / 6)
    above = clustered_area(grids + 10, grids, grids, grids)
    below = clustered_area(grids, grids + 10, grids, grids)
    assert above.interval == pytest.approx((1 - room, 1))
    assert below.interval == pytest.approx((0, room))
    level = clustered_area(np.ones(6), np.ones(6), grids, grids)
    # Ties in six grids do not say that there are ties in all.
    assert level.value == 0.5
    assert level.interval == pytest.approx((0.5 * (1 - room), 1 - 0.5 * (1 - room)))


def test_intervals_hold_the_true_area_as_often_as_they_say() -> None:
    """Two scores of either class a grid, with a part that all scores of the grid share."""
    rng = np.random.default_rng(2)
    clusters, shared, private, shift, runs = 16, 1.0, 1.0, 1.2, 300
    true = norm.cdf(shift / np.sqrt(2 * (shared**2 + private**2)))
    grids = np.repeat(np.arange(clusters), 2)
    held = 0
    for _ in range(runs):
        part = np.repeat(rng.normal(0, shared, clusters), 2)
        above = part + shift + rng.normal(0, private, 2 * clusters)
        below = part + rng.normal(0, private, 2 * clusters)
        interval = clustered_area(above, below, grids, grids).interval
        assert interval is not None
        held += interval[0] <= true <= interval[1]
    # A share's interval holds whatever the distribution, so it holds a smooth one more often.
    assert held / runs >= 0.94


def test_an_area_within_bands_is_that_of_the_pairs_in_them() -> None:
    # Band 0: 3 against 1 and 3, one right and one tie. Band 1: 0 against 2, wrong. So 1.5 of 3,
    # where all six pairs together have 2.5.
    above, below = [3.0, 0.0], [1.0, 3.0, 2.0]
    assert area_within_bands(above, below, [0, 1], [0, 0, 1]) == 0.5
    assert area_under_curve(above, below) == pytest.approx(2.5 / 6)
    rng = np.random.default_rng(0)
    tops, bottoms = rng.integers(0, 5, 30).astype(float), rng.integers(0, 5, 40).astype(float)
    of_top, of_bottom = rng.integers(0, 3, 30), rng.integers(0, 3, 40)
    won = pairs = 0.0
    for top, band in zip(tops, of_top, strict=True):
        for bottom, label in zip(bottoms, of_bottom, strict=True):
            if band == label:
                pairs += 1
                won += 1.0 if top > bottom else 0.5 if top == bottom else 0.0
    assert area_within_bands(tops, bottoms, of_top, of_bottom) == pytest.approx(won / pairs)


def test_a_graded_area_is_that_of_all_pairs() -> None:
    rng = np.random.default_rng(5)
    scores, above = rng.normal(size=400).round(1), rng.random(400) < 0.4
    cluster = rng.integers(0, 12, 400)
    scores[above] += 0.5
    pairs = clustered_area(scores[above], scores[~above], cluster[above], cluster[~above])
    grades = graded_area(scores, above, cluster)
    assert grades.value == pytest.approx(pairs.value, abs=1e-12)
    assert grades.interval == pytest.approx(pairs.interval, abs=1e-9)
    assert (grades.n, grades.clusters) == (pairs.n, pairs.clusters)
