"""The best of all utilities in many worlds, those of like shape side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike
from goalmeter.meg.abreast import Abreast
from goalmeter.meg.abreast_search import Fits, search, verify
from goalmeter.meg.behaviour import yardstick
from goalmeter.meg.class_result import Reached, Shown, class_result
from goalmeter.meg.known_worlds import behaviour_side_by_side, reference_side_by_side
from goalmeter.meg.linear import is_large
from goalmeter.meg.linear_utility import (
    ACTION_WARNING,
    TOLERANCE,
    linear_utility,
    normalised_utility,
)
from goalmeter.meg.many import Case, cases_of, measure_parts
from goalmeter.meg.result import MegResult
from goalmeter.meg.utility_class import Over, linear_class
from goalmeter.meg.watch import Watch
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.policies import normalised_notes
from goalmeter.tabular.side_by_side import Sums, side_by_side

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
        timeout: seconds after which all searches end with what they have: those that had not begun
            with the value 0 and the bound that is known beforehand.

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


def _sureness(case: Case) -> float:
    """How sure a policy is on average: the surer, the farther away its optimum lies."""
    policy = np.asarray(case.policy)
    # What is no policy is told apart where it is checked.
    if policy.ndim == 0 or policy.dtype.kind not in "biuf" or not policy.size:
        return 0.0
    return float(policy.max(axis=-1).mean())


def _alone(case: Case, *, over: Over, tolerance: float, watch: Watch[None]) -> MegResult:
    return linear_utility(
        case.mdp,
        case.policy,
        over=over,
        reference=case.reference,
        tolerance=tolerance,
        timeout=None if watch.left is None else max(watch.left, _NO_TIME),
    )


def _together(
    cases: Sequence[Case], *, over: Over, tolerance: float, watch: Watch[None]
) -> list[MegResult]:
    space = linear_class(cases[0].mdp, None, over)
    alone = partial(_alone, over=over, tolerance=tolerance, watch=watch)
    if is_large(cases[0].mdp, space):
        return [alone(case) for case in cases]
    mdp = side_by_side([case.mdp for case in cases])
    behaviour = behaviour_side_by_side(mdp, cases)
    log_reference = reference_side_by_side(cases)
    worlds = [case.mdp for case in cases]
    abreast = Abreast(worlds, space, mdp, behaviour, log_reference, watch.check)
    sums = Sums(len(cases))
    measure = yardstick(behaviour, log_reference, abreast.utilities.tells_apart(), sums)
    # As in the single search: the rest is room for the value's own rounding.
    near = 0.1 * tolerance
    fits = search(abreast, near, measure.ceiling)
    # What is worked out of the best so far takes passes as well, which nothing must cut short.
    abreast = replace(abreast, check=_never)
    by_step = np.zeros((len(cases), mdp.steps))
    by_state = np.zeros((len(cases), space.shape[2]))
    ended = np.flatnonzero(fits.closed | fits.stopped)
    for chosen, some in fits.groups(abreast, ended):
        model = some.model(fits.theta[chosen])
        verify(some, model, fits, chosen, near)
        shares = some.shares(model)
        by_step[chosen], by_state[chosen] = shares.sum(axis=2).T, shares.sum(axis=0)
    results = []
    for i, case in enumerate(cases):
        if not fits.closed[i] and not fits.stopped:
            results.append(alone(case))
            continue
        # Of an optimum at infinity, the dominant direction is the utility that can be shown.
        weights = fits.direction[i] if i in fits.faces else fits.theta[i]
        shown = Shown(*normalised_utility(space, weights), by_step[i], by_state[i])
        results.append(
            class_result(
                _reached(fits, i),
                shown,
                measure,
                mdp=case.mdp,
                target=space.name,
                uniform=log_reference is None,
                tolerance=tolerance,
                notes=(
                    *((ACTION_WARNING,) if space.on_actions else ()),
                    *normalised_notes(policy=case.policy, reference=case.reference),
                ),
                stopped=None if fits.closed[i] else "timeout",
                elapsed=watch.elapsed,
                i=i,
            )
        )
    return results


def _reached(fits: Fits, i: int) -> Reached:
    parts = fits.value, fits.bound, fits.size, fits.error
    value, bound, size, error = (float(each[i]) for each in parts)
    return Reached(value, bound, size, False, int(fits.steps[i]), i in fits.faces, False, error)


def _never() -> None:
    """No end: the time of a search does not count for what follows it."""
