"""Utilities without measure: only what is best happens, and otherwise as much as can be.

The policies are the limit, for b to infinity, of the maximum entropy policies of b U. A measured
policy that is deterministic is predicted with certainty by every utility for which it is the only
best one. Such a utility separates its expected features from those of all other policies, and is
found by cutting planes: a linear programme for the utility, a best answer to it, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from goalmeter._types import FloatArray
from goalmeter.meg.causal.search.candidates import (
    Candidate,
    near_measured,
    random_policies,
    stacked,
)
from goalmeter.meg.causal.search.supported import candidate, maximisers, objectives_of
from goalmeter.meg.causal.search.utilities import UtilityClass

_CUTS = 40
_FIRST_CUTS = 64
_MARGIN = 1e-9
# A policy with less entropy than this, in nats, is deterministic.
_CERTAIN = 1e-9


class Limit(NamedTuple):
    """A direction y [K], its limit policies, and how many starts ended in as good ones."""

    y: FloatArray
    model: Candidate
    agreed: int


def limits(
    utilities: UtilityClass,
    directions: Sequence[FloatArray],
    n: int,
    ceiling: float,
    rng: np.random.Generator,
) -> Limit | None:
    """The best predictor among the limits in several directions, or None if all rule it out.

    There are n random starts for each direction y [K]. Where the ceiling, the evidence of the
    measured policy for itself, is its maximum, the policy is deterministic, and a utility that it
    alone is best for is looked for as well.
    """
    reached = [limit_at(utilities, y, n, rng) for y in directions]
    # Only a deterministic policy can be the only best one.
    if ceiling >= utilities.table.maximum - _CERTAIN:
        separating = _separating(utilities, n, rng)
        reached += [] if separating is None else [separating]
    best = max(reached, key=lambda limit: limit.model.evidence)
    return best if np.isfinite(best.model.evidence) else None


def limit_at(utilities: UtilityClass, y: FloatArray, n: int, rng: np.random.Generator) -> Limit:
    """The limit in one direction, from n random starts."""
    task, _ = utilities.task(y)
    starts = [random_policies(task.table, n, rng), near_measured(task.table, task.measured)]
    (ends,) = maximisers(task, [np.inf], [stacked(starts)])
    return Limit(y, ends.best[0], min(ends.agreed, n))


def confirmed_limit(
    utilities: UtilityClass, limit: Limit, n: int, rng: np.random.Generator
) -> Limit | None:
    """The limit after it was tried on n fresh starts; None if one of them is better."""
    task, _ = utilities.task(limit.y)
    mine = candidate(task, np.inf, limit.model.policies)
    (ends,) = maximisers(task, [np.inf], [random_policies(task.table, n, rng)])
    reached, fresh_reached = objectives_of(np.inf, mine, ends.best[0])
    if fresh_reached > reached + _MARGIN:
        return None
    return limit._replace(agreed=ends.agreed if fresh_reached >= reached - _MARGIN else 0)


def _separating(utilities: UtilityClass, n: int, rng: np.random.Generator) -> Limit | None:
    """A utility for which the measured policy is the only best one, if there is one."""
    table = utilities.table
    wanted = table.expected(utilities.measured)
    tries = random_policies(table, _FIRST_CUTS, rng)
    # Some deterministic policy is best for any utility, so these make good first cuts.
    certain = [(p == p.max(axis=1, keepdims=True)).astype(np.float64) for p in tries]
    cuts = list((wanted[:, None] - table.expected(certain)).T)
    best: Limit | None = None
    for _ in range(_CUTS):
        y = _widest(np.array(cuts))
        if y is None:
            return best
        limit = limit_at(utilities, y, n, rng)
        if best is None or limit.model.evidence > best.model.evidence:
            best = limit
        cut = wanted - table.expected(limit.model.policies)
        if limit.model.evidence >= table.maximum - _CERTAIN or np.abs(cut).max() <= _MARGIN:
            return best
        cuts.append(cut)
    return best


def _widest(cuts: FloatArray) -> FloatArray | None:
    """Y with the greatest least product with the cuts, no part of y above 1; None if it is 0."""
    k = cuts.shape[1]
    seen = cuts[np.abs(cuts).max(axis=1) > _MARGIN]
    solution = linprog(
        np.append(np.zeros(k), -1.0),
        A_ub=np.hstack([-seen, np.ones((len(seen), 1))]),
        b_ub=np.zeros(len(seen)),
        bounds=[(-1.0, 1.0)] * k + [(None, 1.0)],
        method="highs",
    )
    if solution.x is None or solution.x[-1] <= _MARGIN:
        return None
    return np.asarray(solution.x[:-1])
