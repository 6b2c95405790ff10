"""Goal-directedness with respect to the best utility of a linear class.

Small classes are solved along a path of penalties, others by damped Newton steps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError, shown
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.meg.behaviour import (
    Behaviour,
    LinearClass,
    Over,
    behaviour_of,
    bracketed,
    certifying,
    linear_class,
    rounding,
    yardstick,
)
from goalmeter.meg.certificate import (
    Bounds,
    LinearFit,
    UtilitySearch,
    matching_certificate,
    model_certificate,
)
from goalmeter.meg.faces import find_face, recession_faces, staying_inside
from goalmeter.meg.preconditioners import behaviour_entries, can_be_dense, met, tabular
from goalmeter.meg.result import (
    STOPPED_BY,
    FitInterrupted,
    MegResult,
    Reached,
    TimeIsUp,
    Watch,
    duration,
    reference_name,
)
from goalmeter.meg.soft_model import ALL, DIRECT_WEIGHTS, NewtonSystem, SoftModel, newton_step
from goalmeter.meg.visit_matching import match_visits
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import log_of_reference
from goalmeter.tabular.policies import normalised_notes

# --- Penalised ------------------------------------------------------------------------------------
# Utilities may have to grow without bound, in directions whose sizes lie many powers of ten apart,
# which defeats plain Newton steps. With a penalty the problem and its dual are well posed,
#
#     max over theta of  f(theta) - e/2 |theta|^2   =   min over x of  KL(x) + |r(x)|^2 / (2 e),
#
# r(x) what the behaviour's features exceed those of x by, e theta at the optimum. As e falls, value
# and bound close on each other; each e takes a few Newton steps from the solution before.

# The path is for classes of up to this many weights, where forming the information takes no more
# than this many multiplications: about a second for each of a hundred Newton steps.
PATH_WEIGHTS, PATH_WORK = 400, 2e9
# Each penalty is this part of the one before, from 1 down to 1e-24, far below what rounding
# leaves of the information's smallest eigenvalues.
_PART, _STAGES, _STEPS_A_STAGE = 10**-0.5, 48, 25
# A stage is over when a Newton step would gain less than this share of the penalty's own value.
_SETTLED = 1e-4
# Gain of evidence over KL (nats) below which it is worth moving the model's policy to match.
_NEAR = 1e-2
# Towards a finite optimum the weights move by `_PART` as much in each stage as in the one before;
# by more than this, they are still on their way, perhaps to infinity.
_GROWING = 0.6
# So many stages that improve neither value nor bound by this share of the tolerance end the path.
_IDLE_STAGES, _IDLE_SHARE = 6, 1e-2


def is_small(mdp: TabularMDP, utilities: LinearClass) -> bool:
    """Whether a class is small enough for the path."""
    d = utilities.n_weights
    rows = mdp.steps * mdp.n_actions * mdp.n_states
    return d <= PATH_WEIGHTS and (rows + d) * d**2 <= PATH_WORK


def penalised_path(search: UtilitySearch, start: SoftModel) -> LinearFit:
    """The best utility of a class, by Newton steps along falling penalties from weights 0."""
    behaviour = search.behaviour
    at = _Point(start, start.evidence(behaviour), start.gradient(behaviour))
    fit = search.checked(search.fit(start, at.value))
    penalty, idle, steps, highest, moves = 1.0, 0, 0, at.value, (np.inf, np.inf)
    for stage in range(1, _STAGES + 1):
        penalty, last = penalty * _PART, at
        for _ in range(_STEPS_A_STAGE):
            steps += 1
            after = _penalised_step(at, behaviour, penalty)
            if after is None:
                break
            at = after
        proven = model_certificate(at.model, at.gradient)
        search.bounds.add(proven)
        if at.value - proven.kl < _NEAR:
            # The policy that a Newton step would match proves more.
            _, psi = newton_step(at.model, at.gradient)
            matching = matching_certificate(at.model, psi, at.gradient)
            if matching is not None:
                search.bounds.add(matching)
        before, highest = fit.gap, max(highest, last.value)
        now = search.checked(search.fit(at.model, at.value))
        if now.error > before:
            # Weights grow as the penalty falls, and so does rounding.
            break
        moves = (moves[1], float(np.linalg.norm(at.model.theta - last.model.theta)))
        # A little more evidence at much larger weights may cost more in the bound than it gains.
        if now.doubt < fit.doubt:
            fit = replace(now, growing=moves[1] > _GROWING * moves[0])
        fit = replace(fit, steps=steps)
        search.watch.tell(fit, stage="falling penalties", step=stage, of=_STAGES)
        gained = max(before - fit.gap, at.value - highest)
        idle = idle + 1 if gained < _IDLE_SHARE * search.tolerance else 0
        if fit.closes(search.tolerance) or idle == _IDLE_STAGES:
            break
    # The exact limit, where the path's end shows the face that the limit's policies form.
    model = fit.model
    face = find_face(model, *newton_step(model, model.gradient(behaviour)), behaviour)
    if face is None:
        return fit
    value = face.model.evidence(behaviour)
    if not fit.value - search.tolerance <= value <= fit.upper_bound:
        return fit
    value, directions = max(value, fit.value), [face.direction]
    return replace(fit, value=value, model=face.model, directions=directions, growing=False)


class _Point(NamedTuple):
    """A model with its evidence and the gradient of it."""

    model: SoftModel
    value: float
    gradient: FloatArray


def _penalised_step(at: _Point, behaviour: Behaviour, penalty: float) -> _Point | None:
    """A Newton step on the penalised evidence, shortened until it gains; None if it is settled."""
    theta = at.model.theta
    slope = at.gradient - penalty * theta
    _, sizes, directions = np.linalg.svd(at.model.information_root(), full_matrices=False)
    # What the root does not span changes no policy, and so has neither slope nor use.
    step = directions.T @ ((directions @ slope) / (sizes**2 + penalty))
    promised = float(slope @ step)
    penalty_now = 0.5 * penalty * float(theta @ theta)
    if promised <= _SETTLED * (penalty + 2.0 * penalty_now):
        return None
    length = 1.0
    while length > 1e-8:
        # An offset in the weights changes no policy, but costs digits.
        model = at.model.at(at.model.utilities.centred(theta + length * step))
        value = model.evidence(behaviour)
        cost = 0.5 * penalty * float(model.theta @ model.theta)
        if (value - cost) - (at.value - penalty_now) >= 0.1 * length * promised:
            return _Point(model, value, model.gradient(behaviour))
        length *= 0.25
    return None


# --- Linear ---------------------------------------------------------------------------------------
# The evidence is concave in the weights, so damped Newton steps find its global maximum, faces at
# infinity included. Source: MEG paper (NeurIPS 2024), Definitions 4.2 to 4.4.

# Classes of more weights are fitted by matching visits, and with features those where forming the
# information takes more multiplications. Measured on grids, that is quicker from there on; below,
# dense systems also reach optima that lie further out.
_LARGE_WEIGHTS, _LARGE_WORK = 100, 1e8
_MAX_STEPS, _GRADIENT_STEPS = 200, 500
# So many steps in a row that gain less than this share of the tolerance end the search.
IDLE_STEPS, IDLE_SHARE = 4, 1e-2
# Gain of the last step (nats) below which a certificate or a face is worth looking for, and above
# which the optimum is far away, and full Newton steps are not to be trusted.
NEAR, FAR = 1e-2, 0.3
# Steps that follow a certificate, until one gains less than this (nats).
POLISHING_STEPS, _POLISHED = 30, 1e-14


def fit_linear(
    behaviour: Behaviour,
    utilities: LinearClass,
    log_reference: FloatArray | None,
    *,
    tolerance: float,
    ceiling: float,
    watch: Watch[LinearFit] | None = None,
) -> LinearFit:
    """Maximise the evidence of a policy's behaviour over a linear class."""
    search = UtilitySearch(behaviour, tolerance, Bounds(ceiling), watch or Watch())
    zero = np.zeros(utilities.n_weights)
    start = SoftModel(behaviour.mdp, utilities, zero, log_reference, search.watch.check, behaviour)
    large = is_large(behaviour.mdp, utilities)
    inside, directions = _confined(start, behaviour) if large else (start, [])
    if large:
        fit = match_visits(search, inside, directions, dense=False)
    else:
        fit = _ascend(search, start, "Newton steps")
    fit = search.checked(fit)
    if fit.closes(tolerance):
        return fit if large else _polished(fit, behaviour)
    limit = _at_infinity(search, fit, inside, directions)
    if limit is not None and limit.value >= fit.value - max(tolerance, fit.error):
        return search.better(fit, limit)
    if large and can_be_dense(utilities):
        # Steps that were solved too roughly may have settled where there was still far to go.
        fit = search.better(fit, match_visits(search, inside, directions, dense=True))
    if fit.closes(tolerance):
        return fit
    if large and utilities.n_weights <= DIRECT_WEIGHTS:
        fit = search.better(fit, _ascend(search, start, "second Newton steps"))
        if fit.closes(tolerance):
            return _polished(fit, behaviour)
    if is_small(behaviour.mdp, utilities):
        fit = search.better(fit, penalised_path(search, start))
        if fit.closes(tolerance):
            return fit
    if utilities.n_weights > DIRECT_WEIGHTS and large:
        return fit
    # Newton steps can strand on a plateau, where actions are certain and curvature is a rounded
    # zero. Gradients know no curvature: where they end is one more start.
    search.watch.tell(fit, stage="gradient steps", step=0, of=_GRADIENT_STEPS)
    second = climb_gradients(start, behaviour, options={"maxiter": _GRADIENT_STEPS})
    return search.better(fit, _ascend(search, second, "second Newton steps"))


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
    search: UtilitySearch, fit: LinearFit, model: SoftModel, directions: list[FloatArray]
) -> LinearFit | None:
    """The best utility inside the faces that a linear program finds; None without."""
    behaviour = search.behaviour
    search.watch.tell(fit, stage="faces at infinity", step=0, of=1)
    found = list(directions)
    for face in recession_faces(model, behaviour, search.watch.check):
        model = face.model
        found.append(face.direction)
    if len(found) == len(directions):
        return None
    limit = search.fit(model)
    if model.utilities.matrix is None or is_large(behaviour.mdp, model.utilities):
        limit = search.better(limit, match_visits(search, model, found))
    else:
        limit = search.better(limit, _ascend(search, model, "Newton steps inside the face"))
    if is_small(behaviour.mdp, model.utilities) and not limit.closes(search.tolerance):
        limit = search.better(limit, penalised_path(search, model))
    return replace(limit, directions=found)


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


def climb_gradients(
    start: SoftModel, behaviour: Behaviour, penalty: float = 0.0, options: Any = None
) -> SoftModel:
    """The model of max f(theta) - penalty / 2 |theta|^2, by gradients alone."""
    from scipy.optimize import minimize

    def cost(theta: FloatArray) -> tuple[float, FloatArray]:
        model = start.at(theta)
        value = model.evidence(behaviour) - 0.5 * penalty * float(theta @ theta)
        return -value, penalty * theta - model.gradient(behaviour)

    return start.at(minimize(cost, start.theta, method="L-BFGS-B", jac=True, options=options).x)


def _ascend(search: UtilitySearch, model: SoftModel, stage: str) -> LinearFit:
    """Damped Newton steps from a model, with faces and certificates on the way."""
    behaviour, tolerance = search.behaviour, search.tolerance
    decisions = range(behaviour.mdp.steps)
    visited = np.stack([behaviour.weights(t, ALL)[..., 0].sum(axis=0) for t in decisions])
    fit = search.fit(model)
    damping, gain, idle = 1.0, np.inf, 0
    while fit.steps < _MAX_STEPS and idle < IDLE_STEPS and fit.gap > tolerance:
        search.watch.tell(fit, stage=stage, step=fit.steps, of=_MAX_STEPS)
        model, value, steps = fit.model, fit.value, fit.steps + 1
        gradient = model.gradient(behaviour)
        if gain <= NEAR:
            step, psi = newton_step(model, gradient)
            certificate = matching_certificate(model, psi, gradient)
            if certificate is not None:
                search.bounds.add(certificate)
            fit = search.fit(model, value, steps, fit.directions)
            if fit.gap <= tolerance:
                break
            face = find_face(model, step, psi, behaviour)
            inside = -np.inf if face is None else face.model.evidence(behaviour)
            # A face holds the limit of ever better models, so it cannot be worse than this one.
            if face is not None and inside >= value - tolerance:
                directions = [*fit.directions, face.direction]
                fit = search.fit(face.model, inside, steps, directions)
                continue
        # Where the model hardly goes yet and the behaviour does, Newton steps are wild; counting
        # the behaviour's own visits tames them, as long as there is far to go.
        states = 0.5 * (model.states + visited) if gain > FAR else model.states
        system = NewtonSystem([(model, states)], exact=False)
        better = _climb(system, fit, behaviour, gradient, damping)
        if better is None:
            fit = replace(fit, steps=steps)
            if gain <= NEAR:
                break
            gain = 0.0  # no step gains, so this is the optimum: it remains to be certified
            continue
        model, reached, damping = better
        gain = reached - value
        idle = idle + 1 if gain < IDLE_SHARE * tolerance else 0
        fit = search.fit(model, reached, steps, fit.directions)
    return fit


def _climb(
    system: NewtonSystem, fit: LinearFit, behaviour: Behaviour, gradient: FloatArray, damping: float
) -> tuple[SoftModel, float, float] | None:
    """The model after a damped step (Levenberg-Marquardt), its value, and the next damping."""
    # None if rounding forbids a step that gains.
    while damping < 1e12:
        step = system.solve(gradient, damping=damping)
        promised = float(gradient @ step)
        trial = fit.model.at(fit.model.theta + step)
        gain = trial.evidence(behaviour) - fit.value
        if gain > 0.1 * promised:
            factor = 0.1 if gain > 0.4 * promised else 0.5
            # Below this, damping no longer touches what is not null.
            return trial, fit.value + gain, max(damping * factor, 1e-14)
        damping = 4.0 * max(damping, 1e-10)
    return None


# --- Linear utility -------------------------------------------------------------------------------
TOLERANCE = 1e-6
_LARGEST_TOLERANCE = 1e300
ACTION_WARNING = (
    "utilities over state-action pairs include the decisions themselves: every deterministic "
    "stationary policy is then maximally goal-directed, so a high value says little"
)


def linear_utility(
    mdp: TabularMDP,
    policy: ArrayLike,
    *,
    features: ArrayLike | None = None,
    over: Over = "state",
    reference: ArrayLike | None = None,
    tolerance: float = TOLERANCE,
    watch: Watch[LinearFit] | None = None,
) -> MegResult:
    """`goalmeter.meg.unknown_utility` of the linear classes."""
    utilities = linear_class(mdp, features, over)
    if is_large(mdp, utilities):
        utilities = tabular(utilities)
    log_reference = log_of_reference(mdp, reference)
    notes, behaviour = class_notes(utilities, policy, reference), behaviour_of(mdp, [policy])
    result, _ = measure_class(
        behaviour, utilities, log_reference, tolerance, watch=watch, notes=notes
    )
    return result


def class_notes(
    utilities: LinearClass, policy: ArrayLike, reference: ArrayLike | None
) -> tuple[str, ...]:
    """What the notes of a class's result begin with."""
    warned = (ACTION_WARNING,) if utilities.on_actions else ()
    return warned + normalised_notes(policy=policy, reference=reference)


def check_tolerance(tolerance: float) -> None:
    """Raise InvalidParameterError if this is not a positive number of nats."""
    if not 0 < tolerance < _LARGEST_TOLERANCE:
        raise InvalidParameterError(f"tolerance is {shown(tolerance)}, expected a positive number")


def measure_class(
    behaviour: Behaviour,
    utilities: LinearClass,
    log_reference: FloatArray | None,
    tolerance: float,
    *,
    watch: Watch[LinearFit] | None = None,
    notes: tuple[str, ...] = (),
) -> tuple[MegResult, LinearFit]:
    """The best utility of a class for a policy's behaviour, and the fit that it comes from."""
    watch = watch or Watch()
    check_tolerance(tolerance)
    scale = yardstick(behaviour, log_reference, utilities.tells_apart())
    maximum, ceiling = (float(each[0]) for each in scale)
    near = 0.1 * tolerance  # the rest is room for the value's own rounding
    stopped = None
    try:
        fit = fit_linear(
            behaviour, utilities, log_reference, tolerance=near, ceiling=ceiling, watch=watch
        )
    except (TimeIsUp, KeyboardInterrupt) as cause:
        stopped = "timeout" if isinstance(cause, TimeIsUp) else "interrupt"
        # Before the first step: the utility that is 0 everywhere, and the ceiling.
        zero = SoftModel(behaviour.mdp, utilities, np.zeros(utilities.n_weights), log_reference)
        fit = watch.best or LinearFit(0.0, ceiling, 0.0, False, model=zero)
    # What is worked out of the best so far takes passes as well, which nothing must cut short.
    watch.end()
    again = float(fit.model.verified(behaviour)[0])
    error = max(float(fit.model.rounding(behaviour)[0]), abs(again - fit.value))
    result = class_result(
        replace(fit, error=error),
        ClassOptions(behaviour.mdp, utilities, log_reference is None, tolerance, notes),
        (maximum, ceiling),
        fit.shown,
        model_shares(fit.model, behaviour),
        infinite=bool(fit.directions),
        ended=None if stopped is None else (stopped, watch.elapsed),
    )
    if stopped == "interrupt":
        raise FitInterrupted(result) from None
    return result, fit


class ClassOptions(NamedTuple):
    """What is measured: the best utility of a class in a world, against a reference."""

    mdp: TabularMDP
    utilities: LinearClass
    uniform: bool
    tolerance: float
    notes: tuple[str, ...] = ()


def class_result(
    reached: Reached,
    options: ClassOptions,
    scale: tuple[float, float],
    weights: FloatArray,
    shares: tuple[FloatArray, FloatArray],
    *,
    infinite: bool,
    ended: tuple[str, float] | None = None,
) -> MegResult:
    """The result of a search for the best utility of a class."""
    # `scale`: maximum and ceiling; `shares`: evidence by step [H] and state [S]; `infinite`: the
    # limit of ever larger utilities; `ended`: what stopped the search, after how many seconds.
    mdp, utilities, uniform, tolerance, notes = options
    maximum, ceiling = scale
    error = max(rounding(mdp), reached.error)
    tolerance = certifying(tolerance, error, maximum)
    # Where the rounding error exceeds the tolerance, the reported value is a verified lower bound.
    doubtful = reached.error > tolerance
    value = reached.value - reached.error if doubtful else reached.value
    fields = bracketed(value, reached.upper_bound + error, maximum, ceiling)
    utility, rationality = normalised_utility(utilities, weights)
    size, steps = reached.bound_size, reached.steps
    open_gap = fields["upper_bound"] - fields["value"]
    said = [*notes]
    if doubtful:
        said.append(
            f"the value has a rounding error of up to {reached.error:.2g} nats, because the "
            f"utility found is too large or the discount too close to 1 for double precision; the "
            f"value reported is lower by that much, and it is not certified"
        )
    if ended is not None:
        said.append(
            f"stopped by {STOPPED_BY[ended[0]]} after {duration(ended[1])} and {steps} steps: the "
            f"value is the best so far, a lower bound, and the upper bound is what was proven by "
            f"then"
        )
    if infinite:
        said.append(
            "the supremum is approached by ever larger utilities; the value is its exact limit"
        )
    elif reached.growing:
        said.append(
            "the weights were still growing where the search ended: the optimum may lie at "
            "infinity, and the rationality is that of the utility that was reached"
        )
    if open_gap > tolerance and ended is None:
        said.append(
            f"the certificate did not close: after {steps} Newton steps the bound is "
            f"{open_gap:.2g} nats above the value (tolerance {tolerance:g}); the value is a "
            f"lower bound"
        )
    if size and reached.bound_by_range:
        said.append(
            f"the bound holds for all utilities of the class whose range (largest less smallest "
            f"entry) times the rationality is at most {size:.2g}, a thousand times that of the "
            f"best one reached"
        )
    elif size:
        said.append(
            f"the bound holds for all utilities of the class whose weights times the rationality "
            f"sum to at most {size:.2g} in absolute value, a thousand times those of the best one "
            f"reached"
        )
    measure = "range" if reached.bound_by_range else "weights"
    return MegResult(
        **fields,
        rationality=np.inf if infinite else rationality,
        target=utilities.name,
        method=f"concave maximisation, {steps} Newton steps",
        tolerance=tolerance,
        by_step=shares[0],
        by_state=shares[1],
        utility=utility,
        reference=reference_name(not uniform),
        notes=tuple(said),
        stopped=None if ended is None else ended[0],
        bound_size=size or np.inf,
        bound_measure=measure if size else "none",
    )


def normalised_utility(utilities: LinearClass, weights: FloatArray) -> tuple[FloatArray, float]:
    """The utility of weights [D] scaled to 0..1, as users see it, and the scale taken out."""
    array = utilities.rewards(weights[:, None]).shown(0)
    low, width = float(array.min()), float(np.ptp(array))
    return ((array - low) / width, width) if width > 0 else (np.zeros_like(array), 0.0)


def model_shares(model: SoftModel, behaviour: Behaviour) -> tuple[FloatArray, FloatArray]:
    """Evidence by decision step [H] and by state [S], nats."""
    by_step, by_state = np.zeros(model.mdp.steps), np.zeros(model.mdp.n_states)
    for t in range(model.mdp.steps):
        weights = behaviour.weights(t, ALL)[..., 0]
        log_ratio = np.where(weights > 0, model.step(t)[1], 0.0)
        share = (weights * log_ratio).sum(axis=0)
        by_step[t] = share.sum()
        by_state += share
    return by_step, by_state
