"""All utilities over targets, in coordinates that policies can tell apart.

Most of what one can add to a utility over targets changes no policy: a constant, a constant for
each value of something out of reach, anything about outcomes that never come about. And what does
change policies may do so on very different scales. Both are taken out with the expected features
of random policies: in the coordinates that remain, expected utility varies by about 1 over them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.causal.search.candidates import Task, near_measured, random_policies, stacked
from goalmeter.meg.causal.search.outcomes import OutcomeTable, Policies

# Coordinates in which expected utility varies by less than this share of the most are rounding.
_NULL_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class UtilityClass:
    """All utilities that are linear in features, and the policy that is to be predicted.

    Attributes:
        table: the outcomes, with features G of the coordinates, [R, K].
        basis: weights of each coordinate, [D, K].
        measured: the policy, [C, A] each.
        visits: how often it comes by each context and action, [C, A] each.
    """

    table: OutcomeTable
    basis: FloatArray
    measured: Policies
    visits: Policies

    def task(self, y: FloatArray) -> tuple[Task, float]:
        """The utility G y as a task in a unit of its own, and the b that stands for 1."""
        spread = float(np.ptp(self.table.features @ y))
        unit = 2.0 ** np.ceil(np.log2(spread)) if spread > 0 else 1.0
        return self.plain(y / unit), float(unit)

    def shown(self, y: FloatArray) -> tuple[FloatArray, float]:
        """Weights of the joint states from -1 to 1, NaN where there is no say, and their scale."""
        weights = self.basis @ y
        size = float(np.abs(weights).max())
        reach = np.abs(self.basis).max(axis=1)
        shown = weights / size if size > 0 else weights
        return np.where(reach > 1e-9 * reach.max(), shown, np.nan), size

    def attained(self, policies: Policies, weights: FloatArray) -> float:
        """E[U] of weights as `shown`, less what no policy can change, in their unit."""
        y = np.linalg.pinv(self.basis) @ np.nan_to_num(weights)
        return float(self.table.expected(policies) @ y)

    def plain(self, y: FloatArray) -> Task:
        """The utility G y as a task."""
        return Task(self.table, self.table.features @ y, self.measured, self.visits)


def utility_class_of(
    table: OutcomeTable,
    measured: Policies,
    rng: np.random.Generator,
    visits: Policies | None = None,
) -> UtilityClass | None:
    """The class in coordinates that policies can tell apart; None if there are none.

    What no policy can change the expectation of says nothing. In the coordinates that remain,
    the expectation varies by about 1 over random policies.
    """
    n = 2 * min(table.features.shape[1], table.n_rows) + 32
    tries = stacked([random_policies(table, n, rng), near_measured(table, measured)])
    expected = table.expected(tries)
    expected = expected - expected.mean(axis=1, keepdims=True)
    vectors, sizes, _ = np.linalg.svd(expected / np.sqrt(n), full_matrices=False)
    keep = sizes > max(_NULL_SHARE * sizes[0], 1e-14)
    if not keep.any():
        return None
    # Scaled so that a unit step in any coordinate moves expected utility by about as much.
    basis = vectors[:, keep] / sizes[keep]
    visits = [v / v.sum() for v in (table.visits(measured) if visits is None else visits)]
    features = table.features @ basis
    features = features - 0.5 * (features.min(axis=0) + features.max(axis=0))
    return UtilityClass(table.with_features(features), basis, measured, visits)
