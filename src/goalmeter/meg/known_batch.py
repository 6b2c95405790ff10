"""Known utilities measured in a lot: many behaviours and utilities, in one world or one each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from goalmeter._types import ArrayLike, FloatArray
from goalmeter.meg.behaviour import (
    Behaviour,
    behaviour_of,
    bracketed,
    certifying,
    rounding,
    yardstick,
)
from goalmeter.meg.evidence import (
    MOST_STEPS,
    Evidence,
    best_rationality,
    evidence,
    model_evidence,
    shared_evidence,
)
from goalmeter.meg.influence import has_no_influence
from goalmeter.meg.result import PESSIMISES, MegResult
from goalmeter.meg.watch import Listener, Progress
from goalmeter.tabular.backup import SoftProblem, problem
from goalmeter.tabular.many_plans import spread_out
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import doubtful_ties, resolved
from goalmeter.tabular.policies import normalised_notes
from goalmeter.tabular.rewards import Rewards, check_resolved, rewards_of, stack_rewards
from goalmeter.tabular.side_by_side import ONE_WORLD, Sums, column

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


@dataclass(frozen=True)
class Lot:
    """B behaviours and utilities that are measured at once.

    In one world, or in B worlds of like shape whose states stand side by side in `mdp`; `sums` says
    which. Policies, utilities and references that all share are given once.

    Attributes:
        worlds: the only world, or B.
        mdp: the world of all states.
        behaviour: in `mdp`.
        rewards: the utilities in their own units, [T, A or 1, S, B or 1].
        shown: the utilities as results show them.
        log_reference: in `mdp`, [T, A, n], or None for uniform.
        sums: over the states of each world.
        policies, utilities, references: as they were given, for the notes.
    """

    worlds: Sequence[TabularMDP]
    mdp: TabularMDP
    behaviour: Behaviour
    rewards: Rewards
    shown: Sequence[FloatArray]
    log_reference: FloatArray | None
    sums: Sums
    policies: Sequence[ArrayLike]
    utilities: Sequence[ArrayLike | None]
    references: Sequence[ArrayLike | None]

    @property
    def size(self) -> int:
        """B, the number of results."""
        return max(len(self.worlds), len(self.policies), len(self.utilities))

    def task(self, rewards: Rewards, rationality: FloatArray) -> SoftProblem:
        """The planning problems of B rationalities for utilities [T, A or 1, S, B or 1]."""
        task = resolved(problem(self.mdp, rewards, rationality, self.log_reference))
        if self.sums.n_worlds == 1:
            return task
        return spread_out(task, self.worlds[0].n_states)

    def tells_apart(self, rewards: Rewards) -> FloatArray:
        """Where a utility pays actions differently, [T, n, B or 1]."""
        apart = rewards.tells_apart()
        return apart if self.sums.n_worlds == 1 else column(apart)


def measure_known(
    mdp: TabularMDP,
    policies: list[ArrayLike],
    utilities: list[ArrayLike | None],
    log_reference: FloatArray | None,
    reference: ArrayLike | None = None,
    progress: Listener | None = None,
) -> list[MegResult]:
    """The results of a batch in one world, against a log policy [T, A, S].

    `reference` is that policy as it was given, for the notes; `progress` is called at each pass.
    """
    each = [rewards_of(mdp, u) for u in utilities]
    rewards = stack_rewards(each)
    check_resolved(rewards)
    return measure_lot(
        Lot(
            worlds=[mdp],
            mdp=mdp,
            behaviour=behaviour_of(mdp, policies),
            rewards=rewards,
            shown=[utility.shown(0) for utility in each],
            log_reference=log_reference,
            sums=ONE_WORLD,
            policies=policies,
            utilities=utilities,
            references=[reference],
        ),
        progress,
    )


def measure_lot(lot: Lot, progress: Listener | None = None) -> list[MegResult]:
    """The results of a lot, in order."""
    mdp, behaviour, sums = lot.mdp, lot.behaviour, lot.sums
    rewards, unit = lot.rewards.normalised()
    measure = yardstick(behaviour, lot.log_reference, lot.tells_apart(rewards), sums)
    regret: FloatArray | None = None
    passes, began = 0, time.monotonic()

    def evaluate(b: FloatArray) -> Evidence:
        nonlocal regret, passes
        if progress is not None and passes:
            gone = time.monotonic() - began
            left = gone / passes * max(MOST_STEPS - passes, 0)
            top = float(measure.ceiling.max())
            progress(Progress("fitting the rationality", passes, 0.0, top, gone, left))
        passes += 1
        task = lot.task(rewards, b)
        if regret is not None:
            return model_evidence(task, regret, sums)
        at_b = evidence(task, behaviour, sums=sums)
        if b.any():
            # The signs are settled from here on, and with them the regrets: only the model's own
            # terms change with b, which is a cheaper pass.
            regret = at_b.loss
        return at_b

    # At 0 every model is the reference, and the slope there says which sign is worth trying.
    at_zero = evaluate(np.zeros(lot.size))
    best = best_rationality(evaluate, at_zero)
    at_best, shares = shared_evidence(lot.task(rewards, best), behaviour, sums)
    value = np.maximum(at_best.value, 0.0)
    bound = _upper_bound(best, value, at_best, evaluate)
    error = rounding(mdp)
    doubtful = doubtful_ties(lot.task(rewards, np.ones(lot.size)))
    by_state = shares.by_state
    if sums.n_worlds > 1:
        by_state = by_state.reshape(sums.n_worlds, -1).T
    results = []
    for i in range(lot.size):
        policy, reference = _of(lot.policies, i), _of(lot.references, i)
        notes = [*normalised_notes(policy=policy, reference=reference)]
        top = float(bound[i]) + error
        if at_zero.start_loss[i] <= 0.0:
            array = lot.rewards.array
            nothing = has_no_influence(_of(lot.worlds, i), array[..., i % array.shape[-1]])
            notes.append(NO_INFLUENCE if nothing else UNRESOLVED)
            top = 0.0 if nothing else np.inf
        elif doubtful[i % len(doubtful)]:
            notes.append(TIES)
            top = np.inf
        if best[i] < 0:
            notes.append(PESSIMISES)
        named = "the reward" if _of(lot.utilities, i) is None else "the given utility"
        top = min(top, float(measure.ceiling[i % len(measure.ceiling)]) + error)
        fields = bracketed(float(value[i]), top, measure, i)
        uniform = lot.log_reference is None
        results.append(
            MegResult(
                **fields,
                rationality=_in_units(float(best[i]), float(unit[i % len(unit)])),
                target=named,
                method="optimum over the rationality, by Newton steps with exact derivatives",
                tolerance=certifying(TOLERANCE, error, fields["maximum"]),
                by_step=shares.by_step[:, i],
                by_state=by_state[:, i],
                utility=_of(lot.shown, i).copy(),
                reference="uniform policy" if uniform else "given reference policy",
                notes=tuple(notes),
            )
        )
    return results


_T = TypeVar("_T")


def _of(each: Sequence[_T], i: int) -> _T:
    """Member i of what there is one for each of, or one for all."""
    return each[i % len(each)]


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
