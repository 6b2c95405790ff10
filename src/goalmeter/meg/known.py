"""Goal-directedness with respect to known utilities, in one world or in many."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple, TypeVar

import numpy as np

from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter._types import ArrayLike, BoolArray, FloatArray, IntArray
from goalmeter.meg.behaviour import (
    MOST_STEPS,
    Behaviour,
    EvidencePoint,
    PolicyBehaviour,
    Shares,
    behaviour_of,
    best_rationality,
    bracketed,
    certifying,
    evidence,
    model_evidence,
    rounding,
    yardstick,
)
from goalmeter.meg.result import PESSIMISES, Listener, MegResult, Progress, reference_name
from goalmeter.tabular import planning
from goalmeter.tabular.arrays import naming
from goalmeter.tabular.backup import SoftProblem, problem
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import MOST_STATES, Sums, column, side_by_side, spread_out
from goalmeter.tabular.policies import (
    check_policy,
    check_resolved,
    normalised_notes,
    rewards_of,
    stack_rewards,
)
from goalmeter.tabular.transition import map_all

# Proposition 3.3 of the MEG paper (a utility that no decision influences has MEG 0) needs more than
# a difference that rounding hides: a tiny difference is told apart by a large enough rationality.
# Here nothing is compared but numbers that were given: two states are alike if they pay exactly the
# same and lead with exactly the same probabilities to states that are alike, and no choice has an
# influence if, in every state that can be reached, all actions are alike.

# Reachable states are kept for each decision up to this many entries [H, S], else as one set.
_KEPT_ENTRIES = 10_000_000


def has_no_influence(mdp: TabularMDP, utility: FloatArray) -> bool:
    """Whether no decision can influence a utility [T, A or 1, S], exactly."""
    # False may also mean that sums of probabilities that ought to be equal differ by rounding.
    same = ~mdp.transition.actions_differ(by_more_than=0.0)
    reached = _reached(mdp)
    labels = np.zeros(mdp.n_states, dtype=np.int64)
    for t in count() if mdp.horizon is None else reversed(range(mdp.horizon)):
        before = labels.max()
        labels, alike = _labels(mdp, utility[min(t, len(utility) - 1)], same, labels)
        # The labels of what cannot be reached at this decision are never looked up.
        all_alike = bool(alike[reached[min(t, len(reached) - 1)]].all())
        if mdp.horizon is None and labels.max() == before:
            # The coarsest partition of states that is its own refinement.
            return all_alike
        if mdp.horizon is not None and not all_alike:
            return False
    return True


def _labels(
    mdp: TabularMDP, utility: FloatArray, same: BoolArray, after: IntArray
) -> tuple[IntArray, BoolArray]:
    """Labels of states by what their first action pays and leads to, and whether all agree: [S]."""
    # `same` are states whose actions lead to one distribution, `after` the next labels.
    kinds = np.eye(int(after.max()) + 1)[after]
    leads = mdp.transition.expect_all(kinds)  # [A, S, kinds]
    # What leads to one kind alone does so with probability 1, however its row adds up.
    leads = np.where((leads > 0).sum(axis=-1, keepdims=True) == 1, leads > 0, leads)
    pays = np.broadcast_to(utility, leads.shape[:2])
    alike = (pays == pays[0]).all(axis=0) & (same | (leads == leads[0]).all(axis=(0, 2)))
    signature = np.column_stack([after, pays[0], leads[0]])
    # A state keeps its kind from one refinement to the next, so that the partition only gets finer.
    _, labels = np.unique(signature, axis=0, return_inverse=True)
    return np.asarray(labels, dtype=np.int64).reshape(-1), alike


def _reached(mdp: TabularMDP) -> list[BoolArray]:
    """States that some policy can be in at each decision; one set for all in a large world."""

    def after(states: BoolArray) -> BoolArray:
        mass = np.broadcast_to(states.astype(np.float64), (mdp.n_actions, mdp.n_states))
        return np.asarray(mdp.transition.push(np.ascontiguousarray(mass)) > 0)

    out = [mdp.initial > 0]
    if mdp.horizon is not None and mdp.horizon * mdp.n_states <= _KEPT_ENTRIES:
        for _ in range(mdp.horizon - 1):
            out.append(after(out[-1]))
        return out
    while True:
        more = out[0] | after(out[0])
        if (more == out[0]).all():
            return out
        out = [more]


# --- Batches of worlds ----------------------------------------------------------------------------
_T = TypeVar("_T")


class PolicyCase(NamedTuple):
    """A policy in a world, what it is compared with, and what an error calls it."""

    name: str
    mdp: TabularMDP
    policy: ArrayLike
    utility: ArrayLike | None
    reference: ArrayLike | None


def cases_of(
    mdp: TabularMDP | Sequence[TabularMDP],
    policies: Sequence[ArrayLike],
    utilities: Sequence[ArrayLike | None] | None,
    reference: ArrayLike | None,
    references: Sequence[ArrayLike | None] | None,
) -> list[PolicyCase]:
    """The cases that a caller means, who gives as many of each, or one for all."""
    if reference is not None and references is not None:
        raise InvalidParameterError(
            "reference and references are both given, expected one of them: reference is shared "
            "by all, references are one for each"
        )
    worlds = [mdp] if isinstance(mdp, TabularMDP) else list(mdp)
    for i, world in enumerate(worlds):
        if not isinstance(world, TabularMDP):
            raise InvalidParameterError(
                f"worlds[{i}] is of type {type(world).__name__}, expected a TabularMDP"
            )
    compared = [None] if utilities is None else list(utilities)
    habits = [reference] if references is None else list(references)
    counts = {len(worlds), len(policies), len(compared), len(habits)}
    if 0 in counts or len(counts - {1}) > 1:
        raise InvalidParameterError(
            f"got {len(worlds)} worlds, {len(policies)} policies, {len(compared)} utilities and "
            f"{len(habits)} references, expected as many of each, or a single one that is used "
            f"for all"
        )
    name = "policies" if isinstance(mdp, TabularMDP) else "worlds"
    every = (worlds, policies, compared, habits)
    return [
        PolicyCase(f"{name}[{i}]", *(_of(each, i) for each in every)) for i in range(max(counts))
    ]


def _of(each: Any, i: int) -> Any:
    return each[i % len(each)]


def measure_parts(
    cases: Sequence[PolicyCase],
    together: Callable[[Sequence[PolicyCase]], Sequence[_T]],
    alone: Callable[[PolicyCase], _T],
    alike: Callable[[PolicyCase], float] = lambda case: 0.0,
) -> list[_T]:
    """The results of all cases in order: of those of like shape together, of others alone."""
    # Cases that are measured together are `alike` as far as possible, whatever the threads.
    groups: dict[object, list[int]] = {}
    for i, (_, mdp, _, _, reference) in enumerate(cases):
        shape = mdp.n_states, mdp.n_actions, mdp.horizon, mdp.discount, reference is None
        joins = _room(mdp) > 1 and not planning.is_nearly_endless(mdp)
        groups.setdefault(shape if joins else i, []).append(i)
    parts, single = [], []
    for members in groups.values():
        if len(members) == 1:
            single += members
            continue
        size = _room(cases[members[0]].mdp)
        members.sort(key=lambda i: alike(cases[i]))
        parts += [members[start : start + size] for start in range(0, len(members), size)]

    def by_itself(i: int) -> _T:
        with naming(cases[i].name):
            return alone(cases[i])

    def work(part: list[int]) -> Sequence[_T]:
        try:
            return together([cases[i] for i in part])
        except GoalmeterError:
            # Which of them it was is known by asking each.
            return [by_itself(i) for i in part]

    results: dict[int, _T] = {}
    if parts:
        for part, done in zip(parts, map_all(work, parts), strict=True):
            results.update(zip(part, done, strict=True))
    results.update((i, by_itself(i)) for i in single)
    return [results[i] for i in range(len(cases))]


def _room(mdp: TabularMDP) -> int:
    """How many worlds like this one stand side by side."""
    # Of the infinite problem, so many that policies are still evaluated by a factorisation.
    return (MOST_STATES if mdp.horizon is not None else planning.DIRECT_STATES) // mdp.n_states


def joined_worlds(
    cases: Sequence[PolicyCase],
) -> tuple[TabularMDP, PolicyBehaviour, FloatArray | None]:
    """The worlds of cases side by side, the behaviour there, the log reference [T, A, W * S]."""
    mdp = side_by_side([case.mdp for case in cases])
    policy = _joined([check_policy(case.mdp, case.policy) for case in cases])[..., None]
    logs = [planning.log_of_reference(case.mdp, case.reference) for case in cases]
    present = [log for log in logs if log is not None]
    behaviour = PolicyBehaviour(mdp, policy, planning.state_occupancy(mdp, policy))
    return mdp, behaviour, _joined(present) if present else None


def _joined(arrays: Sequence[FloatArray]) -> FloatArray:
    """Arrays [T or 1, A, S] of W worlds as one [T, A, W * S]."""
    shape = (max(map(len, arrays)), *arrays[0].shape[1:])
    stacked = np.stack([np.broadcast_to(array, shape) for array in arrays], axis=2)
    return stacked.reshape(*stacked.shape[:2], -1)


# --- Measurement ----------------------------------------------------------------------------------
TOLERANCE = 1e-8
# Half-width, relative to beta, of the bracket that proves the bound on a finite optimum.
_BRACKET = 1e-4
# What a note says of a utility that has no influence, and of one whose influence is not resolved.
NO_INFLUENCE = (
    "no choice influences this utility (it is constant, or out of the agent's reach), so MEG is 0 "
    "by Proposition 3.3"
)
UNRESOLVED = (
    "what choices can change of this utility is below rounding, at most 1e-12 of what a run can "
    "collect, which shows nothing about MEG but the upper bound; where the discount is very close "
    "to 1, take one further from it, or a finite horizon"
)
TIES = (
    "some actions differ in value by less than 1e-12 of what a run can collect, but by more than "
    "rounding: the rationality is not certain, and the value is a lower bound; take a discount "
    "further from 1, or a finite horizon"
)


# A world (of all states, where B are side by side), the behaviour in it, and the reference there.
_Joined = tuple[TabularMDP, Behaviour, FloatArray | None]


def measure_known(
    mdp: TabularMDP,
    policies: list[ArrayLike],
    utilities: list[ArrayLike | None],
    log_reference: FloatArray | None,
    reference: ArrayLike | None = None,
    progress: Listener | None = None,
) -> list[MegResult]:
    """The results of a batch in one world, against a log policy [T, A, S]."""
    joined = (mdp, behaviour_of(mdp, policies), log_reference)
    return _measure([mdp], policies, utilities, [reference], joined, progress)


def _measure(
    worlds: Sequence[TabularMDP],
    policies: Sequence[ArrayLike],
    utilities: Sequence[ArrayLike | None],
    references: Sequence[ArrayLike | None],
    joined: _Joined,
    progress: Listener | None = None,
) -> list[MegResult]:
    """Measure B behaviours at once; of each argument there are B, or one for all."""
    mdp, behaviour, log_reference = joined
    sums = Sums(len(worlds))
    size = max(len(worlds), len(policies), len(utilities))
    each = [rewards_of(_of(worlds, i), u) for i, u in enumerate(utilities)]
    given = stack_rewards(each)
    check_resolved(given)
    rewards, unit = given.normalised()
    apart = rewards.tells_apart()
    apart = apart if sums.n_worlds == 1 else column(apart)
    maxima, ceilings = yardstick(behaviour, log_reference, apart, sums)
    regret: FloatArray | None = None
    passes, began = 0, time.monotonic()

    def task_of(b: FloatArray) -> SoftProblem:
        task = planning.resolved(problem(mdp, rewards, b, log_reference))
        return task if len(worlds) == 1 else spread_out(task, worlds[0].n_states)

    def evaluate(b: FloatArray) -> EvidencePoint:
        nonlocal regret, passes
        if progress is not None and passes:
            gone = time.monotonic() - began
            left = gone / passes * max(MOST_STEPS - passes, 0)
            top = float(ceilings.max())
            progress(Progress("fitting the rationality", passes, 0.0, top, gone, left))
        passes += 1
        task = task_of(b)
        if regret is not None:
            return model_evidence(task, regret, sums)
        at_b = evidence(task, behaviour, sums=sums)
        if b.any():
            # The signs are settled from here on, and with them the regrets: only the model's own
            # terms change with b, which is a cheaper pass.
            regret = at_b.loss
        return at_b

    # At 0 every model is the reference, and the slope there says which sign is worth trying.
    at_zero = evaluate(np.zeros(size))
    best = best_rationality(evaluate, at_zero)
    task = task_of(best)
    by_state = np.zeros((mdp.n_states, task.rationality.shape[0]))
    shares = Shares(np.zeros((mdp.steps, by_state.shape[1] * sums.n_worlds)), by_state)
    at_best = evidence(task, behaviour, shares, sums)
    value = np.maximum(at_best.value, 0.0)
    bound = _upper_bound(best, value, at_best, evaluate)
    error = rounding(mdp)
    doubtful = planning.doubtful_ties(task_of(np.ones(size)))
    if sums.n_worlds > 1:
        by_state = by_state.reshape(sums.n_worlds, -1).T
    with np.errstate(over="ignore"):
        # What is beyond a double is infinite.
        rationality = np.broadcast_to(best / unit, size)
    results = []
    for i in range(size):
        notes = normalised_notes(policy=_of(policies, i), reference=_of(references, i))
        top = float(bound[i]) + error
        if at_zero.start_loss[i] <= 0.0:
            nothing = has_no_influence(_of(worlds, i), given.array[..., i % given.array.shape[-1]])
            notes += (NO_INFLUENCE if nothing else UNRESOLVED,)
            top = 0.0 if nothing else np.inf
        elif doubtful[i % len(doubtful)]:
            notes += (TIES,)
            top = np.inf
        if best[i] < 0:
            notes += (PESSIMISES,)
        maximum, ceiling = float(_of(maxima, i)), float(_of(ceilings, i))
        fields = bracketed(float(value[i]), min(top, ceiling + error), maximum, ceiling)
        results.append(
            MegResult(
                **fields,
                rationality=float(rationality[i]),
                target="the reward" if _of(utilities, i) is None else "the given utility",
                method="optimum over the rationality, by Newton steps with exact derivatives",
                tolerance=certifying(TOLERANCE, error, maximum),
                by_step=shares.by_step[:, i],
                by_state=by_state[:, i],
                utility=_of(each, i).shown(0),
                reference=reference_name(log_reference is not None),
                notes=notes,
            )
        )
    return results


def _upper_bound(
    best: FloatArray,
    value: FloatArray,
    at_best: EvidencePoint,
    evaluate: Callable[[FloatArray], EvidencePoint],
) -> FloatArray:
    """Bound on the evidence over all rationalities, from concavity: [B]."""
    # Where the slope is positive just below the optimum and negative just above it, every other
    # rationality is worse than both, and between them the tangent at the optimum bounds the
    # evidence. At infinity the value is the supremum itself, and at 0 the slope is 0.
    finite = np.isfinite(best) & (best != 0)
    bound = np.array(np.broadcast_to(value, best.shape))
    if finite.any():
        inner = np.where(finite, best, 0.0)
        below = evaluate(inner * (1 - _BRACKET)).slope
        above = evaluate(inner * (1 + _BRACKET)).slope
        tangent = value + np.abs(at_best.slope) * np.abs(inner) * _BRACKET
        proven = (below >= 0) & (above <= 0)
        bound = np.where(finite, np.where(proven, tangent, np.inf), bound)
    return bound


def _alone(case: PolicyCase) -> MegResult:
    _, mdp, policy, utility, reference = case
    return known_utility(mdp, policy, utility=utility, reference=reference)


def _together(cases: Sequence[PolicyCase]) -> list[MegResult]:
    _, worlds, policies, utilities, references = zip(*cases, strict=True)
    return _measure(worlds, policies, utilities, references, joined_worlds(cases))


# Actions times states times problems of one world that are worked on together.
_PART_ENTRIES = 2**17


def known_utility(
    mdp: TabularMDP,
    policy: ArrayLike,
    *,
    utility: ArrayLike | None = None,
    reference: ArrayLike | None = None,
    progress: Listener | None = None,
) -> MegResult:
    """MEG of a policy with respect to a known utility, the MDP's reward by default.

        MEG = max over b of E_policy[ sum_t log pi_b(a_t | s_t) - log reference(a_t | s_t) ]

    with pi_b the soft-optimal policy of rationality b, infinities included. The value is
    certified: the evidence is concave in b and the optimum is bracketed.

    Args:
        mdp: the world.
        policy: [S, A] or [H, S, A].
        utility: [S], [S, A], [H, S] or [H, S, A], reward units; default `mdp.reward`.
        reference: the policy that scores 0, [S, A] or [H, S, A]; default uniform. With a habit
            as the reference, MEG asks for goal-directedness beyond it.
        progress: called after each pass over all decisions, with a `Progress`.

    Source: MEG paper (NeurIPS 2024), Definition 3.2, Theorem 5.1.
    Cost: about ten passes of O(H * transitions).

    Example: the mouse that goes for the cheese with probability 0.8 (the paper's Example 1).
        >>> to_cheese, to_nothing = [0, 1, 0], [0, 0, 1]
        >>> stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
        >>> mouse = TabularMDP([[to_cheese, to_nothing], *stay], [0, 1, -1], horizon=2)
        >>> result = known_utility(mouse, [[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]])
        >>> print(round(result.value, 4), round(result.rationality, 4))
        0.1927 0.6931
    """
    log_reference = planning.log_of_reference(mdp, reference)
    return measure_known(mdp, [policy], [utility], log_reference, reference, progress)[0]


def known_utility_many(
    mdp: TabularMDP | Sequence[TabularMDP],
    policies: Sequence[ArrayLike],
    *,
    utilities: Sequence[ArrayLike | None] | None = None,
    reference: ArrayLike | None = None,
    references: Sequence[ArrayLike | None] | None = None,
) -> list[MegResult]:
    """`known_utility` of many policies, utilities or worlds, or of all of these, in one batch.

    Results are those of single calls, up to rounding, in the order given. Worlds of like shape
    (numbers of states and actions, horizon, discount) are measured together, which is faster.

    There are B worlds, policies, utilities (default: each world's own reward) and references (None
    for the uniform policy), or one for all; `reference` is shared by all.

    Example: the mouse of `known_utility`, and one that finds its cheese in the other place.
        >>> to_cheese, to_nothing = [0, 1, 0], [0, 0, 1]
        >>> stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
        >>> mouse = TabularMDP([[to_cheese, to_nothing], *stay], [0, 1, -1], horizon=2)
        >>> behaviour = [[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]]
        >>> other = mouse.replace(reward=[0, -1, 1])
        >>> for result in known_utility_many([mouse, other], [behaviour]):
        ...     print(round(result.value, 4), round(result.rationality, 4))
        0.1927 0.6931
        0.1927 -0.6931
    """
    cases = cases_of(mdp, policies, utilities, reference, references)
    if not isinstance(mdp, TabularMDP) or references is not None:
        return measure_parts(cases, _together, _alone)
    compared: list[ArrayLike | None] = [None] if utilities is None else list(utilities)
    log_reference = planning.log_of_reference(mdp, reference)
    # A part of the batch whose arrays stay in cache costs less than the whole at once.
    part = max(1, _PART_ENTRIES // (mdp.n_actions * mdp.n_states))
    results = []
    for start in range(0, len(cases), part):
        members = slice(start, start + part)
        results += measure_known(
            mdp,
            list(policies if len(policies) == 1 else policies[members]),
            compared if len(compared) == 1 else compared[members],
            log_reference,
            reference,
        )
    return results
