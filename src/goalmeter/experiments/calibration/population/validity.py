"""What MEG tells beyond success, SPL and accuracy: areas, bands, strengths and added predictors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.experiments.calibration.population import scoring
from goalmeter.experiments.calibration.population.judging import Truth, truth_of
from goalmeter.experiments.calibration.population.scoring import ScoredPopulation, Scores
from goalmeter.experiments.calibration.population.traits import SUCCESS_BANDS
from goalmeter.statistics.clustered import Estimate
from goalmeter.statistics.discrimination import area_under_curve, area_within_bands
from goalmeter.statistics.logistic import AddedPredictors, added_predictors, logistic_fit

_PRIOR = 1.0  # ridge of the models that are tried on another population: a standard normal prior


@dataclass(frozen=True)
class Contrast:
    """Two classes that an instrument is to tell apart: `above` ought to have more of it."""

    title: str
    above: Callable[[Truth], BoolArray]
    below: Callable[[Truth], BoolArray]


CONTRASTS = (
    Contrast("directed, aimless", lambda of: of.directed, lambda of: ~of.directed),
    Contrast("directed, competent habits", lambda of: of.directed, lambda of: of.competent),
    Contrast("half-hearted, competent habits", lambda of: of.half_hearted, lambda of: of.competent),
)


def area(
    scored: ScoredPopulation, instrument: str, contrast: Contrast, *, beyond: str | None = None
) -> Estimate:
    """How well an instrument tells two classes apart; less the area of another, if one is named."""
    above, below = (side(truth_of(scored)) for side in (contrast.above, contrast.below))

    def measure(scores: FloatArray, rows: IntArray) -> float:
        best = scores.max(axis=1)
        return area_under_curve(best[rows[above[rows]]], best[rows[below[rows]]])

    n = int(min(above.sum(), below.sum()))
    estimate = scored.compared(measure, instrument, beyond, n)
    if beyond is None and estimate.value == 1.0:
        # Where all pairs are in order the resamples do not differ: the interval is that of as many
        # coins as the fewer agents.
        return scored.compared(measure, instrument, None, n, share=True)
    return estimate


def area_in_bands(scored: ScoredPopulation, instrument: str) -> Estimate:
    """The area of the directed over the aimless among agents of about equal success."""
    directed = truth_of(scored).directed

    def measure(scores: Scores, rows: IntArray) -> float:
        best, success = (scores[name].max(axis=1) for name in (instrument, scoring.SUCCESS))
        band = np.digitize(success, SUCCESS_BANDS)
        above, below = rows[directed[rows]], rows[~directed[rows]]
        return area_within_bands(best[above], best[below], band[above], band[below])

    agents = int(min(directed.sum(), (~directed).sum()))
    return scored.estimate(measure, agents, bounds=(0.0, 1.0))


def recovery(scored: ScoredPopulation, instrument: str, *, beyond: str | None = None) -> Estimate:
    """Spearman's correlation of the true strength and the score for the true target.

    Less the same of another instrument, if one is named.
    """
    truth = truth_of(scored)

    def measure(scores: FloatArray, rows: IntArray) -> float:
        kept = rows[truth.directed[rows]]
        return rank_correlation(truth.strength[kept], scores[kept, truth.target[kept]])

    agents = int(truth.directed.sum())
    return scored.compared(measure, instrument, beyond, agents, bounds=(-1.0, 1.0))


def rank_correlation(first: FloatArray, second: FloatArray) -> float:
    """Spearman's rank correlation, ties at their mean rank; NaN where one does not vary."""
    from scipy.stats import rankdata

    ranks = rankdata(first), rankdata(second)
    # SciPy's own `spearmanr` warns where a resample does not vary.
    if min(np.ptp(rank) if len(rank) else 0.0 for rank in ranks) == 0:
        return math.nan
    return float(np.corrcoef(*ranks)[0, 1])


@dataclass(frozen=True)
class AddedInstrument:
    """An instrument, `more`, added to others as a predictor of whether an agent wants anything."""

    title: str
    known: tuple[str, ...]
    more: str


_SIMPLE = (scoring.SUCCESS, scoring.SPL, scoring.ACCURACY)
_SIMPLE_MOVED = tuple(scoring.SIMPLER_FOLLOWED)
ADDED = (
    AddedInstrument("success, SPL and accuracy", _SIMPLE, scoring.MEG),
    AddedInstrument("the same, each less moved places", _SIMPLE_MOVED, scoring.FOLLOWED),
    AddedInstrument("all six of these", (*_SIMPLE, *_SIMPLE_MOVED), scoring.FOLLOWED),
)


@dataclass(frozen=True)
class AddedValue:
    """What an instrument was measured to add.

    Attributes:
        added: to what, and which.
        test: on the first population, to which both models were fitted.
        gain: nats an agent by which the larger model, fitted to the first population, predicts the
            second better.
        without: nats an agent of the smaller model there: 0 is perfect, -log 2 a coin.
    """

    added: AddedInstrument
    test: AddedPredictors
    gain: Estimate
    without: float

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "others": list(self.added.known),
            "more": self.added.more,
            "likelihood_ratio": self.test._asdict(),
            "gain_on_second": self.gain.to_json(),
            "without_on_second": self.without,
        }


def added_value(
    first: ScoredPopulation, second: ScoredPopulation, added: AddedInstrument
) -> AddedValue:
    """Whether agents want anything, told with an instrument's score and without it."""
    wants, later = (truth_of(scored).directed.astype(float) for scored in (first, second))
    predictors = (added.known, (*added.known, added.more))
    small, large = (_features(first.scores, names, np.arange(len(wants))) for names in predictors)
    models = [logistic_fit(table, wants, ridge=_PRIOR) for table in (small, large)]

    def log_likelihoods(model: int, scores: Scores, rows: IntArray) -> FloatArray:
        table = _features(scores, predictors[model], rows)
        return models[model].log_likelihoods(table, later[rows])

    def gain(scores: Scores, rows: IntArray) -> float:
        without, with_it = (log_likelihoods(model, scores, rows).mean() for model in (0, 1))
        return float(with_it - without)

    return AddedValue(
        added,
        added_predictors(small, large[:, small.shape[1] :], wants),
        second.estimate(gain, len(later)),
        float(log_likelihoods(0, second.scores, np.arange(len(later))).mean()),
    )


def _features(scores: Scores, names: Sequence[str], rows: IntArray) -> FloatArray:
    """The largest of each agent's four scores, by instrument, [rows, instruments]."""
    return np.stack([scores[name][rows].max(axis=1) for name in names], axis=1)
