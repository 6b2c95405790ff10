"""Soft Bellman backup, in a form that is exact for every rationality, including infinity.

The soft value at rationality b > 0 is  V_b = b * V* + h,  with V* the hard-optimal value. With the
gap  G(s, a) = max_a' Q*(s, a') - Q*(s, a) >= 0  of each action,

    h(s)        = log sum_a reference(a | s) exp(-b G(s, a) + E[h(s')])
    log pi(a|s) = log reference(a | s) - b G(s, a) + E[h(s')] - h(s)

so nothing overflows, precision is kept for tiny b, and at b = infinity optimal actions are
weighted by exp(E[h(s')]). A negative rationality equals the positive one for the negated utility.
With L = -dh/db, the expected total gap of the soft policy (its regret), and C = d2h/db2,

    L = E_pi[G + E[L']]      C = E_pi[E[C']] + Var_{a ~ pi}(G + E[L'])

Source: MEG paper (NeurIPS 2024), Definition 5.2, Theorem 5.1, with the limit corrected.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.policies import Rewards
from goalmeter.tabular.transition import Block

# Two actions are tied if their values differ by less than this share of the largest collectable
# utility; such differences are rounding errors, which would determine the policy at large b.
TIE_SHARE = 1e-12


class SoftProblem(NamedTuple):
    """B soft planning problems on one MDP."""

    mdp: TabularMDP
    rewards: Rewards
    rationality: FloatArray  # [B], non-negative: signs are in the rewards; [1, S, 1] of many worlds
    log_reference: FloatArray | None  # [T, A, S]; -inf forbids an action; None for uniform
    # Difference in value below which two actions are tied at the first decision, [B or 1], or
    # [S, 1] of many worlds; for a finite horizon it shrinks with the discount at later decisions.
    tie: FloatArray

    def weight(self, step: int) -> float:
        """Return the discounted value of a unit of reward at a decision."""
        # A lower bound prevents underflow, since the order of late actions still matters.
        return max(self.rewards.discount**step, 1e-300)


class Columns(NamedTuple):
    """Values of each state at one step; without derivatives the last two are None."""

    hard: FloatArray  # V* [S, B or 1], in reward units of the step (not discounted to step 0)
    soft: FloatArray  # h [S, B], nats
    loss: FloatArray | None  # L [S, B], reward units
    spread: FloatArray | None  # C [S, B], squared reward units

    def present(self) -> list[FloatArray]:
        """Return the columns that are not None, in order."""
        return [c for c in self if c is not None]


class Backup(NamedTuple):
    """Result of a backup of one block of states; arrays [A, n, ...] are per action."""

    hard: FloatArray  # [n, B or 1]
    soft: FloatArray  # [n, B]
    gap: FloatArray  # [A, n, B or 1], in reward units of the step
    log_ratio: FloatArray  # log(pi / reference) [A, n, B]; -inf where pi is 0
    policy: FloatArray  # [A, n, B]
    loss: FloatArray | None  # [n, B]
    next_loss: FloatArray | None  # E[L'] [A, n, B]
    spread: FloatArray | None  # [n, B]
    next_spread: FloatArray | None  # E[C'] [A, n, B]


def problem(
    mdp: TabularMDP,
    rewards: Rewards,
    rationality: FloatArray,
    log_reference: FloatArray | None = None,
) -> SoftProblem:
    """Return a batch of problems for rationalities of either sign, [B]."""
    b = np.asarray(rationality, dtype=np.float64)
    signs = np.where(b < 0, -1.0, 1.0)
    if (signs != 1.0).any():
        same = (signs == signs[0]).all() and rewards.array.shape[-1] == 1
        rewards = rewards.scaled(signs[:1] if same else signs)
    steps = mdp.steps
    total = rewards.magnitude(steps)
    if mdp.horizon is None:
        total = total / (1.0 - mdp.discount)
    return SoftProblem(mdp, rewards, np.abs(b), log_reference, TIE_SHARE * total)


def backup(
    task: SoftProblem,
    block: Block,
    step: int,
    after: Columns,
    expected: FloatArray,
    decay: float = 1.0,
) -> Backup:
    """Back up one block of states at decision `step` from the values `after` it."""
    # `expected`, the expected next value of each column [A, n, columns], is overwritten. `decay` is
    # its weight: the discount of an infinite problem; a finite problem's is in `task.rewards`.
    mdp, rewards = task.mdp, task.rewards
    width, batch = after.hard.shape[-1], after.soft.shape[-1]
    if decay != 1.0:
        expected *= decay

    value = rewards.discount * expected[..., :width] + rewards.at(step, block.states)
    prior = None
    if task.log_reference is not None:
        prior = task.log_reference[min(step, len(task.log_reference) - 1), :, block.states, None]
        forbidden = np.isneginf(prior)
        if forbidden.any():
            # A forbidden action must not be the maximum from which gaps are measured.
            value = np.where(forbidden, -np.inf, value)
    hard = np.maximum.reduce(value)
    gap = np.subtract(hard, value, out=value)
    if prior is not None:
        # The gap of a forbidden action has no effect, but inf * 0 would be NaN.
        gap[np.broadcast_to(np.isneginf(prior), gap.shape)] = 0.0
    # At an infinite rationality, ties broken by rounding would determine the policy.
    if task.tie.any():
        gap *= gap > task.tie

    weight = task.weight(step)
    log_ratio = _penalty(task.rationality * weight, gap)
    np.subtract(expected[..., width : width + batch], log_ratio, out=log_ratio)
    weighted = log_ratio if prior is None else log_ratio + prior
    # Subtracting the largest logit prevents overflow at any rationality.
    peak = np.maximum.reduce(weighted)
    policy = weighted - peak
    np.exp(policy, out=policy)
    total = np.add.reduce(policy)
    policy /= total
    soft = np.log(total, out=total)
    soft += peak
    if prior is None:
        # The uniform reference is a constant.
        soft -= np.log(mdp.n_actions)
    log_ratio -= soft

    if after.loss is None:
        return Backup(hard, soft, gap, log_ratio, policy, None, None, None, None)
    next_loss = expected[..., width + batch : width + 2 * batch]
    next_spread = expected[..., width + 2 * batch :]
    # L and C are the first two derivatives of h by the rationality, up to sign.
    cost = weight * gap + next_loss
    loss = np.einsum("anb,anb->nb", policy, cost)
    cost -= loss
    np.square(cost, out=cost)
    cost += next_spread
    spread = np.einsum("anb,anb->nb", policy, cost)
    return Backup(hard, soft, gap, log_ratio, policy, loss, next_loss, spread, next_spread)


def backup_all(task: SoftProblem, step: int, after: Columns, decay: float = 1.0) -> Backup:
    """Back up all states at once, with blocks joined."""
    parts = task.mdp.transition.map_expected(
        after.present(),
        # A copy, since the parts are used after `work` returns.
        lambda block, expected: backup(task, block, step, after, expected.copy(), decay),
    )
    if len(parts) == 1:
        return parts[0]
    joined: list[Any] = []
    for name, first in zip(Backup._fields, parts[0], strict=True):
        axis = 0 if name in ("hard", "soft", "loss", "spread") else 1
        exists = first is not None
        joined.append(np.concatenate([getattr(p, name) for p in parts], axis) if exists else None)
    return Backup(*joined)


def zero_columns(n_states: int, width: int, batch: int, *, derivatives: bool) -> Columns:
    """Return the values after the last decision, which are zero."""
    extra = [np.zeros((n_states, batch)) if derivatives else None for _ in range(2)]
    return Columns(np.zeros((n_states, width)), np.zeros((n_states, batch)), *extra)


def _penalty(rationality: FloatArray, gap: FloatArray) -> FloatArray:
    """Return the penalty b * G, with infinity * 0 = 0."""
    # The maximum is NaN or infinite if any rationality is.
    if not np.maximum.reduce(rationality, axis=None) < np.inf:
        with np.errstate(invalid="ignore"):
            return np.where(gap > 0, rationality * gap, 0.0)
    return np.asarray(rationality * gap)
