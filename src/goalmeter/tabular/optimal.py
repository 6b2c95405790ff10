"""Hard-optimal policies: planning without entropy."""

from __future__ import annotations

import numpy as np

from goalmeter._types import ArrayLike, FloatArray
from goalmeter.tabular.backup import problem
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import plan
from goalmeter.tabular.rewards import rewards_of


def optimal_policy(mdp: TabularMDP, *, utility: ArrayLike | None = None) -> FloatArray:
    """A deterministic optimal policy, ties to the lowest action index.

    Args:
        mdp: the world.
        utility: [S], [S, A], [H, S] or [H, S, A]; default the MDP's reward.

    Returns:
        [H, S, A] (best actions depend on the decisions left), or [S, A] for the infinite
        discounted problem; entries 0 or 1.

    Raises:
        InvalidUtilityError: the utility does not fit the MDP.

    Example:
        >>> mdp = TabularMDP([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], [0, 1], horizon=2)
        >>> optimal_policy(mdp)[0]
        array([[0., 1.],
               [1., 0.]])
    """
    rewards, _ = rewards_of(mdp, utility).normalised()
    solved = plan(problem(mdp, rewards, np.array([np.inf])))
    out = np.zeros((mdp.steps, mdp.n_states, mdp.n_actions))
    states = np.arange(mdp.n_states)
    for step in range(mdp.steps):
        # Gaps below the tie tolerance are exactly 0, so argmin takes the first tied action.
        best = solved.backup_at(step).gap[..., 0].argmin(axis=0)
        out[step, states, best] = 1.0
    return out[0] if mdp.horizon is None else out
