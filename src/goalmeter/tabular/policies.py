"""Policies: checked once, then action-major; and the reference policies of the paper."""

from __future__ import annotations

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidPolicyError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.tabular._validation import (
    ROW_TOLERANCE,
    SUM_TOLERANCE,
    as_floats,
    check_distributions,
    normalised_rows,
    transposed,
    wrong_shape,
)
from goalmeter.tabular.mdp import TabularMDP


def check_policy(mdp: TabularMDP, policy: ArrayLike, name: str = "policy") -> FloatArray:
    """A policy [S, A] or [H, S, A] as an action-major array [T, A, S], its rows normalised."""
    array = as_floats(policy, name, InvalidPolicyError)
    s, a, h = mdp.n_states, mdp.n_actions, mdp.horizon
    if array.ndim >= 2 and array.shape[-2:] == (a, s) != (s, a):
        raise transposed(name, array.shape, InvalidPolicyError)
    if array.shape != (s, a) and (h is None or array.shape != (h, s, a)):
        expected = f"[{s}, {a}] (stationary)"
        if h is not None:
            expected += f" or [{h}, {s}, {a}] (time-dependent)"
        elif array.ndim == 3:
            expected = f"[{s}, {a}]: the infinite discounted problem takes stationary policies "
            expected += "only; give the MDP a horizon"
        raise wrong_shape(name, array.shape, expected, InvalidPolicyError)
    check_distributions(array, name, InvalidPolicyError, ROW_TOLERANCE)
    # A share of 1e-5 that is missing at each decision would be half the mass after 70,000 of them.
    rows = normalised_rows(array)
    stacked = rows if rows.ndim == 3 else rows[None]
    # Sums over actions then run over the slowest axis (see `goalmeter._types`).
    return np.ascontiguousarray(stacked.transpose(0, 2, 1))


def normalised_notes(**policies: ArrayLike | None) -> tuple[str, ...]:
    """What a result has to say of policies whose rows were normalised by more than rounding.

    Each policy comes under the name that the note gives it; those that are None are left out.
    """
    # Networks compute in single precision, where rows sum to 1 within 1e-7 or so.
    notes = []
    for name, policy in policies.items():
        if policy is None:
            continue
        off = float(np.abs(np.asarray(policy, dtype=np.float64).sum(axis=-1) - 1.0).max())
        if off > SUM_TOLERANCE:
            notes.append(
                f"the rows of {name} sum to 1 within {off:.1g} only; each was divided by its sum"
            )
    return tuple(notes)


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
    alternatives = greedy.shape[-1] - 1
    if alternatives == 0:
        return greedy.copy()
    return np.where(greedy == 1.0, 1.0 - epsilon, epsilon / alternatives)
