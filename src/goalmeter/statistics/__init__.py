"""Statistics shared by the instruments: intervals and tests."""

from goalmeter.statistics.bootstrap import percentile_interval, resample_weights, widened_for_few
from goalmeter.statistics.likelihood_ratio import LikelihoodRatioTest, likelihood_ratio_test

__all__ = [
    "LikelihoodRatioTest",
    "likelihood_ratio_test",
    "percentile_interval",
    "resample_weights",
    "widened_for_few",
]
