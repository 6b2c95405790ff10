"""Goal-directedness with respect to the best utility of a linear class.

Small classes are solved along a path of penalties, others by damped Newton steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.meg.batched import SearchState, Worlds, ascend, find_face, polish
from goalmeter.meg.behaviour import (
    Behaviour,
    LinearClass,
    Over,
    Yardstick,
    behaviour_of,
    certification_tolerance,
    clip_to_maximum,
    linear_class,
    rounding,
    yardstick,
)
from goalmeter.meg.certificate import (
    Bounds,
    LinearFit,
    matching_certificates,
    model_certificate,
    with_rounding_error,
)
from goalmeter.meg.faces import find_inside_actions, recession_faces
from goalmeter.meg.preconditioners import behaviour_entries, can_be_dense, find_met_entries, tabular
from goalmeter.meg.result import (
    STOPPED_BY,
    FitInterrupted,
    Listener,
    MegResult,
    TimeIsUp,
    Watch,
    duration,
)
from goalmeter.meg.soft_model import ALL, DIRECT_WEIGHTS, SoftModel, newton_step
from goalmeter.meg.visit_matching import match_visits
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import log_of_reference
from goalmeter.tabular.policies import normalised_notes

# --- Falling penalties ----------------------------------------------------------------------------
# Far-out optima defeat plain Newton steps: utilities may grow without bound, in directions whose
# sizes lie many powers of ten apart. With a penalty on their size the problem is well posed, and so
# is its dual, a search among policies x:
#
#     max over theta of  f(theta) - e/2 |theta|^2   =   min over x of  KL(x) + |r(x)|^2 / (2 e),
#
# with r(x) what the behaviour's features exceed those of x by. The optimal x is the model of the
# optimal theta, and r = e theta. As e falls, value and bound close on each other. The bound that is
# reported is weak duality at the policy of the search (`goalmeter.meg.certificate`).

# The path is for classes of up to this many weights, where forming the information takes no more
# than this many multiplications: about a second for each of a hundred Newton steps.
PATH_WEIGHTS = 400
PATH_WORK = 2e9
# Each penalty is this part of the one before, from 1 down to 1e-24, far below what rounding
# leaves of the information's smallest eigenvalues.
_PART = 10**-0.5
_STAGES = 48
_STEPS_A_STAGE = 25
# A stage is over when a Newton step would gain less than this share of the penalty's own value.
_SETTLED = 1e-4
# Gain of evidence over KL (nats) below which it is worth moving the model's policy to match.
_NEAR = 1e-2
# Towards a finite optimum the weights move by `_PART` as much in each stage as in the one before;
# by more than this, they may diverge.
_GROWING = 0.6
# So many stages that improve neither value nor bound by this share of the tolerance end the path.
_IDLE_STAGES = 6
_IDLE_SHARE = 1e-2


def is_small(mdp: TabularMDP, utilities: LinearClass) -> bool:
    """Whether a class is small enough for the path."""
    d = utilities.n_weights
    rows = mdp.steps * mdp.n_actions * mdp.n_states
    return d <= PATH_WEIGHTS and (rows + d) * d**2 <= PATH_WORK


def penalised_path(
    start: SoftModel,
    behaviour: Behaviour,
    tolerance: float,
    bounds: Bounds,
    watch: Watch[LinearFit],
) -> LinearFit:
    """The best utility of a class and a bound, by Newton steps along falling penalties.

    It starts at the model of weights 0, and adds to the bounds that are proven already.
    """
    at = _Point(start, start.evidence(behaviour), start.gradient(behaviour))
    fit = with_rounding_error(
        LinearFit(at.value, *bounds.at(start.theta), start), behaviour, bounds
    )
    penalty, idle, steps, highest, moves = 1.0, 0, 0, at.value, (np.inf, np.inf)
    for stage in range(1, _STAGES + 1):
        penalty, last = penalty * _PART, at
        for _ in range(_STEPS_A_STAGE):
            steps += 1
            after = _penalised_step(at, behaviour, penalty)
            if after is None:
                break
            at = after
        _certify(at, bounds)
        before, highest = fit.gap, max(highest, last.value)
        now = with_rounding_error(
            LinearFit(at.value, *bounds.at(at.model.theta), at.model), behaviour, bounds
        )
        if now.error > before:
            # Weights grow as the penalty falls, and so does rounding.
            break
        moves = (moves[1], float(np.linalg.norm(at.model.theta - last.model.theta)))
        # A little more evidence at much larger weights may cost more in the bound than it gains.
        if now.doubt < fit.doubt:
            fit = replace(now, growing=moves[1] > _GROWING * moves[0])
        fit = replace(fit, steps=steps)
        watch.tell(fit, *fit.bracket, stage="falling penalties", step=stage, of=_STAGES)
        gained = max(before - fit.gap, at.value - highest)
        idle = idle + 1 if gained < _IDLE_SHARE * tolerance else 0
        if fit.closes(tolerance) or idle == _IDLE_STAGES:
            break
    return _limit_of_path(fit, behaviour, tolerance)


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


def _certify(at: _Point, bounds: Bounds) -> None:
    """Add what the model's own policy proves, and the policy that a Newton step would match."""
    proven = model_certificate(at.model, at.gradient)
    bounds.add(proven)
    if at.value - proven.kl < _NEAR:
        _, psi = newton_step(at.model, at.gradient)
        (matching,) = matching_certificates(at.model, psi, at.gradient[None])
        if matching is not None:
            bounds.add(matching)


def _limit_of_path(fit: LinearFit, behaviour: Behaviour, tolerance: float) -> LinearFit:
    """The exact limit, where the path's end shows the face that the limit's policies form."""
    model = fit.model
    face = find_face(model, *newton_step(model, model.gradient(behaviour)), behaviour)
    if face is None:
        return fit
    value = face.model.evidence(behaviour)
    if not fit.value - tolerance <= value <= fit.upper_bound:
        return fit
    return replace(
        fit,
        value=max(value, fit.value),
        model=face.model,
        directions=[face.direction],
        growing=False,
    )


# --- Search ---------------------------------------------------------------------------------------
# The evidence is concave in the weights, so damped Newton steps find its global maximum, faces at
# infinity included (`goalmeter.meg.batched`). The bound comes from the maximum-entropy problem, one
# linear step away from the last model (`goalmeter.meg.certificate`).
#
# Source: MEG paper (NeurIPS 2024), Definitions 4.2 to 4.4; weak duality of maximum causal entropy
# (Ziebart 2010).

# Classes of more weights are fitted by matching visits, which is quicker; below, dense systems also
# reach optima that lie further out.
_LARGE_WEIGHTS = 100
# With features, where forming the information takes more multiplications than this.
_LARGE_WORK = 1e8
_MAX_STEPS = 200
_GRADIENT_STEPS = 500


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
    `ceiling` is a bound that is known beforehand (see `MegResult`), nats. `watch` has the best fit
    so far where a timeout or the keyboard ends the search.
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
    fit = with_rounding_error(fit, behaviour, bounds)
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
    # zero; gradients do not.
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
    met_entries, direction = find_met_entries(
        start.utilities, behaviour_entries(start.utilities, behaviour)
    )
    allowed = find_inside_actions(behaviour.mdp, met_entries.astype(np.float64))
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

    `fit` is the best so far, and `directions` are those of faces that `model` is confined to.
    """
    watch.tell(fit, *fit.bracket, stage="faces at infinity", step=0, of=1)
    found = list(directions)
    for face in recession_faces(model, behaviour, watch.check, lambda: watch.left):
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
    limit = LinearFit(model.evidence(behaviour), *bounds.at(model.theta), model)
    for search in searches:
        limit = _better(limit, search(), behaviour, bounds)
        if limit.closes(tolerance):
            break
    return replace(limit, directions=found)


def _better(first: LinearFit, second: LinearFit, behaviour: Behaviour, bounds: Bounds) -> LinearFit:
    """The fit of two searches whose value and bound are closer, under all that both proved."""
    steps = first.steps + second.steps
    fits = [
        with_rounding_error(replace(fit, steps=steps), behaviour, bounds) for fit in (second, first)
    ]
    return min(fits, key=lambda fit: fit.doubt)


def _polished(fit: LinearFit, behaviour: Behaviour) -> LinearFit:
    state = SearchState(fit.model.theta[None], np.array([fit.value]), [], 0.0)
    worlds = Worlds.single(fit.model, behaviour)
    polish(worlds, np.zeros(1, dtype=np.int64), state, np.array([fit.upper_bound + fit.error]))
    value, model = float(state.value[0]), worlds.model(state.theta)
    return replace(fit, model=model, value=value, upper_bound=max(fit.upper_bound, value))


def _by_gradients(start: SoftModel, behaviour: Behaviour) -> SoftModel:
    from scipy.optimize import minimize

    def cost(theta: FloatArray) -> tuple[float, FloatArray]:
        model = start.at(theta)
        return -model.evidence(behaviour), -model.gradient(behaviour)

    options = {"maxiter": _GRADIENT_STEPS}
    return start.at(minimize(cost, start.theta, method="L-BFGS-B", jac=True, options=options).x)


def _ascend(
    start: SoftModel,
    behaviour: Behaviour,
    tolerance: float,
    bounds: Bounds,
    watch: Watch[LinearFit],
    stage: str,
) -> LinearFit:
    """Damped Newton steps from a model, with faces and certificates on the way.

    `bounds` is what is proven already; the search adds to it.
    """
    value = np.array([start.evidence(behaviour)])
    state = SearchState(start.theta[None], value, [bounds], tolerance)

    def reached(model: SoftModel) -> LinearFit:
        value, steps = float(state.value[0]), int(state.steps[0])
        bound = bounds.at(state.theta[0])
        return LinearFit(value, *bound, model, list(state.directions[0]), steps)

    def hear(model: SoftModel) -> None:
        fit = reached(model)
        watch.tell(fit, *fit.bracket, stage=stage, step=fit.steps, of=_MAX_STEPS)

    return reached(ascend(Worlds.single(start, behaviour), state, _MAX_STEPS, hear))


# --- Results --------------------------------------------------------------------------------------
TOLERANCE = 1e-6
ACTION_WARNING = (
    "utilities over state-action pairs include the decisions themselves: every deterministic "
    "stationary policy is then maximally goal-directed, so a high value says little"
)


@dataclass(frozen=True)
class ClassOptions:
    """Arguments of `goalmeter.meg.unknown_utility` that concern linear classes, as there."""

    features: ArrayLike | None = None
    over: Over = "state"
    reference: ArrayLike | None = None
    tolerance: float = TOLERANCE
    progress: Listener | None = None
    timeout: float | None = None


def linear_utility(mdp: TabularMDP, policy: ArrayLike, options: ClassOptions) -> MegResult:
    """MEG with respect to the best utility of a linear class; errors as `unknown_utility`."""
    utilities = linear_class(mdp, options.features, options.over)
    if is_large(mdp, utilities):
        utilities = tabular(utilities)
    result, _ = measure_class(
        behaviour_of(mdp, [policy]),
        utilities,
        log_of_reference(mdp, options.reference),
        options.tolerance,
        watch=Watch(options.progress, options.timeout),
        notes=class_notes(utilities, policy, options.reference),
    )
    return result


def class_notes(
    utilities: LinearClass, policy: ArrayLike, reference: ArrayLike | None
) -> tuple[str, ...]:
    """Notes about the class, and about arrays that were normalised."""
    warning = (ACTION_WARNING,) if utilities.on_actions else ()
    return *warning, *normalised_notes(policy=policy, reference=reference)


def measure_class(
    behaviour: Behaviour,
    utilities: LinearClass,
    log_reference: FloatArray | None,
    tolerance: float,
    *,
    watch: Watch[LinearFit] | None = None,
    notes: tuple[str, ...] = (),
) -> tuple[MegResult, LinearFit]:
    """The best utility of a class for a policy's behaviour, and the fit that it comes from.

    `log_reference` is [T, A, S], or None for uniform; `tolerance` (nats) counts as certified; the
    timeout of `watch` ends the search with what was reached by then; `notes` come first.
    """
    watch = watch or Watch()
    if not tolerance > 0:
        raise InvalidParameterError(f"tolerance is {tolerance!r}, expected a positive number")
    measure = yardstick(behaviour, log_reference, utilities.tells_apart())
    task = ClassTask(behaviour, utilities, log_reference, measure, tolerance, notes)
    ceiling = float(measure.ceiling[0])
    stopped = None
    try:
        fit = fit_linear(
            behaviour, utilities, log_reference, tolerance=task.near, ceiling=ceiling, watch=watch
        )
    except (TimeIsUp, KeyboardInterrupt) as cause:
        stopped = "timeout" if isinstance(cause, TimeIsUp) else "interrupt"
        # Before the first step: the utility that is 0 everywhere, and the ceiling.
        zero = SoftModel(behaviour.mdp, utilities, np.zeros(utilities.n_weights), log_reference)
        fit = watch.best or LinearFit(0.0, ceiling, 0.0, False, zero)
    # The remaining passes over the best so far must not be cut short.
    watch.end()
    result = class_result(task, fit, stopped, watch.elapsed)
    if stopped == "interrupt":
        raise FitInterrupted(result) from None
    return result, fit


class ClassTask(NamedTuple):
    """A behaviour with the class of utilities that is searched for it; fields as `measure_class`.

    `measure` is the yardstick of the behaviour.
    """

    behaviour: Behaviour
    utilities: LinearClass
    log_reference: FloatArray | None
    measure: Yardstick
    tolerance: float
    notes: tuple[str, ...] = ()

    @property
    def near(self) -> float:
        """Tolerance of the search, nats: the rest is room for the value's own rounding."""
        return 0.1 * self.tolerance


def class_result(
    task: ClassTask,
    fit: LinearFit,
    stopped: str | None,
    elapsed: float,
    again: float | None = None,
) -> MegResult:
    """Return the result of a search; `stopped` is what ended it after `elapsed` seconds, if any.

    `again` is a second evaluation of the value (see `SoftModel.verified`) where there is one.
    """
    behaviour, utilities, mdp = task.behaviour, task.utilities, task.behaviour.mdp
    # Of an optimum at infinity, the dominant direction is the utility that can be shown.
    infinite = bool(fit.directions)
    weights = fit.directions[0] if infinite else fit.model.theta
    utility, scale = normalised_utility(utilities, weights)
    by_step, by_state = model_shares(fit.model, behaviour)
    again = float(fit.model.verified(behaviour)[0]) if again is None else again
    own_error = max(float(fit.model.rounding(behaviour)[0]), abs(again - fit.value))
    error = max(rounding(mdp), own_error)
    tolerance = certification_tolerance(task.tolerance, error, float(task.measure.maximum[0]))
    # Where the rounding error exceeds the tolerance, the reported value is a verified lower bound.
    doubtful = own_error > tolerance
    value = fit.value - own_error if doubtful else fit.value
    fields = clip_to_maximum(value, fit.upper_bound + error, task.measure)
    fit = replace(fit, value=fields["value"], upper_bound=fields["upper_bound"], error=own_error)
    measures = {True: "range", False: "weights"}
    return MegResult(
        **fields,
        rationality=math.inf if infinite else scale,
        target=utilities.name,
        method=f"concave maximisation, {fit.steps} Newton steps",
        tolerance=tolerance,
        by_step=by_step,
        by_state=by_state,
        utility=utility,
        reference="uniform policy" if task.log_reference is None else "given reference policy",
        notes=(*task.notes, *_notes(fit, tolerance, doubtful, stopped, elapsed)),
        stopped=stopped,
        bound_size=fit.bound_size or math.inf,
        bound_measure=measures[fit.bound_by_range] if fit.bound_size else "none",
    )


def _notes(
    fit: LinearFit, tolerance: float, doubtful: bool, stopped: str | None, elapsed: float
) -> tuple[str, ...]:
    notes = []
    if doubtful:
        notes.append(
            f"the value has a rounding error of up to {fit.error:.2g} nats, because the "
            f"utility found is too large or the discount too close to 1 for double precision; the "
            f"value reported is lower by that much, and it is not certified"
        )
    if stopped is not None:
        notes.append(
            f"stopped by {STOPPED_BY[stopped]} after {duration(elapsed)} and {fit.steps} "
            f"steps: the value is the best so far, a lower bound, and the upper bound is what was "
            f"proven by then"
        )
    if fit.directions:
        notes.append(
            "the supremum is approached by ever larger utilities; the value is its exact limit"
        )
    elif fit.growing:
        notes.append(
            "the weights were still growing where the search ended: the optimum may lie at "
            "infinity, and the rationality is that of the utility that was reached"
        )
    if fit.gap > tolerance and stopped is None:
        notes.append(
            f"the certificate did not close: after {fit.steps} Newton steps the bound is "
            f"{fit.gap:.2g} nats above the value (tolerance {tolerance:g}); the value is a "
            f"lower bound"
        )
    if fit.bound_size:
        size, factor = (
            ("range (largest less smallest entry) times the rationality is", "that")
            if fit.bound_by_range
            else ("weights times the rationality sum to", "those")
        )
        absolute = "" if fit.bound_by_range else " in absolute value"
        notes.append(
            f"the bound holds for all utilities of the class whose {size} at most "
            f"{fit.bound_size:.2g}{absolute}, a thousand times {factor} of the best one reached"
        )
    return tuple(notes)


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
