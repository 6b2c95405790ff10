"""Areas under the curve, calibration, logistic regression, entropy: by hand and by oracles."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.distance import jensenshannon
from scipy.stats import chi2, entropy, mannwhitneyu

from goalmeter._types import ArrayLike
from goalmeter.statistics.discrimination import (
    BINS,
    added_predictors,
    area_under_curve,
    area_within_bands,
    calibration_of_sums,
    calibration_sums,
    clustered_area,
    graded_area,
    jensen_shannon,
    logistic_fit,
    miller_madow_entropy,
    plug_in_entropy,
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


def calibration_error(sure: ArrayLike, right: ArrayLike, bins: int = BINS) -> float:
    cluster = np.zeros(np.size(sure), dtype=np.int64)
    return float(calibration_of_sums(calibration_sums(sure, right, cluster, 1, bins)[0]))


def test_calibration_by_hand() -> None:
    # Bin [0.4, 0.5): 0.4 and 0.45, one right; bin [0.9, 1]: 0.9 and 1, both right.
    sure, right = [0.4, 0.45, 0.9, 1.0], [1, 0, 1, 1]
    assert calibration_error(sure, right) == pytest.approx((abs(0.85 - 1) + abs(1.9 - 2)) / 4)
    assert calibration_error(sure, right, bins=1) == pytest.approx(abs(2.75 - 3) / 4)


def test_sums_add_up_over_clusters() -> None:
    rng = np.random.default_rng(0)
    sure, right = rng.random(50), rng.integers(0, 2, 50)
    cluster = rng.integers(0, 4, 50)
    sums = calibration_sums(sure, right, cluster, 4)
    assert sums.shape == (4, 11) and sums[:, -1].tolist() == np.bincount(cluster).tolist()
    total = calibration_of_sums(sums.sum(axis=0))
    assert float(total) == pytest.approx(calibration_error(sure, right))


def literal_fit(features: np.ndarray, outcomes: np.ndarray) -> float:
    """The highest log-likelihood, by a general optimiser and the formula as it is written."""

    def loss(at: np.ndarray) -> float:
        share = 1 / (1 + np.exp(-(at[0] + features @ at[1:])))
        return float(-(outcomes * np.log(share) + (1 - outcomes) * np.log(1 - share)).sum())

    return -float(minimize(loss, np.zeros(features.shape[1] + 1), method="BFGS").fun)


def sample(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(n, 3)) * [1.0, 5.0, 0.2] + [0.0, 3.0, 1.0]
    log_odds = 0.4 + features[:, 0] - 0.3 * (features[:, 1] - 3)
    return features, (rng.random(n) < 1 / (1 + np.exp(-log_odds))).astype(float)


def test_one_binary_predictor_by_hand() -> None:
    # Of four with a 0 one is a success, of four with a 1 three are: log-odds -log 3 and +log 3.
    features = np.repeat([[0.0], [1.0]], 4, axis=0)
    outcomes = np.array([1, 0, 0, 0, 1, 1, 1, 0])
    model = logistic_fit(features, outcomes)
    each = 6 * np.log(3 / 4) + 2 * np.log(1 / 4)
    assert model.log_likelihoods(features, outcomes).sum() == pytest.approx(each, abs=1e-6)
    # Against no predictor at all, where four of eight succeed.
    test = added_predictors(np.zeros((8, 1)), features, outcomes)
    assert test.statistic == pytest.approx(2 * (each - 8 * np.log(1 / 2)), abs=1e-6)
    assert test.degrees_of_freedom == 1
    assert test.p_value == pytest.approx(float(chi2.sf(test.statistic, 1)))


def test_the_fit_is_that_of_a_general_optimiser() -> None:
    features, outcomes = sample()
    model = logistic_fit(features, outcomes)
    fitted = model.log_likelihoods(features, outcomes).sum()
    assert fitted == pytest.approx(literal_fit(features, outcomes), abs=1e-4)
    test = added_predictors(features[:, :1], features[:, 1:], outcomes)
    gain = literal_fit(features, outcomes) - literal_fit(features[:, :1], outcomes)
    assert test.statistic == pytest.approx(2 * gain, abs=1e-3)
    assert test.degrees_of_freedom == 2


def test_a_predictor_that_separates_ends_with_the_highest_likelihood_there_is() -> None:
    features = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    outcomes = np.array([0, 0, 1, 1])
    model = logistic_fit(features, outcomes)
    assert np.isfinite(model.weights).all()
    assert model.log_likelihoods(features, outcomes).sum() == pytest.approx(0, abs=1e-3)
    # A prior keeps it from being certain.
    prior = logistic_fit(features, outcomes, ridge=1.0)
    assert 0 < prior.weights[0] < model.weights[0]


def test_entropies_by_hand() -> None:
    counts = [[4, 0, 0, 0, 0], [2, 2, 0, 0, 0], [1, 1, 1, 1, 0], [3, 1, 0, 0, 0]]
    quarter = 0.75 * np.log2(4 / 3) + 0.25 * 2
    assert plug_in_entropy(counts) == pytest.approx([0, 1, 2, quarter])
    # (K - 1) / (2 n ln 2) with n = 4.
    added = np.array([0, 1, 3, 1]) / (8 * np.log(2))
    assert miller_madow_entropy(counts) == pytest.approx(np.array([0, 1, 2, quarter]) + added)
    assert not np.signbit(plug_in_entropy([5, 0]))


def test_entropies_are_scipy_s() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, size=(40, 5)) + np.eye(5, dtype=int)[rng.integers(0, 5, 40)]
    assert plug_in_entropy(counts) == pytest.approx(entropy(counts, base=2, axis=1))
    p, q = rng.dirichlet(np.full(4, 0.3), size=(2, 30))
    assert jensen_shannon(p, q) == pytest.approx(jensenshannon(p, q, base=2, axis=1) ** 2)
