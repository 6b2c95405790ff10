"""Known-utility MEG by brute force over beta: Definition 3.2 with Theorem 5.1.

    MEG_U(pi) = max over beta in [-inf, inf] of
                E_pi sum_t (log pi_beta(A_t|S_t) - log rho(A_t|S_t)),      rho uniform by default.

At finite horizon every decision's evidence counts once, whatever the discount of the utility.  In
the infinite discounted problem decision t weighs g^t in the utility and in the evidence alike.

No derivative is used: the maximum is looked for on a wide grid of both signs, zero and both
infinities, and then refined between the neighbours of every local maximum of the grid.  A maximum
found from values alone is good to about 1e-15 in the value but only about 1e-7 in beta (the top is
flat); ``beta_matching_return`` reads Definition 3.1 instead (the beta whose soft policy has the
same expected utility) and has full accuracy in beta.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from .paths import (
    Array,
    discounted_occupancy,
    enumerate_paths,
    occupancy_by_loops,
    policy_at,
    reward_at,
)
from .soft_policy import log_soft_policy, log_soft_policy_discounted

DECADES = 6  # beta times the range of R goes from 10^-DECADES to 10^DECADES
POINTS_PER_DECADE = 4
TIE = 1e-8  # an infinite beta is preferred to a finite one that is not better by this much


def log_ratio(log_model: float, reference: float) -> float:
    """``log(model / reference)`` for an action that the policy does take."""
    if reference <= 0.0:
        raise ValueError("the policy takes an action that the reference policy never takes")
    return log_model - math.log(reference)


def evidence(
    P: Array, policy: Array, model_policy: Array, mu: Array, H: int, reference: Array | None = None
) -> float:
    """``E_pi sum_t log(model / reference)``, path by path (a few decisions only)."""
    uniform = np.full(P.shape[:2], 1.0 / P.shape[1])
    rho = uniform if reference is None else reference
    terms = []
    for path, probability in enumerate_paths(P, policy, mu, H):
        for t, (s, a) in enumerate(path):
            model = policy_at(model_policy, t, s, a)
            if model == 0.0:
                return -math.inf
            terms.append(probability * log_ratio(math.log(model), policy_at(rho, t, s, a)))
    return math.fsum(terms)


def evidence_by_occupancy(
    occupancy: Array, log_model: Array, reference: Array | None = None
) -> float:
    """The same number as ``sum d_t(s, a) log(model / reference)``.

    ``occupancy`` is ``[H, S, A]`` or, for the infinite problem, the discounted ``[S, A]``;
    ``log_model`` has its shape; ``reference`` is ``[S, A]`` or ``[H, S, A]``.
    """
    n_actions = occupancy.shape[-1]
    rho = np.full(occupancy.shape, 1.0 / n_actions) if reference is None else reference
    terms = []
    for index in np.argwhere(occupancy > 0.0):
        place = tuple(int(i) for i in index)
        if log_model[place] == -math.inf:
            return -math.inf
        ratio = log_ratio(float(log_model[place]), float(rho[place[-rho.ndim :]]))
        terms.append(float(occupancy[place]) * ratio)
    return math.fsum(terms)


def maximise_over_beta(f: Callable[[float], float], spread: float) -> tuple[float, float]:
    """The largest ``f(beta)`` and its beta; ``spread`` is max R - min R (the unit of 1/beta)."""
    if spread == 0.0:
        return f(0.0), 0.0
    n = 2 * DECADES * POINTS_PER_DECADE + 1
    positive = np.logspace(-DECADES, DECADES, n) / spread
    grid = [float(b) for b in [*(-positive[::-1]), 0.0, *positive]]
    values = [f(b) for b in grid]
    best_value, best_beta = max(zip(values, grid, strict=True))
    if values[grid.index(0.0)] >= best_value:
        best_value, best_beta = values[grid.index(0.0)], 0.0
    for i in range(1, len(grid) - 1):
        if values[i] >= values[i - 1] and values[i] >= values[i + 1]:
            result = minimize_scalar(
                lambda b: -f(float(b)),
                bounds=(grid[i - 1], grid[i + 1]),
                method="bounded",
                options={"xatol": 1e-13 / spread, "maxiter": 500},
            )
            if -float(result.fun) > best_value:
                best_value, best_beta = -float(result.fun), float(result.x)
    for infinite in (math.inf, -math.inf):
        value = f(infinite)
        if value >= best_value - TIE and best_beta != 0.0:
            best_value, best_beta = value, infinite
    return best_value, best_beta


def known_utility_meg(
    P: Array,
    R: Array,
    policy: Array,
    mu: Array,
    H: int,
    discount: float = 1.0,
    reference: Array | None = None,
) -> tuple[float, float]:
    """Definition 3.2 at finite horizon: ``(value in nats, beta)``."""
    d = occupancy_by_loops(P, policy, mu, H)

    def f(beta: float) -> float:
        return evidence_by_occupancy(
            d, log_soft_policy(P, R, H, beta, discount, reference), reference
        )

    return maximise_over_beta(f, float(np.max(R) - np.min(R)))


def known_utility_meg_discounted(
    P: Array, R: Array, policy: Array, mu: Array, discount: float, reference: Array | None = None
) -> tuple[float, float]:
    """The same in the infinite discounted problem, for a stationary policy ``[S, A]``."""
    d = discounted_occupancy(P, policy, mu, discount)

    def f(beta: float) -> float:
        log_model = log_soft_policy_discounted(P, R, beta, discount, reference)
        return evidence_by_occupancy(d, log_model, reference)

    return maximise_over_beta(f, float(np.max(R) - np.min(R)))


def return_of(occupancy: Array, R: Array, discount: float = 1.0) -> float:
    """``E[U]`` from an occupancy: ``[H, S, A]`` with g^t here, ``[S, A]`` already discounted."""
    if occupancy.ndim == 2:
        return math.fsum(
            float(x) * reward_at(R, 0, s, a) for (s, a), x in np.ndenumerate(occupancy)
        )
    return math.fsum(
        float(x) * discount**t * reward_at(R, t, s, a) for (t, s, a), x in np.ndenumerate(occupancy)
    )


def beta_matching_return(
    P: Array,
    R: Array,
    policy: Array,
    mu: Array,
    H: int | None,
    discount: float = 1.0,
    reference: Array | None = None,
) -> float:
    """Definition 3.1: the finite beta with ``E_{pi_beta}[U] = E_pi[U]`` (which must exist)."""

    def occupancy(pi: Array) -> Array:
        if H is None:
            return discounted_occupancy(P, pi, mu, discount)
        return occupancy_by_loops(P, pi, mu, H)

    target = return_of(occupancy(policy), R, discount)

    def excess(beta: float) -> float:
        if H is None:
            pi = np.exp(log_soft_policy_discounted(P, R, beta, discount, reference))
        else:
            pi = np.exp(log_soft_policy(P, R, H, beta, discount, reference))
        return return_of(occupancy(pi), R, discount) - target

    width = 1.0 / float(np.max(R) - np.min(R))
    while excess(-width) > 0.0 or excess(width) < 0.0:
        width *= 2.0
        if width * float(np.max(R) - np.min(R)) > 1e6:
            raise ValueError("no finite beta matches the return")
    return float(brentq(excess, -width, width, xtol=1e-15, rtol=1e-14))
