"""What a user has today: the paper's Algorithms 1 and 2 by gradient ascent on dense arrays.

The arithmetic is that of two functions of ``imitation`` 1.0.1 (``imitation.algorithms.mce_irl``):
``mce_partition_fh``, the soft value iteration over a finite horizon, and
``mce_occupancy_measures``, the forward pass of the state distribution, both undiscounted here.
Nothing is copied from that library: the same sums are written anew, in NumPy float64, with the
transition ``P [S, A, S]`` dense.  No discount: that library's discounted recursion is not the
finite horizon model of the paper.

It is meant to be as strong as a simple version gets:

* Algorithm 1 works on the utility shifted and scaled to [0, 1] (MEG does not change, beta is scaled
  back at the end) and the behaviour's own occupancy is computed once.
* Algorithm 2 is a table, one weight per state; its separate beta is left out, being only a second
  name for the scale of the weights (Lemma C.1).  Plain ascent or Adam.
* The value of an iterate costs nothing extra beyond one sum: it comes from the soft policy that the
  step needs anyway.

Neither can reach an optimum at infinity; they stop when they are as close to a given target as the
finest of the accuracies asked for, or at a limit.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Array = NDArray[np.float64]


@dataclass
class Ascent:
    """How far an ascent came: the best value seen, where it stopped and what it cost."""

    value: float
    parameter: float | Array  # beta (Algorithm 1) or the state utilities (Algorithm 2)
    iterations: int
    seconds: float
    # When an iterate first came this close to the target, for each accuracy that was reached.
    seconds_to: dict[float, float] = field(default_factory=dict)


def soft_value_iteration(P: Array, R: Array, H: int) -> tuple[Array, Array]:
    """Soft policy at rationality 1 and its logarithm, both ``[H, S, A]``."""
    S, A, _ = P.shape
    log_policy = np.empty((H, S, A))
    V = np.zeros(S)
    for t in reversed(range(H)):
        Q = R[:, None] + P @ V
        V = logsumexp(Q, axis=1)
        log_policy[t] = Q - V[:, None]
    return np.exp(log_policy), log_policy


def state_occupancy(P: Array, policy: Array, mu: Array) -> Array:
    """Distribution of the state at each decision, ``[H, S]``, for a policy ``[H, S, A]``."""
    H, S, A = policy.shape
    D = np.zeros((H, S))
    D[0] = mu
    for t in range(H - 1):
        for a in range(A):
            D[t + 1] += (D[t] * policy[t, :, a]) @ P[:, a, :]
    return D


def _time_policy(policy: Array, H: int) -> Array:
    return np.broadcast_to(policy, (H, *policy.shape)) if policy.ndim == 2 else policy


def _note(
    reached: dict[float, float],
    value: float,
    target: float | None,
    accuracies: Sequence[float],
    began: float,
) -> bool:
    """Note which accuracies an iterate reaches for the first time; whether all are reached."""
    if target is None:
        return False
    for accuracy in accuracies:
        if value >= target - accuracy:
            reached.setdefault(accuracy, time.perf_counter() - began)
    return len(reached) == len(accuracies)


def known_utility_ascent(
    P: Array,
    R: Array,
    policy: Array,
    mu: Array,
    H: int,
    *,
    alpha: float,
    target: float | None = None,
    accuracies: Sequence[float] = (1e-6,),
    max_iterations: int = 100_000,
    max_seconds: float = math.inf,
    beta: float = 0.0,
) -> Ascent:
    """Algorithm 1: ``beta += alpha (E_pi[U] - E_soft[U])``, from ``beta`` (on the scaled utility).

    ``alpha`` is the fixed step on the utility scaled to [0, 1].  The curvature is at most H^2 / 4,
    so ``4 / H**2`` is always safe; larger steps are often faster and may oscillate.
    """
    began = time.perf_counter()
    low, spread = float(R.min()), float(R.max() - R.min()) or 1.0
    U = (R - low) / spread
    pi = _time_policy(policy, H)
    D = state_occupancy(P, pi, mu)
    behaviour = D[:, :, None] * pi
    wanted = float((D @ U).sum())
    base = H * math.log(P.shape[1])
    best, best_beta, iterations = -math.inf, beta, 0
    reached: dict[float, float] = {}
    while iterations < max_iterations and time.perf_counter() - began < max_seconds:
        soft, log_soft = soft_value_iteration(P, beta * U, H)
        value = float((behaviour * log_soft).sum()) + base
        iterations += 1
        if value > best:
            best, best_beta = value, beta
        if _note(reached, value, target, accuracies, began):
            break
        beta += alpha * (wanted - float((state_occupancy(P, soft, mu) @ U).sum()))
    return Ascent(best, best_beta / spread, iterations, time.perf_counter() - began, reached)


def unknown_utility_ascent(
    P: Array,
    policy: Array,
    mu: Array,
    H: int,
    *,
    alpha: float,
    optimiser: Literal["plain", "adam"] = "plain",
    target: float | None = None,
    accuracies: Sequence[float] = (1e-6,),
    max_iterations: int = 100_000,
    max_seconds: float = math.inf,
    theta: Array | None = None,
) -> Ascent:
    """Algorithm 2, all utilities over states: ``theta += alpha (E_pi[visits] - E_soft[visits])``.

    ``optimiser="adam"`` scales the steps by Adam with its usual constants (0.9, 0.999, 1e-8).
    """
    began = time.perf_counter()
    S, A, _ = P.shape
    pi = _time_policy(policy, H)
    D = state_occupancy(P, pi, mu)
    behaviour = D[:, :, None] * pi
    wanted = D.sum(axis=0)
    base = H * math.log(A)
    theta = np.zeros(S) if theta is None else np.array(theta, dtype=float)
    first, second = np.zeros(S), np.zeros(S)
    best, best_theta, iterations = -math.inf, theta.copy(), 0
    reached: dict[float, float] = {}
    while iterations < max_iterations and time.perf_counter() - began < max_seconds:
        soft, log_soft = soft_value_iteration(P, theta, H)
        value = float((behaviour * log_soft).sum()) + base
        iterations += 1
        if value > best:
            best, best_theta = value, theta.copy()
        if _note(reached, value, target, accuracies, began):
            break
        gradient = wanted - state_occupancy(P, soft, mu).sum(axis=0)
        if optimiser == "adam":
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * gradient**2
            mean = first / (1.0 - 0.9**iterations)
            scale = np.sqrt(second / (1.0 - 0.999**iterations)) + 1e-8
            theta = theta + alpha * mean / scale
        else:
            theta = theta + alpha * gradient
    return Ascent(best, best_theta, iterations, time.perf_counter() - began, reached)
