"""Unknown-utility MEG over a linear class: Definitions 4.3 and 4.4, as two convex problems.

Utility ``sum_t g^t theta . phi(s_t, a_t)``.  One feature per state is *every* utility of the state
(Definition 4.4 with the states as targets).  The supremum over theta of
``E_pi sum_t log(pi_theta / rho)`` is the optimum of

    primal   minimise    sum_t,s,a x_t(s, a) log( x_t(a|s) / rho(a|s) )
             over        occupancy measures x_t(s, a) >= 0 (flow constraints from mu through P)
             subject to  E_x[phi] = E_pi[phi];

    dual     maximise    theta . E_pi[phi] - sum_s mu(s) W_0(s),      W the soft value of theta,

the dual being Definition 4.3 itself.  Every feasible x bounds the supremum from above, every theta
from below.  In the infinite discounted problem (``H = None``) there is one block of x, already
weighted with g^t, its flow constraint has the factor g, and evidence weighs g^t too.

The primal is solved by a feasible Newton method on the null space of the constraints.  Entries of x
that the constraints force to zero (unreachable states; behaviour on the boundary of what any policy
can reach, where no theta attains the supremum) are found first with a linear program and left out;
the entropy keeps all others positive.  Tolerances: residual of the constraints about 1e-12, Newton
decrement below 1e-13, so about 1e-10 in the value on the small instances meant here, also on the
boundary (as long as the forced zeros are exact, not merely small).
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import linprog, minimize
from scipy.special import logsumexp

from .paths import Array, discounted_occupancy, enumerate_paths, occupancy_by_loops, policy_at


class Primal(NamedTuple):
    """The minimiser: its relative entropy, itself, and the largest constraint residual."""

    value: float
    occupancy: Array
    residual: float


def state_features(n_states: int, n_actions: int, blocks: int) -> Array:
    """All utilities over states: phi ``[T, S, A, S]``, one indicator per state."""
    phi = np.zeros((blocks, n_states, n_actions, n_states))
    for s in range(n_states):
        phi[:, s, :, s] = 1.0
    return phi


def timed_state_features(n_states: int, n_actions: int, blocks: int) -> Array:
    """All utilities over the state and the time: phi ``[T, S, A, T S]``."""
    phi = np.zeros((blocks, n_states, n_actions, blocks * n_states))
    for t in range(blocks):
        for s in range(n_states):
            phi[t, s, :, t * n_states + s] = 1.0
    return phi


def state_action_features(n_states: int, n_actions: int, blocks: int) -> Array:
    """All utilities over the state and the action: phi ``[T, S, A, S A]``."""
    phi = np.zeros((blocks, n_states, n_actions, n_states * n_actions))
    for s in range(n_states):
        for a in range(n_actions):
            phi[:, s, a, s * n_actions + a] = 1.0
    return phi


def timed_state_action_features(n_states: int, n_actions: int, blocks: int) -> Array:
    """All utilities over time, state and action: these can imitate any policy exactly."""
    n = blocks * n_states * n_actions
    return np.eye(n).reshape(blocks, n_states, n_actions, n)


def given_features(features: Array, n_actions: int, blocks: int) -> Array:
    """Features of states ``[S, D]``, or of pairs ``[S, A, D]``, spread to ``[T, S, A, D]``."""
    pairs = features[:, None, :] if features.ndim == 2 else features
    shape = (blocks, features.shape[0], n_actions, features.shape[-1])
    return np.broadcast_to(pairs[None], shape).copy()


def behaviour(P: Array, policy: Array, mu: Array, H: int | None, discount: float) -> Array:
    """The occupancy of the policy, ``[T, S, A]``; T = 1 and discounted when ``H`` is None."""
    if H is None:
        return discounted_occupancy(P, policy, mu, discount)[None]
    return occupancy_by_loops(P, policy, mu, H)


def weighted(phi: Array, H: int | None, discount: float) -> Array:
    """phi times g^t at finite horizon; unchanged in the infinite problem (x carries g^t there)."""
    if H is None:
        return phi
    return np.array([discount**t * phi[t] for t in range(H)])


def reference_blocks(reference: Array | None, blocks: int, S: int, A: int) -> Array:
    """The reference policy as ``[T, S, A]``."""
    rho = np.full((S, A), 1.0 / A) if reference is None else np.asarray(reference, dtype=float)
    return np.broadcast_to(rho, (blocks, S, A))


def flow_constraints(P: Array, mu: Array, H: int | None, discount: float) -> tuple[Array, Array]:
    """``A x = b`` saying that x is the occupancy of some policy, one row per (t, s)."""
    S, A, _ = P.shape
    blocks = 1 if H is None else H
    rows, right = [], []
    for t in range(blocks):
        for s in range(S):
            row = np.zeros((blocks, S, A))
            row[t, s, :] = 1.0
            for s1 in range(S):
                for a1 in range(A):
                    if H is None:
                        row[0, s1, a1] -= discount * P[s1, a1, s]
                    elif t > 0:
                        row[t - 1, s1, a1] -= P[s1, a1, s]
            rows.append(row.ravel())
            right.append(float(mu[s]) if t == 0 else 0.0)
    return np.array(rows), np.array(right)


def relative_interior(constraints: Array, right: Array, closed: Array) -> tuple[Array, Array]:
    """Which x can be positive, and a point that has all of those positive at once.

    Maximise ``sum y`` over ``0 <= y <= 1``, ``x >= y``, ``A x = b tau``, ``tau >= 1``: because x
    may be scaled up, ``y_i = 1`` for every entry that some feasible point has positive.  Redundant
    rows are dropped first, or rounding would make them contradict each other.
    """
    left, size, rows = np.linalg.svd(constraints, full_matrices=False)
    rank = int((size > 1e-11 * size[0]).sum())
    right = (left.T @ right)[:rank] / size[:rank]
    constraints = rows[:rank]
    m, n = constraints.shape
    cost = np.concatenate([np.zeros(n), -np.ones(n), [0.0]])
    equal = np.hstack([constraints, np.zeros((m, n)), -right[:, None]])
    below = np.hstack([-np.eye(n), np.eye(n), np.zeros((n, 1))])
    bounds = [(0.0, 0.0 if closed[i] else None) for i in range(n)]
    bounds += [(0.0, 1.0)] * n + [(1.0, 1e7)]
    result = linprog(cost, below, np.zeros(n), equal, np.zeros(m), bounds, method="highs")
    if result.status != 0:
        raise RuntimeError(result.message)
    return result.x[n : 2 * n] > 0.5, result.x[:n] / result.x[-1]


def relative_entropy(x: Array, rho: Array) -> float:
    """``sum x log(x(a|s) / rho(a|s))`` for ``[T, S, A]`` arrays."""
    terms = []
    for t, s, a in np.argwhere(x > 0.0):
        conditional = float(x[t, s, a]) / math.fsum(float(v) for v in x[t, s])
        terms.append(float(x[t, s, a]) * math.log(conditional / float(rho[t, s, a])))
    return math.fsum(terms)


def primal_optimum(
    P: Array,
    policy: Array,
    mu: Array,
    H: int | None,
    phi: Array,
    discount: float = 1.0,
    reference: Array | None = None,
) -> Primal:
    """Solve the primal of the module's docstring; ``phi`` is ``[T, S, A, D]`` (T = 1 if H None)."""
    S, A, _ = P.shape
    d = behaviour(P, policy, mu, H, discount)
    blocks = d.shape[0]
    rho = reference_blocks(reference, blocks, S, A)
    flow, flow_right = flow_constraints(P, mu, H, discount)
    match = weighted(phi, H, discount).reshape(d.size, -1).T
    constraints = np.vstack([flow, match])
    right = np.concatenate([flow_right, match @ d.ravel()])

    support, inside = relative_interior(constraints, right, rho.ravel() == 0.0)
    kept = constraints[:, support]
    x = inside[support]
    x = x - np.linalg.lstsq(kept, kept @ x - right, rcond=None)[0]
    directions = null_space(kept, rcond=1e-11)
    cell = np.arange(d.size)[support] // A  # which (t, s) each kept entry belongs to

    def full(v: Array) -> Array:
        out = np.zeros(d.size)
        out[support] = v
        return out.reshape(d.shape)

    for _ in range(500):
        if directions.shape[1] == 0:
            break
        totals = np.bincount(cell, weights=x, minlength=blocks * S)
        gradient = np.log(x / totals[cell] / rho.ravel()[support])
        hessian = np.diag(1.0 / x) - (cell[:, None] == cell[None, :]) / totals[cell][:, None]
        slope = directions.T @ gradient
        curvature = directions.T @ hessian @ directions
        step = directions @ np.linalg.lstsq(curvature, -slope, rcond=1e-15)[0]
        decrement = -float(gradient @ step)
        if decrement < 1e-13:
            break
        shrinking = step < 0.0
        limit = float(np.min(-x[shrinking] / step[shrinking])) if shrinking.any() else math.inf
        length = min(1.0, 0.99 * limit)
        value = relative_entropy(full(x), rho)
        while length > 1e-12:
            if relative_entropy(full(x + length * step), rho) <= value - 0.1 * length * decrement:
                break
            length /= 2.0
        else:
            break  # no progress beyond rounding
        x = x + length * step
    else:
        raise RuntimeError("Newton's method did not converge")
    residual = float(np.abs(kept @ x - right).max())
    return Primal(relative_entropy(full(x), rho), full(x), residual)


def weak_duality(
    P: Array, policy: Array, bounding: Array, mu: Array, H: int, phi: Array, theta: Array
) -> float:
    """What any policy x proves about one theta: ``KL(x) + theta . (E_pi[phi] - E_x[phi])``.

    Path by path: the evidence of theta is at most this, whatever x is (Jensen's inequality for
    ``log E_x[exp(theta . phi) / x]``).  ``phi`` is ``[T, S, A, D]``; uniform reference.
    """
    kl, features = 0.0, np.zeros(phi.shape[-1])
    for path, chance in enumerate_paths(P, bounding, mu, H):
        if chance > 0.0:
            taken = [policy_at(bounding, t, s, a) for t, (s, a) in enumerate(path)]
            kl += chance * math.fsum(math.log(p * P.shape[1]) for p in taken)
            features -= chance * sum(phi[t, s, a] for t, (s, a) in enumerate(path))
    for path, chance in enumerate_paths(P, policy, mu, H):
        features += chance * sum(phi[t, s, a] for t, (s, a) in enumerate(path))
    return kl + float(theta @ features)


def dual_value(
    theta: Array,
    P: Array,
    target: Array,
    mu: Array,
    H: int | None,
    phi: Array,
    discount: float,
    rho: Array,
) -> tuple[float, Array]:
    """``E_pi sum_t log(pi_theta / rho)`` and its gradient ``E_pi[phi] - E_theta[phi]``.

    ``target`` is ``E_pi[phi]``, ``phi`` already has its g^t, ``rho`` is ``[T, S, A]``.
    """
    pay = phi @ theta
    W = np.zeros(P.shape[0])
    policy = np.zeros(rho.shape)
    if H is None:
        moved, smallest, stalled = math.inf, math.inf, 0
        while moved > 1e-13 and stalled <= 50:
            energy = pay[0] + discount * (P @ W)
            new_W = logsumexp(energy, axis=1, b=rho[0])
            moved = float(np.abs(new_W - W).max())
            stalled = stalled + 1 if moved >= smallest else 0
            smallest, W = min(smallest, moved), new_W
        policy[0] = rho[0] * np.exp(pay[0] + discount * (P @ W) - W[:, None])
        policy[0] /= policy[0].sum(axis=1, keepdims=True)
        x = discounted_occupancy(P, policy[0], mu, discount)[None]
    else:
        for t in reversed(range(H)):
            energy = pay[t] + P @ W
            W = logsumexp(energy, axis=1, b=rho[t])
            policy[t] = rho[t] * np.exp(energy - W[:, None])
        x = occupancy_by_loops(P, policy, mu, H)
    reached = np.einsum("tsa,tsad->d", x, phi)
    return float(theta @ target - mu @ W), target - reached


def dual_lower_bound(
    P: Array,
    policy: Array,
    mu: Array,
    H: int | None,
    phi: Array,
    discount: float = 1.0,
    reference: Array | None = None,
    theta: Array | None = None,
) -> tuple[float, Array]:
    """The best theta that scipy's BFGS finds from zero, and its value: a lower bound."""
    d = behaviour(P, policy, mu, H, discount)
    rho = reference_blocks(reference, d.shape[0], *P.shape[:2])
    phi = weighted(phi, H, discount)
    target = np.einsum("tsa,tsad->d", d, phi)

    def loss(x: Array) -> tuple[float, Array]:
        value, gradient = dual_value(x, P, target, mu, H, phi, discount, rho)
        return -value, -gradient

    at = np.zeros(phi.shape[-1]) if theta is None else theta
    for _ in range(3):  # restarts drop a stale curvature estimate
        at = minimize(loss, at, jac=True, method="BFGS", options={"gtol": 1e-11}).x
    return -loss(at)[0], at
