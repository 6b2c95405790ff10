"""Policies and utilities in the form used for planning: validated and action-major."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidPolicyError, InvalidUtilityError, shown
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.tabular.arrays import (
    ROW_TOLERANCE,
    SUM_TOLERANCE,
    as_floats,
    check_distributions,
    normalised_rows,
    transposed,
    wrong_shape,
)
from goalmeter.tabular.mdp import TabularMDP

# --- Rewards --------------------------------------------------------------------------------------
_LEAST_RANGE = 1e-290  # smaller ranges lose digits, and their rationality may overflow


@dataclass(frozen=True)
class Rewards:
    """Utilities of B problems at each decision."""

    # [T, A or 1, S, B]: T is 1 for time-independent utilities, the action axis is 1 for utilities
    # over states, and B is 1 if all problems share one utility.
    array: FloatArray
    discount: float  # per step

    def at(self, step: int, states: slice) -> FloatArray:
        """Return the undiscounted reward of decision `step` (from 0): [A or 1, n, B]."""
        return np.asarray(self.array[min(step, self.array.shape[0] - 1), :, states])

    def tells_apart(self) -> FloatArray:
        """Return 1.0 where rewards depend on the action, else 0.0: [T, S, B]."""
        return np.asarray(np.ptp(self.array, axis=1) > 0, dtype=np.float64)

    def shown(self, i: int) -> FloatArray:
        """Return a copy of utility i in public form: [S], [S, A], [H, S] or [H, S, A]."""
        array = self.array[..., i % self.array.shape[-1]].transpose(0, 2, 1).copy()
        array = array[..., 0] if array.shape[-1] == 1 else array
        return np.asarray(array[0] if array.shape[0] == 1 else array)

    def scaled(self, factors: FloatArray) -> Rewards:
        """Return each utility times its factor [B]."""
        return Rewards(self.array * factors, self.discount)

    def normalised(self) -> tuple[Rewards, FloatArray]:
        """Return centred and scaled utilities, and the units divided out, [B]."""
        # A constant at every decision and the unit of reward do not affect soft policies, and would
        # cost digits. Units are powers of two, so the division is exact.
        low, high = self.array.min(axis=(0, 1, 2)), self.array.max(axis=(0, 1, 2))
        # Halving before the subtraction prevents overflow.
        half = 0.5 * high - 0.5 * low
        exponent = np.where(half > 0, np.minimum(np.frexp(half)[1], 1023), 0)
        # In most worlds most states have the same reward. With this reward as 0, values are sums of
        # few terms, and rounding is far below the tie tolerance.
        array = np.ldexp(self.array, -exponent)
        array = array - np.median(array, axis=(0, 1, 2))
        return Rewards(array, self.discount), np.ldexp(1.0, exponent)

    def magnitude(self, steps: int) -> FloatArray:
        """Return the largest absolute utility of `steps` decisions: [B]."""
        largest = np.abs(self.array).max(axis=(0, 1, 2))
        total = float(np.sum(self.discount ** np.arange(steps))) if steps else 0.0
        return np.asarray(largest * total)


def rewards_of(mdp: TabularMDP, utility: ArrayLike | None = None) -> Rewards:
    """Return a utility [S], [S, A], [H, S] or [H, S, A] (default: the MDP's) as `Rewards`."""
    # If H = S and S = A, the shape [S, A] means state-action; a time-dependent utility can then be
    # given as [H, S, 1].
    s, a, h = mdp.n_states, mdp.n_actions, mdp.horizon
    array = as_floats(mdp.reward if utility is None else utility, "utility", InvalidUtilityError)
    if array.shape == (s,):
        out = array[None, None, :, None]
    elif array.shape == (s, a):
        out = array.T[None, :, :, None]
    elif h is not None and array.shape == (h, s):
        out = array[:, None, :, None]
    elif h is not None and array.shape in ((h, s, a), (h, s, 1)):
        out = array.transpose(0, 2, 1)[..., None]
    else:
        timed = f", [{h}, {s}] or [{h}, {s}, {a}]" if h is not None else ""
        expected = f"[{s}], [{s}, {a}]{timed} (states, actions and, for a finite horizon, decision "
        raise wrong_shape("utility", array.shape, f"{expected}steps first)", InvalidUtilityError)
    return Rewards(np.ascontiguousarray(out), 1.0 if h is None else mdp.discount)


def check_resolved(rewards: Rewards) -> None:
    """Raise InvalidUtilityError if a utility's range is below 1e-290 but not 0."""
    width = np.ptp(rewards.array, axis=(0, 1, 2))
    small = (width > 0) & (width < _LEAST_RANGE)
    if small.any():
        raise InvalidUtilityError(
            f"utility varies by {width[small][0]:.2g} only, expected 0 or at least "
            f"{_LEAST_RANGE:g}, the limit of double precision; multiply it by a constant, which "
            f"does not change MEG and divides the rationality"
        )


def stack_rewards(parts: list[Rewards]) -> Rewards:
    """Stack utilities of single problems into one batch, broadcast to a common shape."""
    t = max(p.array.shape[0] for p in parts)
    a = max(p.array.shape[1] for p in parts)
    s = parts[0].array.shape[2]
    full = [np.broadcast_to(p.array, (t, a, s, 1)) for p in parts]
    return Rewards(np.concatenate(full, axis=-1), parts[0].discount)


# --- Policies -------------------------------------------------------------------------------------
def check_policy(mdp: TabularMDP, policy: ArrayLike, name: str = "policy") -> FloatArray:
    """Return a policy [S, A] or [H, S, A] as a normalised action-major array [T, A, S]."""
    array = as_floats(policy, name, InvalidPolicyError)
    s, a, h = mdp.n_states, mdp.n_actions, mdp.horizon
    if array.ndim >= 2 and array.shape[-2:] == (a, s) != (s, a):
        raise transposed(name, array.shape, InvalidPolicyError)
    if array.shape != (s, a) and (h is None or array.shape != (h, s, a)):
        expected = f"[{s}, {a}] (stationary)"
        if h is not None:
            expected += f" or [{h}, {s}, {a}] (time-dependent)"
        elif array.ndim == 3:
            expected = f"[{s}, {a}]: the infinite discounted problem supports stationary policies "
            expected += "only; give the MDP a horizon"
        raise wrong_shape(name, array.shape, expected, InvalidPolicyError)
    check_distributions(array, name, InvalidPolicyError, ROW_TOLERANCE)
    # An error of 1e-5 at each decision would remove half the mass after 70,000 decisions.
    rows = normalised_rows(array)
    stacked = rows if rows.ndim == 3 else rows[None]
    # Action-major arrays are summed over the slowest axis (see `goalmeter._types`).
    return np.ascontiguousarray(stacked.transpose(0, 2, 1))


def normalised_notes(**policies: ArrayLike | None) -> tuple[str, ...]:
    """Return notes on policies, by name, whose rows were normalised beyond rounding."""
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
    """Return the uniform policy, [S, A]."""
    return np.full((mdp.n_states, mdp.n_actions), 1.0 / mdp.n_actions)


def epsilon_greedy(policy: ArrayLike, epsilon: float) -> FloatArray:
    """Return the policy that takes one of the *other* actions with probability epsilon.

    The other actions are equally likely, as in the published tables: epsilon = (A - 1) / A is the
    uniform policy. `policy`, [S, A] or [H, S, A], is deterministic; the result has its shape.
    """
    if not 0.0 <= epsilon <= 1.0:
        raise InvalidParameterError(
            f"epsilon is {shown(epsilon)}, expected a probability in [0, 1]"
        )
    greedy = np.asarray(policy, dtype=np.float64)
    if not np.isin(greedy, (0.0, 1.0)).all() or not (greedy.sum(axis=-1) == 1.0).all():
        raise InvalidPolicyError(
            "policy is not deterministic, expected one action of probability 1 in each state"
        )
    alternatives = greedy.shape[-1] - 1
    if alternatives == 0:
        return greedy.copy()
    return np.where(greedy == 1.0, 1.0 - epsilon, epsilon / alternatives)
