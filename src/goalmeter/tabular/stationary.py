"""The infinite discounted problem: fixed points of the backup, by policy iteration.

For a fixed policy the backup is linear, so a step of policy iteration is a step of Newton's
method: x + (I - g P_pi)^-1 (backup(x) - x). It converges in a handful of solves, where plain
value iteration needs about log(accuracy) / log(g) sweeps.
"""

from __future__ import annotations

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.tabular._linear import StationarySolver
from goalmeter.tabular.backup import Backup, Columns, SoftProblem, backup_all, zero_columns
from goalmeter.tabular.rewards import Rewards

_MAX_ITERATIONS = 200


def fixed_point(task: SoftProblem) -> Columns:
    """V* [S, B or 1] and h [S, B] of every problem."""
    width, batch = task.rewards.array.shape[-1], task.rationality.shape[0]
    hard = [_hard_values(one_problem(task, i)) for i in range(width)]
    soft = [_soft_values(one_problem(task, i), hard[min(i, width - 1)]) for i in range(batch)]
    return Columns(np.concatenate(hard, axis=1), np.concatenate(soft, axis=1), None, None)


def with_derivatives(task: SoftProblem) -> Columns:
    """V*, h, and the derivatives L and C [S, B] of h, at the fixed point."""
    fixed = fixed_point(task)
    loss, spread = np.zeros_like(fixed.soft), np.zeros_like(fixed.soft)
    for i in range(task.rationality.shape[0]):
        single = one_problem(task, i)
        at = Columns(
            fixed.hard[:, i % fixed.hard.shape[1]][:, None],
            fixed.soft[:, i : i + 1],
            np.zeros((task.mdp.n_states, 1)),
            np.zeros((task.mdp.n_states, 1)),
        )
        backup = stationary_backup(single, at)
        solver = policy_solver(single, backup.policy[..., 0])
        loss[:, i : i + 1] = solver.solve(_present(backup.loss))
        backup = stationary_backup(single, at._replace(loss=loss[:, i : i + 1]))
        spread[:, i : i + 1] = solver.solve(_present(backup.spread))
    return Columns(fixed.hard, fixed.soft, loss, spread)


def stationary_backup(task: SoftProblem, at: Columns) -> Backup:
    """One backup of all states, what comes after weighted by the discount."""
    return backup_all(task, 0, at, task.mdp.discount)


def policy_solver(task: SoftProblem, policy: FloatArray) -> StationarySolver:
    """Solver of I - g P for a policy [A, S]."""
    return StationarySolver(task.mdp.transition.under(policy), task.mdp.discount)


def one_problem(task: SoftProblem, i: int) -> SoftProblem:
    """Problem i of a batch, alone."""
    column = slice(None) if task.rewards.array.shape[-1] == 1 else slice(i, i + 1)
    return task._replace(
        rewards=Rewards(task.rewards.array[..., column], task.rewards.discount),
        rationality=task.rationality[i : i + 1],
        tie=task.tie[column],
    )


def _hard_values(task: SoftProblem) -> FloatArray:
    """V* [S, 1] by policy iteration."""
    at = zero_columns(task.mdp.n_states, 1, 1, derivatives=False)
    states = np.arange(task.mdp.n_states)
    before = np.zeros((task.mdp.n_actions, task.mdp.n_states))
    for _ in range(_MAX_ITERATIONS):
        backup = stationary_backup(task, at)
        gain = backup.hard - at.hard
        gap = backup.gap[..., 0]
        if task.log_reference is not None:
            gap = np.where(np.isneginf(task.log_reference[0]), np.inf, gap)
        greedy = np.zeros((task.mdp.n_actions, task.mdp.n_states))
        greedy[gap.argmin(axis=0), states] = 1.0
        step = policy_solver(task, greedy).solve(gain)
        at = at._replace(hard=at.hard + step)
        if np.abs(step).max() <= task.tie.max() or (greedy == before).all():
            break
        before = greedy
    return at.hard


def _soft_values(task: SoftProblem, hard: FloatArray) -> FloatArray:
    """The soft value h [S, 1], by soft policy iteration."""
    at = zero_columns(task.mdp.n_states, 1, 1, derivatives=False)._replace(hard=hard)
    last = np.inf
    for _ in range(_MAX_ITERATIONS):
        backup = stationary_backup(task, at)
        step = policy_solver(task, backup.policy[..., 0]).solve(backup.soft - at.soft)
        at = at._replace(soft=at.soft + step)
        size = float(np.abs(step).max())
        # Newton converges quadratically; small steps that shrink slowly are rounding.
        scale = 1.0 + float(np.abs(at.soft).max())
        if size <= 1e-15 * scale or (size <= 1e-6 * scale and size >= 0.25 * last):
            break
        last = size
    return at.soft


def _present(column: FloatArray | None) -> FloatArray:
    assert column is not None, "the backup was asked for derivatives"
    return column
