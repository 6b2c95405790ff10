"""Block-coordinate ascent on b E[U] + H: every decision in turn answers the others exactly.

With the policies of the others held fixed, b E[U] + H is concave in the policy of decision i and
its maximum is the softmax

    pi_i(d | c)  proportional to  exp( b E[U | c, d] + sum_{later j} E[-log pi_j | c, d] ),

where only decisions j whose contexts D_i influences can differ with d. A step therefore never
decreases the objective. In the form of `goalmeter.tabular.backup`, b times the gap to the best
action, it is exact for every b: at b = infinity the best actions alone share the probability,
weighted by the entropy that they leave to the others. A negative b is a positive one for -U.

Where the ascent ends depends on where it began: b E[U] + H is not concave in all policies
together. B ascents run side by side.

Source: MEG paper (NeurIPS 2024), Definition 3.1, by its Lagrangian.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from goalmeter._types import BoolArray, FloatArray
from goalmeter.meg.causal.search.outcomes import OutcomeTable, Policies, safe_log

# Differences in expected utility below this, in a unit in which utilities differ by at most 1, are
# rounding; at b = infinity they decide between a best and another action.
TIE = 1e-13
TIE_AT_INFINITY = 1e-9


class Prospects(NamedTuple):
    """What a decision has to go by, given the policies of the others; [C, A, B] each."""

    mass: FloatArray  # probability of the context, seen from each of its actions
    paid: FloatArray  # E[U | context, action]
    spare: FloatArray  # sum over later decisions of E[-log pi | context, action], nats


def prospects_of(table: OutcomeTable, utility: FloatArray, policies: Policies, i: int) -> Prospects:
    """What decision `i` has to go by.

    `utility` of each row is [R, 1], or [R, B] where each column has its own; policies [C, A, B].
    """
    chance = table.probability(policies, without=i)
    mass = table.total(i, chance)
    # Sums over a context become expectations in it; a context without mass keeps its zeros.
    known = np.where(mass > 0, mass, 1.0)
    paid = table.total(i, chance * utility) / known
    spare = np.zeros_like(paid)
    if table.later[i]:
        surprise = sum(table.rows(j, -safe_log(policies[j])) for j in table.later[i])
        spare = table.total(i, chance * surprise) / known
    return Prospects(mass, paid, spare)


def respond(prospects: Prospects, rationality: FloatArray, old: FloatArray) -> FloatArray:
    """The best policy of a decision, [C, A, B]; where no context can come up, as it was.

    A context that a policy never brings about may still be one that it stays away from because of
    what would be done there, so that must not be forgotten.
    """
    value = np.where(rationality < 0, -prospects.paid, prospects.paid)
    gap = value.max(axis=1, keepdims=True) - value
    endless = np.isinf(rationality)
    gap[gap <= np.where(endless, TIE_AT_INFINITY, TIE)] = 0.0
    with np.errstate(invalid="ignore"):
        penalty = np.where(gap > 0, np.abs(rationality) * gap, 0.0)
    return normalised(prospects.spare - penalty, prospects.mass, old)


def normalised(logits: FloatArray, mass: FloatArray, old: FloatArray) -> FloatArray:
    """Softmax over actions [C, A, B]; the old policy where the context has no mass."""
    # Less the largest one, so that exp cannot overflow.
    policy = np.exp(logits - logits.max(axis=1, keepdims=True))
    policy /= policy.sum(axis=1, keepdims=True)
    return np.where(mass.max(axis=1, keepdims=True) > 0, policy, old)


def ascend(
    table: OutcomeTable,
    utility: FloatArray,
    rationality: FloatArray,
    policies: Policies,
    *,
    sweeps: int,
    tolerance: float,
) -> tuple[Policies, BoolArray]:
    """Let every decision answer the others until no probability moves by more than a tolerance.

    The utility, [R, 1] or [R, B], is in a unit in which it varies by about 1. Each column has its
    rationality b, [B], of either sign or infinite, and policies to begin with, [C, A, B] each. It
    drops out after as many `sweeps`, or earlier once it has settled.

    Returns:
        policies, and which columns have settled, [B].
    """
    out = [p.copy() for p in policies]
    running = np.arange(len(rationality))
    now = [p.copy() for p in policies]
    # The utility of the columns that still run; one for all of them stays as it is.
    running_utility = utility
    for sweep in range(sweeps):
        moved = np.zeros(len(running))
        for i in range(len(now)):
            new = respond(
                prospects_of(table, running_utility, now, i), rationality[running], now[i]
            )
            moved = np.maximum(moved, np.abs(new - now[i]).max(axis=(0, 1)))
            now[i] = new
        settled = moved <= tolerance
        # Taking columns out copies all of them, which pays once a tenth has settled; now and then
        # it is done all the same, so that a few slow columns do not drag the others along to the
        # end.
        if settled.any() and (settled.all() or settled.mean() > 0.1 or sweep % 16 == 0):
            for whole, part in zip(out, now, strict=True):
                whole[..., running] = part
            keep = ~settled
            running = running[keep]
            now = [p[..., keep] for p in now]
            running_utility = utility if utility.shape[1] == 1 else utility[:, running]
        if not len(running):
            break
    for whole, part in zip(out, now, strict=True):
        whole[..., running] = part
    done = np.ones(len(rationality), dtype=bool)
    done[running] = False
    return out, done


class Score(NamedTuple):
    """What policies attain, [B] each."""

    utility: FloatArray
    entropy: FloatArray

    def objective(self, rationality: FloatArray) -> FloatArray:
        """B E[U] + H, nats; b finite."""
        return np.asarray(rationality * self.utility + self.entropy)


def score(table: OutcomeTable, utility: FloatArray, policies: Policies) -> Score:
    """E[U] and H of policies, with the utility of each row [R, 1] or [R, B]."""
    probability = table.probability(policies)
    surprise = sum(table.rows(j, -safe_log(p)) for j, p in enumerate(policies))
    return Score((probability * utility).sum(axis=0), (probability * surprise).sum(axis=0))
