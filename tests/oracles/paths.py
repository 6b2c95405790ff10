"""Every trajectory of a small MDP, one by one: ``mu(s_0) pi(a_0|s_0) P(s_1|s_0,a_0) ...`` of
Definition 5.1 for every path of positive probability.  The cost is ``(S A)^H``.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Path = tuple[tuple[int, int], ...]


def reward_at(R: Array, t: int, s: int, a: int) -> float:
    """Reward of decision ``t``: ``R`` is ``[S]``, ``[S, A]`` or ``[H, S, A]``."""
    if R.ndim == 1:
        return float(R[s])
    if R.ndim == 2:
        return float(R[s, a])
    return float(R[t, s, a])


def policy_at(policy: Array, t: int, s: int, a: int) -> float:
    """``pi_t(a|s)`` of a policy ``[S, A]`` (stationary) or ``[H, S, A]``."""
    return float(policy[s, a]) if policy.ndim == 2 else float(policy[t, s, a])


def enumerate_paths(P: Array, policy: Array, mu: Array, H: int) -> Iterator[tuple[Path, float]]:
    """Yield ``((s_0, a_0), ..., (s_{H-1}, a_{H-1}))`` with its probability, if that is positive."""
    n_states, n_actions, _ = P.shape

    def extend(path: Path, probability: float) -> Iterator[tuple[Path, float]]:
        t = len(path)
        if t == H:
            yield path, probability
            return
        for s in range(n_states):
            arrive = float(mu[s]) if t == 0 else float(P[path[-1][0], path[-1][1], s])
            for a in range(n_actions):
                p = probability * arrive * policy_at(policy, t, s, a)
                if p > 0.0:
                    yield from extend((*path, (s, a)), p)

    yield from extend((), 1.0)


def path_return(path: Path, R: Array, discount: float = 1.0) -> float:
    """The utility of one path: ``sum_t discount^t R(s_t, a_t)``."""
    return math.fsum(discount**t * reward_at(R, t, s, a) for t, (s, a) in enumerate(path))


def expected_return(
    P: Array, R: Array, policy: Array, mu: Array, H: int, discount: float = 1.0
) -> float:
    """``E_pi[U]``: the utility of every path times the probability of the path."""
    return math.fsum(p * path_return(x, R, discount) for x, p in enumerate_paths(P, policy, mu, H))


def variance_of_return(
    P: Array, R: Array, policy: Array, mu: Array, H: int, discount: float = 1.0
) -> float:
    """``Var_pi[U]``, the variance of the utility of a random path (dynamics included)."""
    mean = expected_return(P, R, policy, mu, H, discount)
    return math.fsum(
        p * (path_return(x, R, discount) - mean) ** 2 for x, p in enumerate_paths(P, policy, mu, H)
    )


def occupancy_by_paths(P: Array, policy: Array, mu: Array, H: int) -> Array:
    """``d_t(s, a)``, shape ``[H, S, A]``: add each path's probability to every cell it visits."""
    d = np.zeros((H, P.shape[0], P.shape[1]))
    for path, p in enumerate_paths(P, policy, mu, H):
        for t, (s, a) in enumerate(path):
            d[t, s, a] += p
    return d


def occupancy_by_loops(P: Array, policy: Array, mu: Array, H: int) -> Array:
    """The same ``d_t(s, a)`` by pushing the state distribution forward one decision at a time."""
    n_states, n_actions, _ = P.shape
    d = np.zeros((H, n_states, n_actions))
    mass = [float(p) for p in mu]
    for t in range(H):
        following = [0.0] * n_states
        for s in range(n_states):
            if mass[s] == 0.0:
                continue
            for a in range(n_actions):
                d[t, s, a] = mass[s] * policy_at(policy, t, s, a)
                for s2 in np.flatnonzero(P[s, a]):
                    following[s2] += d[t, s, a] * float(P[s, a, s2])
        mass = following
    return d


def discounted_occupancy(P: Array, policy: Array, mu: Array, discount: float) -> Array:
    """``sum_t discount^t Pr(s_t = s, a_t = a)``, shape ``[S, A]``, added up until it is negligible.

    The total is ``1 / (1 - discount)``: this is not normalised to one.
    """
    total = np.zeros(policy.shape)
    mass, weight = np.array(mu, dtype=float), 1.0
    while weight > 1e-18 * (1.0 - discount):
        now = mass[:, None] * policy
        total += weight * now
        mass = np.zeros(len(mass))
        for a in range(P.shape[1]):
            mass += now[:, a] @ P[:, a, :]
        weight *= discount
    return total
