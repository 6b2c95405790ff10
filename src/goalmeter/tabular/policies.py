"""Policies: checked once, then action-major; and the reference policies of the paper."""

from __future__ import annotations

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidPolicyError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.tabular._validation import (
    as_floats,
    check_distributions,
    normalised_rows,
    shape_text,
)
from goalmeter.tabular.mdp import TabularMDP


def check_policy(mdp: TabularMDP, policy: ArrayLike, name: str = "policy") -> FloatArray:
    """A policy [S, A] or [H, S, A] as an action-major array [T, A, S].

    Raises:
        InvalidPolicyError: a shape that does not fit the MDP, rows that are not distributions
            to within 1e-9, or a time-dependent policy for the infinite problem.
    """
    array = as_floats(policy, name, InvalidPolicyError)
    s, a, h = mdp.n_states, mdp.n_actions, mdp.horizon
    if h is None and array.ndim == 3:
        raise InvalidPolicyError(
            f"{name} has shape {shape_text(array.shape)}, expected [{s}, {a}]: the infinite "
            f"discounted problem takes stationary policies only; give the MDP a horizon"
        )
    if array.shape != (s, a) and (h is None or array.shape != (h, s, a)):
        timed = f" or [{h}, {s}, {a}] (time-dependent)" if h is not None else ""
        raise InvalidPolicyError(
            f"{name} has shape {shape_text(array.shape)}, expected [{s}, {a}] (stationary){timed}"
        )
    check_distributions(array, name, InvalidPolicyError)
    rows = normalised_rows(array)
    stacked = rows if rows.ndim == 3 else rows[None]
    return np.ascontiguousarray(stacked.transpose(0, 2, 1))


def uniform_policy(mdp: TabularMDP) -> FloatArray:
    """Every action equally likely, in every state: [S, A]."""
    return np.full((mdp.n_states, mdp.n_actions), 1.0 / mdp.n_actions)


def epsilon_greedy(policy: ArrayLike, epsilon: float) -> FloatArray:
    """With probability epsilon one of the *other* actions, uniformly; same shape as `policy`.

    This is the rule behind the published tables: epsilon = (A - 1) / A is the uniform policy.

    Args:
        policy: a deterministic policy, [S, A] or [H, S, A].
        epsilon: probability of leaving the policy's action, in [0, 1].

    Raises:
        InvalidPolicyError: the policy is not deterministic.
        InvalidParameterError: epsilon outside [0, 1].
    """
    if not 0.0 <= epsilon <= 1.0:
        raise InvalidParameterError(f"epsilon is {epsilon!r}, expected a probability in [0, 1]")
    greedy = np.asarray(policy, dtype=np.float64)
    if not np.isin(greedy, (0.0, 1.0)).all() or not (greedy.sum(axis=-1) == 1.0).all():
        raise InvalidPolicyError(
            "policy is not deterministic, expected one action of probability 1 in each state; "
            "epsilon-greedy departs from such a policy"
        )
    others = greedy.shape[-1] - 1
    if others == 0:
        return greedy.copy()
    return np.where(greedy == 1.0, 1.0 - epsilon, epsilon / others)
