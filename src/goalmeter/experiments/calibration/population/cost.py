"""What it costs to be sure: how the error rates depend on the number of mazes that are pooled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._types import BoolArray, FloatArray
from goalmeter.experiments.calibration.population.judging import AT_LEVEL, Truth, answers, threshold
from goalmeter.experiments.calibration.population.measuring import PopulationEvidence
from goalmeter.experiments.calibration.population.scoring import TESTS, scores_of
from goalmeter.statistics.clustered import Estimate, estimate


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


def cost(
    first: PopulationEvidence, second: PopulationEvidence, instrument: str, pairs: int
) -> Cost:
    """The rates of an instrument with fewer mazes, averaged over groups of so many.

    Intervals resample agents, not grids: with one maze an agent there is nothing else to resample.

    Args:
        first: on which the threshold is chosen.
        second: on which it is tried.
        instrument: its name.
        pairs: mazes in a group; groups are of different mazes, as mixed as they can be.
    """
    limit = AT_LEVEL
    if instrument not in TESTS:
        limit = threshold(_in_groups(first, instrument, pairs).max(axis=-1), Truth(first.traits))
    truth = Truth(second.traits)
    scores = _in_groups(second, instrument, pairs)
    alarms = scores.max(axis=-1) > limit
    right = np.stack([answers(group, limit) for group in scores]) == truth.target

    def rate(hits: BoolArray, mask: BoolArray) -> Estimate:
        return estimate(hits[:, mask].mean(axis=0), bounds=(0.0, 1.0))

    most = second.evidence.most[:, : len(truth.traits)]
    return Cost(
        pairs,
        float(most.mean() / np.log(4.0)) * pairs,
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
    simulated = len(population.traits)
    out = []
    for begin in range(0, len(order) - pairs + 1, pairs):
        weights = np.zeros(len(order))
        weights[order[begin : begin + pairs]] = 1.0
        scores = scores_of(population.evidence, weights, [instrument])
        out.append(scores[instrument][:simulated])
    return np.stack(out)
