"""Definition 4.4 with sufficient recall: the best of all utilities, and a bound on it.

The classes of utilities are given as ``groups``, the variables of each additive part:
``[("M", "S")]`` is every utility of M and S jointly, ``[("M",), ("S",)]`` the sums of a utility of
M and one of S.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from .causal_meg import LARGEST, Groups, evidence, soft_optimal_policy
from .causal_model import (
    Array,
    Factor,
    Model,
    probability_table,
    sum_to,
    with_policy,
)


class TargetsMeg(NamedTuple):
    """``value``: evidence of the best utility found, a lower bound on the supremum; ``utility``:
    beta times that utility, one table per group; ``policy``: its soft-optimal policy."""

    value: float
    utility: list[Array]
    policy: dict[str, Array]


def group_sizes(model: Model, groups: Groups) -> list[tuple[int, ...]]:
    return [tuple(model.sizes[x] for x in group) for group in groups]


def factors_of(model: Model, groups: Groups, theta: Array) -> list[Factor]:
    """The utility with these weights, one weight per joint state of every group."""
    factors, start = [], 0
    for group, shape in zip(groups, group_sizes(model, groups), strict=True):
        n = math.prod(shape)
        factors.append((group, theta[start : start + n].reshape(shape)))
        start += n
    return factors


def features(model: Model, groups: Groups) -> Array:
    """``P(T = t)`` of every group under the model's policy, in the order of the weights."""
    table = probability_table(model)
    return np.concatenate([sum_to(model, group, table).ravel() for group in groups])


def targets_meg(model: Model, groups: Groups, starts: int = 2, seed: int = 0) -> TargetsMeg:
    """Definition 4.4 with sufficient recall: the supremum over all weights, from below.

    The gradient of the evidence is ``P_pi(t) - P_theta(t)`` (the tests check it by differences).
    Where the supremum is at infinity, the weights that were found are also scaled up; what is
    missing is then about exp(-LARGEST times the smallest gap in E[U | d, pa] that matters).
    """
    rng = np.random.default_rng(seed)
    target = features(model, groups)

    def loss(theta: Array) -> tuple[float, Array]:
        log_policy = soft_optimal_policy(model, 1.0, factors_of(model, groups, theta))
        policy = {d: np.exp(q) for d, q in log_policy.items()}
        gradient = target - features(with_policy(model, policy), groups)
        return -evidence(model, log_policy), -gradient

    best, at = -loss(np.zeros(target.size))[0], np.zeros(target.size)
    for start in range(starts):
        theta = rng.normal(size=target.size) if start else np.zeros(target.size)
        for _ in range(4):  # restarts drop a stale curvature estimate
            for scale in (3.0, 10.0, 30.0):
                larger = np.clip(scale * theta, -LARGEST, LARGEST)
                if loss(larger)[0] < loss(theta)[0]:
                    theta = larger
            theta = minimize(
                loss,
                theta,
                jac=True,
                method="L-BFGS-B",
                bounds=[(-LARGEST, LARGEST)] * target.size,
                options={"ftol": 1e-16, "gtol": 1e-12, "maxiter": 2000, "maxcor": 30},
            ).x
        if -loss(theta)[0] > best:
            best, at = -loss(theta)[0], theta
    factors = factors_of(model, groups, at)
    policy = {d: np.exp(q) for d, q in soft_optimal_policy(model, 1.0, factors).items()}
    return TargetsMeg(best, [values for _, values in factors], policy)
