"""Thresholds and error rates: who is said to want something, and what.

A threshold is chosen on one population and tried on another one, of other agents in other grids.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.experiments.calibration.population.rules import (
    CHOSEN_FALSE_ALARMS,
    COMPETENT_HABITS,
    HALF_HEARTED,
    MEDIUM,
    class_of,
)
from goalmeter.experiments.calibration.population.scenes import NONE, TARGETS
from goalmeter.experiments.calibration.population.scoring import (
    MOVED,
    PLAIN,
    TESTS,
    ScoredPopulation,
    Scores,
)
from goalmeter.experiments.calibration.population.swap_test import LEVEL
from goalmeter.experiments.calibration.population.traits import Traits
from goalmeter.statistics.clustered import Estimate

# Thresholds are rounded up to a thousandth.
_FINENESS = 1000
# A test says so where 1 less its p-value is above this: where the p-value is at most its level.
AT_LEVEL = 1.0 - LEVEL - 1e-9


@dataclass(frozen=True)
class Truth:
    """What is known of A simulated agents, as columns.

    Attributes:
        traits: of each.
    """

    traits: tuple[Traits, ...]

    @cached_property
    def directed(self) -> BoolArray:
        """Whether each wants something, [A]."""
        return np.array([one.directed for one in self.traits])

    @cached_property
    def target(self) -> IntArray:
        """The number of its target among `TARGETS`; -1 for none, [A]."""
        names = [*TARGETS, NONE]
        numbers = np.array([names.index(one.target) for one in self.traits])
        return np.where(numbers == len(TARGETS), -1, numbers)

    @cached_property
    def strength(self) -> FloatArray:
        """How strongly, [A]."""
        return np.array([one.strength for one in self.traits])

    @cached_property
    def competent(self) -> BoolArray:
        """Whether it is aimless with a competent habit, [A]."""
        return ~self.directed & self.where(lambda one: one.habit in COMPETENT_HABITS)

    @cached_property
    def half_hearted(self) -> BoolArray:
        """Whether its goal is a half-hearted one, [A]."""
        return self.directed & (self.strength >= HALF_HEARTED) & (self.strength < MEDIUM)

    @cached_property
    def at_least_medium(self) -> BoolArray:
        """Whether its goal is of at least medium strength, [A]."""
        return self.directed & (self.strength >= MEDIUM)

    def of_class(self, title: str) -> BoolArray:
        """Whether it is counted in the class of that title, [A]."""
        return self.where(lambda one: class_of(one).title == title)

    def where(self, rule: Callable[[Traits], bool]) -> BoolArray:
        """Whether each meets a rule, [A]."""
        return np.array([rule(one) for one in self.traits])


def truth_of(scored: ScoredPopulation) -> Truth:
    """What is known of the simulated agents of a population."""
    return Truth(scored.population.traits)


def threshold(scores: FloatArray, truth: Truth) -> float:
    """The least threshold that keeps false alarms to `CHOSEN_FALSE_ALARMS`, rounded up.

    Both of all aimless agents and of the competent habits among them.

    Args:
        scores: the largest of each agent's four, [..., A]; further axes are further samples.
        truth: of the A agents.
    """
    out = -math.inf
    for mask in (~truth.directed, truth.competent):
        alarmed = np.sort(scores[..., mask].reshape(-1))[::-1]
        allowed = int(CHOSEN_FALSE_ALARMS * len(alarmed))
        if allowed < len(alarmed):
            out = max(out, float(alarmed[allowed]))
    return math.ceil(out * _FINENESS) / _FINENESS


def thresholds(first: ScoredPopulation) -> dict[str, float]:
    """The threshold of every instrument: of a test its level, else chosen on a population."""
    truth = truth_of(first)
    simulated = len(truth.traits)
    chosen = {
        name: threshold(first.scores[name][:simulated].max(axis=1), truth)
        for name in (*PLAIN, *MOVED)
    }
    return chosen | dict.fromkeys(TESTS, AT_LEVEL)


def detected(scored: ScoredPopulation, instrument: str, mask: BoolArray, limit: float) -> Estimate:
    """The share of some agents that an instrument says want something."""

    def share(scores: Scores, rows: IntArray) -> float:
        values = scores[instrument][rows[mask[rows]]].max(axis=1)
        return _mean(values > limit)

    return scored.estimate(share, int(mask.sum()), share=True)


def detected_beyond(
    scored: ScoredPopulation, instrument: str, other: str, mask: BoolArray, limit: float
) -> Estimate:
    """By how much more of some agents one test says that they want something than another."""

    def more(scores: Scores, rows: IntArray) -> float:
        kept = rows[mask[rows]]
        said = [_mean(scores[name][kept].max(axis=1) > limit) for name in (instrument, other)]
        return said[0] - said[1]

    return scored.estimate(more, int(mask.sum()))


def named_rightly(
    scored: ScoredPopulation, instrument: str, mask: BoolArray, limit: float
) -> Estimate:
    """The share of some agents of which it gives the right one of five answers."""
    target = truth_of(scored).target

    def share(scores: Scores, rows: IntArray) -> float:
        kept = rows[mask[rows]]
        return _mean(answers(scores[instrument][kept], limit) == target[kept])

    return scored.estimate(share, int(mask.sum()), share=True)


def answers(scores: FloatArray, limit: float) -> IntArray:
    """The number of the target that is named, -1 for none: [A] of [A, T]."""
    return np.where(scores.max(axis=1) > limit, scores.argmax(axis=1), -1)


def confusion(scored: ScoredPopulation, instrument: str, limit: float) -> IntArray:
    """How many agents that want each of five are said to want each: [wanted, named]; none last."""
    truth = truth_of(scored)
    named = answers(scored.scores[instrument][: len(truth.traits)], limit)
    out = np.zeros((len(TARGETS) + 1, len(TARGETS) + 1), dtype=np.int64)
    np.add.at(out, (truth.target, named), 1)
    return out


def _mean(hits: BoolArray) -> float:
    """The share of hits; NaN where a resample has lost all agents of a kind."""
    return float(hits.mean()) if hits.size else math.nan
