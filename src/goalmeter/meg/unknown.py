"""Measure goal-directedness towards the best of all utilities; find the simplest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.meg.batched import MOST_ROUNDS, SearchState, Worlds, ascend, polish
from goalmeter.meg.behaviour import (
    Behaviour,
    Over,
    Yardstick,
    behaviour_of,
    linear_class,
    yardstick,
)
from goalmeter.meg.certificate import Bounds, LinearFit, with_rounding_error
from goalmeter.meg.known import (
    PolicyCase,
    behaviour_side_by_side,
    cases_of,
    measure_parts,
    reference_side_by_side,
)
from goalmeter.meg.linear import (
    TOLERANCE,
    ClassOptions,
    ClassTask,
    class_notes,
    class_result,
    is_large,
    linear_utility,
    normalised_utility,
)
from goalmeter.meg.neural import neural_utility
from goalmeter.meg.result import Listener, MegResult, TimeIsUp, Watch, listener
from goalmeter.meg.soft_model import SoftModel, closed_reference
from goalmeter.meg.visit_matching import PenalisedClimb
from goalmeter.tabular.batched import Sums, side_by_side
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import log_of_reference

if TYPE_CHECKING:
    from torch import nn


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

    Very different utilities predict the same behaviour, and that of `unknown_utility` has large
    weights for the last hundredth of a nat, many in states that are hardly visited. The smallest
    weights that explain a little less are those to plot.

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
    best = linear_utility(mdp, policy, ClassOptions(features, over, reference))
    utilities = linear_class(mdp, features, over)
    behaviour = behaviour_of(mdp, [policy])
    log_reference = log_of_reference(mdp, reference)
    start = SoftModel(mdp, utilities, np.zeros(utilities.n_weights), log_reference)
    large = is_large(mdp, utilities)
    climb = PenalisedClimb(start, behaviour) if large else _Descent(start, behaviour)
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


def unknown_utility(
    mdp: TabularMDP,
    policy: ArrayLike,
    *,
    features: ArrayLike | None = None,
    over: Over = "state",
    network: nn.Module | bool | None = None,
    reference: ArrayLike | None = None,
    tolerance: float = TOLERANCE,
    inputs: ArrayLike | None = None,
    seeds: Iterable[int] = range(5),
    progress: Listener | bool | None = None,
    timeout: float | None = None,
) -> MegResult:
    """MEG of a policy with respect to the best utility of a class.

    By default the class is *all* utilities over states (Definition 4.4 with the states as
    targets). Classes that are linear in their weights have a global optimum, which is found and
    certified: `upper_bound` is a proven bound on every utility of the class that is, at its
    rationality, up to a thousand times as large as the best one reached; the result's `bound_size`
    and `bound_measure` say in which sense.

    Args:
        mdp: the world; its reward is not used.
        policy: [S, A] or [H, S, A].
        features: [S, D] or [S, A, D] for utilities that are linear in them.
        over: "state", "state-action" or "time-state" (for each decision step its own utility).
        network: a torch module from state features to a utility, or True for the paper's MLP:
            Algorithm 2, a lower bound (see `goalmeter.meg.neural_utility`).
        reference: the policy that scores 0, [S, A] or [H, S, A]; default uniform.
        tolerance: nats between value and bound at which the optimum counts as certified.
        inputs: for a network, the state features [S, F] it reads; default one-hot.
        seeds: for a network, one restart for each.
        progress: called at every step with a `Progress`. True writes a line to standard error
            every five seconds, False is silent, and None, the default, writes if standard error
            is a terminal or a notebook's.
        timeout: seconds after which the search ends with what it has.

    Returns:
        A `MegResult` whose `utility` is the maximising one, scaled to 0..1, with `rationality`
        its beta; inf where the supremum is approached by ever larger utilities, and `utility`
        is then the direction that matters first. After a timeout `stopped` is "timeout", the value
        is the best so far and the bound what was proven by then; both hold.

    Raises:
        FitInterrupted: a `KeyboardInterrupt` whose attribute `result` is the best so far, where
            the search was interrupted at the keyboard.
        InvalidPolicyError, InvalidUtilityError: arrays that do not fit the MDP.
        InvalidParameterError: options that do not go together.

    Source: MEG paper (NeurIPS 2024), Definitions 4.2 to 4.4, section 5.
    Cost: up to 100 weights, or with features where H * A * S * D^2 is at most 1e8, ten to thirty
    Newton steps of O(H * transitions * D) each. Otherwise (`goalmeter.meg.visit_matching`) some
    hundred passes of O(H * transitions), and a sparse factorisation for each of up to sixty steps.

    Example: a mouse that never pays for its cheese has one goal that explains it fully.
        >>> stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
        >>> mouse = TabularMDP([[[0, 1, 0], [0, 0, 1]], *stay], [0, 1, -1], horizon=2)
        >>> result = unknown_utility(mouse, [[1, 0], [0.5, 0.5], [0.5, 0.5]])
        >>> print(round(result.value, 4), result.rationality)
        0.6931 inf
    """
    hear = listener(progress)
    if network is not None and network is not False:
        if features is not None or over != "state":
            raise InvalidParameterError(
                "network and features (or over) are both given, expected one of them; "
                "pass the network's input features as inputs="
            )
        return neural_utility(
            mdp,
            policy,
            module=None if isinstance(network, bool) else network,
            inputs=inputs,
            seeds=seeds,
            reference=reference,
            progress=hear,
            timeout=timeout,
        )
    options = ClassOptions(features, over, reference, tolerance, hear, timeout)
    return linear_utility(mdp, policy, options)


# A timeout that is over: what is left ends at once, with nothing but its ceiling.
_NO_TIME = 1e-9


def unknown_utility_many(
    mdp: TabularMDP | Sequence[TabularMDP],
    policies: Sequence[ArrayLike],
    *,
    over: Over = "state",
    reference: ArrayLike | None = None,
    references: Sequence[ArrayLike | None] | None = None,
    tolerance: float = TOLERANCE,
    timeout: float | None = None,
) -> list[MegResult]:
    """`unknown_utility` of many policies, in one world or in one each.

    Results are those of single calls, up to rounding, in the order given. Small worlds of like
    shape (numbers of states and actions, horizon, discount) are searched together, where the class
    has up to 100 weights; what does not close there is searched alone, as larger ones are.

    Args:
        mdp: the world, or B worlds; their rewards are not used.
        policies: B policies, or one for all worlds.
        over: as in `unknown_utility`.
        reference: as in `unknown_utility`, shared by all.
        references: B of them, None among them for the uniform policy; in place of `reference`.
        tolerance: nats between value and bound at which an optimum counts as certified.
        timeout: seconds after which all searches end with what they have.

    Raises:
        InvalidParameterError: numbers of worlds, policies and references, or options, that do not
            go together.
        InvalidPolicyError: as `unknown_utility`; the error names the world.

    Source: as `unknown_utility`.

    Example: the mouse of `unknown_utility`, and one that is not so sure.
        >>> stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
        >>> mouse = TabularMDP([[[0, 1, 0], [0, 0, 1]], *stay], [0, 1, -1], horizon=2)
        >>> sure, unsure = ([[p, 1 - p], [0.5, 0.5], [0.5, 0.5]] for p in (1.0, 0.8))
        >>> for result in unknown_utility_many([mouse, mouse], [sure, unsure]):
        ...     print(round(result.value, 4), round(result.rationality, 4))
        0.6931 inf
        0.1927 1.3863
    """
    if not tolerance > 0:
        raise InvalidParameterError(f"tolerance is {tolerance!r}, expected a positive number")
    watch: Watch[None] = Watch(None, timeout)
    cases = cases_of(mdp, policies, None, reference, references)
    return measure_parts(
        cases,
        partial(_together, over=over, tolerance=tolerance, watch=watch),
        partial(_alone, over=over, tolerance=tolerance, watch=watch),
        alike=_sureness,
    )


def _sureness(case: PolicyCase) -> float:
    """How sure a policy is on average: the surer, the farther away its optimum lies."""
    policy = np.asarray(case.policy)
    # Invalid policies are reported where they are checked.
    if policy.ndim == 0 or policy.dtype.kind not in "biuf" or not policy.size:
        return 0.0
    return float(policy.max(axis=-1).mean())


def _alone(case: PolicyCase, *, over: Over, tolerance: float, watch: Watch[None]) -> MegResult:
    left = None if watch.left is None else max(watch.left, _NO_TIME)
    options = ClassOptions(None, over, case.reference, tolerance, None, left)
    return linear_utility(case.mdp, case.policy, options)


def _together(
    cases: Sequence[PolicyCase], *, over: Over, tolerance: float, watch: Watch[None]
) -> list[MegResult]:
    space = linear_class(cases[0].mdp, None, over)
    alone = partial(_alone, over=over, tolerance=tolerance, watch=watch)
    if is_large(cases[0].mdp, space):
        return [alone(case) for case in cases]
    mdp = side_by_side([case.mdp for case in cases])
    behaviour = behaviour_side_by_side(mdp, cases)
    log_reference = reference_side_by_side(cases)
    worlds = [case.mdp for case in cases]
    joint = Worlds(worlds, space, mdp, behaviour, log_reference, watch.check)
    measure = yardstick(behaviour, log_reference, joint.utilities.tells_apart(), Sums(len(cases)))
    tasks = []
    for i, case in enumerate(cases):
        single = behaviour_of(case.mdp, [case.policy])
        reference = log_of_reference(case.mdp, case.reference)
        own = Yardstick(measure.maximum[i : i + 1], measure.ceiling[i : i + 1])
        notes = class_notes(space, case.policy, case.reference)
        tasks.append(ClassTask(single, space, reference, own, tolerance, notes))
    bounds = [Bounds(float(ceiling)) for ceiling in measure.ceiling]
    zero = np.zeros((len(cases), space.n_weights))
    state = SearchState(zero, np.zeros(len(cases)), bounds, tasks[0].near)
    stopped = None
    try:
        ascend(joint, state, MOST_ROUNDS)
        for place, some in state.groups(joint, np.flatnonzero(state.closed)):
            upper = [bounds[i].at(state.theta[i]).upper for i in place]
            model = some.model(state.theta[place])
            polish(some, place, state, upper + model.rounding(some.behaviour, place.size))
    except TimeIsUp:
        stopped = "timeout"
    joint, again = replace(joint, check=None), np.zeros(len(cases))
    for place, some in state.groups(joint, np.arange(len(cases))):
        again[place] = some.model(state.theta[place]).verified(some.behaviour, Sums(place.size))
    results = []
    for i, (case, task) in enumerate(zip(cases, tasks, strict=True)):
        fit = with_rounding_error(_fit(state, i, task), task.behaviour, bounds[i])
        closed = bool(state.closed[i]) and fit.closes(task.near)
        if closed or stopped:
            ended = None if closed else stopped
            results.append(class_result(task, fit, ended, watch.elapsed, float(again[i])))
        else:
            results.append(alone(case))
    return results


def _fit(state: SearchState, i: int, task: ClassTask) -> LinearFit:
    """The fit of one world of a joint search."""
    mdp, reference = task.behaviour.mdp, task.log_reference
    if i in state.faces:
        reference = closed_reference(reference, mdp.n_actions, state.faces[i])
    model = SoftModel(mdp, task.utilities, state.theta[i], reference)
    value, bound = float(state.value[i]), state.bounds[i].at(state.theta[i])
    return LinearFit(value, *bound, model, state.directions[i], int(state.steps[i]))
