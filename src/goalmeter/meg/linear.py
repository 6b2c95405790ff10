"""Goal-directedness towards the best utility of a linear class, with a certificate.

The evidence is concave in the weights, so damped Newton steps find its global maximum, faces at
infinity included. The certificate comes from the other side, the maximum-entropy problem: any
policy pi' whose feature expectations equal the behaviour's bounds the evidence of *every*
utility of the class by  E_pi'[sum log pi' / reference].  Such a policy is one linear step away
from the last model: moving its occupancy along the Newton direction matches the features exactly,
up to a residual r of rounding size, which costs at most B * max|r| for all utilities whose
weights (times the rationality) sum to at most B in absolute value.

Source: MEG paper (NeurIPS 2024), Definitions 4.2 to 4.4; weak duality of maximum causal entropy
(Ziebart 2010).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.behaviour import Behaviour
from goalmeter.meg.face import find_face
from goalmeter.meg.newton import NewtonSystem
from goalmeter.meg.soft_model import ALL, SoftModel
from goalmeter.meg.utility_class import LinearClass

_MAX_STEPS = 200
_GRADIENT_STEPS = 500
# So many steps in a row that gain less than this share of the tolerance end the search.
_IDLE_STEPS = 4
_IDLE_SHARE = 1e-2
# Gain of the last step (nats) below which a certificate or a face is worth looking for.
_NEAR = 1e-2
# Above this gain the optimum is far away, and full Newton steps are not to be trusted.
_FAR = 0.3
# Steps that follow a certificate, until one gains less than this (nats).
_POLISHING_STEPS = 30
_POLISHED = 1e-14
# Occupancies this far below zero, relative to the largest, are zeros that were rounded.
_ROUNDING = 1e-12
# The bound holds for utilities whose weights sum to at most this multiple of the found ones'.
BOUND_FACTOR = 1e3


@dataclass(frozen=True)
class LinearFit:
    """The maximum of the evidence over a linear class.

    Attributes:
        value: evidence of the best model, nats.
        upper_bound: proven bound on the evidence of every utility with |weights|_1 up to
            `bound_weight`, nats.
        model: the best model (inside the last face, if there are faces).
        directions: diverging directions [D], the dominant first; empty for a finite optimum.
        bound_weight: B of the certificate.
        steps: Newton steps taken.
    """

    value: float
    upper_bound: float
    model: SoftModel
    directions: list[FloatArray]
    bound_weight: float
    steps: int


def fit_linear(
    behaviour: Behaviour,
    utilities: LinearClass,
    log_reference: FloatArray | None,
    *,
    tolerance: float,
    ceiling: float,
) -> LinearFit:
    """Maximise the evidence of a policy's behaviour over a linear class.

    Stops when bound and value differ by at most `tolerance`, or when rounding ends progress.
    `ceiling` is a bound that is known beforehand (see `MegResult`), nats.
    """
    start = SoftModel(behaviour.mdp, utilities, np.zeros(utilities.n_weights), log_reference)
    fit = _ascend(start, behaviour, tolerance, ceiling)
    if fit.upper_bound - fit.value <= tolerance:
        return _polished(fit, behaviour)
    # Newton steps can strand on a plateau, where actions are certain and curvature is a rounded
    # zero. Gradients know no curvature: where they end is a second start.
    second = _ascend(_by_gradients(start, behaviour), behaviour, tolerance, fit.upper_bound)
    best = second if second.value > fit.value else fit
    return replace(
        best,
        upper_bound=second.upper_bound,
        bound_weight=max(fit.bound_weight, second.bound_weight),
        steps=fit.steps + second.steps,
    )


def _polished(fit: LinearFit, behaviour: Behaviour) -> LinearFit:
    """The fit after more Newton steps: a certified value leaves the weights half its digits."""
    for _ in range(_POLISHING_STEPS):
        model = fit.model
        step = NewtonSystem([(model, model.states)]).solve(model.gradient(behaviour))
        trial = SoftModel(model.mdp, model.utilities, model.theta + step, model.log_reference)
        value = trial.evidence(behaviour)
        if not value >= fit.value:
            break
        gain = value - fit.value
        fit = replace(fit, model=trial, value=value, upper_bound=max(fit.upper_bound, value))
        if gain <= _POLISHED:
            break
    return fit


def _by_gradients(start: SoftModel, behaviour: Behaviour) -> SoftModel:
    """Where L-BFGS ends."""
    from scipy.optimize import minimize

    def at(theta: FloatArray) -> SoftModel:
        return SoftModel(start.mdp, start.utilities, theta, start.log_reference)

    def cost(theta: FloatArray) -> tuple[float, FloatArray]:
        model = at(theta)
        return -model.evidence(behaviour), -model.gradient(behaviour)

    options = {"maxiter": _GRADIENT_STEPS}
    return at(minimize(cost, start.theta, method="L-BFGS-B", jac=True, options=options).x)


def _ascend(model: SoftModel, behaviour: Behaviour, tolerance: float, ceiling: float) -> LinearFit:
    """Damped Newton steps from a model, with faces and certificates on the way."""
    mdp = behaviour.mdp
    value = model.evidence(behaviour)
    directions: list[FloatArray] = []
    upper, weight = ceiling, 0.0
    visited = np.stack([behaviour.weights(t, ALL)[..., 0].sum(axis=0) for t in range(mdp.steps)])
    damping, gain, steps, idle = 1.0, np.inf, 0, 0
    while steps < _MAX_STEPS and idle < _IDLE_STEPS and upper - value > tolerance:
        steps += 1
        gradient = model.gradient(behaviour)
        if gain <= _NEAR:
            step = NewtonSystem([(model, model.states)]).solve(gradient)
            psi = dict(model.tangents(step[:, None]))
            bound, size = _certificate(model, psi, gradient, step)
            if bound < upper:
                upper, weight = bound, size
            if upper - value <= tolerance:
                break
            face = find_face(model, step, psi, behaviour)
            inside = -np.inf if face is None else face.model.evidence(behaviour)
            # A face holds the limit of ever better models, so it cannot be worse than this one.
            if face is not None and inside >= value - tolerance:
                model, value = face.model, inside
                directions.append(face.direction)
                continue
        # Where the model hardly goes yet and the behaviour does, Newton steps are wild; counting
        # the behaviour's own visits tames them, as long as there is far to go.
        states = 0.5 * (model.states + visited) if gain > _FAR else model.states
        system = NewtonSystem([(model, states)], exact=False)
        better = _climb(system, model, behaviour, value, gradient, damping)
        if better is None:
            if gain <= _NEAR:
                break
            gain = 0.0  # no step gains, so this is the optimum: it remains to be certified
            continue
        gain = better[1] - value
        idle = idle + 1 if gain < _IDLE_SHARE * tolerance else 0
        model, value, damping = better
    return LinearFit(value, upper, model, directions, weight, steps)


def _climb(
    system: NewtonSystem,
    model: SoftModel,
    behaviour: Behaviour,
    value: float,
    gradient: FloatArray,
    damping: float,
) -> tuple[SoftModel, float, float] | None:
    """The model after a damped step (Levenberg-Marquardt), its value, and the next damping.

    None if rounding forbids a step that gains.
    """
    while damping < 1e12:
        step = system.solve(gradient, damping=damping)
        promised = float(gradient @ step)
        theta = model.theta + step
        trial = SoftModel(model.mdp, model.utilities, theta, model.log_reference)
        gain = trial.evidence(behaviour) - value
        if gain > 0.1 * promised:
            factor = 0.1 if gain > 0.4 * promised else 0.5
            # Below this, damping no longer touches what is not null.
            return trial, value + gain, max(damping * factor, 1e-14)
        damping = 4.0 * max(damping, 1e-10)
    return None


def _certificate(
    model: SoftModel, psi: dict[int, FloatArray], gradient: FloatArray, step: FloatArray
) -> tuple[float, float]:
    """Upper bound from the matching policy one linear step away, and its B (see above)."""
    change = model.occupancy_change(psi)
    moved = model.states + change
    if (moved < -_ROUNDING * moved.max()).any():
        return np.inf, 0.0
    lost = float(np.maximum(-moved, 0.0).sum())
    moved = np.maximum(moved, 0.0)
    total = 0.0
    visits = model.utilities.visits(1)
    for t in range(model.mdp.steps):
        policy, log_ratio = model.step(t)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(moved[t] > 0, model.states[t] / moved[t], 0.0)
        tilt = psi[t][..., 0] * share
        weights = policy * moved[t]
        used = weights > 0
        # Where a state loses all its mass, the mass of its actions must go too.
        left = weights + policy * psi[t][..., 0] * model.states[t]
        if (tilt[used] < -1.0 - _ROUNDING).any() or (left < -_ROUNDING * moved[t].max()).any():
            return np.inf, 0.0
        tilt = np.maximum(tilt, -1.0)
        mass = weights * (1.0 + tilt)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = mass * (log_ratio + np.log1p(tilt))
        total += float(np.where(used & (mass > 0), terms, 0.0).sum())
        model.utilities.tally(visits, t, (mass - policy * model.states[t])[..., None])
    # Mass that was rounded away could have been in the worst place for all decisions.
    residual = float(np.abs(gradient - model.utilities.collect(visits)[:, 0]).max())
    residual += lost * model.mdp.steps
    weight = BOUND_FACTOR * max(1.0, float(np.abs(model.theta).sum()))
    return total + weight * residual, weight
