"""Goal-directedness with respect to the best utility of a linear class, as a result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.meg.behaviour import Behaviour, behaviour_of, yardstick
from goalmeter.meg.linear import fit_linear
from goalmeter.meg.linear_fit import LinearFit
from goalmeter.meg.result import MegResult
from goalmeter.meg.soft_model import ALL, SoftModel
from goalmeter.meg.utility_class import LinearClass, Over, linear_class
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import log_policy

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
) -> MegResult:
    """The linear classes of `goalmeter.meg.unknown_utility`; arguments and errors as there."""
    utilities = linear_class(mdp, features, over)
    log_reference = None if reference is None else log_policy(mdp, reference, "reference")
    result, _ = measure_class(behaviour_of(mdp, [policy]), utilities, log_reference, tolerance)
    warning = (ACTION_WARNING,) if utilities.on_actions else ()
    return replace(result, notes=(*warning, *result.notes))


def measure_class(
    behaviour: Behaviour,
    utilities: LinearClass,
    log_reference: FloatArray | None,
    tolerance: float,
) -> tuple[MegResult, LinearFit]:
    """The best utility of a class for a policy's behaviour, and the fit that it comes from.

    Raises:
        InvalidParameterError: a tolerance that is not positive.
    """
    if not tolerance > 0:
        raise InvalidParameterError(f"tolerance is {tolerance!r}, expected a positive number")
    measure = yardstick(behaviour, log_reference, utilities.tells_apart())
    ceiling = float(measure.ceiling[0])
    fit = fit_linear(
        # A tenth of the tolerance leaves room for the value's own rounding.
        behaviour,
        utilities,
        log_reference,
        tolerance=0.1 * tolerance,
        ceiling=ceiling,
    )
    weights = fit.directions[0] if fit.directions else fit.model.theta
    utility, scale = normalised_utility(utilities, weights)
    by_step, by_state = model_shares(fit.model, behaviour)
    result = MegResult(
        value=max(fit.value, 0.0),
        upper_bound=max(fit.upper_bound, fit.value, 0.0),
        maximum=float(measure.maximum[0]),
        ceiling=ceiling,
        rationality=float("inf") if fit.directions else scale,
        target=utilities.name,
        method=f"concave maximisation, {fit.steps} Newton steps",
        tolerance=tolerance,
        by_step=by_step,
        by_state=by_state,
        utility=utility,
        reference="uniform policy" if log_reference is None else "given reference policy",
        notes=_notes(fit, tolerance),
    )
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


def _notes(fit: LinearFit, tolerance: float) -> tuple[str, ...]:
    notes = []
    if fit.directions:
        notes.append(
            "the supremum is approached by ever larger utilities; the value is its exact limit"
        )
    if fit.upper_bound - fit.value > tolerance:
        notes.append(
            f"the certificate did not close: after {fit.steps} Newton steps the bound is "
            f"{fit.upper_bound - fit.value:.2g} nats above the value (tolerance {tolerance:g}); "
            f"the value is a lower bound"
        )
    elif fit.bound_weight:
        notes.append(
            f"the bound holds for all utilities of the class whose weights times the "
            f"rationality sum to at most {fit.bound_weight:.2g} in absolute value"
        )
    return tuple(notes)
