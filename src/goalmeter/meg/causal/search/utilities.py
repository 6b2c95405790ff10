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
from goalmeter.meg.causal.search.candidates import (
    Task,
    column,
    near_measured,
    random_policies,
    stacked,
)
from goalmeter.meg.causal.search.outcomes import OutcomeTable, Policies, safe_log
from goalmeter.meg.causal.search.stationary import Linearised

# Coordinates in which expected utility varies by less than this share of the most are rounding.
_NULL_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class UtilityClass:
    """All utilities that are linear in features, and the policy that is to be predicted."""

    table: OutcomeTable  # the outcomes, with features G of the coordinates, [R, K]
    basis: FloatArray  # weights of each coordinate, [D, K]
    measured: Policies  # the policy, [C, A] each
    visits: Policies  # how often it comes by each context and action, [C, A] each

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


_INDICATORS = 12
# Typical differences in expected utility, in nats.
_SMALLEST, _LARGEST = 0.2, 40.0
_SIZES = 8
_TRIES = 6
# Shares of the uniform policy that the measured one is mixed with, to have logarithms.
_MIXED = (0.02, 0.1, 0.3)


def starting_weights(
    utilities: UtilityClass,
    n: int,
    most: int,
    rng: np.random.Generator,
) -> list[FloatArray]:
    """Coordinates y [K], b included, of utilities to begin from.

    Those at which the measured policy is most nearly stationary; some joint states of the targets
    by themselves, wanted or unwanted, and n random ones, each in several sizes: about `most` in
    all.
    """
    inverse = np.linalg.pinv(utilities.basis)
    out = [fitted_weights(utilities, share) for share in _MIXED]
    states = rng.permutation(inverse.shape[1])[:_INDICATORS]
    directions = [sign * inverse[:, t] for t in states for sign in (1.0, -1.0)]
    directions += [np.asarray(z) for z in rng.standard_normal((n, len(inverse)))]
    sizes = min(max(most // len(directions), 1), _SIZES)
    gaps = typical_gaps(utilities, rng)
    for direction in directions[: most // sizes]:
        unit = direction / max(float(np.linalg.norm(gaps @ direction)), 1e-300)
        spread = np.geomspace(_SMALLEST, _LARGEST, sizes + 1)[:-1]
        # Not the same sizes in every direction.
        spread = spread * (_LARGEST / _SMALLEST) ** (rng.random() / sizes)
        out += [size * unit for size in spread]
    return [y for y in out if np.isfinite(y).all() and np.abs(y).max(initial=0.0) > 0]


def typical_gaps(utilities: UtilityClass, rng: np.random.Generator) -> FloatArray:
    """A matrix [K, K] that maps y to a vector as long as G y makes actions differ, typically.

    Root mean square, under random policies, over what the measured policy comes by.
    """
    table = utilities.table
    tries = random_policies(table, _TRIES, rng)
    weights = [v.sum(axis=1, keepdims=True) for v in utilities.visits]
    total = np.zeros((table.features.shape[1],) * 2)
    for i in range(_TRIES):
        at = Linearised(table, np.zeros(table.n_rows), 0.0, column(tries, i))
        paid = at.centred(at.paid_features())
        shares = [(w * p).reshape(-1) for w, p in zip(weights, at.policies, strict=True)]
        total += (paid * np.concatenate(shares)[:, None]).T @ paid / _TRIES
    values, vectors = np.linalg.eigh(total)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def fitted_weights(utilities: UtilityClass, share: float) -> FloatArray:
    """The weights y [K] at which the measured policy, mixed with uniform, is nearest to stationary.

    Least squares in the logs of the policy, weighted by how often it comes by and what it does.
    Where the policy is soft-optimal for some utility of the class, it is that one.
    """
    table = utilities.table
    mixed = [
        (1 - share) * p + share / a for p, a in zip(utilities.measured, table.actions, strict=True)
    ]
    at = Linearised(table, np.zeros(table.n_rows), 0.0, mixed)
    # With no utility the answers are what is left to say of later decisions.
    left = np.concatenate([safe_log(p).reshape(-1) for p in mixed]) - at.answers
    weight = np.concatenate(
        [
            np.sqrt(visits.sum(axis=1, keepdims=True) * p).reshape(-1)
            for visits, p in zip(utilities.visits, mixed, strict=True)
        ]
    )
    rows = weight[:, None] * at.centred(at.paid_features())
    wanted = weight * at.centred(left[:, None])[:, 0]
    solution, *_ = np.linalg.lstsq(rows, wanted, rcond=1e-8)
    return np.asarray(solution)
