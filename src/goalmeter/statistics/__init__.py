"""Statistics shared by the instruments: intervals and tests."""

from goalmeter.statistics.intervals import (
    LikelihoodRatioTest,
    likelihood_ratio_test,
    percentile_interval,
    resample_weights,
    widened_for_few,
)

__all__ = [
    "LikelihoodRatioTest",
    "likelihood_ratio_test",
    "percentile_interval",
    "resample_weights",
    "widened_for_few",
]
