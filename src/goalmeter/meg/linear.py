"""The search for the best utility of a linear class.

The evidence is concave in the weights, so damped Newton steps find its global maximum, faces at
infinity included. The certificate comes from the other side, the maximum-entropy problem: any
policy pi' whose feature expectations equal the behaviour's bounds the evidence of *every*
utility of the class by  E_pi'[sum log pi' / reference].  Such a policy is one linear step away
from the last model (`goalmeter.meg.certificate`).

Source: MEG paper (NeurIPS 2024), Definitions 4.2 to 4.4; weak duality of maximum causal entropy
(Ziebart 2010).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.behaviour import Behaviour
from goalmeter.meg.certificate import Bounds, LinearFit, checked, matching_certificate
from goalmeter.meg.confinement import staying_inside
from goalmeter.meg.counted import behaviour_entries, met
from goalmeter.meg.face import find_face
from goalmeter.meg.newton import DIRECT_WEIGHTS, NewtonSystem, newton_step
from goalmeter.meg.penalised import is_small, penalised_path
from goalmeter.meg.recession import recession_faces
from goalmeter.meg.soft_model import ALL, SoftModel
from goalmeter.meg.utility_class import LinearClass
from goalmeter.meg.value_space import can_be_dense
from goalmeter.meg.visit_matching import match_visits
from goalmeter.meg.watch import Watch
from goalmeter.tabular.mdp import TabularMDP

# Classes of more weights are fitted by matching visits. Measured on grids, that is the quicker way
# from there on; below, dense systems also reach optima that lie further out.
_LARGE_WEIGHTS = 100
# With features, where forming the information takes more multiplications than this.
_LARGE_WORK = 1e8
_MAX_STEPS = 200
_GRADIENT_STEPS = 500
# So many steps in a row that gain less than this share of the tolerance end the search.
IDLE_STEPS = 4
IDLE_SHARE = 1e-2
# Gain of the last step (nats) below which a certificate or a face is worth looking for.
NEAR = 1e-2
# Above this gain the optimum is far away, and full Newton steps are not to be trusted.
FAR = 0.3
# Steps that follow a certificate, until one gains less than this (nats).
POLISHING_STEPS = 30
_POLISHED = 1e-14


def fit_linear(
    behaviour: Behaviour,
    utilities: LinearClass,
    log_reference: FloatArray | None,
    *,
    tolerance: float,
    ceiling: float,
    watch: Watch[LinearFit] | None = None,
) -> LinearFit:
    """Maximise the evidence of a policy's behaviour over a linear class.

    Stops when bound and value differ by at most `tolerance`, or when rounding ends progress.
    `ceiling` is a bound that is known beforehand (see `MegResult`), nats. `watch` is told of every
    step; it has the best so far where it, or the keyboard, ends the search from within.
    """
    watch = watch or Watch()
    zero = np.zeros(utilities.n_weights)
    start = SoftModel(behaviour.mdp, utilities, zero, log_reference, watch.check, behaviour)
    bounds = Bounds(ceiling)
    large = is_large(behaviour.mdp, utilities)
    inside, directions = _confined(start, behaviour) if large else (start, [])
    if large:
        fit = match_visits(inside, behaviour, tolerance, bounds, watch, directions, dense=False)
    else:
        fit = _ascend(start, behaviour, tolerance, bounds, watch, "Newton steps")
    fit = checked(fit, behaviour, bounds)
    if fit.closes(tolerance):
        return fit if large else _polished(fit, behaviour)
    limit = _at_infinity(fit, inside, directions, behaviour, tolerance, bounds, watch)
    if limit is not None and limit.value >= fit.value - max(tolerance, fit.error):
        return _better(fit, limit, behaviour, bounds)
    if large and can_be_dense(utilities):
        # Steps that were solved too roughly may have settled where there was still far to go.
        again = match_visits(inside, behaviour, tolerance, bounds, watch, directions, dense=True)
        fit = _better(fit, again, behaviour, bounds)
    if fit.closes(tolerance):
        return fit
    if large and utilities.n_weights <= DIRECT_WEIGHTS:
        second_fit = _ascend(start, behaviour, tolerance, bounds, watch, "second Newton steps")
        fit = _better(fit, second_fit, behaviour, bounds)
        if fit.closes(tolerance):
            return _polished(fit, behaviour)
    if is_small(behaviour.mdp, utilities):
        path = penalised_path(start, behaviour, tolerance, bounds, watch)
        fit = _better(fit, path, behaviour, bounds)
        if fit.closes(tolerance):
            return fit
    if utilities.n_weights > DIRECT_WEIGHTS and large:
        return fit
    # Newton steps can strand on a plateau, where actions are certain and curvature is a rounded
    # zero. Gradients know no curvature: where they end is one more start.
    watch.tell(fit, *fit.bracket, stage="gradient steps", step=0, of=_GRADIENT_STEPS)
    second = _by_gradients(start, behaviour)
    second_fit = _ascend(second, behaviour, tolerance, bounds, watch, "second Newton steps")
    return _better(fit, second_fit, behaviour, bounds)


def is_large(mdp: TabularMDP, utilities: LinearClass) -> bool:
    """Whether visits are matched for a class, which is quicker for all but the small ones."""
    if utilities.matrix is None:
        return utilities.n_weights > _LARGE_WEIGHTS
    rows = mdp.steps * mdp.n_actions * mdp.n_states
    return rows * utilities.n_weights**2 > _LARGE_WORK


def _confined(start: SoftModel, behaviour: Behaviour) -> tuple[SoftModel, list[FloatArray]]:
    """A model that stays where its behaviour does, and the direction that this is the limit of."""
    met_entries, direction = met(start.utilities, behaviour_entries(start.utilities, behaviour))
    allowed = staying_inside(behaviour.mdp, met_entries.astype(np.float64))
    if allowed is None:
        return start, []
    inside = start.confined(allowed)
    if np.isneginf(inside.evidence(behaviour)):
        # A visit that rounding took away altogether: the behaviour does not stay inside.
        return start, []
    return inside, [direction]


def _at_infinity(
    fit: LinearFit,
    model: SoftModel,
    directions: list[FloatArray],
    behaviour: Behaviour,
    tolerance: float,
    bounds: Bounds,
    watch: Watch[LinearFit],
) -> LinearFit | None:
    """The best utility inside the faces at infinity that a linear program finds; None without.

    `fit` is the best so far, `model` the start of the class, and `directions` what it is confined
    by already.
    """
    watch.tell(fit, *fit.bracket, stage="faces at infinity", step=0, of=1)
    found = list(directions)
    for face in recession_faces(model, behaviour, watch.check):
        model = face.model
        found.append(face.direction)
    if len(found) == len(directions):
        return None
    searches: list[Callable[[], LinearFit]] = [
        lambda: _ascend(model, behaviour, tolerance, bounds, watch, "Newton steps inside the face")
    ]
    if model.utilities.matrix is None or is_large(behaviour.mdp, model.utilities):
        searches = [lambda: match_visits(model, behaviour, tolerance, bounds, watch, found)]
    if is_small(behaviour.mdp, model.utilities):
        searches.append(lambda: penalised_path(model, behaviour, tolerance, bounds, watch))
    limit = LinearFit(model.evidence(behaviour), *bounds.at(model), model)
    for search in searches:
        limit = _better(limit, search(), behaviour, bounds)
        if limit.closes(tolerance):
            break
    return replace(limit, directions=found)


def _better(first: LinearFit, second: LinearFit, behaviour: Behaviour, bounds: Bounds) -> LinearFit:
    """The fit of two searches whose value and bound are closer, under all that both proved."""
    steps = first.steps + second.steps
    fits = [checked(replace(fit, steps=steps), behaviour, bounds) for fit in (second, first)]
    return min(fits, key=lambda fit: fit.doubt)


def _polished(fit: LinearFit, behaviour: Behaviour) -> LinearFit:
    """The fit after more Newton steps: a certified value leaves the weights half its digits."""
    for _ in range(POLISHING_STEPS):
        model = fit.model
        step = NewtonSystem([(model, model.states)]).solve(model.gradient(behaviour))
        trial = model.at(model.theta + step)
        value = trial.evidence(behaviour)
        if not fit.value <= value <= fit.upper_bound + fit.error:
            break
        gain = value - fit.value
        fit = replace(fit, model=trial, value=value, upper_bound=max(fit.upper_bound, value))
        if gain <= _POLISHED:
            break
    return fit


def _by_gradients(start: SoftModel, behaviour: Behaviour) -> SoftModel:
    from scipy.optimize import minimize

    def cost(theta: FloatArray) -> tuple[float, FloatArray]:
        model = start.at(theta)
        return -model.evidence(behaviour), -model.gradient(behaviour)

    options = {"maxiter": _GRADIENT_STEPS}
    return start.at(minimize(cost, start.theta, method="L-BFGS-B", jac=True, options=options).x)


def _ascend(
    model: SoftModel,
    behaviour: Behaviour,
    tolerance: float,
    bounds: Bounds,
    watch: Watch[LinearFit],
    stage: str,
) -> LinearFit:
    """Damped Newton steps from a model, with faces and certificates on the way.

    `bounds` is what is proven already; the search adds to it.
    """
    mdp = behaviour.mdp
    value = model.evidence(behaviour)
    directions: list[FloatArray] = []
    bound = bounds.at(model)
    visited = np.stack([behaviour.weights(t, ALL)[..., 0].sum(axis=0) for t in range(mdp.steps)])
    damping, gain, steps, idle = 1.0, np.inf, 0, 0
    while steps < _MAX_STEPS and idle < IDLE_STEPS and bound.upper - value > tolerance:
        reached = LinearFit(value, *bound, model, list(directions), steps)
        watch.tell(reached, *reached.bracket, stage=stage, step=steps, of=_MAX_STEPS)
        steps += 1
        gradient = model.gradient(behaviour)
        if gain <= NEAR:
            step, psi = newton_step(model, gradient)
            certificate = matching_certificate(model, psi, gradient)
            if certificate is not None:
                bounds.add(certificate)
            bound = bounds.at(model)
            if bound.upper - value <= tolerance:
                break
            face = find_face(model, step, psi, behaviour)
            inside = -np.inf if face is None else face.model.evidence(behaviour)
            # A face holds the limit of ever better models, so it cannot be worse than this one.
            if face is not None and inside >= value - tolerance:
                model, value = face.model, inside
                directions.append(face.direction)
                bound = bounds.at(model)
                continue
        # Where the model hardly goes yet and the behaviour does, Newton steps are wild; counting
        # the behaviour's own visits tames them, as long as there is far to go.
        states = 0.5 * (model.states + visited) if gain > FAR else model.states
        system = NewtonSystem([(model, states)], exact=False)
        better = _climb(system, model, behaviour, value, gradient, damping)
        if better is None:
            if gain <= NEAR:
                break
            gain = 0.0  # no step gains, so this is the optimum: it remains to be certified
            continue
        gain = better[1] - value
        idle = idle + 1 if gain < IDLE_SHARE * tolerance else 0
        model, value, damping = better
        bound = bounds.at(model)
    return LinearFit(value, *bound, model, directions, steps)


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
        trial = model.at(model.theta + step)
        gain = trial.evidence(behaviour) - value
        if gain > 0.1 * promised:
            factor = 0.1 if gain > 0.4 * promised else 0.5
            # Below this, damping no longer touches what is not null.
            return trial, value + gain, max(damping * factor, 1e-14)
        damping = 4.0 * max(damping, 1e-10)
    return None
