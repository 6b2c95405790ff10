"""Where a policy spends its decisions."""

from __future__ import annotations

import numpy as np

from goalmeter._types import ArrayLike, FloatArray
from goalmeter.tabular._linear import StationarySolver
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.policies import check_policy


def occupancy(mdp: TabularMDP, policy: ArrayLike) -> FloatArray:
    """Probability of each state at each decision under a policy.

    Args:
        mdp: the world.
        policy: [S, A] or [H, S, A].

    Returns:
        [H, S], each row summing to 1. For the infinite discounted problem [S], the discounted
        expected visits sum_t g^t P(s_t = s), summing to 1 / (1 - g).

    Raises:
        InvalidPolicyError: the policy does not fit the MDP.

    Cost: O(H * transitions) time, O(H * S) memory.

    Example:
        >>> mdp = TabularMDP([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], [0, 1], horizon=3)
        >>> occupancy(mdp, [[0.5, 0.5], [1, 0]])
        array([[1.  , 0.  ],
               [0.5 , 0.5 ],
               [0.25, 0.75]])
    """
    states = state_occupancy(mdp, check_policy(mdp, policy)[..., None])[..., 0]
    return states[0] if mdp.horizon is None else states


def state_occupancy(mdp: TabularMDP, policy: FloatArray) -> FloatArray:
    """Occupancy [H or 1, S, B] of action-major policies [T, A, S, B]."""
    batch = policy.shape[-1]
    if mdp.horizon is None:
        columns = [
            StationarySolver(mdp.transition.under(policy[0, ..., i]), mdp.discount).solve(
                mdp.initial, transpose=True
            )
            for i in range(batch)
        ]
        # The exact solution is non-negative; rounding may leave -1e-18.
        return np.maximum(np.stack(columns, axis=1), 0.0)[None]
    out = np.empty((mdp.horizon, mdp.n_states, batch))
    out[0] = mdp.initial[:, None]
    for step in range(mdp.horizon - 1):
        now = policy[min(step, len(policy) - 1)]
        out[step + 1] = mdp.transition.push(now * out[step])
    return out
