"""Statistics shared by the instruments: intervals and tests."""

from goalmeter.statistics.clusters import (
    Estimate,
    TwoWayDraws,
    at_least_binomial,
    bounded_ends,
    estimate,
    estimate_of_sums,
    student_ends,
    two_way_draws,
    two_way_interval,
)
from goalmeter.statistics.discrimination import (
    added_predictors,
    area_under_curve,
    area_within_bands,
    clustered_area,
    logistic_fit,
)
from goalmeter.statistics.intervals import (
    LikelihoodRatioTest,
    likelihood_ratio_test,
    percentile_interval,
    resample_weights,
    widened_for_few,
)
from goalmeter.statistics.verdicts import (
    Verdict,
    difference,
    reach,
    share_interval,
    verdict,
    words,
)

__all__ = [
    "Estimate",
    "LikelihoodRatioTest",
    "TwoWayDraws",
    "Verdict",
    "added_predictors",
    "area_under_curve",
    "area_within_bands",
    "at_least_binomial",
    "bounded_ends",
    "clustered_area",
    "difference",
    "estimate",
    "estimate_of_sums",
    "likelihood_ratio_test",
    "logistic_fit",
    "percentile_interval",
    "reach",
    "resample_weights",
    "share_interval",
    "student_ends",
    "two_way_draws",
    "two_way_interval",
    "verdict",
    "widened_for_few",
    "words",
]
