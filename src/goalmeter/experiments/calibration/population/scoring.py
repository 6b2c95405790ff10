"""The instruments' numbers for each agent, over all grids together or over resampled ones.

Each instrument is a number for each target: how much the walks speak for it. An agent's score is
the largest of the four, and the target of the largest is the one that is named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from goalmeter._types import FloatArray, IntArray
from goalmeter.experiments.calibration.population import swap_test
from goalmeter.experiments.calibration.population.evidence import MEASURES, PairEvidence
from goalmeter.experiments.calibration.population.measuring import PopulationEvidence
from goalmeter.experiments.calibration.population.scenes import TARGETS
from goalmeter.statistics import two_way
from goalmeter.statistics.clustered import Estimate

# Of agents and grids; the scores of each are kept.
RESAMPLES = 300
# The swap test fits a rationality for each swap, and does with a quarter of those that are tried.
COARSER = 4

# Each measure of the walks as they are; less what moved targets have; and a test of that
# difference, which is recommended.
PLAIN = ("meg", *MEASURES)
MOVED = tuple(f"{name}_moved" for name in PLAIN)
TESTS = tuple(f"{name}_swapped" for name in PLAIN)
INSTRUMENTS = (*TESTS, *MOVED, *PLAIN)  # what is recommended comes first
MEG, SUCCESS, SPL, ACCURACY = PLAIN
FOLLOWED, *SIMPLER_FOLLOWED = MOVED
RECOMMENDED, *SIMPLER = TESTS

_WORDS = {MEG: "MEG", SUCCESS: "success", SPL: "SPL", ACCURACY: "accuracy"}
TITLES = (
    _WORDS
    | {f"{name}_moved": f"{words} − moved" for name, words in _WORDS.items()}
    | {f"{name}_swapped": f"swap test of {words}" for name, words in _WORDS.items()}
)

Scores = Mapping[str, FloatArray]  # of each of `INSTRUMENTS`, for every agent and target, [A, T]


def scores_of(
    evidence: PairEvidence,
    weights: FloatArray,
    names: Sequence[str],
    *,
    swaps: int = swap_test.SWAPS,
) -> Scores:
    """The scores of the named instruments, over mazes with weights.

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
            # One rationality, 0 or above, for all walks of an agent.
            out[name] = np.asarray(mean("whole").max(axis=-1) / mean("most")[:, None])
        elif name == FOLLOWED:
            out[name] = followed(mean("cut_there"), mean("cut_moved"), mean("cut_most"))
        elif name == RECOMMENDED:
            # What is ruled out is no more evidence than all decisions can be.
            floor = -evidence.cut_most[..., None, None]
            there, moved = (
                np.maximum(curves[..., ::COARSER], floor)
                for curves in (evidence.cut_there, evidence.cut_moved)
            )
            test = swap_test.swap_test_of_evidence(there, moved, weights, swaps=swaps)
            out[name] = _of_test(test)
        elif not kind:
            out[name] = mean(measure)
        elif name in MOVED:
            out[name] = mean(f"{measure}_there") - mean(f"{measure}_moved")
        else:
            there, moved = (getattr(evidence, f"{measure}_{at}") for at in ("there", "moved"))
            test = swap_test.swap_test_of_means(there, moved, weights, swaps=swaps)
            out[name] = _of_test(test)
    return out


def followed(there: FloatArray, moved: FloatArray, most: FloatArray) -> FloatArray:
    """By how much the targets explain more where they are than where they were, as a share.

    The rationality is that of MEG, fitted where the targets are.

    Args:
        there: evidence where the targets are, [A, T, G].
        moved: where they were, [A, T, G].
        most: what every decision could give, [A].
    """
    best = there.argmax(axis=-1)[..., None]
    in_place, elsewhere = (np.take_along_axis(c, best, axis=-1)[..., 0] for c in (there, moved))
    # What is ruled out where the places were is no more evidence than all decisions can be.
    elsewhere = np.maximum(elsewhere, -most[:, None])
    return np.asarray((in_place - elsewhere) / most[:, None])


def _of_test(test: swap_test.SwapTest) -> FloatArray:
    out = np.zeros((len(test.p_value), len(TARGETS)))
    out[np.arange(len(out)), test.target] = 1.0 - test.p_value
    return out


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
    draws: two_way.TwoWayDraws

    def estimate(
        self,
        measure: Callable[[Scores, IntArray], float],
        n: int,
        *,
        bounds: tuple[float, float] = (-np.inf, np.inf),
        share: bool = False,
    ) -> Estimate:
        """A number with the interval of resampled agents in resampled grids.

        Args:
            measure: of scores and the numbers of the agents that are asked.
            n: agents behind it.
            bounds: least and greatest possible value.
            share: whether it is a share of n agents, which is never surer than n coins are.
        """
        simulated = np.arange(len(self.population.traits))
        value = measure(self.scores, simulated)
        replicates = [
            measure(scores, rows)
            for scores, rows in zip(self.resampled, self.draws.rows, strict=True)
        ]
        interval = two_way.two_way_interval(value, replicates, self.draws.freedom, bounds=bounds)
        if share:
            interval = two_way.at_least_binomial(interval, value, n)
        return Estimate(value, interval, n, len(self.population.pairs))

    def compared(
        self,
        measure: Callable[[FloatArray, IntArray], float],
        instrument: str,
        beyond: str | None,
        n: int,
        *,
        bounds: tuple[float, float] = (0.0, 1.0),
        share: bool = False,
    ) -> Estimate:
        """As `estimate`, of an instrument's scores, less the same of the instrument `beyond`."""
        low, high = bounds
        ends = bounds if beyond is None else (low - high, high - low)

        def difference(scores: Scores, rows: IntArray) -> float:
            value = measure(scores[instrument], rows)
            return value if beyond is None else value - measure(scores[beyond], rows)

        return self.estimate(difference, n, bounds=ends, share=share)

    def above(self, thresholds: Sequence[Mapping[str, float]]) -> ScoredPopulation:
        """Scores less their thresholds: of all grids less the first, of resamples less the others.

        An interval of what is above a threshold then includes the choice of the threshold.
        """
        scores, *resampled = (
            {name: scores[name] - limits[name] for name in limits}
            for scores, limits in zip((self.scores, *self.resampled), thresholds, strict=True)
        )
        return replace(self, scores=scores, resampled=tuple(resampled))


def scored(population: PopulationEvidence, *, seed: int = 0) -> ScoredPopulation:
    """Score a population, over all its grids and over resampled ones, drawn by a seed."""
    evidence, grids = population.evidence, len(population.pairs)
    kinds: dict[tuple[int, float], int] = {}
    strata = [kinds.setdefault(pair[:2], len(kinds)) for pair in population.pairs]
    agents = len(population.traits)
    draws = two_way.two_way_draws(agents, grids, strata=strata, resamples=RESAMPLES, seed=seed)
    fewer = swap_test.RESAMPLED_SWAPS
    return ScoredPopulation(
        population,
        scores_of(evidence, np.ones(grids), INSTRUMENTS),
        tuple(scores_of(evidence, w, INSTRUMENTS, swaps=fewer) for w in draws.columns),
        draws,
    )
