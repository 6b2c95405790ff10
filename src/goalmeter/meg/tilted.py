"""A bound on a whole class from a genuine policy that nearly matches the behaviour's visits.

Any policy x bounds the evidence of any utility u* of the class by KL(x) + u* . (a - visits of x),
with a the behaviour's visits (see `goalmeter.meg.certificate`). The policy tried here is the
model's, moved along the Newton direction v, information . v = a - m: the occupancy of each state
and action changes by its derivative,

    x_t(a | s)  is proportional to  pi_t(a | s) max(0, 1 + psi_t(s, a) + e_t(s) / d_t(s)),

d the occupancy of the model, e its derivative and psi that of log pi. Where nothing is cut off at 0
the visits of x are a exactly, up to rounding; where something is, x is still a policy, whose
visits are counted by running it. So nothing that the bound rests on is refused or assumed.

Source: weak duality of maximum causal entropy (Ziebart 2010).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.certificate import Certificate
from goalmeter.meg.feature_space import FeatureSpace
from goalmeter.meg.newton import conjugate_gradients
from goalmeter.meg.soft_model import SoftModel
from goalmeter.meg.value_space import ValueSpace
from goalmeter.tabular.evaluation import state_occupancy

# The direction is wanted to rounding; so much damping only keeps the system regular.
_ACCURACY, _CG_STEPS = 1e-10, 400
_DAMPING, _DAMPING_FLOOR = 1e-13, 1e-3


class NewtonDirection:
    """The exact Newton direction of a model, in weights and in what it does to the policy.

    `visits` are the model's [D], `gradient` what the behaviour's exceed them by, and `least` what
    counts as hardly visited.
    """

    def __init__(
        self,
        model: SoftModel,
        visits: FloatArray,
        gradient: FloatArray,
        space: ValueSpace | FeatureSpace,
        least: float,
    ) -> None:
        self.model, self.gradient = model, gradient
        shifted = visits + least
        scale = space.scale(model, shifted, np.zeros_like(shifted))
        damping = _DAMPING * scale + _DAMPING_FLOOR * least
        nearly = space.preconditioner(model, shifted, damping)
        self.weights = conjugate_gradients(
            lambda v: model.curve(v, model.states) + damping * v,
            gradient,
            _ACCURACY,
            nearly,
            _CG_STEPS,
        )

    @cached_property
    def psi(self) -> dict[int, FloatArray]:
        """Derivative of log pi, t -> [A, S, 1]."""
        return dict(self.model.tangents(self.weights[:, None]))


def tilted_certificate(direction: NewtonDirection, target: FloatArray) -> Certificate:
    """What the policy along a Newton direction proves; `target` are the behaviour's visits [D]."""
    model, psi = direction.model, direction.psi
    change = model.occupancy_change(psi)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(model.states > 0, change / model.states, 0.0)
    policy = []
    for t in range(model.mdp.steps):
        now = model.policy(t)
        tilted = now * np.maximum(1.0 + share[t] + psi[t][..., 0], 0.0)
        total = tilted.sum(axis=0)
        # Where everything is cut off the policy is never in doubt, as little as it is used.
        policy.append(np.where(total > 0, tilted / np.where(total > 0, total, 1.0), now))
    return policy_certificate(model, np.stack(policy), target)


def policy_certificate(model: SoftModel, policy: FloatArray, target: FloatArray) -> Certificate:
    """What a policy [T, A, S] proves of the class, world and reference of a model.

    `target` are the behaviour's expected features [D], which are visits where there are none.
    """
    mdp, utilities = model.mdp, model.utilities
    states = state_occupancy(mdp, policy[..., None])[..., 0]
    visits, total = utilities.visits(1), 0.0
    uniform = -np.log(mdp.n_actions)
    for t in range(mdp.steps):
        mass = policy[t] * states[t]
        used = mass > 0
        prior = uniform
        if model.log_reference is not None:
            prior = model.log_reference[min(t, len(model.log_reference) - 1)][used]
        total += float(mass[used] @ (np.log(policy[t][used]) - prior))
        utilities.tally(visits, t, mass[..., None])
    missed = target - utilities.collect(visits)[:, 0]
    if utilities.matrix is not None:
        rounding = np.finfo(float).eps * mdp.steps
        return Certificate(total, float(np.abs(missed).max()) + rounding)
    # Rounding, of one part in 2^52 of all visits, counts as difference too.
    rounding = np.finfo(float).eps * float(target.sum())
    return Certificate(total, 0.5 * float(np.abs(missed).sum()) + rounding, by_range=True)
