"""The information of logged decisions as a matrix, in the states that the logs visit alone.

A log visits few of the states that there are at each decision, and only these have a part in

    information = sum over t, s of weight_t(s) E_pi[psi_t(s) psi_t(s)^T],
    psi_t(s, a) = features + E[W_(t+1)(s')] - W_t(s),

with W_t [S, D] the expected features still to come. W takes one product with the policy's own
[S, S] a decision, and rows of psi are worked out where there is weight: the numbers of
`SoftModel.information`, without its arrays of an entry for each action, state and weight.
"""

from __future__ import annotations

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.samples import Group, scores_by_trajectory
from goalmeter.meg.soft_model import ALL, SoftModel

# Classes of more weights are worth it.
LARGE_WEIGHTS = 100


def information_of(model: SoftModel, states: FloatArray) -> FloatArray:
    """`model.information(states)` for states [T, S] most of which have no weight."""
    d = model.utilities.n_weights
    if d <= LARGE_WEIGHTS or model.mdp.horizon is None:
        return model.information(states)
    mdp, utilities = model.mdp, model.utilities
    rewards = utilities.rewards(np.eye(d))
    rows = mdp.transition.by_action()
    place = np.arange(mdp.n_actions)[:, None] * mdp.n_states
    later = np.zeros((mdp.n_states, d))
    total = np.zeros((d, d))
    for t in reversed(range(mdp.steps)):
        policy = model.policy(t)
        paid = rewards.discount**t * rewards.at(t, ALL)
        used = np.flatnonzero(states[t])
        value = np.asarray(rows[(place + used).ravel()] @ later)
        value = value.reshape(mdp.n_actions, len(used), d) + paid[:, used]
        psi = value - np.einsum("as,asd->sd", policy[:, used], value)
        psi *= np.sqrt(policy[:, used] * states[t, used])[..., None]
        flat = psi.reshape(-1, d)
        total += flat.T @ flat
        if t > 0:
            mean = paid[0] if len(paid) == 1 else np.einsum("as,asd->sd", policy, paid)
            later = np.asarray(mdp.transition.under(policy) @ later) + mean
    return total


def scores_of(group: Group, model: SoftModel) -> FloatArray:
    """Gradients in the weights of each trajectory's evidence, [N, D], the quicker way."""
    log, d = group.trajectories, group.utilities.n_weights
    n = len(log)
    if d <= LARGE_WEIGHTS or n >= d:
        return scores_by_trajectory(group, model)
    # One pass forwards for each trajectory, instead of one backwards for each weight.
    number = np.arange(n)

    def weights(step: int) -> FloatArray:
        out = np.zeros((group.mdp.n_actions, group.mdp.n_states, n))
        for t in group.columns(step):
            at = log.length > t
            np.add.at(out, (log.actions[at, t], log.states[at, t], number[at]), group.decay(t))
        return out

    return model.adjoint(weights).T
