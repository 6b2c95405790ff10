"""Statistics shared by the instruments: intervals and tests."""

from goalmeter.statistics.bootstrap import percentile_interval as percentile_interval
from goalmeter.statistics.bootstrap import resample_weights as resample_weights
from goalmeter.statistics.bootstrap import widened_for_few as widened_for_few
from goalmeter.statistics.likelihood_ratio import LikelihoodRatioTest as LikelihoodRatioTest
from goalmeter.statistics.likelihood_ratio import likelihood_ratio_test as likelihood_ratio_test
