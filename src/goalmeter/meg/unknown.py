"""Goal-directedness with respect to some utility of a class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.meg.behaviour import Behaviour, behaviour_of, yardstick
from goalmeter.meg.linear import LinearFit, fit_linear
from goalmeter.meg.result import MegResult
from goalmeter.meg.soft_model import ALL, SoftModel
from goalmeter.meg.utility_class import LinearClass, Over, linear_class
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import log_policy

if TYPE_CHECKING:
    from torch import nn

TOLERANCE = 1e-6
ACTION_WARNING = (
    "utilities over state-action pairs include the decisions themselves: every deterministic "
    "stationary policy is then maximally goal-directed, so a high value says little"
)


def unknown_utility(
    mdp: TabularMDP,
    policy: ArrayLike,
    *,
    features: ArrayLike | None = None,
    over: Over = "state",
    network: nn.Module | bool | None = None,
    reference: ArrayLike | None = None,
    tolerance: float = TOLERANCE,
    **network_options: Any,
) -> MegResult:
    """MEG of a policy with respect to the best utility of a class.

    By default the class is *all* utilities over states (Definition 4.4 with the states as
    targets). Classes that are linear in their weights have a global optimum, which is found and
    certified: `upper_bound` is a proven bound on every utility of the class whose weights,
    times the rationality, sum to less than a thousand times those found.

    Args:
        mdp: the world; its reward is not used.
        policy: [S, A] or [H, S, A].
        features: [S, D] or [S, A, D] for utilities that are linear in them.
        over: "state", "state-action" or "time-state" (for each decision step its own utility).
        network: a torch module from state features to a utility, or True for the paper's MLP:
            Algorithm 2, a lower bound (see `goalmeter.meg.neural.neural_utility`, which takes
            the further options `seeds`, `inputs`, `iterations` and `progress`).
        reference: the policy that scores 0, [S, A] or [H, S, A]; default uniform.
        tolerance: nats between value and bound at which the optimum counts as certified.

    Returns:
        A `MegResult` whose `utility` is the maximising one, scaled to 0..1, with `rationality`
        its beta; inf where the supremum is approached by ever larger utilities, and `utility`
        is then the direction that matters first.

    Raises:
        InvalidPolicyError, InvalidUtilityError: arrays that do not fit the MDP.
        InvalidParameterError: options that do not go together.

    Source: MEG paper (NeurIPS 2024), Definitions 4.2 to 4.4, section 5.
    Cost: ten to thirty Newton steps, each O(H * transitions * D) for up to 160 weights, else
    some hundred passes of O(H * transitions).

    Example: a mouse that never pays for its cheese has one goal that explains it fully.
        >>> stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
        >>> mouse = TabularMDP([[[0, 1, 0], [0, 0, 1]], *stay], [0, 1, -1], horizon=2)
        >>> result = unknown_utility(mouse, [[1, 0], [0.5, 0.5], [0.5, 0.5]])
        >>> print(round(result.value, 4), result.rationality)
        0.6931 inf
    """
    if network is not None and network is not False:
        if features is not None or over != "state":
            raise InvalidParameterError(
                "network and features (or over) are both given, expected one of them; "
                "pass the network's input features as inputs="
            )
        from goalmeter.meg.neural import neural_utility

        module = None if network is True else network
        return neural_utility(mdp, policy, module=module, reference=reference, **network_options)
    if network_options:
        raise InvalidParameterError(
            f"unexpected option {next(iter(network_options))!r}; it needs network=True or a module"
        )
    if not tolerance > 0:
        raise InvalidParameterError(f"tolerance is {tolerance!r}, expected a positive number")
    utilities = linear_class(mdp, features, over)
    log_reference = None if reference is None else log_policy(mdp, reference, "reference")
    behaviour = behaviour_of(mdp, [policy])
    measure = yardstick(behaviour, log_reference, on_actions=utilities.on_actions)
    ceiling = float(measure.ceiling[0])
    fit = fit_linear(
        # A tenth of the tolerance leaves room for the value's own rounding.
        behaviour, utilities, log_reference, tolerance=0.1 * tolerance, ceiling=ceiling
    )
    utility, rationality = normalised(utilities, fit)
    by_step, by_state = model_shares(fit.model, behaviour)
    return MegResult(
        value=max(fit.value, 0.0),
        upper_bound=max(fit.upper_bound, fit.value, 0.0),
        maximum=float(measure.maximum[0]),
        ceiling=ceiling,
        rationality=rationality,
        target=utilities.name,
        method=f"concave maximisation, {fit.steps} Newton steps",
        tolerance=tolerance,
        by_step=by_step,
        by_state=by_state,
        utility=utility,
        reference="uniform policy" if reference is None else "given reference policy",
        notes=_notes(fit, utilities, tolerance),
    )


def normalised(utilities: LinearClass, fit: LinearFit) -> tuple[FloatArray, float]:
    """The maximising utility scaled to 0..1, as users see it, and its rationality."""
    weights = fit.directions[0] if fit.directions else fit.model.theta
    array = utilities.rewards(weights[:, None]).array[..., 0].transpose(0, 2, 1)
    array = array[..., 0] if array.shape[-1] == 1 else array
    array = array[0] if array.shape[0] == 1 else array
    low, width = float(array.min()), float(np.ptp(array))
    if width == 0:
        return np.zeros_like(array), 0.0
    return (array - low) / width, float("inf") if fit.directions else width


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


def _notes(fit: LinearFit, utilities: LinearClass, tolerance: float) -> tuple[str, ...]:
    notes = []
    if utilities.on_actions:
        notes.append(ACTION_WARNING)
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
