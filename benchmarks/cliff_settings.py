"""The thirteen CliffWorld settings of the paper's tables, as problems for both sides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import goalmeter as gm

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """One row of the paper's tables: the world, the policy, and both as dense arrays."""

    name: str
    mdp: gm.TabularMDP
    policy: Array
    transition: Array  # [S, A, S]
    reward: Array  # [S]
    initial: Array  # [S]
    horizon: int


def settings(quick: bool) -> list[Setting]:
    """Goal lengths 1 to 4 (optimal policy) and epsilon 0.1 to 0.9 (goal length 1)."""
    rows = [(k, 0.0) for k in (1, 2, 3, 4)] + [(1, e / 10) for e in range(1, 10)]
    return [_setting(k, epsilon) for k, epsilon in ([rows[0], rows[8]] if quick else rows)]


def _setting(goal_length: int, epsilon: float) -> Setting:
    mdp = gm.cliff_world(goal_length)
    policy = gm.optimal_policy(mdp)
    name = f"k = {goal_length}"
    if epsilon:
        policy = gm.epsilon_greedy(policy, epsilon)
        name = f"epsilon = {epsilon:g}"
    return Setting(
        name=name,
        mdp=mdp,
        policy=np.array(policy),
        transition=mdp.transition.to_dense(),
        reward=np.array(mdp.reward),
        initial=np.array(mdp.initial),
        horizon=mdp.steps,
    )
