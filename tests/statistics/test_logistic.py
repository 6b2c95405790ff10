"""Logistic regression, and what another predictor tells."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import chi2

from goalmeter.statistics.discrimination import added_predictors, logistic_fit


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
