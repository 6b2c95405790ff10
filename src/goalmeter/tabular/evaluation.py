"""What follows of a policy: where it spends its decisions, and what it collects."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from goalmeter._types import ArrayLike, FloatArray
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.policies import check_policy
from goalmeter.tabular.rewards import Rewards, rewards_of
from goalmeter.tabular.stationary import StationarySolver
from goalmeter.tabular.transition import Block


def occupancy(mdp: TabularMDP, policy: ArrayLike) -> FloatArray:
    """Probability of each state at each decision under a policy.

    Args:
        mdp: the world.
        policy: [S, A] or [H, S, A].

    Returns:
        [H, S], each row summing to 1. For the infinite discounted problem [S], the discounted
        expected visits sum_t g^t P(s_t = s), summing to 1 / (1 - g).

    Raises:
        InvalidPolicyError: the policy does not fit the MDP.

    Cost: O(H * transitions) time, O(H * S) memory.

    Example:
        >>> mdp = TabularMDP([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], [0, 1], horizon=3)
        >>> occupancy(mdp, [[0.5, 0.5], [1, 0]])
        array([[1.  , 0.  ],
               [0.5 , 0.5 ],
               [0.25, 0.75]])
    """
    states = state_occupancy(mdp, check_policy(mdp, policy)[..., None])[..., 0]
    return states[0] if mdp.horizon is None else states


def state_occupancy(mdp: TabularMDP, policy: FloatArray) -> FloatArray:
    """Occupancy [H or 1, S, B] of action-major policies [T, A, S, B]."""
    batch = policy.shape[-1]
    if mdp.horizon is None:
        moves = (mdp.transition.under(policy[0, ..., i]) for i in range(batch))
        solvers = (StationarySolver(matrix, mdp.discount) for matrix in moves)
        columns = [solver.solve(mdp.initial, transpose=True) for solver in solvers]
        # The exact solution is non-negative; rounding may leave -1e-18.
        return np.maximum(np.stack(columns, axis=1), 0.0)[None]
    out = np.empty((mdp.horizon, mdp.n_states, batch))
    out[0] = mdp.initial[:, None]
    # What is left after the last decision is never pushed on: nothing is collected there.
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
    """Mean and variance of sum_t g^t U(s_t, a_t) under a policy.

    The variance is that of the whole return: the policy's choices, the environment's chance
    and the initial state. (The curvature of a MEG in its rationality contains the part that
    the choices cause, no more: see `goalmeter.tabular.backup`.)

    Args:
        mdp: the world.
        policy: [S, A] or [H, S, A].
        utility: [S], [S, A], [H, S] or [H, S, A]; default the MDP's reward.

    Raises:
        InvalidPolicyError, InvalidUtilityError: arrays that do not fit the MDP.

    Cost: O(H * transitions) time, O(S) memory.

    Example: one decision between a reward of 0 and one of 2, by a fair coin.
        >>> mdp = TabularMDP([[[1], [1]]], [[0, 2]], horizon=1)
        >>> expected_return(mdp, [[0.5, 0.5]])
        Return(mean=1.0, variance=1.0)
    """
    major = check_policy(mdp, policy)
    # The discount is applied step by step below, for the finite horizon too.
    rewards = Rewards(rewards_of(mdp, utility).array, discount=1.0)
    if mdp.horizon is None:
        mean, variance = _stationary(mdp, major[0], rewards.at(0, slice(None))[..., 0])
    else:
        mean, variance = np.zeros(mdp.n_states), np.zeros(mdp.n_states)
        for step in reversed(range(mdp.horizon)):
            now = major[min(step, len(major) - 1)]
            mean, variance = _step(mdp, now, rewards.at(step, slice(None))[..., 0], mean, variance)
    start = mdp.initial
    total = float(start @ mean)
    return Return(total, float(start @ variance + start @ (mean - total) ** 2))


def _step(
    mdp: TabularMDP, policy: FloatArray, reward: FloatArray, mean: FloatArray, variance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the return from each state, one decision earlier."""
    # Squares are taken around the middle: a large constant in the reward would drown the rest.
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


def _stationary(
    mdp: TabularMDP, policy: FloatArray, reward: FloatArray
) -> tuple[FloatArray, FloatArray]:
    under = mdp.transition.under(policy)
    now = (policy * np.broadcast_to(reward, policy.shape)).sum(axis=0)
    # The law of total variance, at its fixed point: squares of what follows are discounted twice.
    mean = StationarySolver(under, mdp.discount).solve(now)
    _, fresh = _step(mdp, policy, reward, mean, np.zeros_like(mean))
    return mean, StationarySolver(under, mdp.discount**2).solve(fresh)
