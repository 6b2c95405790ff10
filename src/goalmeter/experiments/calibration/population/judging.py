"""Thresholds and error rates: who is said to want something, and what, and in how many mazes.

A threshold is chosen on one population and tried on another one, of other agents in other grids.
Intervals include that choice: in each resample it is made anew. What is above a threshold is
positive in the scores of `ScoredPopulation.above`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.experiments.calibration.population import scoring, traits
from goalmeter.experiments.calibration.population.measuring import PopulationEvidence
from goalmeter.experiments.calibration.population.scenes import NONE, TARGETS
from goalmeter.experiments.calibration.population.scoring import ScoredPopulation
from goalmeter.experiments.calibration.population.swap_test import LEVEL
from goalmeter.experiments.calibration.population.traits import Traits
from goalmeter.statistics.clustered import Estimate, estimate

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
        dict.fromkeys(scoring.TESTS, AT_LEVEL)
        | {
            name: threshold(scores[name].max(axis=1), truth, rows)
            for name in (*scoring.PLAIN, *scoring.MOVED)
        }
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
    """The rates on the second population if so many mazes are pooled for each agent.

    Attributes:
        pairs: mazes, each shown with two sets of places.
        steps: mean number of steps of an agent in them.
        threshold: chosen on the first population for so many mazes; of a test, of its level.
        false_alarms: of all aimless agents.
        half_hearted: the share of them that is detected.
        named: the share of agents of at least medium strength whose target is named rightly.
    """

    pairs: int
    steps: float
    threshold: float
    false_alarms: Estimate
    half_hearted: Estimate
    named: Estimate

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        rates = ("false_alarms", "half_hearted", "named")
        return vars(self) | {name: getattr(self, name).to_json() for name in rates}


def cost(
    first: PopulationEvidence, second: PopulationEvidence, instrument: str, pairs: int
) -> Cost:
    """The rates of an instrument with fewer mazes, averaged over groups of so many.

    Args:
        first: on which the threshold is chosen.
        second: on which it is tried.
        instrument: its name.
        pairs: mazes in a group; groups are of different mazes, as mixed as they can be.
    """
    limit = AT_LEVEL
    if instrument not in scoring.TESTS:
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
        scores = scoring.scores_of(population.evidence, weights, [instrument])
        groups.append(scores[instrument][: len(population.traits)])
    return np.stack(groups)
