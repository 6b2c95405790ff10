"""Soft planning, stationary solutions, occupancy and return of policies, many worlds at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from goalmeter._errors import InvalidParameterError, shown
from goalmeter._types import ArrayLike, BoolArray, FloatArray
from goalmeter.tabular.backup import (
    TIE_SHARE,
    Backup,
    Columns,
    SoftProblem,
    backup,
    backup_all,
    problem,
    zero_columns,
)
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.policies import Rewards, check_policy, rewards_of, stack_rewards
from goalmeter.tabular.transition import BLOCK_STATES, Block, Transition

# --- Infinite discounted problem -----------------------------------------------------------------
# For a fixed policy the backup is linear, so a step of policy iteration is a step of Newton's
# method: x + (I - g P_pi)^-1 (backup(x) - x).

# Up to this many states a direct factorisation is fast for any sparsity pattern.
DIRECT_STATES = 3_000
_RESTARTS, _SWEEP_LIMIT, _MAX_ITERATIONS = 20, 100_000, 200


class StationarySolver:
    """Solver for I - g P with the matrix P [S, S] of a stationary policy, 0 < g < 1."""

    def __init__(self, matrix: Any, discount: float) -> None:
        self._matrix = sp.csr_matrix(matrix)
        self._discount = discount
        self._factor: Any = None
        if self._matrix.shape[0] <= DIRECT_STATES:
            self._factorise()

    def solve(self, right: FloatArray, *, transpose: bool = False) -> FloatArray:
        """Solve (I - g P) x = right, or (I - g P)^T x = right, for x; right is [S] or [S, k]."""
        if self._factor is not None:
            x = self._factor.solve(right, trans="T" if transpose else "N")
            # One refinement step reduces residuals to rounding even for g near 1.
            residual = right - self._apply(x, transpose)
            return np.asarray(x + self._factor.solve(residual, trans="T" if transpose else "N"))
        if right.ndim == 2:
            return np.stack([self.solve(r, transpose=transpose) for r in right.T], axis=1)
        return self._iterate(right, transpose)

    def _factorise(self) -> None:
        from scipy.sparse.linalg import splu

        identity = sp.identity(self._matrix.shape[0], format="csr")
        self._factor = splu(sp.csc_matrix(identity - self._discount * self._matrix))

    def _apply(self, x: FloatArray, transpose: bool) -> FloatArray:
        moved = self._matrix.T @ x if transpose else self._matrix @ x
        return np.asarray(x - self._discount * moved)

    def _iterate(self, right: FloatArray, transpose: bool) -> FloatArray:
        """Solve by Krylov steps, then by sweeps or a factorisation, to a proven error."""
        # A residual of size r bounds the error of the solution by r / (1 - g) (in the maximum norm,
        # or for the transpose in the sum norm).
        from scipy.sparse.linalg import LinearOperator, bicgstab

        def size(v: FloatArray) -> float:
            return float(np.abs(v).sum() if transpose else np.abs(v).max())

        def converged(x: FloatArray, residual: FloatArray) -> bool:
            # The second term is the rounding error in the residual of the best solution.
            return size(residual) <= max(1e-13 * size(right), 4 * np.finfo(float).eps * size(x))

        n = right.shape[0]
        operator = LinearOperator(
            (n, n), matvec=lambda v: self._apply(np.ravel(v), transpose), dtype=np.float64
        )
        x, residual = np.zeros(n), right
        for _ in range(_RESTARTS):
            if converged(x, residual):
                return x
            step, _ = bicgstab(operator, residual, rtol=1e-8, atol=0.0, maxiter=500)
            after = residual - self._apply(step, transpose)
            if not size(after) <= size(residual) / 2:  # also true for NaN
                break
            x = x + step
            residual = right - self._apply(x, transpose)

        # Each sweep shrinks the residual by g.
        sweeps = int(np.log(1e-16) / np.log(self._discount)) + 1
        if sweeps <= _SWEEP_LIMIT:
            for _ in range(sweeps):
                if converged(x, residual):
                    break
                x = x + residual
                residual = right - self._apply(x, transpose)
            return x
        # Krylov steps fail in long corridors, whose factors are sparse and cheap.
        self._factorise()
        return self.solve(right, transpose=transpose)


def fixed_point(task: SoftProblem, *, derivatives: bool = False) -> Columns:
    """Return V* [S, B or 1] and h [S, B] of every problem, with derivatives L and C on request."""
    width, batch = task.rewards.array.shape[-1], task.rationality.shape[0]
    # A scan over rationalities of both signs repeats two utilities; each is solved once.
    solved: dict[bytes, FloatArray] = {}
    values = []
    for single in (_one_problem(task, i) for i in range(width)):
        utility = single.rewards.array.tobytes() + single.tie.tobytes()
        if utility not in solved:
            solved[utility] = _hard_values(single)
        values.append(solved[utility])
    singles = [_one_problem(task, i) for i in range(batch)]
    softs = [_soft_values(single, values[i % width]) for i, single in enumerate(singles)]
    hard, soft = np.concatenate(values, axis=1), np.concatenate(softs, axis=1)
    if not derivatives:
        return Columns(hard, soft, None, None)
    loss, spread = np.zeros_like(soft), np.zeros_like(soft)
    for i, single in enumerate(singles):
        zero, discount = np.zeros((task.mdp.n_states, 1)), single.mdp.discount
        at = Columns(values[i % width], softs[i], zero, zero)
        result = backup_all(single, 0, at, discount)
        assert result.loss is not None
        solver = _policy_solver(single, result.policy[..., 0])
        loss[:, i : i + 1] = solver.solve(result.loss)
        # The spread includes the variance of future gaps, so it requires the final losses.
        result = backup_all(single, 0, at._replace(loss=loss[:, i : i + 1]), discount)
        assert result.spread is not None
        spread[:, i : i + 1] = solver.solve(result.spread)
    return Columns(hard, soft, loss, spread)


def _policy_solver(task: SoftProblem, policy: FloatArray) -> StationarySolver:
    return StationarySolver(task.mdp.transition.under(policy), task.mdp.discount)


def _one_problem(task: SoftProblem, i: int) -> SoftProblem:
    """Return problem i of a batch as a batch of one."""
    column = slice(None) if task.rewards.array.shape[-1] == 1 else slice(i, i + 1)
    return task._replace(
        rewards=Rewards(task.rewards.array[..., column], task.rewards.discount),
        rationality=task.rationality[i : i + 1],
        tie=task.tie[column],
    )


def _hard_values(task: SoftProblem) -> FloatArray:
    """Compute V* [S, 1] by policy iteration."""
    at = zero_columns(task.mdp.n_states, 1, 1, derivatives=False)
    states = np.arange(task.mdp.n_states)
    # Steps below this are rounding errors, even if the tie tolerance is smaller.
    collected = float(task.rewards.magnitude(1).max()) / (1.0 - task.mdp.discount)
    least = max(float(task.tie.max()), TIE_SHARE * collected)
    before = np.zeros((task.mdp.n_actions, task.mdp.n_states))
    for _ in range(_MAX_ITERATIONS):
        backup = backup_all(task, 0, at, task.mdp.discount)
        gain = backup.hard - at.hard
        gap = backup.gap[..., 0]
        if task.log_reference is not None:
            gap = np.where(np.isneginf(task.log_reference[0]), np.inf, gap)
        greedy = np.zeros((task.mdp.n_actions, task.mdp.n_states))
        greedy[gap.argmin(axis=0), states] = 1.0
        step = _policy_solver(task, greedy).solve(gain)
        at = at._replace(hard=at.hard + step)
        # Equally good policies may alternate for ever, with steps below the tie tolerance.
        if np.abs(step).max() <= least or (greedy == before).all():
            break
        before = greedy
    return at.hard


def _soft_values(task: SoftProblem, hard: FloatArray) -> FloatArray:
    """Compute the soft value h [S, 1] by soft policy iteration."""
    at = zero_columns(task.mdp.n_states, 1, 1, derivatives=False)._replace(hard=hard)
    last = np.inf
    for _ in range(_MAX_ITERATIONS):
        backup = backup_all(task, 0, at, task.mdp.discount)
        step = _policy_solver(task, backup.policy[..., 0]).solve(backup.soft - at.soft)
        at = at._replace(soft=at.soft + step)
        size = float(np.abs(step).max())
        # Newton's method converges quadratically; small steps that shrink slowly are rounding.
        scale = 1.0 + float(np.abs(at.soft).max())
        if size <= 1e-15 * scale or (size <= 1e-6 * scale and size >= 0.25 * last):
            break
        last = size
    return at.soft


# --- Planning -----------------------------------------------------------------------------------
# From this number of decisions on, the tie tolerance is a millionth of a reward or more, so it can
# hide differences larger than rounding.
_LONG_RUN = 1e6
_NOISE_SHARE = 64 * float(np.finfo(np.float64).eps)  # precision of values of the infinite problem

# Called as visit(step, block, backup) for every block of every step, the last step first; blocks of
# a step may come from several threads.
Visit = Callable[[int, Block, Backup], None]


@dataclass(frozen=True)
class SoftPlan:
    """Soft-optimal policies of one MDP at B rationalities."""

    task: SoftProblem  # problems that were solved
    # V* [H + 1, S, B or 1], or [1, S, B or 1] for the infinite problem, in units of the step, for
    # the utility of `task` (centred, scaled and, for a negative rationality, negated); and h, the
    # same shape with B, in nats (see `goalmeter.tabular.backup`).
    hard: FloatArray
    soft: FloatArray

    def backup_at(self, step: int) -> Backup:
        """Recompute the backup of every state at a decision from the stored values."""
        mdp = self.task.mdp
        later = step + 1 if mdp.horizon is not None else 0
        after = Columns(self.hard[later], self.soft[later], None, None)
        return backup_all(self.task, step, after, 1.0 if mdp.horizon else mdp.discount)

    def policy_at(self, step: int) -> FloatArray:
        """Return the soft-optimal policies at a decision: [A, S, B]."""
        return self.backup_at(step).policy

    def greedy_policy(self) -> FloatArray:
        """Return the deterministic optimal policy of a single problem, [H or 1, S, A]."""
        mdp = self.task.mdp
        out = np.zeros((mdp.steps, mdp.n_states, mdp.n_actions))
        for step in range(mdp.steps):
            # Gaps below the tie tolerance are exactly 0, so argmin returns the first tied action.
            best = self.backup_at(step).gap[..., 0].argmin(axis=0)
            out[step, np.arange(mdp.n_states), best] = 1.0
        return out

    def policy(self) -> FloatArray:
        """Return all policies: [H, S, A, B], or [S, A, B] for the infinite problem."""
        steps = [self.policy_at(t).transpose(1, 0, 2) for t in range(self.task.mdp.steps)]
        return steps[0] if self.task.mdp.horizon is None else np.stack(steps)


def soft_plan(
    mdp: TabularMDP,
    rationality: float | ArrayLike,
    *,
    utility: ArrayLike | None = None,
    reference: ArrayLike | None = None,
) -> SoftPlan:
    """Compute the soft-optimal policies for one rationality or a batch of them.

    pi_b(a | s) is proportional to reference(a | s) exp(b * Q_b(s, a)), with
    Q_b(s, a) = U(s, a) + E[V_b(s')] and V_b = (1 / b) log sum_a reference(a | s) exp(b Q_b).
    With a uniform reference this is the paper's soft-optimal policy (the paper's soft values are
    larger by log(A) / b for each remaining decision).

    The rationality b, a number or [B], is in inverse reward units and may be infinite. The utility,
    [S], [S, A], [H, S] or [H, S, A], is the MDP's reward by default. The reference, the policy
    [S, A] or [H, S, A] at b = 0, is uniform by default.

    Source: MEG paper (NeurIPS 2024), Definition 5.2 and Theorem 5.1.
    Cost: O(H * transitions * B) time, O(H * S * B) memory.

    Example: state 1 has reward 1; with b = log 2 and two decisions left, moving there is twice as
    likely as staying.
        >>> mdp = TabularMDP([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], [0, 1], horizon=2)
        >>> soft_plan(mdp, np.log(2)).policy()[0, 0, :, 0].round(4)
        array([0.3333, 0.6667])
    """
    try:
        b = np.atleast_1d(np.asarray(rationality, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        b = np.array([np.nan])
    if b.ndim != 1 or b.size == 0 or np.isnan(b).any():
        raise InvalidParameterError(
            f"rationality is {shown(rationality)}, expected a number or a list of numbers (not NaN)"
        )
    log_reference = log_of_reference(mdp, reference)
    rewards, unit = rewards_of(mdp, utility).normalised()
    # A rationality that overflows in the utility's unit is infinite.
    with np.errstate(over="ignore"):
        return plan(problem(mdp, rewards, b * unit, log_reference))


def optimal_policy(mdp: TabularMDP, *, utility: ArrayLike | None = None) -> FloatArray:
    """Return a deterministic optimal policy; ties go to the lowest action index.

    Two actions are tied if their values differ by at most 1e-12 of the largest collectable utility,
    measured from the median. The utility, [S], [S, A], [H, S] or [H, S, A], is the MDP's reward by
    default. The policy is [H, S, A] (optimal actions depend on the remaining decisions), or [S, A]
    for the infinite discounted problem.
    """
    rewards, _ = rewards_of(mdp, utility).normalised()
    best = plan(problem(mdp, rewards, np.array([np.inf]))).greedy_policy()
    return best[0] if mdp.horizon is None else best


def log_of_reference(mdp: TabularMDP, reference: ArrayLike | None) -> FloatArray | None:
    """Return the log of a reference policy, action-major [T, A, S]; None for no reference."""
    if reference is None:
        return None
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(check_policy(mdp, reference, "reference")))


def is_nearly_endless(mdp: TabularMDP) -> bool:
    """Return whether ties are doubtful: an infinite problem with a discount very close to 1."""
    return mdp.horizon is None and 1.0 - mdp.discount <= 1.0 / _LONG_RUN


def resolved(task: SoftProblem) -> SoftProblem:
    """Return the task with ties at the level of rounding if the discount is very close to 1."""
    if not is_nearly_endless(task.mdp):
        return task
    return task._replace(tie=task.tie * (_NOISE_SHARE / TIE_SHARE))


def doubtful_ties(task: SoftProblem) -> BoolArray:
    """Return a mask of problems with gaps above rounding that are below `TIE_SHARE`."""
    # With a discount close to 1, the collectable utility is so large that the tie tolerance can be
    # of the size of the rewards.
    width = task.rewards.array.shape[-1]
    if not is_nearly_endless(task.mdp):
        return np.zeros(width, dtype=bool)
    values = fixed_point(task)
    exact = task._replace(tie=np.zeros_like(task.tie))
    gaps = backup_all(exact, 0, values, task.mdp.discount).gap
    noise = np.broadcast_to(task.tie, (width,))
    tied = np.broadcast_to(task.tie / _NOISE_SHARE * TIE_SHARE, (width,))
    return np.asarray(((gaps > noise) & (gaps <= tied)).any(axis=(0, 1)))


def plan(task: SoftProblem, visit: Visit | None = None) -> SoftPlan:
    """Solve the problems; `visit` is called for every block and step of a finite horizon."""
    mdp = task.mdp
    if mdp.horizon is None:
        columns = fixed_point(task)
        return SoftPlan(task, columns.hard[None], columns.soft[None])
    width, batch = task.rewards.array.shape[-1], task.rationality.shape[0]
    hard = np.zeros((mdp.horizon + 1, mdp.n_states, width))
    soft = np.zeros((mdp.horizon + 1, mdp.n_states, batch))
    for step in reversed(range(mdp.horizon)):
        after = Columns(hard[step + 1], soft[step + 1], None, None)
        _sweep(task, step, after, Columns(hard[step], soft[step], None, None), visit)
    return SoftPlan(task, hard, soft)


def backward(task: SoftProblem, visit: Visit | None = None, *, derivatives: bool = True) -> Columns:
    """Return the values, with derivatives on request, at the first decision or fixed point."""
    mdp = task.mdp
    if mdp.horizon is None:
        after = fixed_point(task, derivatives=derivatives)
        if visit is not None:
            _sweep(task, 0, after, None, visit, mdp.discount)
        return after
    sizes = mdp.n_states, task.rewards.array.shape[-1], task.rationality.shape[0]
    # Two sets of columns alternate, so that a pass over 10^4 decisions allocates no memory.
    after, spare = (zero_columns(*sizes, derivatives=derivatives) for _ in range(2))
    for step in reversed(range(mdp.horizon)):
        _sweep(task, step, after, spare, visit)
        after, spare = spare, after
    return after


def _sweep(
    task: SoftProblem,
    step: int,
    after: Columns,
    out: Columns | None,
    visit: Visit | None,
    decay: float = 1.0,
) -> None:
    """Back up all states from `after` into `out`, in place."""

    def work(block: Block, expected: FloatArray) -> None:
        result = backup(task, block, step, after, expected, decay)
        for name, values in zip(Columns._fields, out or (), strict=False):
            if values is not None:
                values[block.states] = getattr(result, name)
        if visit is not None:
            visit(step, block, result)

    task.mdp.transition.map_expected(after.present(), work)


# --- Evaluation ---------------------------------------------------------------------------------
def occupancy(mdp: TabularMDP, policy: ArrayLike) -> FloatArray:
    """Return the probability of each state at each decision under a policy.

    The policy is [S, A] or [H, S, A], the result [H, S] with rows that sum to 1. For the infinite
    discounted problem it is [S], the discounted expected visits sum_t g^t P(s_t = s), with sum
    1 / (1 - g).

    Cost: O(H * transitions) time, O(H * S) memory.
    """
    states = state_occupancy(mdp, check_policy(mdp, policy)[..., None])[..., 0]
    return states[0] if mdp.horizon is None else states


def state_occupancy(mdp: TabularMDP, policy: FloatArray) -> FloatArray:
    """Return the occupancy [H or 1, S, B] of action-major policies [T, A, S, B]."""
    batch = policy.shape[-1]
    if mdp.horizon is None:
        moves = (mdp.transition.under(policy[0, ..., i]) for i in range(batch))
        solvers = (StationarySolver(matrix, mdp.discount) for matrix in moves)
        columns = [solver.solve(mdp.initial, transpose=True) for solver in solvers]
        # The exact solution is non-negative, up to rounding.
        return np.maximum(np.stack(columns, axis=1), 0.0)[None]
    out = np.empty((mdp.horizon, mdp.n_states, batch))
    out[0] = mdp.initial[:, None]
    # States after the last decision are not needed, since nothing is collected there.
    for step in range(mdp.horizon - 1):
        now = policy[min(step, len(policy) - 1)]
        out[step + 1] = mdp.transition.push(now * out[step])
    return out


class Return(NamedTuple):
    """Mean (reward units) and variance (squared reward units) of the collected utility."""

    mean: float
    variance: float


def expected_return(
    mdp: TabularMDP, policy: ArrayLike, *, utility: ArrayLike | None = None
) -> Return:
    """Return mean and variance of sum_t g^t U(s_t, a_t) under a policy.

    The variance includes the policy's choices, the environment's randomness and the initial state.
    The policy is [S, A] or [H, S, A]; the utility, [S], [S, A], [H, S] or [H, S, A], is the MDP's
    reward by default.

    Cost: O(H * transitions) time, O(S) memory.
    """
    major = check_policy(mdp, policy)
    # The discount is applied at each step below, also for the finite horizon.
    rewards = Rewards(rewards_of(mdp, utility).array, discount=1.0)
    if mdp.horizon is None:
        stationary, reward = major[0], rewards.at(0, slice(None))[..., 0]
        matrix = mdp.transition.under(stationary)
        now = (stationary * np.broadcast_to(reward, stationary.shape)).sum(axis=0)
        # The variance is the fixed point of the law of total variance, with the squared discount.
        mean = StationarySolver(matrix, mdp.discount).solve(now)
        _, added = _step(mdp, stationary, reward, mean, np.zeros_like(mean))
        variance = StationarySolver(matrix, mdp.discount**2).solve(added)
    else:
        mean, variance = np.zeros(mdp.n_states), np.zeros(mdp.n_states)
        for step in reversed(range(mdp.horizon)):
            now = major[min(step, len(major) - 1)]
            mean, variance = _step(mdp, now, rewards.at(step, slice(None))[..., 0], mean, variance)
    total = float(mdp.initial @ mean)
    return Return(total, float(mdp.initial @ variance + mdp.initial @ (mean - total) ** 2))


def _step(
    mdp: TabularMDP, policy: FloatArray, reward: FloatArray, mean: FloatArray, variance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of the return from each state, one decision earlier."""
    # Squares are taken around the middle, since a large constant in the reward costs digits.
    middle = (mean.max() + mean.min()) / 2
    centred = mean - middle
    after = np.stack([centred, centred**2, variance], axis=1)
    new_mean, new_variance = np.empty_like(mean), np.empty_like(variance)
    g = mdp.discount

    def work(block: Block) -> None:
        now = policy[:, block.states]
        expected = mdp.transition.expect(block, after)
        value = reward[:, block.states] + g * (expected[..., 0] + middle)
        mean_now = (now * value).sum(axis=0)
        chance = np.maximum(expected[..., 1] - expected[..., 0] ** 2, 0.0) + expected[..., 2]
        new_mean[block.states] = mean_now
        new_variance[block.states] = (now * (g**2 * chance + (value - mean_now) ** 2)).sum(axis=0)

    mdp.transition.map_blocks(work)
    return new_mean, new_variance


# --- Many worlds ----------------------------------------------------------------------------------
# Worlds of the same shape are planned as one world with disconnected parts, and sums over states
# are taken for each world (`Sums`).

# The number of states per batch of worlds keeps the interpreter's overhead small and a pass in the
# cache.
MOST_STATES = BLOCK_STATES


@dataclass(frozen=True)
class Sums:
    """Sums over the states of each of W worlds in one (B is 1), or of a single world."""

    n_worlds: int = 1

    def total(self, values: FloatArray) -> FloatArray:
        """Return the sum over states of values [n, B]: [B], or [W]."""
        if self.n_worlds == 1:
            return np.asarray(values.sum(axis=0))
        return np.asarray(values.reshape(self.n_worlds, -1).sum(axis=1))

    def dot(self, weights: FloatArray, values: FloatArray) -> FloatArray:
        """Return the sum over actions and states of weights * values, each [A, n, B or 1]."""
        if self.n_worlds == 1:
            if weights.shape != values.shape:
                weights, values = np.broadcast_arrays(weights, values)
            return np.asarray(np.einsum("anb,anb->b", weights, values))
        shape = (len(weights), self.n_worlds, -1)
        return np.asarray(np.einsum("aws,aws->w", weights.reshape(shape), values.reshape(shape)))

    def at_start(self, initial: FloatArray, values: FloatArray) -> FloatArray:
        """Return the expectation of values [n, B] under the initial distribution [n]."""
        if self.n_worlds == 1:
            return np.asarray(initial @ values)
        return self.total(initial[:, None] * values)


ONE_WORLD = Sums()


def side_by_side(worlds: Sequence[TabularMDP]) -> TabularMDP:
    """Join W worlds of S states each into one world of W * S states, without reward."""
    first, initial = worlds[0], np.concatenate([world.initial for world in worlds])
    transition = Transition(_rows(worlds), initial.size, first.n_actions)
    return TabularMDP.branching(transition, initial, horizon=first.horizon, discount=first.discount)


def column(values: FloatArray) -> FloatArray:
    """Reshape values of the states of W worlds, [..., S, W], to one column [..., W * S, 1]."""
    return np.ascontiguousarray(values.swapaxes(-1, -2)).reshape(*values.shape[:-2], -1, 1)


def _rows(worlds: Sequence[TabularMDP]) -> sp.csr_matrix:
    """Return the compressed rows of all worlds, [A * W * S, W * S], action-major."""
    n_worlds, n_states, n_actions = len(worlds), worlds[0].n_states, worlds[0].n_actions
    matrices = [block.matrix for world in worlds for block in world.transition.blocks]
    if isinstance(matrices[0], np.ndarray):
        dense = np.stack(matrices).reshape(n_worlds, n_actions, n_states, n_states)
        rows = sp.csr_matrix(dense.transpose(1, 0, 2, 3).reshape(-1, n_states))
    else:
        order = np.arange(n_worlds * n_actions * n_states)
        order = order.reshape(n_worlds, n_actions, n_states).transpose(1, 0, 2).ravel()
        rows = sp.vstack(matrices, format="csr")[order]
    # Successors of row (action, world, state) are offset by the first state of their world.
    offset = np.tile(np.repeat(np.arange(n_worlds) * n_states, n_states), n_actions)
    indices = rows.indices + np.repeat(offset, np.diff(rows.indptr))
    return sp.csr_matrix(
        (rows.data, indices.astype(rows.indices.dtype), rows.indptr),
        shape=(n_actions * n_worlds * n_states, n_worlds * n_states),
    )


def spread_out(task: SoftProblem, n_states: int) -> SoftProblem:
    """Return the problems of W joined worlds, which are the columns of `task`."""
    return task._replace(
        rewards=Rewards(column(task.rewards.array), task.rewards.discount),
        rationality=np.repeat(task.rationality, n_states)[None, :, None],
        tie=np.repeat(task.tie, n_states)[:, None],
    )


def optimal_policies(worlds: Sequence[TabularMDP]) -> list[FloatArray]:
    """Return the `optimal_policy` of each world, in order."""
    return soft_optimal_policies(worlds, np.inf, greedy=True)


def soft_optimal_policies(
    worlds: Sequence[TabularMDP], rationality: float, *, greedy: bool = False
) -> list[FloatArray]:
    """Return each world's soft-optimal (or greedy) policy: [H, S, A], [S, A] without horizon."""
    # Worlds of the same shape are planned together.
    groups: dict[object, list[int]] = {}
    for i, world in enumerate(worlds):
        # The infinite problem is solved by factorisation, which does not benefit from batches.
        key = (world.n_states, world.n_actions, world.horizon, world.discount)
        groups.setdefault(key if world.horizon is not None else i, []).append(i)
    out: dict[int, FloatArray] = {}
    for members in groups.values():
        room = max(1, MOST_STATES // worlds[members[0]].n_states)
        for start in range(0, len(members), room):
            part = members[start : start + room]
            batch = [worlds[i] for i in part]
            rewards, unit = stack_rewards([rewards_of(world) for world in batch]).normalised()
            joined = batch[0] if len(batch) == 1 else side_by_side(batch)
            # A rationality that overflows in the utility's unit is infinite.
            with np.errstate(over="ignore"):
                task = problem(joined, rewards, rationality * unit)
            planned = plan(task if len(batch) == 1 else spread_out(task, batch[0].n_states))
            # The policies [H, W * S, A] are split by world.
            policies = planned.greedy_policy() if greedy else planned.policy()[..., 0]
            if joined.horizon is None:
                out[part[0]] = policies[0] if greedy else policies
                continue
            by_world = np.split(policies, len(batch), axis=1)
            out.update(zip(part, map(np.ascontiguousarray, by_world), strict=True))
    return [out[i] for i in range(len(worlds))]
