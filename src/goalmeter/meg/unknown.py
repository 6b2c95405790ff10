"""Measure goal-directedness towards the best of all utilities; find the simplest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError, shown
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.meg import linear
from goalmeter.meg.batched import WorldBatch, WorldSearch
from goalmeter.meg.behaviour import LinearClass, Over, behaviour_of, linear_class, yardstick
from goalmeter.meg.known import PolicyCase, cases_of, joined_worlds, measure_parts
from goalmeter.meg.linear import TOLERANCE, linear_utility
from goalmeter.meg.neural import neural_utility
from goalmeter.meg.result import Listener, MegResult, Reached, Watch, listener
from goalmeter.meg.soft_model import SoftModel
from goalmeter.meg.visit_matching import penalised_climb
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import Sums, log_of_reference

if TYPE_CHECKING:
    from torch import nn


# --- Simplest -------------------------------------------------------------------------------------
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
    with spends large weights on the last hundredth of a nat. A little less evidence
    requires much smaller weights: this is the utility to plot. It is the maximiser of evidence -
    penalty / 2 * sum of squared weights for the largest penalty on a fixed grid that reaches
    `share` of the class's MEG, in (0, 1); the other arguments are those of `unknown_utility`.

    Example: one coin flip, won four times in five.
        >>> stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
        >>> mouse = TabularMDP([[[0, 1, 0], [0, 0, 1]], *stay], [0, 1, -1], horizon=2)
        >>> simplest_utility(mouse, [[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]]).utility
        array([0.5, 1. , 0. ])
    """
    if not 0.0 < share < 1.0:
        raise InvalidParameterError(f"share is {shown(share)}, expected a number between 0 and 1")
    best = linear_utility(mdp, policy, features=features, over=over, reference=reference)
    utilities = linear_class(mdp, features, over)
    behaviour = behaviour_of(mdp, [policy])
    log_reference = log_of_reference(mdp, reference)
    start = SoftModel(mdp, utilities, np.zeros(utilities.n_weights), log_reference)
    path = (
        penalised_climb(start, behaviour, _PENALTIES) if linear.is_large(mdp, utilities) else None
    )
    # Weights of the utility itself, at rationality 1: their size is the rationality.
    model, evidence = start, 0.0
    # From strong to weak penalties: the first utility that explains enough is the smallest.
    for penalty in _PENALTIES:
        if evidence >= share * best.value:
            break
        model = next(path) if path else linear.climb_gradients(model, behaviour, penalty)
        evidence = model.evidence(behaviour)
    utility, rationality = linear.normalised_utility(utilities, model.theta)
    part = evidence / best.value if best.value > 0 else 0.0
    return SimplestUtility(utility, rationality, evidence, part)


# --- Unknown --------------------------------------------------------------------------------------
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
            Algorithm 2, a lower bound (see `neural_utility`).
        reference: the policy that scores 0, [S, A] or [H, S, A]; default uniform.
        tolerance: nats between value and bound at which the optimum counts as certified.
        inputs: for a network, the state features [S, F] it reads; default one-hot.
        seeds: for a network, one restart for each.
        progress: called at every step with a `Progress`. True writes a line to standard error
            every five seconds, False is silent; by default it writes in a terminal or notebook.
        timeout: seconds after which the search ends with what it has.

    Returns:
        A `MegResult` whose `utility` is the maximising one, scaled to 0..1, with `rationality`
        its beta; inf where the supremum is approached by ever larger utilities, and `utility`
        is then the direction that matters first.

    Raises:
        FitInterrupted: interrupted at the keyboard; its attribute `result` is the best so far.

    Source: MEG paper (NeurIPS 2024), Definitions 4.2 to 4.4, section 5.
    Cost: up to 100 weights, or with features where H * A * S * D^2 is at most 1e8, ten to thirty
    Newton steps of O(H * transitions * D) each (`goalmeter.meg.linear`). Otherwise some hundred
    passes of O(H * transitions), and for each of some ten to sixty steps a sparse factorisation
    (`goalmeter.meg.visit_matching`). No array of S * S entries.

    Example: a mouse that never pays for its cheese has one goal that explains it fully.
        >>> stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
        >>> mouse = TabularMDP([[[0, 1, 0], [0, 0, 1]], *stay], [0, 1, -1], horizon=2)
        >>> result = unknown_utility(mouse, [[1, 0], [0.5, 0.5], [0.5, 0.5]])
        >>> print(round(result.value, 4), result.rationality)
        0.6931 inf
    """
    # One listener for both, so that progress and interruption look the same.
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
    return linear_utility(
        mdp,
        policy,
        features=features,
        over=over,
        reference=reference,
        tolerance=tolerance,
        watch=Watch(hear, timeout),
    )


# --- Unknown worlds -------------------------------------------------------------------------------
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

    There are B worlds, policies and references (None for the uniform policy), or one for all;
    `reference` is shared by all. After the `timeout`, in seconds, all searches end with what they
    have: those that had not begun with the value 0 and the bound that is known beforehand.

    Example: the mouse of `unknown_utility`, and one that is not so sure.
        >>> stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
        >>> mouse = TabularMDP([[[0, 1, 0], [0, 0, 1]], *stay], [0, 1, -1], horizon=2)
        >>> sure, unsure = ([[p, 1 - p], [0.5, 0.5], [0.5, 0.5]] for p in (1.0, 0.8))
        >>> for result in unknown_utility_many([mouse, mouse], [sure, unsure]):
        ...     print(round(result.value, 4), round(result.rationality, 4))
        0.6931 inf
        0.1927 1.3863
    """
    linear.check_tolerance(tolerance)
    watch = Watch[Reached](None, timeout)

    def alone(case: PolicyCase) -> MegResult:
        return linear_utility(
            case.mdp,
            case.policy,
            over=over,
            reference=case.reference,
            tolerance=tolerance,
            watch=Watch(timeout=None if watch.left is None else max(watch.left, _NO_TIME)),
        )

    def together(cases: Sequence[PolicyCase]) -> list[MegResult]:
        space = linear_class(cases[0].mdp, None, over)
        if linear.is_large(cases[0].mdp, space):
            return [alone(case) for case in cases]
        results = _together(cases, space, tolerance, watch)
        return [result or alone(case) for result, case in zip(results, cases, strict=True)]

    cases = cases_of(mdp, policies, None, reference, references)
    return measure_parts(cases, together, alone, alike=_sureness)


def _sureness(case: PolicyCase) -> float:
    """How sure a policy is on average: the surer, the farther away its optimum lies."""
    policy = np.asarray(case.policy)
    if policy.ndim == 0 or policy.dtype.kind not in "biuf" or not policy.size:
        return 0.0
    return float(policy.max(axis=-1).mean())


def _together(
    cases: Sequence[PolicyCase], space: LinearClass, tolerance: float, watch: Watch[Reached]
) -> list[MegResult | None]:
    """The results of worlds that are searched together; None for those that did not close."""
    mdp, behaviour, log_reference = joined_worlds(cases)
    worlds = [case.mdp for case in cases]
    batch = WorldBatch(worlds, space, mdp, behaviour, log_reference, watch.check)
    sums = Sums(len(cases))
    maxima, ceilings = yardstick(behaviour, log_reference, batch.utilities.tells_apart(), sums)
    # As in the single search: the rest is room for the value's own rounding.
    near = 0.1 * tolerance
    fits = WorldSearch(batch, near, ceilings)
    fits.run()
    fits.end()
    shares: dict[int, tuple[FloatArray, FloatArray]] = {}
    ended = np.flatnonzero(fits.closed | fits.stopped)
    for chosen, some in fits.groups(ended):
        model = some.model(fits.theta[chosen])
        fits.verify(some, model, chosen)
        for i, share in zip(chosen, some.shares(model).swapaxes(0, 1), strict=True):
            shares[i] = share.sum(axis=1), share.sum(axis=0)
    results: list[MegResult | None] = []
    for i, case in enumerate(cases):
        if not fits.closed[i] and not fits.stopped:
            results.append(None)
            continue
        notes = linear.class_notes(space, case.policy, case.reference)
        parts = (each[i] for each in (fits.value, fits.bound, fits.size, fits.error))
        value, bound, size, error = map(float, parts)
        infinite = i in fits.faces
        results.append(
            linear.class_result(
                Reached(value, bound, size, False, int(fits.steps[i]), error=error),
                linear.ClassOptions(case.mdp, space, log_reference is None, tolerance, notes),
                (float(maxima[i]), float(ceilings[i])),
                # Of an optimum at infinity, the dominant direction is the utility to show.
                fits.direction[i] if infinite else fits.theta[i],
                shares[i],
                infinite=infinite,
                ended=None if fits.closed[i] else ("timeout", watch.elapsed),
            )
        )
    return results
