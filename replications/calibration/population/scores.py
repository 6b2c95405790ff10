"""Score agents with each instrument; choose thresholds and estimate error rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from goalmeter.statistics import Estimate, clusters, estimate
from replications.calibration.population import traits
from replications.calibration.population.evidence import (
    MEASURES,
    PairEvidence,
    PopulationEvidence,
)
from replications.calibration.population.traits import NONE, TARGETS, Traits
from replications.kinds import BoolArray, FloatArray, IntArray

# --- Swap test ------------------------------------------------------------------------------------
# Each maze is shown with two sets of places. Whoever knows of no target walks by the same law in
# both, up to the first visit to either goal, whatever the habit. So for such an agent the two
# sets might as well be swapped, in any of the mazes, and what is measured is as likely to come
# out with the sets as they are as with any swaps. The p-value is the rank of the former among the
# latter: at a level of 2% no more than 2% of all agents that know of no target raise a false
# alarm, in whatever mazes and without a threshold that was tuned on anybody.
#
# Source: Fisher, The Design of Experiments (1935), section 21; for swaps that are drawn at random,
# Hemerik and Goeman, Exact testing with random permutations (2018): the set as it is counts among
# them.

# Swaps that are drawn, beside the sets as they are; the least p-value is 1 / 400.
SWAPS = 399
# In resamples, where it is asked many times, fewer are enough.
RESAMPLED_SWAPS = 99
_AT_ONCE = 25  # swaps whose sums are held in memory
# An agent is said to want something where its p-value is at most this.
LEVEL = 0.02
# Sums in another order differ by rounding, which is no order.
_TIE = 1e-9


class SwapTest(NamedTuple):
    """The outcome for each of A agents."""

    p_value: FloatArray  # of all targets together, [A]
    target: IntArray  # number of the target that is followed most, [A]


def swap_test_of_evidence(
    there: FloatArray, moved: FloatArray, weights: FloatArray, *, swaps: int = SWAPS
) -> SwapTest:
    """The test of MEG: how much more a target explains where it is than where it was.

    The rationality is fitted anew, for each swap, to the evidence for where the targets are then.
    The largest difference among the targets is compared, so that four of them are one test.

    Args:
        there: evidence where the targets are, nats, [N, A, T, G] for N mazes and G rationalities.
        moved: where they were in the other showing, [N, A, T, G].
        weights: of each maze, [N].
        swaps: how many are drawn.
    """
    mazes, *shape = there.shape
    level = (weights @ ((there + moved) / 2).reshape(mazes, -1)).reshape(shape)
    halves = ((there - moved) / 2).reshape(mazes, -1)
    signs = swap_signs(mazes, swaps) * weights
    parts = []
    for begin in range(0, len(signs), _AT_ONCE):
        half = (signs[begin : begin + _AT_ONCE] @ halves).reshape(-1, *shape)
        best = (level + half).argmax(axis=-1)[..., None]
        parts.append(2 * np.take_along_axis(half, best, axis=-1)[..., 0])
    return _ranked(np.concatenate(parts))


def swap_test_of_means(
    there: FloatArray, moved: FloatArray, weights: FloatArray, *, swaps: int = SWAPS
) -> SwapTest:
    """The same of any measure: its mean where the targets are less that where they were.

    Args:
        there: the measure, [N, A, T].
        moved: for where the targets were, [N, A, T].
        weights: of each maze, [N].
        swaps: how many are drawn.
    """
    signs = swap_signs(len(weights), swaps) * weights
    return _ranked(np.tensordot(signs, there - moved, axes=1))


def swap_signs(mazes: int, swaps: int) -> FloatArray:
    """Whether the sets of each maze are as they are, 1, or swapped, −1: [1 + swaps, mazes]."""
    # The same swaps for as many mazes, whoever is tested: agents differ by their walks alone.
    drawn = np.random.default_rng(mazes).choice([-1.0, 1.0], size=(swaps, mazes))
    return np.vstack([np.ones(mazes), drawn])


def _ranked(statistic: FloatArray) -> SwapTest:
    """The rank of the first row, which is without swaps, by the largest of the targets."""
    largest = statistic.max(axis=-1)
    as_high = (largest[1:] >= largest[0] - _TIE * (1.0 + np.abs(largest[0]))).sum(axis=0)
    return SwapTest((1 + as_high) / len(statistic), statistic[0].argmax(axis=-1))


# --- Scoring --------------------------------------------------------------------------------------
# Each instrument is a number for each target: how much the walks speak for it. An agent's score is
# the largest of the four, and the target of the largest is the one that is named.

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
    swaps: int = SWAPS,
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
            test = swap_test_of_evidence(there, moved, weights, swaps=swaps)
            out[name] = _of_test(test)
        elif not kind:
            out[name] = mean(measure)
        elif name in MOVED:
            out[name] = mean(f"{measure}_there") - mean(f"{measure}_moved")
        else:
            there, moved = (getattr(evidence, f"{measure}_{at}") for at in ("there", "moved"))
            test = swap_test_of_means(there, moved, weights, swaps=swaps)
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


def _of_test(test: SwapTest) -> FloatArray:
    out = np.zeros((len(test.p_value), len(TARGETS)))
    out[np.arange(len(out)), test.target] = 1.0 - test.p_value
    return out


@dataclass(frozen=True, eq=False)
class ScoredPopulation:
    """The scores of a population, and those that it would have in resampled grids."""

    population: PopulationEvidence  # who and where
    scores: Scores  # over all grids
    resampled: tuple[Scores, ...]  # in each resample of the grids, R of them
    draws: clusters.TwoWayDraws  # which agents and grids are in each resample

    def estimate(
        self,
        measure: Callable[[Scores, IntArray], float],
        n: int,
        *,
        bounds: tuple[float, float] = (-np.inf, np.inf),
        share: bool = False,
    ) -> Estimate:
        """A number with the interval of resampled agents in resampled grids."""
        simulated = np.arange(len(self.population.traits))
        value = measure(self.scores, simulated)
        replicates = [
            measure(scores, rows)
            for scores, rows in zip(self.resampled, self.draws.rows, strict=True)
        ]
        interval = clusters.two_way_interval(value, replicates, self.draws.freedom, bounds=bounds)
        if share:
            interval = clusters.at_least_binomial(interval, value, n)
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
    draws = clusters.two_way_draws(agents, grids, strata=strata, resamples=RESAMPLES, seed=seed)
    fewer = RESAMPLED_SWAPS
    return ScoredPopulation(
        population,
        scores_of(evidence, np.ones(grids), INSTRUMENTS),
        tuple(scores_of(evidence, w, INSTRUMENTS, swaps=fewer) for w in draws.columns),
        draws,
    )


# --- Judging --------------------------------------------------------------------------------------
# A threshold is chosen on one population and tried on another one, of other agents in other grids.
# Intervals include that choice: in each resample it is made anew. What is above a threshold is
# positive in the scores of `ScoredPopulation.above`.

# Thresholds are rounded up to a thousandth.
_FINENESS = 1000
# The score of a test is 1 less its p-value. It says so where p is at most its level, equality
# included, which a threshold that scores have to be *above* meets only if it lies a little lower.
AT_LEVEL = 1.0 - LEVEL - 1e-9


@dataclass(frozen=True)
class Truth:
    """What is known of A simulated agents, as columns."""

    traits: tuple[Traits, ...]

    @cached_property
    def directed(self) -> BoolArray:
        """Whether each wants something, [A]."""
        return self.where(lambda agent: agent.directed)

    @cached_property
    def target(self) -> IntArray:
        """The number of its target among `TARGETS`; -1 for none, [A]."""
        numbers = {target: number for number, target in enumerate(TARGETS)} | {NONE: -1}
        return np.array([numbers[agent.target] for agent in self.traits])

    @cached_property
    def strength(self) -> FloatArray:
        """How strongly, [A]."""
        return np.array([agent.strength for agent in self.traits])

    @cached_property
    def competent(self) -> BoolArray:
        """Whether it is aimless with a competent habit, [A]."""
        return ~self.directed & self.where(lambda agent: agent.habit in traits.COMPETENT_HABITS)

    @cached_property
    def half_hearted(self) -> BoolArray:
        """Whether its goal is a half-hearted one, [A]."""
        return self.directed & self._from(traits.HALF_HEARTED) & ~self._from(traits.MEDIUM)

    @cached_property
    def at_least_medium(self) -> BoolArray:
        """Whether its goal is of at least medium strength, [A]."""
        return self.directed & self._from(traits.MEDIUM)

    def of_class(self, title: str) -> BoolArray:
        """Whether it is counted in the class of that title, [A]."""
        return self.where(lambda agent: traits.class_of(agent).title == title)

    def where(self, rule: Callable[[Traits], bool]) -> BoolArray:
        """Whether each meets a rule, [A]."""
        return np.array([rule(agent) for agent in self.traits])

    def _from(self, strength: float) -> BoolArray:
        return np.asarray(self.strength >= strength)


def truth_of(scored: ScoredPopulation) -> Truth:
    """What is known of the simulated agents of a population."""
    return Truth(scored.population.traits)


def threshold(scores: FloatArray, truth: Truth, rows: IntArray | None = None) -> float:
    """The least threshold that keeps false alarms to `traits.CHOSEN_FALSE_ALARMS`, rounded up.

    Both of all aimless agents and of the competent habits among them.

    Args:
        scores: the largest of each agent's four, [..., A]; further axes are further samples.
        truth: of the A agents.
        rows: numbers of those that are in a resample; None for all.
    """
    drawn = np.arange(len(truth.traits)) if rows is None else rows
    least = -math.inf
    for mask in (~truth.directed, truth.competent):
        alarmed = np.sort(scores[..., drawn[mask[drawn]]].reshape(-1))[::-1]
        allowed = int(traits.CHOSEN_FALSE_ALARMS * len(alarmed))
        if allowed < len(alarmed):
            least = max(least, float(alarmed[allowed]))
    return math.ceil(least * _FINENESS) / _FINENESS


def thresholds(first: ScoredPopulation) -> list[dict[str, float]]:
    """The threshold of every instrument: of a test its level, else chosen on a population.

    The first are chosen on the population as it is, the others on each resample of it.
    """
    truth = truth_of(first)
    everybody = np.arange(len(truth.traits))
    return [
        dict.fromkeys(TESTS, AT_LEVEL)
        | {name: threshold(scores[name].max(axis=1), truth, rows) for name in (*PLAIN, *MOVED)}
        for scores, rows in zip(
            (first.scores, *first.resampled), (everybody, *first.draws.rows), strict=True
        )
    ]


def detected(
    above: ScoredPopulation, instrument: str, mask: BoolArray, *, beyond: str | None = None
) -> Estimate:
    """The share of the agents of a mask [A] that an instrument says want something.

    Less the same of the instrument `beyond`.
    """

    def share(scores: FloatArray, rows: IntArray) -> float:
        return _mean(scores[rows[mask[rows]]].max(axis=1) > 0)

    return above.compared(share, instrument, beyond, int(mask.sum()), share=beyond is None)


def named_rightly(above: ScoredPopulation, instrument: str, mask: BoolArray) -> Estimate:
    """The share of the agents of a mask [A] of which it gives the right one of five answers."""
    target = truth_of(above).target

    def share(scores: FloatArray, rows: IntArray) -> float:
        kept = rows[mask[rows]]
        return _mean(answers(scores[kept], 0.0) == target[kept])

    return above.compared(share, instrument, None, int(mask.sum()), share=True)


def answers(scores: FloatArray, limit: float) -> IntArray:
    """The number of the target that is named, -1 for none: [A] of [A, T]."""
    return np.where(scores.max(axis=1) > limit, scores.argmax(axis=1), -1)


def confusion(above: ScoredPopulation, instrument: str) -> IntArray:
    """How many agents that want each of five are said to want each: [wanted, named]; none last."""
    truth = truth_of(above)
    named = answers(above.scores[instrument][: len(truth.traits)], 0.0)
    counts = np.zeros((len(TARGETS) + 1, len(TARGETS) + 1), dtype=np.int64)
    np.add.at(counts, (truth.target, named), 1)  # -1, for none, is the last row and column
    return counts


def _mean(hits: BoolArray) -> float:
    """The share of hits; NaN where a resample has lost all agents of a kind."""
    return float(hits.mean()) if hits.size else math.nan


# --- What it costs to be sure: rates by the number of mazes that are pooled ----------------------


@dataclass(frozen=True)
class Cost:
    """The rates on the second population if so many mazes are pooled for each agent."""

    pairs: int  # mazes, each shown with two sets of places
    steps: float  # mean number of steps of an agent in them
    threshold: float  # chosen on the first population for so many mazes; of a test, of its level
    false_alarms: Estimate  # of all aimless agents
    half_hearted: Estimate  # the share of them that is detected
    named: Estimate  # the share of agents of at least medium strength whose target is named rightly

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        rates = ("false_alarms", "half_hearted", "named")
        return vars(self) | {name: getattr(self, name).to_json() for name in rates}


def cost(
    first: PopulationEvidence, second: PopulationEvidence, instrument: str, pairs: int
) -> Cost:
    """The rates of an instrument with fewer mazes, averaged over groups of so many."""
    limit = AT_LEVEL
    if instrument not in TESTS:
        limit = threshold(_in_groups(first, instrument, pairs).max(axis=-1), Truth(first.traits))
    truth = Truth(second.traits)
    scores = _in_groups(second, instrument, pairs)
    alarms = scores.max(axis=-1) > limit
    right = np.stack([answers(group, limit) for group in scores]) == truth.target

    def rate(hits: BoolArray, mask: BoolArray) -> Estimate:
        # Agents are resampled, not grids: with one maze an agent there is nothing else to resample.
        return estimate(hits[:, mask].mean(axis=0), bounds=(0.0, 1.0))

    # A decision can give log 4 nats at most, so this counts decisions.
    steps = float(second.evidence.most[:, : len(truth.traits)].mean() / np.log(4.0)) * pairs
    return Cost(
        pairs,
        steps,
        limit,
        rate(alarms, ~truth.directed),
        rate(alarms, truth.half_hearted),
        rate(right, truth.at_least_medium),
    )


def _in_groups(population: PopulationEvidence, instrument: str, pairs: int) -> FloatArray:
    """The scores of simulated agents in each group of mazes, [groups, A, T]."""
    kinds = len({pair[:2] for pair in population.pairs})
    # Neighbours in this order are of different kinds.
    order = np.arange(len(population.pairs)).reshape(kinds, -1).T.reshape(-1)
    groups = []
    for begin in range(0, len(order) - pairs + 1, pairs):
        weights = np.zeros(len(order))
        weights[order[begin : begin + pairs]] = 1.0
        scores = scores_of(population.evidence, weights, [instrument])
        groups.append(scores[instrument][: len(population.traits)])
    return np.stack(groups)
