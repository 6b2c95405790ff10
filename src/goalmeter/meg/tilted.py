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

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.behaviour import decisions
from goalmeter.meg.certificate import BOUND_FACTOR, Certificate
from goalmeter.meg.newton import conjugate_gradients
from goalmeter.meg.soft_model import SoftModel
from goalmeter.meg.value_space import Space
from goalmeter.tabular.evaluation import state_occupancy

# The direction is wanted to rounding at most; so much damping only keeps the system regular.
_ACCURACY, _CG_STEPS = 1e-10, 400
# The search for a direction ends where no residual was smaller for so many products, sooner if
# what is missed was at most so many times what is wanted.
_IDLE_PRODUCTS, _FEW_PRODUCTS, _NEARLY = 40, 8, 30.0
_DAMPING, _DAMPING_FLOOR = 1e-13, 1e-3


def price(model: SoftModel, missed: FloatArray) -> float:
    """What features [D] that a policy misses cost the bound beside a model, nats."""
    size = BOUND_FACTOR * max(1.0, float(np.ptp(model.theta)))
    if model.utilities.matrix is None:
        return 0.5 * size * float(np.abs(missed).sum())
    size = BOUND_FACTOR * max(1.0, float(np.abs(model.theta).sum()))
    return size * float(np.abs(missed).max())


class _Closest:
    """The solution whose residual costs the least of those that conjugate gradients go through.

    Where rounding has its say, residuals grow again: the system is singular, and its right side
    only nearly in its range.
    """

    def __init__(self, price: Callable[[FloatArray], float], wanted: float) -> None:
        self.weights: FloatArray | None = None
        self._price, self._wanted = price, wanted
        self._missed, self._idle = np.inf, 0

    def ended(self, weights: FloatArray, residual: FloatArray) -> bool:
        """Keep a solution [D] if it is the closest; whether to look for no closer one."""
        missed = self._price(residual)
        self._idle += 1
        if missed < self._missed:
            self.weights, self._missed, self._idle = weights.copy(), missed, 0
        few = self._missed <= _NEARLY * self._wanted
        idle = self._idle >= (_FEW_PRODUCTS if few else _IDLE_PRODUCTS)
        return self._missed <= self._wanted or idle


class NewtonDirection:
    """The Newton direction of a model, in weights and in what it does to the policy.

    `visits` are the model's [D], `gradient` what the behaviour's exceed them by, and `least` what
    counts as hardly visited. What the policy along the direction misses may cost the bound so many
    nats as are `missed`, and the system is solved no more exactly than that.
    """

    def __init__(
        self,
        model: SoftModel,
        visits: FloatArray,
        gradient: FloatArray,
        space: Space,
        least: float,
        missed: float,
    ) -> None:
        self.model, self.gradient = model, gradient
        shifted = visits + least
        scale = space.scale(model, shifted, np.zeros_like(shifted))
        damping = _DAMPING * scale + _DAMPING_FLOOR * least
        nearly = space.preconditioner(model, shifted, damping)
        closest = _Closest(partial(price, model), missed)
        last = conjugate_gradients(
            lambda v: model.curve(v, model.states) + damping * v,
            gradient,
            _ACCURACY,
            nearly,
            _CG_STEPS,
            closest.ended,
        )
        self.weights = last if closest.weights is None else closest.weights


def tilted_certificate(direction: NewtonDirection, target: FloatArray) -> Certificate:
    """What the policy along a Newton direction proves; `target` are the behaviour's visits [D]."""
    return policy_certificate(direction.model, _tilted(direction), target)


def _tilted(direction: NewtonDirection) -> Iterator[FloatArray]:
    """The policy along a Newton direction, one decision [A, S] after the other."""
    model, psi = direction.model, direction.model.tangent(direction.weights)
    push, states = model.mdp.transition.push, model.states
    change = np.zeros(model.mdp.n_states)
    if model.mdp.horizon is None:
        change = model.occupancy_change({0: psi(0)[..., None]})[0]
    for t in range(model.mdp.steps):
        now, log_change = model.policy(t), psi(t)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(states[t] > 0, change / states[t], 0.0)
        tilted = now * np.maximum(1.0 + share + log_change, 0.0)
        total = tilted.sum(axis=0)
        # Where everything is cut off the policy is never in doubt, as little as it is used.
        yield np.where(total > 0, tilted / np.where(total > 0, total, 1.0), now)
        change = push(now * (log_change * states[t] + change))


def policy_certificate(
    model: SoftModel, policy: Iterable[FloatArray], target: FloatArray
) -> Certificate:
    """What a policy, [A, S] for each decision, proves of the class, world and reference of a model.

    `target` are the behaviour's expected features [D], which are visits where there are none.
    """
    mdp, utilities = model.mdp, model.utilities
    visits, total = utilities.visits(1), 0.0
    uniform = -np.log(mdp.n_actions)
    states = mdp.initial
    for t, now in enumerate(policy):
        if mdp.horizon is None:
            states = state_occupancy(mdp, now[None, ..., None])[0, :, 0]
        mass = now * states
        used = mass > 0
        prior = uniform
        if model.log_reference is not None:
            prior = model.log_reference[min(t, len(model.log_reference) - 1)][used]
        total += float(mass[used] @ (np.log(now[used]) - prior))
        utilities.tally(visits, t, mass[..., None])
        states = mdp.transition.push(mass)
    missed = target - utilities.collect(visits)[:, 0]
    if utilities.matrix is not None:
        rounding = np.finfo(float).eps * decisions(mdp)
        return Certificate(total, float(np.abs(missed).max()) + rounding)
    # Rounding, of one part in 2^52 of all visits, counts as difference too.
    rounding = np.finfo(float).eps * float(target.sum())
    return Certificate(total, 0.5 * float(np.abs(missed).sum()) + rounding, by_range=True)
