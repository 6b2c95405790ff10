"""The instruments' numbers for each agent, over all grids together or over resampled ones.

Each instrument is a number for each target: how much the walks speak for it. An agent's score is
the largest of the four, and the target of the largest is the one that is named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from goalmeter._types import FloatArray, IntArray
from goalmeter.experiments.calibration.population.evidence import PairEvidence
from goalmeter.experiments.calibration.population.measuring import PopulationEvidence
from goalmeter.statistics.clustered import Estimate
from goalmeter.statistics.two_way import (
    TwoWayDraws,
    at_least_binomial,
    two_way_draws,
    two_way_interval,
)

# Of agents and grids; the scores of each are kept.
RESAMPLES = 400

MEG, SUCCESS, SPL, ACCURACY = "meg", "success", "spl", "accuracy"
MEG_MOVED, SUCCESS_MOVED = "meg_moved", "success_moved"
SPL_MOVED, ACCURACY_MOVED = "spl_moved", "accuracy_moved"


@dataclass(frozen=True)
class PopulationInstrument:
    """A number for each agent and target.

    Attributes:
        title: in tables.
        of: from evidence that is added up over grids to numbers, [A, T].
        moved: whether it asks what becomes of the behaviour when a place is moved.
    """

    title: str
    of: Callable[[PairEvidence], FloatArray]
    moved: bool = False


def pooled(evidence: PairEvidence, weights: FloatArray) -> PairEvidence:
    """Evidence of N pairs added up with weights [N]; success, SPL and accuracy are means."""
    total = float(weights.sum())
    out = {}
    for name, values in vars(evidence).items():
        added = np.tensordot(weights, values, axes=1)
        nats = name in ("whole", "moved", "most")
        out[name] = added if nats else added / total
    return PairEvidence(**out)


def shares(curves: FloatArray, most: FloatArray) -> FloatArray:
    """MEG as a share of its maximum: one rationality, 0 or above, for all walks of an agent.

    Args:
        curves: evidence at each rationality, [A, T, G].
        most: what every decision could give, [A].
    """
    return np.asarray(curves.max(axis=-1) / most[:, None])


def followed(evidence: PairEvidence) -> FloatArray:
    """By how much the targets explain more where they are than where they were, as a share.

    The rationality is that of MEG, fitted where the targets are.
    """
    best = evidence.whole.argmax(axis=-1)[..., None]
    there, elsewhere = (
        np.take_along_axis(curves, best, axis=-1)[..., 0]
        for curves in (evidence.whole, evidence.moved)
    )
    # What is ruled out where the places were is no more evidence than all decisions can be.
    elsewhere = np.maximum(elsewhere, -evidence.most[:, None])
    return np.asarray((there - elsewhere) / evidence.most[:, None])


def _whole(evidence: PairEvidence) -> FloatArray:
    return shares(evidence.whole, evidence.most)


INSTRUMENTS = {
    MEG: PopulationInstrument("MEG", _whole),
    SUCCESS: PopulationInstrument("success", lambda of: of.success),
    SPL: PopulationInstrument("SPL", lambda of: of.spl),
    ACCURACY: PopulationInstrument("accuracy", lambda of: of.accuracy),
    MEG_MOVED: PopulationInstrument("MEG − moved", followed, moved=True),
    SUCCESS_MOVED: PopulationInstrument(
        "success − moved", lambda of: of.success - of.success_moved, moved=True
    ),
    SPL_MOVED: PopulationInstrument("SPL − moved", lambda of: of.spl - of.spl_moved, moved=True),
    ACCURACY_MOVED: PopulationInstrument(
        "accuracy − moved", lambda of: of.accuracy - of.accuracy_moved, moved=True
    ),
}

Scores = Mapping[str, FloatArray]  # of each of `INSTRUMENTS`, for every agent and target, [A, T]


@dataclass(frozen=True, eq=False)
class ScoredPopulation:
    """The scores of a population, and those that it would have in resampled grids.

    Attributes:
        population: who and where.
        scores: over all grids.
        resampled: in each resample of the grids, R of them.
        draws: which agents and grids are in each resample.
    """

    population: PopulationEvidence
    scores: Scores
    resampled: tuple[Scores, ...]
    draws: TwoWayDraws

    def estimate(
        self, measure: Callable[[Scores, IntArray], float], n: int, *, share: bool = False
    ) -> Estimate:
        """A number with the interval of resampled agents in resampled grids.

        Args:
            measure: of scores and the numbers of the agents that are asked.
            n: agents behind it.
            share: whether it is a share of n agents, which is never surer than n coins are.
        """
        simulated = np.arange(len(self.population.traits))
        value = measure(self.scores, simulated)
        replicates = [
            measure(scores, rows)
            for scores, rows in zip(self.resampled, self.draws.rows, strict=True)
        ]
        interval = two_way_interval(value, replicates, self.draws.freedom)
        if share:
            interval = at_least_binomial(interval, value, n)
        return Estimate(value, interval, n, len(self.population.pairs))


def scored(
    population: PopulationEvidence,
    *,
    pairs: Sequence[int] | None = None,
    resamples: int = RESAMPLES,
) -> ScoredPopulation:
    """Score a population, over all its grids and over resampled ones.

    Args:
        population: what its walks say.
        pairs: numbers of the pairs of scenes that are used; None for all.
        resamples: of agents and grids.
    """
    kept = list(range(len(population.pairs)) if pairs is None else pairs)
    evidence = PairEvidence(**{n: v[kept] for n, v in vars(population.evidence).items()})
    used = replace(population, pairs=tuple(population.pairs[i] for i in kept), evidence=evidence)
    kinds: dict[tuple[int, float], int] = {}
    strata = [kinds.setdefault(pair[:2], len(kinds)) for pair in used.pairs]
    draws = two_way_draws(len(used.traits), len(kept), strata=strata, resamples=resamples)
    return ScoredPopulation(
        used,
        _scores(evidence, np.ones(len(kept))),
        tuple(_scores(evidence, weights) for weights in draws.columns),
        draws,
    )


def _scores(evidence: PairEvidence, weights: FloatArray) -> Scores:
    total = pooled(evidence, weights)
    return {name: instrument.of(total) for name, instrument in INSTRUMENTS.items()}
