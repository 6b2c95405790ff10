"""Soft-optimal policies: Definition 5.2, Theorem 5.1, and their exact limits at beta = +-inf.

Finite horizon (``soft_policy``).  The utility is ``sum_t g^t R(s_t, a_t)``, so ``U_t = g^t R`` is
what Definition 5.2 adds at decision ``t`` and nothing else is discounted.  Everything is kept
multiplied by beta, ``E_t = beta Q_t``, which covers beta = 0:

    E_t(s, a) = beta g^t R(s, a) + sum_s' P(s'|s, a) W_{t+1}(s'),    W_H = 0,
    W_t(s)    = log sum_a w(a|s) exp E_t(s, a),    pi_t(a|s) = w(a|s) exp(E_t(s, a) - W_t(s)),

with ``w = 1`` as the paper has it, or ``w = rho`` for another reference policy.

Infinite discounted (``soft_policy_discounted``).  The stationary fixed point of
``Q = R + g E[(1/beta) logsumexp(beta Q')]``, again multiplied by beta, by plain iteration.

Limits.  As beta -> inf, ``W = beta V* + h + o(1)`` with ``V*`` the hard optimal value and
``h(s) = log sum_{a optimal} w(a|s) exp(E[h(s')])`` (``g E[h(s')]`` in the infinite problem), so
an optimal action gets ``w(a|s) exp(E[h(s')] - h(s))`` and the others zero.  beta -> -inf is the
same with the least value.  Which actions tie is decided in exact rational arithmetic.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .paths import Array

Successors = list[list[list[tuple[int, Any]]]]


def successors(P: NDArray[Any]) -> Successors:
    """``successors[s][a]``: the pairs ``(s', P(s'|s, a))`` with positive probability."""
    return [[[(s2, p) for s2, p in enumerate(row) if p != 0] for row in rows] for rows in P]


def simplest_fraction(x: Any) -> Fraction:
    """A number as the fraction it was most likely written as.

    ``0.7`` means 7/10, not the double nearest to it.  The fraction with denominator at most 10^6
    is taken when it rounds to the very same double, the double's own exact value otherwise.
    """
    if isinstance(x, (Fraction, int)):
        return Fraction(x)
    short = Fraction(float(x)).limit_denominator(10**6)
    return short if float(short) == float(x) else Fraction(float(x))


def exact_successors(P: NDArray[Any]) -> Successors:
    """``successors`` with probabilities as fractions that add up to one exactly."""
    table: Successors = []
    for rows in P:
        table.append([])
        for row in rows:
            pairs = [(s2, simplest_fraction(p)) for s2, p in enumerate(row) if p != 0]
            total = sum(p for _, p in pairs)
            table[-1].append([(s2, p / total) for s2, p in pairs])
    return table


def exact_reward(R: NDArray[Any], t: int, s: int, a: int) -> Fraction:
    """The reward of decision ``t`` as a fraction; ``R`` is ``[S]``, ``[S, A]`` or ``[H, S, A]``."""
    return simplest_fraction(R[s] if R.ndim == 1 else R[(t, s, a)[-R.ndim :]])


def weights(reference: Array | None, t: int, s: int, n_actions: int) -> list[float]:
    """``w(.|s)``: ones as in Definition 5.2, or the reference ``[S, A]`` or ``[H, S, A]``."""
    if reference is None:
        return [1.0] * n_actions
    return [float(p) for p in (reference[s] if reference.ndim == 2 else reference[t, s])]


def log_mean(w: Sequence[float], energy: Sequence[float]) -> float:
    """``log sum_a w_a exp(energy_a)``, the largest energy taken out first."""
    top = max(e for p, e in zip(w, energy, strict=True) if p > 0)
    pairs = zip(w, energy, strict=True)
    return top + math.log(math.fsum([p * math.exp(e - top) for p, e in pairs if p > 0]))


def log_soft_policy(
    P: Array, R: Array, H: int, beta: float, discount: float = 1.0, reference: Array | None = None
) -> Array:
    """``log pi_beta``, shape ``[H, S, A]`` (minus infinity where the probability is zero)."""
    if math.isinf(beta):
        return log_limit_policy(P, R, H, 1 if beta > 0 else -1, discount, reference)
    n_states, n_actions, _ = P.shape
    following = successors(P)
    log_policy = np.full((H, n_states, n_actions), -math.inf)
    W = [0.0] * n_states
    for t in reversed(range(H)):
        new_W = []
        for s in range(n_states):
            energy = []
            for a in range(n_actions):
                reward = R[s] if R.ndim == 1 else R[(t, s, a)[-R.ndim :]]
                now = float(beta) * float(discount) ** t * float(reward)
                energy.append(now + math.fsum([float(p) * W[s2] for s2, p in following[s][a]]))
            w = weights(reference, t, s, n_actions)
            new_W.append(log_mean(w, energy))
            for a in range(n_actions):
                if w[a] > 0:
                    log_policy[t, s, a] = math.log(w[a]) + energy[a] - new_W[s]
        W = new_W
    return log_policy


def log_limit_policy(
    P: NDArray[Any],
    R: NDArray[Any],
    H: int,
    sign: int,
    discount: Any = 1,
    reference: Array | None = None,
) -> Array:
    """``lim log pi_beta`` as beta -> inf (``sign = 1``) or -inf (``sign = -1``), ties exact."""
    n_states, n_actions, _ = P.shape
    following = exact_successors(P)
    g = simplest_fraction(discount)
    log_policy = np.full((H, n_states, n_actions), -math.inf)
    V = [Fraction(0)] * n_states
    h = [0.0] * n_states
    for t in reversed(range(H)):
        new_V, new_h = [], []
        for s in range(n_states):
            w = weights(reference, t, s, n_actions)
            value = [
                sign * g**t * exact_reward(R, t, s, a)
                + sum((p * V[s2] for s2, p in following[s][a]), Fraction(0))
                for a in range(n_actions)
            ]
            best = max(value[a] for a in range(n_actions) if w[a] > 0)
            optimal = [a for a in range(n_actions) if w[a] > 0 and value[a] == best]
            ahead = [math.fsum(float(p) * h[s2] for s2, p in following[s][a]) for a in optimal]
            new_V.append(best)
            new_h.append(log_mean([w[a] for a in optimal], ahead))
            for a, h_ahead in zip(optimal, ahead, strict=True):
                log_policy[t, s, a] = math.log(w[a]) + h_ahead - new_h[s]
        V, h = new_V, new_h
    return log_policy


def soft_policy(
    P: Array, R: Array, H: int, beta: float, discount: float = 1.0, reference: Array | None = None
) -> Array:
    """Theorem 5.1: ``pi_beta``, shape ``[H, S, A]``, for finite, zero or infinite beta."""
    policy: Array = np.exp(log_soft_policy(P, R, H, beta, discount, reference))
    return policy


def log_soft_policy_discounted(
    P: Array, R: Array, beta: float, discount: float, reference: Array | None = None
) -> Array:
    """``log pi_beta``, shape ``[S, A]``: iterate ``W <- log sum_a w exp(beta R + g P W)``.

    Stops when no entry moves by more than 1e-13, or when the movement has stopped shrinking
    (the rounding floor, which is above 1e-13 when beta R is large).
    """
    if math.isinf(beta):
        return log_limit_policy_discounted(P, R, 1 if beta > 0 else -1, discount, reference)
    n_states, n_actions, _ = P.shape
    w = np.ones((n_states, n_actions)) if reference is None else np.asarray(reference, dtype=float)
    with np.errstate(divide="ignore"):
        log_w = np.log(w)
    pay = np.repeat(R[:, None], n_actions, axis=1) if R.ndim == 1 else np.asarray(R, dtype=float)
    W = np.zeros(n_states)
    smallest, stalled = math.inf, 0
    while True:
        energy = log_w + beta * pay + discount * (P @ W)
        top = energy.max(axis=1)
        new_W = top + np.log(np.exp(energy - top[:, None]).sum(axis=1))
        moved = float(np.abs(new_W - W).max())
        W = new_W
        stalled = stalled + 1 if moved >= smallest else 0
        smallest = min(smallest, moved)
        if moved <= 1e-13 or stalled > 50:
            log_policy: Array = log_w + beta * pay + discount * (P @ W) - W[:, None]
            return log_policy


def log_limit_policy_discounted(
    P: NDArray[Any], R: NDArray[Any], sign: int, discount: Any, reference: Array | None = None
) -> Array:
    """The limit in the infinite problem: exact policy iteration, then the fixed point of h."""
    n_states, n_actions, _ = P.shape
    following = exact_successors(P)
    g = simplest_fraction(discount)
    w = [weights(reference, 0, s, n_actions) for s in range(n_states)]
    allowed = [[a for a in range(n_actions) if w[s][a] > 0] for s in range(n_states)]

    def value_of_action(s: int, a: int, V: list[Fraction]) -> Fraction:
        ahead = sum((p * V[s2] for s2, p in following[s][a]), Fraction(0))
        return sign * exact_reward(R, 0, s, a) + g * ahead

    choice = [allowed[s][0] for s in range(n_states)]
    while True:
        matrix = [[Fraction(int(i == j)) for j in range(n_states)] for i in range(n_states)]
        for s in range(n_states):
            for s2, p in following[s][choice[s]]:
                matrix[s][s2] -= g * p
        V = solve_exactly(
            matrix, [sign * exact_reward(R, 0, s, choice[s]) for s in range(n_states)]
        )
        better = list(choice)
        for s in range(n_states):
            for a in allowed[s]:
                if value_of_action(s, a, V) > value_of_action(s, better[s], V):
                    better[s] = a
        if better == choice:
            break
        choice = better

    optimal = [[a for a in allowed[s] if value_of_action(s, a, V) == V[s]] for s in range(n_states)]
    h = [0.0] * n_states
    while True:
        ahead = [
            [
                float(g) * math.fsum(float(p) * h[s2] for s2, p in following[s][a])
                for a in optimal[s]
            ]
            for s in range(n_states)
        ]
        new_h = [log_mean([w[s][a] for a in optimal[s]], ahead[s]) for s in range(n_states)]
        moved = max(abs(x - y) for x, y in zip(new_h, h, strict=True))
        h = new_h
        if moved <= 1e-14 * max(1.0, *(abs(x) for x in h)):
            break
    log_policy = np.full((n_states, n_actions), -math.inf)
    for s in range(n_states):
        for a, h_ahead in zip(optimal[s], ahead[s], strict=True):
            log_policy[s, a] = math.log(w[s][a]) + h_ahead - h[s]
    return log_policy


def solve_exactly(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """Gauss-Jordan elimination in fractions."""
    n = len(right)
    rows = [[*line, b] for line, b in zip(matrix, right, strict=True)]
    for i in range(n):
        pivot = next(k for k in range(i, n) if rows[k][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(n):
            if k != i and rows[k][i] != 0:
                factor = rows[k][i]
                rows[k] = [x - factor * y for x, y in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]


def soft_policy_discounted(
    P: Array, R: Array, beta: float, discount: float, reference: Array | None = None
) -> Array:
    """The stationary soft policy of the infinite discounted problem, shape ``[S, A]``."""
    return np.exp(log_soft_policy_discounted(P, R, beta, discount, reference))
