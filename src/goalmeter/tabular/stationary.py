"""The infinite discounted problem: fixed points of the backup, by policy iteration.

For a fixed policy the backup is linear, so a step of policy iteration is a step of Newton's
method: x + (I - g P_pi)^-1 (backup(x) - x). It converges in a handful of solves, where plain
value iteration needs about log(accuracy) / log(g) sweeps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from goalmeter._types import FloatArray
from goalmeter.tabular.backup import (
    TIE_SHARE,
    Backup,
    Columns,
    SoftProblem,
    backup_all,
    zero_columns,
)
from goalmeter.tabular.rewards import Rewards

# Up to this many states a direct factorisation is quick whatever the sparsity pattern.
DIRECT_STATES = 3_000
_RESTARTS = 20
_SWEEP_LIMIT = 100_000
_MAX_ITERATIONS = 200


class StationarySolver:
    """Solves with I - g P for one stationary policy's matrix P [S, S], 0 < g < 1."""

    def __init__(self, matrix: Any, discount: float) -> None:
        self._matrix = sp.csr_matrix(matrix)
        self._discount = discount
        self._factor: Any = None
        if self._matrix.shape[0] <= DIRECT_STATES:
            self._factorise()

    def solve(self, right: FloatArray, *, transpose: bool = False) -> FloatArray:
        """The x with (I - g P) x = right, or (I - g P)^T x = right; right [S] or [S, k]."""
        if self._factor is not None:
            x = self._factor.solve(right, trans="T" if transpose else "N")
            # One step of refinement: residuals then stay at rounding even for g near 1.
            residual = right - self._apply(x, transpose)
            return np.asarray(x + self._factor.solve(residual, trans="T" if transpose else "N"))
        if right.ndim == 2:
            columns = [self.solve(right[:, i], transpose=transpose) for i in range(right.shape[1])]
            return np.stack(columns, axis=1)
        return self._iterate(right, transpose)

    def _factorise(self) -> None:
        from scipy.sparse.linalg import splu

        identity = sp.identity(self._matrix.shape[0], format="csr")
        self._factor = splu(sp.csc_matrix(identity - self._discount * self._matrix))

    def _apply(self, x: FloatArray, transpose: bool) -> FloatArray:
        moved = self._matrix.T @ x if transpose else self._matrix @ x
        return np.asarray(x - self._discount * moved)

    def _iterate(self, right: FloatArray, transpose: bool) -> FloatArray:
        """Krylov steps, then plain sweeps or a factorisation, to a proven error."""
        # An error of r in the residual is at most r / (1 - g) in the solution (in the largest
        # entry, or for the transpose in the sum of entries).
        from scipy.sparse.linalg import LinearOperator, bicgstab

        def size(v: FloatArray) -> float:
            return float(np.abs(v).sum() if transpose else np.abs(v).max())

        def done(x: FloatArray, residual: FloatArray) -> bool:
            # The second term is what rounding leaves in the residual of the best solution.
            return size(residual) <= max(1e-13 * size(right), 4 * np.finfo(float).eps * size(x))

        n = right.shape[0]
        operator = LinearOperator(
            (n, n), matvec=lambda v: self._apply(np.ravel(v), transpose), dtype=np.float64
        )
        x, residual = np.zeros(n), right
        for _ in range(_RESTARTS):
            if done(x, residual):
                return x
            step, _ = bicgstab(operator, residual, rtol=1e-8, atol=0.0, maxiter=500)
            after = residual - self._apply(step, transpose)
            if not size(after) <= size(residual) / 2:  # also where it is NaN
                break
            x = x + step
            residual = right - self._apply(x, transpose)

        # Each sweep shrinks the residual by g.
        sweeps = int(np.log(1e-16) / np.log(self._discount)) + 1
        if sweeps <= _SWEEP_LIMIT:
            for _ in range(sweeps):
                if done(x, residual):
                    break
                x = x + residual
                residual = right - self._apply(x, transpose)
            return x
        # Krylov steps fail in long corridors, whose factors are sparse.
        self._factorise()
        return self.solve(right, transpose=transpose)


def fixed_point(task: SoftProblem) -> Columns:
    """V* [S, B or 1] and h [S, B] of every problem."""
    width, batch = task.rewards.array.shape[-1], task.rationality.shape[0]
    # A scan over rationalities of both signs has two utilities, repeated: each is solved once.
    solved: dict[bytes, FloatArray] = {}
    hard = []
    for single in (one_problem(task, i) for i in range(width)):
        utility = single.rewards.array.tobytes() + single.tie.tobytes()
        if utility not in solved:
            solved[utility] = _hard_values(single)
        hard.append(solved[utility])
    soft = [_soft_values(one_problem(task, i), hard[min(i, width - 1)]) for i in range(batch)]
    return Columns(np.concatenate(hard, axis=1), np.concatenate(soft, axis=1), None, None)


def with_derivatives(task: SoftProblem) -> Columns:
    """V*, h, and the derivatives L and C [S, B] of h, at the fixed point."""
    fixed = fixed_point(task)
    loss, spread = np.zeros_like(fixed.soft), np.zeros_like(fixed.soft)
    for i in range(task.rationality.shape[0]):
        single, zero = one_problem(task, i), np.zeros((task.mdp.n_states, 1))
        hard = fixed.hard[:, i % fixed.hard.shape[1]][:, None]
        at = Columns(hard, fixed.soft[:, i : i + 1], zero, zero)
        backup = stationary_backup(single, at)
        assert backup.loss is not None
        solver = policy_solver(single, backup.policy[..., 0])
        loss[:, i : i + 1] = solver.solve(backup.loss)
        # The spread counts the variance of the gaps to come, so it needs the finished losses.
        backup = stationary_backup(single, at._replace(loss=loss[:, i : i + 1]))
        assert backup.spread is not None
        spread[:, i : i + 1] = solver.solve(backup.spread)
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
    # Also where no actions count as tied, steps below this are rounding.
    collected = float(task.rewards.magnitude(1).max()) / (1.0 - task.mdp.discount)
    least = max(float(task.tie.max()), TIE_SHARE * collected)
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
        # Equally good policies may follow each other for ever, with steps below the tie.
        if np.abs(step).max() <= least or (greedy == before).all():
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
