"""Discrimination and calibration of scores, logistic regression, entropy and divergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, FloatArray, IntArray
from goalmeter.statistics.clusters import Estimate, estimate_of_sums


# --- Entropy and divergence ---------------------------------------------------------------------
def plug_in_entropy(counts: ArrayLike) -> FloatArray:
    """Return the entropy of the shares of counts [..., outcomes], in bits; too low on average."""
    counted = np.asarray(counts, dtype=float)
    shares = counted / counted.sum(axis=-1, keepdims=True)
    return np.asarray(-_x_log_x(shares).sum(axis=-1)) + 0.0  # never -0.0


def miller_madow_entropy(counts: ArrayLike) -> FloatArray:
    """Return the plug-in entropy of counts [..., outcomes] without its leading bias, in bits."""
    # Miller, Note on the bias of information estimates (1955): for K outcomes that were seen.
    counted = np.asarray(counts, dtype=float)
    bias = ((counted > 0).sum(axis=-1) - 1) / (2 * np.log(2) * counted.sum(axis=-1))
    return np.asarray(plug_in_entropy(counted) + bias)


def jensen_shannon(first: ArrayLike, second: ArrayLike) -> FloatArray:
    """Return the Jensen-Shannon divergence of distributions [..., outcomes], in bits."""
    p, q = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    middle = (_x_log_x(p) + _x_log_x(q)) / 2 - _x_log_x((p + q) / 2)
    return np.asarray(np.clip(middle.sum(axis=-1), 0.0, 1.0))


def _x_log_x(p: FloatArray) -> FloatArray:
    # 0 log 0 counts as 0, its limit.
    return np.asarray(p * np.log2(np.where(p > 0, p, 1.0)))


# --- Discrimination -----------------------------------------------------------------------------
# The area under the receiver operating characteristic is the probability that a score of the one
# class is above a score of the other, a tie counted half: 1 if every pair is in the right order,
# 0.5 if the score tells nothing, 0 if it is upside down. Scores that share a grid are not
# independent, so intervals leave out clusters, both classes with them.
#
# Source: Mann and Whitney, On a test of whether one of two random variables is stochastically
# larger than the other (1947); for clusters, Rutter, Bootstrap estimation of diagnostic accuracy
# with patient-clustered data (2000).

NOTHING = 0.5  # the area of a score that tells nothing
GRADES = 2048  # of many scores: an area is then off by less than 1 / 4000


def area_under_curve(above: ArrayLike, below: ArrayLike) -> float:
    """Return the share of pairs in which the first is larger, ties counted half.

    NaN without a pair. Shapes: above [n], below [m].

    Example: of four pairs two are right, one is a tie and one is wrong.
        >>> area_under_curve([1.0, 3.0], [1.0, 2.0])
        0.625
    """
    order = _order(above, below)
    return float(order.mean()) if order.size else float("nan")


def area_within_bands(
    above: ArrayLike, below: ArrayLike, band_above: ArrayLike, band_below: ArrayLike
) -> float:
    """Return the area under the curve over pairs within the same band; NaN without such a pair.

    It shows what a score adds to the measure that defines the bands, which is about equal within
    a band. Scores as in `area_under_curve`, each with the number of its band, [n] and [m].

    Example: of the four pairs two are within a band, one of them in the right order.
        >>> area_within_bands([1.0, 3.0], [2.0, 2.0], [0, 1], [0, 1])
        0.5
    """
    same = np.asarray(band_above)[:, None] == np.asarray(band_below)
    return float(_order(above, below)[same].mean()) if same.any() else float("nan")


def clustered_area(
    above: ArrayLike,
    below: ArrayLike,
    cluster_above: ArrayLike,
    cluster_below: ArrayLike,
    *,
    confidence: float = 0.95,
) -> Estimate:
    """Estimate the area under the curve of scores in clusters.

    Pairs are those of all scores, also across clusters, since one threshold applies to all. A
    cluster is left out with its scores of both classes. The interval is that of a share, as in
    `clusters.estimate_of_sums`: if every pair is in the same order, it is that of C successes in C
    clusters.

    Scores as in `area_under_curve`, each with the number of its cluster, [n] and [m].
    """
    order = _order(above, below)
    of_top, of_bottom = np.asarray(cluster_above), np.asarray(cluster_below)
    names = np.unique(np.concatenate([of_top, of_bottom]))
    if not order.size:
        return Estimate(float("nan"), None, sum(order.shape), len(names))
    top, bottom = ((of[:, None] == names).astype(float) for of in (of_top, of_bottom))
    won, pairs = top.T @ order @ bottom, np.outer(top.sum(axis=0), bottom.sum(axis=0))
    return _area_of_pairs(won, pairs, sum(order.shape), confidence)


def graded_area(scores: ArrayLike, above: ArrayLike, cluster: ArrayLike) -> Estimate:
    """Estimate the area of many scores in clusters, all [n]: as `clustered_area`, without pairs."""
    # Scores are put into grades of about equal size, and a pair within a grade counts as a tie,
    # which is exact where there are no more different scores than grades.
    values, top = np.asarray(scores, dtype=float), np.asarray(above, dtype=bool)
    names, of = np.unique(np.asarray(cluster), return_inverse=True)
    if top.all() or not top.any():
        return Estimate(float("nan"), None, len(values), len(names))
    levels, grade = np.unique(values, return_inverse=True)
    if len(levels) > GRADES:
        # Equal scores keep one grade: the cuts are between different ones.
        ends = np.cumsum(np.bincount(grade))
        grade = ((ends - 1) * GRADES // len(values))[grade]
    shape = len(names), int(grade.max()) + 1
    tops, bottoms = np.zeros((2, *shape))
    np.add.at(tops, (of[top], grade[top]), 1.0)
    np.add.at(bottoms, (of[~top], grade[~top]), 1.0)
    below = np.cumsum(bottoms, axis=1) - 0.5 * bottoms
    pairs = np.outer(tops.sum(axis=1), bottoms.sum(axis=1))
    return _area_of_pairs(tops @ below.T, pairs, len(values))


def _area_of_pairs(
    won: FloatArray, pairs: FloatArray, n: int, confidence: float = 0.95
) -> Estimate:
    """The area from how many pairs there are between clusters and how many are won, [C, C] each."""

    def area(weights: FloatArray) -> FloatArray:
        count = ((weights @ pairs) * weights).sum(axis=-1)
        right = ((weights @ won) * weights).sum(axis=-1)
        # Without one of the classes nothing is told.
        return np.where(count > 0, right / np.where(count > 0, count, 1.0), NOTHING)

    # Each cluster has a 1 in a column of its own, so sums over a subset say which are in it.
    return estimate_of_sums(np.eye(len(pairs)), area, n=n, bounds=(0.0, 1.0), confidence=confidence)


def _order(above: ArrayLike, below: ArrayLike) -> FloatArray:
    """1 where the first is larger, a half for ties, [n, m]."""
    tops, bottoms = (np.asarray(scores, dtype=float) for scores in (above, below))
    if np.isnan(tops).any() or np.isnan(bottoms).any():
        raise InvalidParameterError("a score is NaN; leave out scores that are not known")
    return np.asarray((tops[:, None] > bottoms) + 0.5 * (tops[:, None] == bottoms))


# --- Calibration --------------------------------------------------------------------------------
BINS = 10


def confidence_bins(confidence: ArrayLike, bins: int = BINS) -> IntArray:
    """Return the bin of each confidence: [0, 1/bins), [1/bins, 2/bins), ..., the last closed."""
    # A last bin that is open, as published code has it, loses whoever is certain.
    return np.minimum(np.asarray(np.asarray(confidence) * bins, dtype=np.int64), bins - 1)


def calibration_sums(
    confidence: ArrayLike, correct: ArrayLike, cluster: IntArray, clusters: int, bins: int = BINS
) -> FloatArray:
    """Return sums of confidence minus correctness per bin, and counts: [clusters, bins + 1]."""
    sure, right = np.asarray(confidence, dtype=float), np.asarray(correct, dtype=float)
    cell = cluster * bins + confidence_bins(sure, bins)
    gaps = np.bincount(cell, sure - right, clusters * bins).reshape(clusters, bins)
    counts = np.bincount(cluster, minlength=clusters)
    return np.concatenate([gaps, counts[:, None]], axis=1)


def calibration_of_sums(sums: FloatArray) -> FloatArray:
    """Return the expected calibration error of `calibration_sums` [..., bins + 1]."""
    # The mean distance between confidence and the share of correct ones per bin, which is positive
    # in a finite sample even of a perfectly calibrated agent (Naeini, Cooper and Hauskrecht,
    # Obtaining well calibrated probabilities using Bayesian binning, 2015).
    return np.asarray(np.abs(sums[..., :-1]).sum(axis=-1) / sums[..., -1])


# --- Logistic regression ------------------------------------------------------------------------
# Source: McCullagh and Nelder, Generalized Linear Models (1989), chapter 4; Wilks, The large-sample
# distribution of the likelihood ratio (1938).


@dataclass(frozen=True, eq=False)
class LogisticModel:
    """log(p / (1 - p)) = intercept + features times weights, of standardised features."""

    intercept: float  # at the mean of all features
    weights: FloatArray  # of each standardised feature, [K]
    centre: FloatArray  # means that are taken off, [K]
    scale: FloatArray  # standard deviations that are divided by, [K]; 1 for a constant feature

    def log_likelihoods(self, features: ArrayLike, outcomes: ArrayLike) -> FloatArray:
        """Return the log-probability of each outcome, nats, [N]; features are [N, K]."""
        standard = (np.asarray(features, dtype=float) - self.centre) / self.scale
        signs = 2.0 * np.asarray(outcomes, dtype=float) - 1.0
        return -np.logaddexp(0.0, -signs * (self.intercept + standard @ self.weights))


def logistic_fit(features: ArrayLike, outcomes: ArrayLike, *, ridge: float = 1e-6) -> LogisticModel:
    """Fit a logistic model by Newton's method.

    Shapes: features [N, K]; outcomes [N], 0 or 1, of which both must occur.
    """
    table, target = np.asarray(features, dtype=float), np.asarray(outcomes, dtype=float)
    if set(np.unique(target)) != {0.0, 1.0}:
        raise InvalidParameterError("outcomes must be 0 and 1, both of them there")
    centre, scale = table.mean(axis=0), table.std(axis=0)
    # A constant tells nothing; divided by 1 it becomes 0 and keeps no weight.
    scale = np.where(scale > 0, scale, 1.0)
    design = np.column_stack([np.ones(len(table)), (table - centre) / scale])
    cost = np.diag([0.0, *np.full(table.shape[1], ridge)])
    signs = 2.0 * target - 1.0

    def height(at: FloatArray) -> float:
        return float(-np.logaddexp(0.0, -signs * (design @ at)).sum() - 0.5 * at @ cost @ at)

    at = np.zeros(design.shape[1])
    current = height(at)
    for _ in range(200):
        # exp overflows beyond 709; at 500 the share is 0 or 1 to the last digit.
        share = 1.0 / (1.0 + np.exp(-np.clip(design @ at, -500, 500)))
        slope = design.T @ (target - share) - cost @ at
        bend = (design.T * (share * (1 - share))) @ design + cost
        step = np.linalg.lstsq(bend, slope, rcond=None)[0]
        # A full Newton step may overshoot where the curve is flat, so it is halved until it climbs.
        length = 1.0
        while height(at + length * step) < current and length > 1e-8:
            length /= 2
        at = at + length * step
        before, current = current, height(at)
        if current - before < 1e-10:
            break
    return LogisticModel(float(at[0]), at[1:], centre, scale)


class AddedPredictors(NamedTuple):
    """What a logistic model gains by more predictors, on the sample it was fitted to."""

    statistic: float  # twice the gain in log-likelihood
    degrees_of_freedom: int  # predictors that were added
    p_value: float  # of the chi-square distribution


def added_predictors(features: ArrayLike, more: ArrayLike, outcomes: ArrayLike) -> AddedPredictors:
    """Test a logistic model with more predictors against one without: the likelihood-ratio test.

    Both models have the features [N, K], the larger one also has `more` [N, L]; outcomes [N], 0 or
    1, are independent given the features.
    """
    from scipy.stats import chi2

    small, extra = np.asarray(features, dtype=float), np.asarray(more, dtype=float)
    without, with_it = (
        float(logistic_fit(table, outcomes).log_likelihoods(table, outcomes).sum())
        for table in (small, np.column_stack([small, extra]))
    )
    # A ridge may leave the larger model a hair below the smaller one.
    statistic = max(2.0 * (with_it - without), 0.0)
    return AddedPredictors(statistic, extra.shape[1], float(chi2.sf(statistic, extra.shape[1])))
