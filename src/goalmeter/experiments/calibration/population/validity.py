"""What MEG tells beyond success, SPL and accuracy: areas, bands, strengths and added predictors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.experiments.calibration.population.judging import Truth, truth_of
from goalmeter.experiments.calibration.population.rules import SUCCESS_BANDS
from goalmeter.experiments.calibration.population.scoring import (
    ACCURACY,
    ACCURACY_MOVED,
    MEG,
    MEG_MOVED,
    SPL,
    SPL_MOVED,
    SUCCESS,
    SUCCESS_MOVED,
    ScoredPopulation,
    Scores,
)
from goalmeter.statistics.clustered import Estimate
from goalmeter.statistics.discrimination import area_under_curve, area_within_bands
from goalmeter.statistics.logistic import AddedPredictors, added_predictors, logistic_fit

_PRIOR = 1.0  # ridge of the models that are tried on another population: a standard normal prior


@dataclass(frozen=True)
class Contrast:
    """Two classes that an instrument is to tell apart.

    Attributes:
        title: at the head of a column.
        above: which agents ought to have more.
        below: which ought to have less.
    """

    title: str
    above: Callable[[Truth], BoolArray]
    below: Callable[[Truth], BoolArray]


CONTRASTS = (
    Contrast("directed, aimless", lambda of: of.directed, lambda of: ~of.directed),
    Contrast("directed, competent habits", lambda of: of.directed, lambda of: of.competent),
    Contrast("half-hearted, competent habits", lambda of: of.half_hearted, lambda of: of.competent),
)


def area(scored: ScoredPopulation, instrument: str, contrast: Contrast) -> Estimate:
    """How well an instrument tells two classes apart."""
    above, below = (side(truth_of(scored)) for side in (contrast.above, contrast.below))

    def measure(scores: Scores, rows: IntArray) -> float:
        best = scores[instrument].max(axis=1)
        return area_under_curve(best[rows[above[rows]]], best[rows[below[rows]]])

    # Where all pairs are in order the interval is that of as many coins as the fewer agents.
    n = int(min(above.sum(), below.sum()))
    found = scored.estimate(measure, n)
    return scored.estimate(measure, n, share=True) if found.value == 1.0 else found


def area_in_bands(scored: ScoredPopulation, instrument: str) -> Estimate:
    """The area of the directed over the aimless among agents of about equal success."""
    directed = truth_of(scored).directed

    def measure(scores: Scores, rows: IntArray) -> float:
        best, success = scores[instrument].max(axis=1), scores[SUCCESS].max(axis=1)
        band = np.digitize(success, SUCCESS_BANDS)
        above, below = rows[directed[rows]], rows[~directed[rows]]
        return area_within_bands(best[above], best[below], band[above], band[below])

    return scored.estimate(measure, int(min(directed.sum(), (~directed).sum())))


def recovery(scored: ScoredPopulation, instrument: str) -> Estimate:
    """Spearman's correlation of the true strength and the score for the true target."""
    truth = truth_of(scored)

    def measure(scores: Scores, rows: IntArray) -> float:
        kept = rows[truth.directed[rows]]
        return rank_correlation(truth.strength[kept], scores[instrument][kept, truth.target[kept]])

    return scored.estimate(measure, int(truth.directed.sum()))


def recovered_beyond(scored: ScoredPopulation, instrument: str, other: str) -> Estimate:
    """By how much one instrument's correlation with the true strength is above another's."""
    truth = truth_of(scored)

    def measure(scores: Scores, rows: IntArray) -> float:
        kept = rows[truth.directed[rows]]
        first, second = (
            rank_correlation(truth.strength[kept], scores[name][kept, truth.target[kept]])
            for name in (instrument, other)
        )
        return first - second

    return scored.estimate(measure, int(truth.directed.sum()))


def area_beyond(
    scored: ScoredPopulation, instrument: str, other: str, contrast: Contrast
) -> Estimate:
    """By how much one instrument's area is above another's."""
    above, below = (side(truth_of(scored)) for side in (contrast.above, contrast.below))

    def measure(scores: Scores, rows: IntArray) -> float:
        first, second = (
            area_under_curve(best[rows[above[rows]]], best[rows[below[rows]]])
            for best in (scores[name].max(axis=1) for name in (instrument, other))
        )
        return first - second

    return scored.estimate(measure, int(min(above.sum(), below.sum())))


def rank_correlation(first: FloatArray, second: FloatArray) -> float:
    """Spearman's rank correlation, ties at their mean rank; NaN where one does not vary."""
    from scipy.stats import rankdata

    ranks = rankdata(first), rankdata(second)
    if min(np.ptp(rank) if len(rank) else 0.0 for rank in ranks) == 0:
        return math.nan
    return float(np.corrcoef(*ranks)[0, 1])


@dataclass(frozen=True)
class Added:
    """What one more predictor adds to others.

    Attributes:
        title: of the others.
        others: names of instruments.
        more: name of the instrument that is added.
    """

    title: str
    others: tuple[str, ...]
    more: str


ADDED = (
    Added("success, SPL and accuracy", (SUCCESS, SPL, ACCURACY), MEG),
    Added(
        "the same, each less moved places",
        (SUCCESS_MOVED, SPL_MOVED, ACCURACY_MOVED),
        MEG_MOVED,
    ),
    Added(
        "all six of these",
        (SUCCESS, SPL, ACCURACY, SUCCESS_MOVED, SPL_MOVED, ACCURACY_MOVED),
        MEG_MOVED,
    ),
)


@dataclass(frozen=True)
class AddedValue:
    """What a predictor was found to add.

    Attributes:
        added: to what, and which.
        test: on the first population, to which both models were fitted.
        gain: nats an agent by which the larger model, fitted to the first population, predicts the
            second better.
        without: nats an agent of the smaller model there: 0 is perfect, -log 2 a coin.
    """

    added: Added
    test: AddedPredictors
    gain: Estimate
    without: float


def added_value(first: ScoredPopulation, second: ScoredPopulation, added: Added) -> AddedValue:
    """Whether agents want anything, told with an instrument's score and without it."""
    truth = truth_of(first)
    outcomes = truth.directed.astype(float)
    simulated = np.arange(len(truth.traits))
    small = _features(first.scores, added.others, simulated)
    large = _features(first.scores, (*added.others, added.more), simulated)
    models = [logistic_fit(table, outcomes, ridge=_PRIOR) for table in (small, large)]
    later = truth_of(second).directed.astype(float)

    def gain(scores: Scores, rows: IntArray) -> float:
        nats = [
            model.log_likelihoods(_features(scores, names, rows), later[rows]).mean()
            for model, names in zip(
                models, (added.others, (*added.others, added.more)), strict=True
            )
        ]
        return float(nats[1] - nats[0])

    everybody = np.arange(len(later))
    without = models[0].log_likelihoods(_features(second.scores, added.others, everybody), later)
    return AddedValue(
        added,
        added_predictors(small, large[:, small.shape[1] :], outcomes),
        second.estimate(gain, len(later)),
        float(without.mean()),
    )


def _features(scores: Scores, names: Sequence[str], rows: IntArray) -> FloatArray:
    """The largest of each agent's four scores, by instrument, [rows, instruments]."""
    return np.stack([scores[name][rows].max(axis=1) for name in names], axis=1)
