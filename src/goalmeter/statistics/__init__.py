"""Statistics shared by the instruments: intervals and tests."""

from goalmeter.statistics.clusters import Estimate, estimate
from goalmeter.statistics.intervals import (
    LikelihoodRatioTest,
    likelihood_ratio_test,
    percentile_interval,
    resample_weights,
    widened_for_few,
)
from goalmeter.statistics.verdicts import Verdict, verdict

__all__ = [
    "Estimate",
    "LikelihoodRatioTest",
    "Verdict",
    "estimate",
    "likelihood_ratio_test",
    "percentile_interval",
    "resample_weights",
    "verdict",
    "widened_for_few",
]
