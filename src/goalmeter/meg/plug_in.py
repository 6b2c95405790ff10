"""The naive plug-in of maximum causal entropy: the comparison that MEG replaces."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from goalmeter._types import ArrayLike
from goalmeter.meg.behaviour import behaviour_of
from goalmeter.meg.evidence import evidence
from goalmeter.tabular.backup import problem
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import log_of_reference
from goalmeter.tabular.rewards import rewards_of


class PlugIn(NamedTuple):
    """How well a utility predicts a policy at rationality 1, nats.

    `accuracy` is E[sum_t log pi_1(a_t | s_t)] over all decisions, at most 0; `evidence` is the
    same less the reference's, and unlike a MEG it can be negative.
    """

    accuracy: float
    evidence: float


def mce_plug_in(
    mdp: TabularMDP,
    policy: ArrayLike,
    *,
    utility: ArrayLike | None = None,
    reference: ArrayLike | None = None,
) -> PlugIn:
    """Predictive accuracy of a utility put straight into the soft-optimal policy.

    Kept for comparison only: it is not invariant to the utility's scale, so twice the same goal
    scores differently.

    Args:
        mdp: the world.
        policy: [S, A] or [H, S, A].
        utility: [S], [S, A], [H, S] or [H, S, A]; default the MDP's reward.
        reference: the policy that rationality 0 stands for; default uniform.

    Raises:
        InvalidPolicyError, InvalidUtilityError: arrays that do not fit the MDP.

    Source: MEG paper (NeurIPS 2024), section 3, "Comparison to MCE IRL", equation 2.

    Example: the optimal mouse, for U and for 2 U (-0.13 and -0.018 in the paper, which counts
    the first of the two decisions; the second adds log 1/2 to accuracy and 0 to evidence).
        >>> stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
        >>> mouse = TabularMDP([[[0, 1, 0], [0, 0, 1]], *stay], [0, 1, -1], horizon=2)
        >>> optimal = [[1, 0], [0.5, 0.5], [0.5, 0.5]]
        >>> [round(mce_plug_in(mouse, optimal, utility=u).evidence - float(np.log(2)), 3)
        ...  for u in ([0, 1, -1], [0, 2, -2])]
        [-0.127, -0.018]
    """
    log_reference = log_of_reference(mdp, reference)
    behaviour = behaviour_of(mdp, [policy])
    rewards = rewards_of(mdp, utility)
    gained = float(evidence(problem(mdp, rewards, np.ones(1), log_reference), behaviour).value[0])
    prior = np.full((1, 1, 1), -np.log(mdp.n_actions)) if log_reference is None else log_reference
    # What the reference itself says of the behaviour: evidence is what the model adds to it.
    base = 0.0
    for step in range(mdp.steps):
        weights = behaviour.weights(step, slice(None))[..., 0]
        now = prior[min(step, len(prior) - 1)]
        base += float((weights * np.where(weights > 0, now, 0.0)).sum())
    return PlugIn(base + gained, gained)
