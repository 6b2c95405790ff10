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
    INSTRUMENTS,
    ScoredPopulation,
    Scores,
)
from goalmeter.experiments.calibration.population.traits import Traits
from goalmeter.statistics.clustered import Estimate

# Thresholds are rounded up to a thousandth.
_FINENESS = 1000


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
    """The threshold of every instrument, chosen on a population."""
    truth = truth_of(first)
    simulated = len(truth.traits)
    return {
        name: threshold(first.scores[name][:simulated].max(axis=1), truth) for name in INSTRUMENTS
    }


def detected(scored: ScoredPopulation, instrument: str, mask: BoolArray, limit: float) -> Estimate:
    """The share of some agents that an instrument says want something."""

    def share(scores: Scores, rows: IntArray) -> float:
        kept = rows[mask[rows]]
        values = scores[instrument][kept].max(axis=1)
        return float((values > limit).mean()) if len(kept) else math.nan

    return scored.estimate(share, int(mask.sum()), share=True)


def named_rightly(
    scored: ScoredPopulation, instrument: str, mask: BoolArray, limit: float
) -> Estimate:
    """The share of some agents of which it gives the right one of five answers."""
    target = truth_of(scored).target

    def share(scores: Scores, rows: IntArray) -> float:
        kept = rows[mask[rows]]
        return float((answers(scores[instrument][kept], limit) == target[kept]).mean())

    if not mask.any():
        return Estimate(math.nan, None, 0, len(scored.population.pairs))
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
