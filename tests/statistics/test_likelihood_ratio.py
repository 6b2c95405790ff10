"""The likelihood-ratio test against closed forms and simulated sums of chi-squares."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from goalmeter.statistics import likelihood_ratio_test


@pytest.mark.parametrize("statistic", [0.0, 0.5, 3.841458820694124, 20.0])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_plain_log_likelihood_is_a_chi_square(statistic: float, d: int) -> None:
    root = np.random.default_rng(d).normal(size=(d, d))
    information = root @ root.T
    result = likelihood_ratio_test(statistic, information, information)
    assert result.degrees_of_freedom == pytest.approx(d)
    assert result.scale == pytest.approx(1.0)
    assert result.p_value == pytest.approx(chi2.sf(statistic, d), rel=1e-9)
    assert result.statistic == statistic


def test_directions_without_information_do_not_count() -> None:
    information = np.array([[1.0, 1.0], [1.0, 1.0]])
    result = likelihood_ratio_test(3.0, information, information)
    assert result.degrees_of_freedom == pytest.approx(1.0)
    nothing = likelihood_ratio_test(0.0, np.zeros((2, 2)), np.zeros((2, 2)))
    assert nothing == (0.0, 0.0, 1.0, 1.0)
    silent = likelihood_ratio_test(1.0, np.eye(2), np.zeros((2, 2)))
    assert (silent.degrees_of_freedom, silent.p_value) == (0.0, 1.0)


def test_unequal_weights_are_matched_in_mean_and_variance() -> None:
    # sum_i w_i chi2(1): mean sum w, variance 2 sum w^2.
    w = np.array([1.0, 0.5, 0.1])
    result = likelihood_ratio_test(2.0, np.eye(3), np.diag(w))
    mean = result.scale * result.degrees_of_freedom
    variance = 2 * result.scale * mean
    assert mean == pytest.approx(w.sum())
    assert variance == pytest.approx(2 * (w**2).sum())
    sums = np.random.default_rng(0).chisquare(1, size=(200_000, 3)) @ w
    for share in (0.5, 0.9, 0.95, 0.99):
        p = likelihood_ratio_test(np.quantile(sums, share), np.eye(3), np.diag(w)).p_value
        assert p == pytest.approx(1 - share, abs=0.02)
