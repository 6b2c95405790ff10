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
from goalmeter.experiments.calibration.population.scenes import TARGETS
from goalmeter.experiments.calibration.population.swap_test import (
    RESAMPLED_SWAPS,
    SWAPS,
    SwapTest,
    swap_test_of_evidence,
    swap_test_of_means,
)
from goalmeter.statistics.clustered import Estimate
from goalmeter.statistics.two_way import (
    TwoWayDraws,
    at_least_binomial,
    two_way_draws,
    two_way_interval,
)

# Of agents and grids; the scores of each are kept.
RESAMPLES = 300
# The swap test fits a rationality for each swap, and does with a quarter of those that are tried.
COARSER = 4

MEG, SUCCESS, SPL, ACCURACY = "meg", "success", "spl", "accuracy"
MEG_MOVED, SUCCESS_MOVED = "meg_moved", "success_moved"
SPL_MOVED, ACCURACY_MOVED = "spl_moved", "accuracy_moved"
MEG_SWAPPED, SUCCESS_SWAPPED = "meg_swapped", "success_swapped"
SPL_SWAPPED, ACCURACY_SWAPPED = "spl_swapped", "accuracy_swapped"

TITLES = {
    MEG: "MEG",
    SUCCESS: "success",
    SPL: "SPL",
    ACCURACY: "accuracy",
    MEG_MOVED: "MEG − moved",
    SUCCESS_MOVED: "success − moved",
    SPL_MOVED: "SPL − moved",
    ACCURACY_MOVED: "accuracy − moved",
    MEG_SWAPPED: "swap test of MEG",
    SUCCESS_SWAPPED: "swap test of success",
    SPL_SWAPPED: "swap test of SPL",
    ACCURACY_SWAPPED: "swap test of accuracy",
}
# Of walks as they are; of these less what moved targets have; and tests of that difference.
PLAIN = (MEG, SUCCESS, SPL, ACCURACY)
MOVED = (MEG_MOVED, SUCCESS_MOVED, SPL_MOVED, ACCURACY_MOVED)
TESTS = (MEG_SWAPPED, SUCCESS_SWAPPED, SPL_SWAPPED, ACCURACY_SWAPPED)
INSTRUMENTS = (*PLAIN, *MOVED, *TESTS)


def scores_of(
    evidence: PairEvidence, weights: FloatArray, names: Sequence[str], *, swaps: int = SWAPS
) -> Scores:
    """The scores of some instruments, over mazes with weights.

    The score of a test is 1 less its p-value for the target that is followed most, and 0 for the
    others.

    Args:
        evidence: of N pairs of scenes, arrays [N, A, ...].
        weights: of each pair, [N].
        names: of instruments.
        swaps: that are drawn for tests.
    """
    total = float(weights.sum())

    def mean(name: str) -> FloatArray:
        return np.asarray(np.tensordot(weights, getattr(evidence, name), axes=1) / total)

    out = {}
    for name in names:
        measure, _, kind = name.partition("_")
        if name == MEG:
            out[name] = shares(mean("whole"), mean("most"))
        elif name == MEG_MOVED:
            out[name] = followed(mean("cut_there"), mean("cut_moved"), mean("cut_most"))
        elif name == MEG_SWAPPED:
            # What is ruled out is no more evidence than all decisions can be.
            floor = -evidence.cut_most[..., None, None]
            there, moved = (
                np.maximum(curves[..., ::COARSER], floor)
                for curves in (evidence.cut_there, evidence.cut_moved)
            )
            out[name] = _of_test(swap_test_of_evidence(there, moved, weights, swaps=swaps))
        elif not kind:
            out[name] = mean(measure)
        elif name in MOVED:
            out[name] = mean(f"{measure}_there") - mean(f"{measure}_moved")
        else:
            there, moved = (getattr(evidence, f"{measure}_{at}") for at in ("there", "moved"))
            out[name] = _of_test(swap_test_of_means(there, moved, weights, swaps=swaps))
    return out


def shares(curves: FloatArray, most: FloatArray) -> FloatArray:
    """MEG as a share of its maximum: one rationality, 0 or above, for all walks of an agent.

    Args:
        curves: evidence at each rationality, [A, T, G].
        most: what every decision could give, [A].
    """
    return np.asarray(curves.max(axis=-1) / most[:, None])


def followed(there: FloatArray, moved: FloatArray, most: FloatArray) -> FloatArray:
    """By how much the targets explain more where they are than where they were, as a share.

    The rationality is that of MEG, fitted where the targets are.

    Args:
        there: evidence where the targets are, [A, T, G].
        moved: where they were, [A, T, G].
        most: what every decision could give, [A].
    """
    best = there.argmax(axis=-1)[..., None]
    here, elsewhere = (np.take_along_axis(c, best, axis=-1)[..., 0] for c in (there, moved))
    # What is ruled out where the places were is no more evidence than all decisions can be.
    elsewhere = np.maximum(elsewhere, -most[:, None])
    return np.asarray((here - elsewhere) / most[:, None])


def _of_test(test: SwapTest) -> FloatArray:
    out = np.zeros((len(test.p_value), len(TARGETS)))
    out[np.arange(len(out)), test.target] = 1.0 - test.p_value
    return out


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
        scores_of(evidence, np.ones(len(kept)), INSTRUMENTS),
        tuple(
            scores_of(evidence, weights, INSTRUMENTS, swaps=RESAMPLED_SWAPS)
            for weights in draws.columns
        ),
        draws,
    )
