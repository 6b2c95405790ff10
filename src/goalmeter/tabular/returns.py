"""Expected return of a policy, and its variance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from goalmeter._types import ArrayLike, FloatArray
from goalmeter.tabular._linear import StationarySolver
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.policies import check_policy
from goalmeter.tabular.rewards import Rewards, rewards_of
from goalmeter.tabular.transition import Block


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
    mdp: TabularMDP,
    policy: FloatArray,
    reward: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
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
    mean = StationarySolver(under, mdp.discount).solve(now)
    _, fresh = _step(mdp, policy, reward, mean, np.zeros_like(mean))
    return mean, StationarySolver(under, mdp.discount**2).solve(fresh)
