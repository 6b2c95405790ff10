"""Goal-directedness with respect to the best utility of a linear class, as a result."""

from __future__ import annotations

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.meg.behaviour import Behaviour, behaviour_of, yardstick
from goalmeter.meg.certificate import LinearFit
from goalmeter.meg.class_result import Reached, Shown, class_result
from goalmeter.meg.counted import tabular
from goalmeter.meg.linear import fit_linear, is_large
from goalmeter.meg.result import MegResult
from goalmeter.meg.soft_model import ALL, SoftModel
from goalmeter.meg.utility_class import LinearClass, Over, linear_class
from goalmeter.meg.watch import FitInterrupted, Listener, TimeIsUp, Watch
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import log_of_reference
from goalmeter.tabular.policies import normalised_notes

TOLERANCE = 1e-6
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
    progress: Listener | None = None,
    timeout: float | None = None,
) -> MegResult:
    """The linear classes of `goalmeter.meg.unknown_utility`, arguments and errors as there."""
    utilities = linear_class(mdp, features, over)
    if is_large(mdp, utilities):
        utilities = tabular(utilities)
    log_reference = log_of_reference(mdp, reference)
    result, _ = measure_class(
        behaviour_of(mdp, [policy]),
        utilities,
        log_reference,
        tolerance,
        watch=Watch(progress, timeout),
        notes=(
            *((ACTION_WARNING,) if utilities.on_actions else ()),
            *normalised_notes(policy=policy, reference=reference),
        ),
    )
    return result


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

    Args:
        behaviour: a policy's behaviour.
        utilities: the class.
        log_reference: [T, A, S], or None for uniform.
        tolerance: nats between value and bound at which the optimum counts as certified.
        watch: told of every step; its timeout ends the search with what was reached by then.
        notes: what the result's notes begin with.
    """
    watch = watch or Watch()
    if not tolerance > 0:
        raise InvalidParameterError(f"tolerance is {tolerance!r}, expected a positive number")
    measure = yardstick(behaviour, log_reference, utilities.tells_apart())
    ceiling = float(measure.ceiling[0])
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
        fit = watch.best or LinearFit(0.0, ceiling, 0.0, False, zero)
    # What is worked out of the best so far takes passes as well, which nothing must cut short.
    watch.end()
    # Of an optimum at infinity, the dominant direction is the utility that can be shown.
    weights = fit.directions[0] if fit.directions else fit.model.theta
    utility, scale = normalised_utility(utilities, weights)
    by_step, by_state = model_shares(fit.model, behaviour)
    again = float(fit.model.verified(behaviour)[0])
    error = max(float(fit.model.rounding(behaviour)[0]), abs(again - fit.value))
    reached = Reached(
        fit.value,
        fit.upper_bound,
        fit.bound_size,
        fit.bound_by_range,
        fit.steps,
        bool(fit.directions),
        fit.growing,
        error,
    )
    result = class_result(
        reached,
        Shown(utility, scale, by_step, by_state),
        measure,
        mdp=behaviour.mdp,
        target=utilities.name,
        uniform=log_reference is None,
        tolerance=tolerance,
        notes=notes,
        stopped=stopped,
        elapsed=watch.elapsed,
    )
    if stopped == "interrupt":
        raise FitInterrupted(result) from None
    return result, fit


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
