"""Definition 4.4 with sufficient recall: the best of all utilities, and a bound on it.

The classes of utilities are given as ``groups``, the variables of each additive part:
``[("M", "S")]`` is every utility of M and S jointly, ``[("M",), ("S",)]`` the sums of a utility of
M and one of S.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from .causal_meg import LARGEST, Groups, evidence, soft_optimal_policy
from .causal_model import (
    Array,
    Factor,
    Model,
    probability_table,
    spread,
    sum_to,
    uniform_policy,
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


def influencing(model: Model, groups: Groups) -> list[str]:
    """The decisions with a directed path to some variable of some group."""
    result = []
    for d in model.decisions:
        reached, grown = {d}, True
        while grown:
            more = {x for x in model.sizes if reached & set(model.parents[x])} - reached
            reached, grown = reached | more, bool(more)
        if any(reached & set(group) for group in groups):
            result.append(d)
    return result


def matching_policy_bound(
    model: Model, groups: Groups, starts: Sequence[dict[str, Array]] = ()
) -> tuple[float, float]:
    """An upper bound on ``targets_meg`` by weak duality: ``(bound, residual of the matching)``.

    For weights theta, f(theta) = theta . P_pi(T) + C - max over pi' of (theta . P_pi'(T) + H(pi')),
    with C the sum of log |dom D|. So any pi' with P_pi'(T) = P_pi(T) gives f <= C - H(pi'); the
    best is looked for from the measured policy and ``starts``. A residual r leaves a slack of r
    times the sum of |theta|. On the boundary the optimiser easily stops short: the bound is loose,
    never wrong.
    """
    active = influencing(model, groups)
    if not active:
        return 0.0, 0.0
    total = math.fsum(math.log(model.sizes[d]) for d in active)
    target = features(model, groups)
    families = {d: (*model.parents[d], d) for d in active}
    shapes = {d: model.cpds[d].shape for d in active}
    fixed = {d: q for d, q in uniform_policy(model).items() if d not in active}
    ones = {d: np.ones(shape) for d, shape in shapes.items()}
    world = probability_table(with_policy(model, {**fixed, **ones}))  # all but the active decisions
    states = [
        spread(model, group, np.eye(math.prod(shape))[i].reshape(shape))
        for group, shape in zip(groups, group_sizes(model, groups), strict=True)
        for i in range(math.prod(shape))
    ]

    def unpack(x: Array) -> dict[str, Array]:
        """The policies, each spread over all variables."""
        out, at = {}, 0
        for d, shape in shapes.items():
            n = math.prod(shape)
            out[d] = spread(model, families[d], x[at : at + n].reshape(shape))
            at += n
        return out

    def joint_without(policy: dict[str, Array], left_out: str | None = None) -> Array:
        table = world
        for d in active:
            if d != left_out:
                table = table * policy[d]
        return table

    def entropy(x: Array) -> tuple[float, Array]:
        policy = unpack(np.clip(x, 1e-300, None))
        surprise = -sum(np.log(q) for q in policy.values())
        table = joint_without(policy)
        gradient = [
            sum_to(model, families[d], joint_without(policy, d) * surprise)
            - sum_to(model, model.parents[d], table)[..., None]
            for d in active
        ]
        return float((table * surprise).sum()), np.concatenate([g.ravel() for g in gradient])

    def matching(x: Array) -> Array:
        table = joint_without(unpack(x))
        return np.concatenate([sum_to(model, g, table).ravel() for g in groups]) - target

    def matching_jacobian(x: Array) -> Array:
        policy = unpack(x)
        without = {d: joint_without(policy, d) for d in active}
        rows = [
            [sum_to(model, families[d], without[d] * state).ravel() for d in active]
            for state in states
        ]
        return np.array([np.concatenate(row) for row in rows])

    # One row per context: its probabilities sum to one.
    size = sum(math.prod(shape) for shape in shapes.values())
    contexts = [shape[-1] for shape in shapes.values() for _ in range(math.prod(shape[:-1]))]
    sums = np.repeat(np.eye(len(contexts)), contexts, axis=1)

    # The optimiser needs independent constraints: an orthonormal basis of the directions in which
    # P(T) can move at all, from random policies.
    rng = np.random.default_rng(0)
    moves = []
    for _ in range(2 * target.size + 2):
        rows = rng.exponential(size=size)
        moves.append(matching(rows / (rows @ sums.T @ sums)))
    _, lengths, basis = np.linalg.svd(np.array(moves), full_matrices=False)
    basis = basis[lengths > 1e-10 * max(1.0, float(lengths[0]))]

    constraints = [{"type": "eq", "fun": lambda x: sums @ x - 1.0, "jac": lambda x: sums}]
    if len(basis):
        constraints.append(
            {
                "type": "eq",
                "fun": lambda x: basis @ matching(x),
                "jac": lambda x: basis @ matching_jacobian(x),
            }
        )
    uniform = uniform_policy(model)
    mixtures = [
        {d: (1 - share) * model.cpds[d] + share * uniform[d] for d in active}
        for share in (0.5, 0.03)
    ]
    result = []
    for start in [model.cpds, *(starts or mixtures)]:
        x = np.concatenate([start[d].ravel() for d in active])
        result.append((total - entropy(x)[0], float(np.abs(matching(x)).max())))
        for _ in range(2):
            x = minimize(
                lambda x: tuple(-part for part in entropy(x)),
                x,
                jac=True,
                method="SLSQP",
                bounds=[(0.0, 1.0)] * size,
                constraints=constraints,
                options={"ftol": 1e-15, "maxiter": 100},
            ).x
            x = np.clip(x, 0.0, 1.0)
            x = x / (x @ sums.T @ sums)
            result.append((total - entropy(x)[0], float(np.abs(matching(x)).max())))
    return min((bound, residual) for bound, residual in result if residual < 1e-9)
