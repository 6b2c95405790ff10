"""Goal-directedness with respect to a known utility."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.meg.behaviour import behaviour_of, bracketed, certifying, rounding, yardstick
from goalmeter.meg.evidence import (
    Evidence,
    best_rationality,
    evidence,
    model_evidence,
    shared_evidence,
)
from goalmeter.meg.influence import has_no_influence
from goalmeter.meg.result import PESSIMISES, MegResult
from goalmeter.tabular.backup import problem
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import doubtful_ties, log_of_reference
from goalmeter.tabular.policies import normalised_notes
from goalmeter.tabular.rewards import check_resolved, rewards_of, stack_rewards

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
    "actions whose values differ by less than 1e-12 of what a run can collect count as equally "
    "good, and here some do that differ by more than rounding: neither value nor rationality is "
    "certain, only the upper bound; take a discount further from 1, or a finite horizon"
)
# Actions times states times problems that are worked on together.
_PART_ENTRIES = 2**17


def known_utility(
    mdp: TabularMDP,
    policy: ArrayLike,
    *,
    utility: ArrayLike | None = None,
    reference: ArrayLike | None = None,
) -> MegResult:
    """MEG of a policy with respect to a known utility, the MDP's reward by default.

        MEG = max over b of E_policy[ sum_t log pi_b(a_t | s_t) - log reference(a_t | s_t) ]

    with pi_b the soft-optimal policy of rationality b, infinities included. The value is
    certified: the evidence is concave in b and the optimum is bracketed.

    Args:
        mdp: the world.
        policy: [S, A] or [H, S, A], rows summing to 1 within 1e-9.
        utility: [S], [S, A], [H, S] or [H, S, A], reward units; default `mdp.reward`.
        reference: the policy that scores 0, [S, A] or [H, S, A]; default uniform, as in the
            paper. With a habit as the reference, MEG asks for goal-directedness beyond it.

    Returns:
        A `MegResult`; a utility that no choice influences scores 0, and a note says so.

    Raises:
        InvalidPolicyError: policy or reference is not a policy of this MDP.
        InvalidUtilityError: utility does not fit this MDP, or varies by less than 1e-290.

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
    return known_utility_many(mdp, [policy], utilities=[utility], reference=reference)[0]


def known_utility_many(
    mdp: TabularMDP,
    policies: Sequence[ArrayLike],
    *,
    utilities: Sequence[ArrayLike | None] | None = None,
    reference: ArrayLike | None = None,
) -> list[MegResult]:
    """`known_utility` of many policies, many utilities or pairs of both, in one batch.

    Args:
        mdp: the world.
        policies: B policies, or one that is measured against every utility.
        utilities: B utilities, or one for all policies; default the MDP's reward.
        reference: as in `known_utility`, shared by the batch.

    Raises:
        InvalidParameterError: numbers of policies and utilities that do not go together.
    """
    compared: list[ArrayLike | None] = [None] if utilities is None else list(utilities)
    counts = {len(policies), len(compared)}
    if 0 in counts or len(counts - {1}) > 1:
        raise InvalidParameterError(
            f"got {len(policies)} policies and {len(compared)} utilities, expected as many of one "
            f"as of the other, or a single one that is used for all"
        )
    log_reference = log_of_reference(mdp, reference)
    batch = max(len(policies), len(compared))
    # A part of the batch whose arrays stay in cache costs less than the whole at once.
    part = max(1, _PART_ENTRIES // (mdp.n_actions * mdp.n_states))
    results = []
    for start in range(0, batch, part):
        members = slice(start, start + part)
        results += measure_known(
            mdp,
            list(policies) if len(policies) == 1 else list(policies[members]),
            compared if len(compared) == 1 else compared[members],
            log_reference,
            reference,
        )
    return results


def measure_known(
    mdp: TabularMDP,
    policies: list[ArrayLike],
    utilities: list[ArrayLike | None],
    log_reference: FloatArray | None,
    reference: ArrayLike | None = None,
) -> list[MegResult]:
    """The results of a batch that is worked on at once, against a log policy [T, A, S].

    `reference` is that policy as it was given, for the notes.
    """
    batch = max(len(policies), len(utilities))
    raw_rewards = stack_rewards([rewards_of(mdp, u) for u in utilities])
    check_resolved(raw_rewards)
    rewards, unit = raw_rewards.normalised()
    behaviour = behaviour_of(mdp, policies)
    measure = yardstick(behaviour, log_reference, rewards.tells_apart())
    regret: FloatArray | None = None

    def evaluate(b: FloatArray) -> Evidence:
        nonlocal regret
        task = problem(mdp, rewards, b, log_reference)
        if regret is not None:
            return model_evidence(task, regret)
        at_b = evidence(task, behaviour)
        if b.any():
            # The signs are settled from here on, and with them the regrets: only the model's own
            # terms change with b, which is a cheaper pass.
            regret = at_b.loss
        return at_b

    # At 0 every model is the reference, and the slope there says which sign is worth trying.
    at_zero = evaluate(np.zeros(batch))
    best = best_rationality(evaluate, at_zero)
    at_best, shares = shared_evidence(problem(mdp, rewards, best, log_reference), behaviour)
    value = np.maximum(at_best.value, 0.0)
    bound = _upper_bound(best, value, at_best, evaluate)
    error = rounding(mdp)
    doubtful = doubtful_ties(problem(mdp, rewards, np.ones(batch), log_reference))
    results = []
    for i in range(batch):
        policy = policies[i % len(policies)]
        notes = [*normalised_notes(policy=policy, reference=reference)]
        top = float(bound[i]) + error
        if at_zero.start_loss[i] <= 0.0:
            nothing = has_no_influence(mdp, raw_rewards.array[..., i % raw_rewards.array.shape[-1]])
            notes.append(NO_INFLUENCE if nothing else UNRESOLVED)
            top = 0.0 if nothing else np.inf
        elif doubtful[i % len(doubtful)]:
            notes.append(TIES)
            top = np.inf
        if best[i] < 0:
            notes.append(PESSIMISES)
        named = "the reward" if utilities[i % len(utilities)] is None else "the given utility"
        top = min(top, float(measure.ceiling[i % len(measure.ceiling)]) + error)
        fields = bracketed(float(value[i]), top, measure, i)
        results.append(
            MegResult(
                **fields,
                rationality=_in_units(float(best[i]), float(unit[i % len(unit)])),
                target=named,
                method="optimum over the rationality, by Newton steps with exact derivatives",
                tolerance=certifying(TOLERANCE, error, fields["maximum"]),
                by_step=shares.by_step[:, i],
                by_state=shares.by_state[:, i],
                utility=raw_rewards.shown(i),
                reference="uniform policy" if log_reference is None else "given reference policy",
                notes=tuple(notes),
            )
        )
    return results


def _in_units(rationality: float, unit: float) -> float:
    """A rationality in inverse units of the utility; what is beyond a double is infinite."""
    with np.errstate(over="ignore"):
        return float(np.float64(rationality) / unit)


def _upper_bound(
    best: FloatArray,
    value: FloatArray,
    at_best: Evidence,
    evaluate: Callable[[FloatArray], Evidence],
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
