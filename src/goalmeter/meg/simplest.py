"""The simplest utility that explains most of what any utility could: the one to look at."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.meg.behaviour import Behaviour, behaviour_of
from goalmeter.meg.linear import is_large
from goalmeter.meg.linear_utility import linear_utility, normalised_utility
from goalmeter.meg.soft_model import SoftModel
from goalmeter.meg.utility_class import Over, linear_class
from goalmeter.meg.visit_matching import PenalisedClimb
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import log_of_reference

# Penalties that are tried, the strongest first; each fit starts where the one before ended.
_PENALTIES = np.geomspace(10.0, 1e-7, 33)


class SimplestUtility(NamedTuple):
    """A utility scaled to 0..1, its rationality, its evidence in nats and its share of MEG."""

    utility: FloatArray
    rationality: float
    evidence: float
    share: float


def simplest_utility(
    mdp: TabularMDP,
    policy: ArrayLike,
    *,
    share: float = 0.95,
    features: ArrayLike | None = None,
    over: Over = "state",
    reference: ArrayLike | None = None,
) -> SimplestUtility:
    """The utility with the smallest weights that explains a share of a policy's MEG.

    Very different utilities predict the same behaviour, and the one that `unknown_utility` ends
    with spends large weights on the last hundredth of a nat, much of it in states that are
    hardly visited. Asking for a little less, with weights as small as possible, leaves the
    weights that behaviour insists on: this is the utility to plot.

    Args:
        mdp: the world; its reward is not used.
        policy: [S, A] or [H, S, A].
        share: least part of the class's MEG to explain, in (0, 1).
        features: as in `unknown_utility`.
        over: as in `unknown_utility`.
        reference: as in `unknown_utility`.

    Returns:
        A `SimplestUtility`: the maximiser of evidence - penalty / 2 * sum of squared weights
        for the largest penalty on a fixed grid that reaches the share.

    Raises:
        InvalidParameterError: share outside (0, 1).
        InvalidPolicyError, InvalidUtilityError: arrays that do not fit the MDP.

    Example: one coin flip, won four times in five.
        >>> stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
        >>> mouse = TabularMDP([[[0, 1, 0], [0, 0, 1]], *stay], [0, 1, -1], horizon=2)
        >>> simplest_utility(mouse, [[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]]).utility
        array([0.5, 1. , 0. ])
    """
    if not 0.0 < share < 1.0:
        raise InvalidParameterError(f"share is {share!r}, expected a number between 0 and 1")
    best = linear_utility(mdp, policy, features=features, over=over, reference=reference)
    utilities = linear_class(mdp, features, over)
    behaviour = behaviour_of(mdp, [policy])
    log_reference = log_of_reference(mdp, reference)
    start = SoftModel(mdp, utilities, np.zeros(utilities.n_weights), log_reference)
    large = is_large(mdp, utilities)
    climb = PenalisedClimb(start, behaviour) if large else _Descent(start, behaviour)
    # Weights of the utility itself, at rationality 1: their size is the rationality.
    model, evidence = start, 0.0
    # From strong to weak penalties: the first utility that explains enough is the smallest.
    for penalty in _PENALTIES:
        if evidence >= share * best.value:
            break
        model, evidence = climb.to(penalty)
    utility, rationality = normalised_utility(utilities, model.theta)
    part = evidence / best.value if best.value > 0 else 0.0
    return SimplestUtility(utility, rationality, evidence, part)


class _Descent:
    """As `PenalisedClimb`, for any class of a few hundred weights at most."""

    def __init__(self, start: SoftModel, behaviour: Behaviour) -> None:
        self._model, self._behaviour = start, behaviour

    def to(self, penalty: float) -> tuple[SoftModel, float]:
        """The model of max f(theta) - penalty / 2 |theta|^2, and its evidence."""
        from scipy.optimize import minimize

        def cost(theta: FloatArray) -> tuple[float, FloatArray]:
            model = self._model.at(theta)
            value = model.evidence(self._behaviour) - 0.5 * penalty * float(theta @ theta)
            return -value, penalty * theta - model.gradient(self._behaviour)

        theta = minimize(cost, self._model.theta, method="L-BFGS-B", jac=True).x
        self._model = self._model.at(theta)
        return self._model, self._model.evidence(self._behaviour)
