"""Planning: the policies that a utility predicts at each rationality, the best ones among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from goalmeter._errors import InvalidParameterError
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
from goalmeter.tabular.policies import check_policy
from goalmeter.tabular.rewards import rewards_of
from goalmeter.tabular.stationary import fixed_point, with_derivatives
from goalmeter.tabular.transition import Block

# A run of so many decisions collects so much that the share of it below which actions are tied is a
# millionth of a reward and more: only then can it hide what is more than rounding.
_LONG_RUN = 1e6
# Values of the infinite problem are right to so many units of rounding of what a run can collect.
_NOISE_SHARE = 64 * float(np.finfo(np.float64).eps)

# Called for every block of every step, last step first: visit(step, block, backup).
Visit = Callable[[int, Block, Backup], None]


@dataclass(frozen=True)
class SoftPlan:
    """The soft-optimal policies of one MDP at B rationalities.

    Attributes:
        task: the problems that were planned for.
        hard: V* [H + 1, S, B or 1] for a finite horizon, [1, S, B or 1] for the infinite
            problem, in units of the step itself (what follows is discounted to it); of the utility
            that `task` holds, which is centred, scaled and, for a negative rationality, negated.
        soft: h, same shape with B, in nats (see `goalmeter.tabular.backup`).

    A policy [H, S, A] is not stored: it is worked out from these two when it is asked for.
    """

    task: SoftProblem
    hard: FloatArray
    soft: FloatArray

    def backup_at(self, step: int) -> Backup:
        """The backup of every state at a decision, recomputed from the stored values."""
        mdp = self.task.mdp
        later = step + 1 if mdp.horizon is not None else 0
        after = Columns(self.hard[later], self.soft[later], None, None)
        return backup_all(self.task, step, after, 1.0 if mdp.horizon else mdp.discount)

    def policy_at(self, step: int) -> FloatArray:
        """The soft-optimal policies at a decision: [A, S, B]."""
        return self.backup_at(step).policy

    def policy(self) -> FloatArray:
        """All policies: [H, S, A, B], or [S, A, B] for the infinite problem."""
        steps = [self.policy_at(t).transpose(1, 0, 2) for t in range(self.task.mdp.steps)]
        return steps[0] if self.task.mdp.horizon is None else np.stack(steps)


def soft_plan(
    mdp: TabularMDP,
    rationality: float | ArrayLike,
    *,
    utility: ArrayLike | None = None,
    reference: ArrayLike | None = None,
) -> SoftPlan:
    """Soft-optimal policies for one rationality or a batch of them.

    pi_b(a | s) is proportional to reference(a | s) exp(b * Q_b(s, a)), with
    Q_b(s, a) = U(s, a) + E[V_b(s')] and V_b = (1 / b) log sum_a reference(a | s) exp(b Q_b).
    With a uniform reference this is the paper's soft-optimal policy (its soft values exceed
    these by log(A) / b for each decision left).

    Args:
        mdp: the world.
        rationality: b, in inverse reward units; any float, infinities included; a number or [B].
        utility: [S], [S, A], [H, S] or [H, S, A]; default the MDP's reward.
        reference: policy [S, A] or [H, S, A] that b = 0 stands for; default uniform.

    Raises:
        InvalidParameterError: a rationality that is NaN or an array of more than one axis.
        InvalidUtilityError, InvalidPolicyError: arrays that do not fit the MDP.

    Source: MEG paper (NeurIPS 2024), Definition 5.2 and Theorem 5.1.
    Cost: O(H * transitions * B) time, O(H * S * B) memory.

    Example: state 1 pays 1; with b = log 2 and two decisions left, going there is twice as
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
            f"rationality is {rationality!r}, expected a number or a list of numbers (not NaN)"
        )
    log_reference = log_of_reference(mdp, reference)
    rewards, unit = rewards_of(mdp, utility).normalised()
    # A rationality beyond a double, in the utility's own unit, is the limit.
    with np.errstate(over="ignore"):
        return plan(problem(mdp, rewards, b * unit, log_reference))


def optimal_policy(mdp: TabularMDP, *, utility: ArrayLike | None = None) -> FloatArray:
    """Return a deterministic optimal policy, ties to the lowest action index.

    Two actions are tied if their values differ by at most 1e-12 of the largest utility that a run
    could collect, where utilities are counted from their median. `meg.known_utility` uses the same
    ties at an infinite rationality. The policy is the same in dense, sparse and batched worlds.

    Args:
        mdp: the world.
        utility: [S], [S, A], [H, S] or [H, S, A]; default the MDP's reward.

    Returns:
        [H, S, A] (best actions depend on the decisions left), or [S, A] for the infinite
        discounted problem; entries 0 or 1.

    Raises:
        InvalidUtilityError: the utility does not fit the MDP.

    Example:
        >>> mdp = TabularMDP([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], [0, 1], horizon=2)
        >>> optimal_policy(mdp)[0]
        array([[0., 1.],
               [1., 0.]])
    """
    rewards, _ = rewards_of(mdp, utility).normalised()
    solved = plan(problem(mdp, rewards, np.array([np.inf])))
    out = np.zeros((mdp.steps, mdp.n_states, mdp.n_actions))
    states = np.arange(mdp.n_states)
    for step in range(mdp.steps):
        # Gaps below the tie tolerance are exactly 0, so argmin takes the first tied action.
        best = solved.backup_at(step).gap[..., 0].argmin(axis=0)
        out[step, states, best] = 1.0
    return out[0] if mdp.horizon is None else out


def log_of_reference(mdp: TabularMDP, reference: ArrayLike | None) -> FloatArray | None:
    """Log of a checked reference policy, action-major [T, A, S], -inf where it is 0; None stays."""
    if reference is None:
        return None
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(check_policy(mdp, reference, "reference")))


def is_nearly_endless(mdp: TabularMDP) -> bool:
    """Whether this is the infinite problem with a discount so close to 1 that ties are doubtful."""
    return mdp.horizon is None and 1.0 - mdp.discount <= 1.0 / _LONG_RUN


def resolved(task: SoftProblem) -> SoftProblem:
    """Return the task with ties at the level of rounding if the discount is very close to 1."""
    if not is_nearly_endless(task.mdp):
        return task
    return task._replace(tie=task.tie * (_NOISE_SHARE / TIE_SHARE))


def doubtful_ties(task: SoftProblem) -> BoolArray:
    """Whether actions differ by more than rounding, but by less than `TIE_SHARE`: [B or 1].

    The task is a `resolved` one. Only for the infinite problem, where a discount close to 1 makes
    what a run can collect, and with it the share below which actions are tied, as large as the
    rewards themselves.
    """
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
    """Solve the problems and keep what their policies can be recomputed from.

    `visit` sees every block of every step of a finite horizon on the way, the last step first.
    """
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
    """Values, and if wanted their derivatives, at the first decision; nothing is stored per step.

    `visit` sees every block of every step on the way, the last step first (for the infinite
    problem: one step, at the fixed point); blocks of a step may come from several threads.
    """
    mdp = task.mdp
    if mdp.horizon is None:
        after = with_derivatives(task) if derivatives else fixed_point(task)
        if visit is not None:
            mdp.transition.map_expected(
                after.present(),
                lambda block, expected: visit(
                    0, block, backup(task, block, 0, after, expected, mdp.discount)
                ),
            )
        return after
    width, batch = task.rewards.array.shape[-1], task.rationality.shape[0]
    # Two sets of columns take turns, so that a pass over 10^4 decisions allocates nothing.
    after = zero_columns(mdp.n_states, width, batch, derivatives=derivatives)
    spare = zero_columns(mdp.n_states, width, batch, derivatives=derivatives)
    for step in reversed(range(mdp.horizon)):
        _sweep(task, step, after, spare, visit)
        after, spare = spare, after
    return after


def _sweep(task: SoftProblem, step: int, after: Columns, out: Columns, visit: Visit | None) -> None:
    """Back up all states from `after` into `out`, in place."""

    def work(block: Block, expected: FloatArray) -> None:
        done = backup(task, block, step, after, expected)
        out.hard[block.states] = done.hard
        out.soft[block.states] = done.soft
        if out.loss is not None and out.spread is not None:
            out.loss[block.states] = done.loss
            out.spread[block.states] = done.spread
        if visit is not None:
            visit(step, block, done)

    task.mdp.transition.map_expected(after.present(), work)
