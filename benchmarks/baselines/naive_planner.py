"""Soft value iteration as a user would write it: one problem, dense P, policy and values stored.

The same model as ours: pi(a | s) proportional to exp(b Q(s, a)), over a finite horizon. Nothing is
done for speed beyond NumPy itself, and nothing for large b or for b = infinity.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Array = NDArray[np.float64]


def soft_values(P: Array, R: Array, rationality: float, H: int) -> tuple[Array, Array]:
    """Values ``[H + 1, S]`` and policy ``[H, S, A]``; uniform policy = the zero of the entropy."""
    S, A, _ = P.shape
    V = np.zeros((H + 1, S))
    policy = np.empty((H, S, A))
    for t in reversed(range(H)):
        Q = R[:, None] + P @ V[t + 1]
        V[t] = (logsumexp(rationality * Q, axis=1) - np.log(A)) / rationality
        weight = np.exp(rationality * (Q - Q.max(axis=1, keepdims=True)))
        policy[t] = weight / weight.sum(axis=1, keepdims=True)
    return V, policy
