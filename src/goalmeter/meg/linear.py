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

from dataclasses import dataclass

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.behaviour import Behaviour
from goalmeter.meg.face import find_face
from goalmeter.meg.newton import NewtonSystem
from goalmeter.meg.soft_model import ALL, SoftModel
from goalmeter.meg.utility_class import LinearClass

_MAX_STEPS = 200
# Newton decrement (nats) below which a certificate or a face is worth looking for.
_NEAR = 1e-2
# Above this decrement the optimum is far away, and full Newton steps are not to be trusted.
_FAR = 0.3
# A step changes no log-probability of an action that the behaviour takes by more than this many
# nats: a longer one can end on a plateau, where actions are certain and curvature is rounding.
_REACH = 4.0
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
    mdp = behaviour.mdp
    model = SoftModel(mdp, utilities, np.zeros(utilities.n_weights), log_reference)
    value = model.evidence(behaviour)
    directions: list[FloatArray] = []
    upper, weight = ceiling, 0.0
    visited = np.stack([behaviour.weights(t, ALL)[..., 0].sum(axis=0) for t in range(mdp.steps)])
    far = True
    steps = 0
    while steps < _MAX_STEPS:
        steps += 1
        gradient = model.gradient(behaviour)
        if far:
            # Where the model hardly goes yet and the behaviour does, Newton steps are wild;
            # counting the behaviour's own visits tames them, and costs only the quadratic end.
            step = NewtonSystem([(model, 0.5 * (model.states + visited))]).solve(gradient)
            decrement = float(gradient @ step)
            far = decrement > _FAR
        if not far:
            step = NewtonSystem([(model, model.states)]).solve(gradient)
            decrement = float(gradient @ step)
        psi = dict(model.tangents(step[:, None]))
        if decrement <= _NEAR:
            bound, size = _certificate(model, psi, gradient, step)
            if bound < upper:
                upper, weight = bound, size
            if upper - value <= tolerance:
                break
            face = find_face(model, step, psi, behaviour)
            if face is not None:
                model = face.model
                directions.append(face.direction)
                value = model.evidence(behaviour)
                continue
        size = min(1.0, _REACH / _longest(psi, behaviour))
        better = _line_search(model, behaviour, value, step, decrement, size)
        if better is None:
            break
        model, value = better
    return LinearFit(value, upper, model, directions, weight, steps)


def _longest(psi: dict[int, FloatArray], behaviour: Behaviour) -> float:
    """Largest change of a log-probability, along psi, where the behaviour is."""
    size = 1e-300
    for t, change in psi.items():
        used = behaviour.weights(t, ALL)[..., 0] > 0
        size = max(size, float(np.abs(change[..., 0][used]).max(initial=0.0)))
    return size


def _line_search(
    model: SoftModel,
    behaviour: Behaviour,
    value: float,
    step: FloatArray,
    decrement: float,
    size: float,
) -> tuple[SoftModel, float] | None:
    """The model after a damped step that gains enough, or None if rounding forbids one."""
    least = 1e-6 * size
    while size > least:
        trial = SoftModel(
            model.mdp, model.utilities, model.theta + size * step, model.log_reference
        )
        gain = trial.evidence(behaviour) - value
        if gain >= 1e-4 * size * decrement and gain > 0:
            return trial, value + gain
        size /= 2
    return None


def _certificate(
    model: SoftModel, psi: dict[int, FloatArray], gradient: FloatArray, step: FloatArray
) -> tuple[float, float]:
    """Upper bound from the matching policy one linear step away, and its B (see above)."""
    change = model.occupancy_change(psi)
    moved = model.states + change
    if (moved < -_ROUNDING * moved.max()).any():
        return np.inf, 0.0
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
    residual = float(np.abs(gradient - model.utilities.collect(visits)[:, 0]).max())
    weight = BOUND_FACTOR * max(1.0, float(np.abs(model.theta).sum()))
    return total + weight * residual, weight
