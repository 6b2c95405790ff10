"""Policies and utilities in the planner's form: validated once, action-major."""

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
_LEAST_RANGE = 1e-290  # below this digits are lost, and the rationality may be beyond a double


@dataclass(frozen=True)
class Rewards:
    """Utilities of B problems at each decision."""

    # [T, A or 1, S, B]: T is 1 for a utility that does not depend on time, the action axis for a
    # utility over states, B where all problems share one utility.
    array: FloatArray
    discount: float  # per step

    def at(self, step: int, states: slice) -> FloatArray:
        """Reward of decision `step` (from 0), not discounted: [A or 1, n, B]."""
        return np.asarray(self.array[min(step, self.array.shape[0] - 1), :, states])

    def tells_apart(self) -> FloatArray:
        """1.0 where actions are paid differently in themselves, else 0.0: [T, S, B]."""
        return np.asarray(np.ptp(self.array, axis=1) > 0, dtype=np.float64)

    def shown(self, i: int) -> FloatArray:
        """Problem i's utility as users see it: [S], [S, A], [H, S] or [H, S, A], a copy."""
        array = self.array[..., i % self.array.shape[-1]].transpose(0, 2, 1).copy()
        array = array[..., 0] if array.shape[-1] == 1 else array
        return np.asarray(array[0] if array.shape[0] == 1 else array)

    def scaled(self, factors: FloatArray) -> Rewards:
        """Each problem's utility times its factor [B]."""
        return Rewards(self.array * factors, self.discount)

    def normalised(self) -> tuple[Rewards, FloatArray]:
        """The same goals in a scale of their own, and the unit that was taken out, [B]."""
        # A constant paid at every decision and the unit of reward change no soft policy, and would
        # only cost digits. Units are powers of two, so that dividing by them is exact.
        low, high = self.array.min(axis=(0, 1, 2)), self.array.max(axis=(0, 1, 2))
        # Halved before they are subtracted: the difference of two large rewards may overflow.
        half = 0.5 * high - 0.5 * low
        exponent = np.where(half > 0, np.minimum(np.frexp(half)[1], 1023), 0)
        # In most worlds most states pay the same: with that as 0, values are sums of few terms, so
        # that rounding is far below the difference at which actions are tied.
        array = np.ldexp(self.array, -exponent)
        array = array - np.median(array, axis=(0, 1, 2))
        return Rewards(array, self.discount), np.ldexp(1.0, exponent)

    def magnitude(self, steps: int) -> FloatArray:
        """Largest absolute utility that a run of `steps` decisions could collect: [B]."""
        largest = np.abs(self.array).max(axis=(0, 1, 2))
        total = float(np.sum(self.discount ** np.arange(steps))) if steps else 0.0
        return np.asarray(largest * total)


def rewards_of(mdp: TabularMDP, utility: ArrayLike | None = None) -> Rewards:
    """A utility [S], [S, A], [H, S] or [H, S, A] (default: the MDP's reward) as `Rewards`."""
    # [S, A] is read as state-action, also where H = S and S = A make the shapes alike; a
    # time-dependent utility can be written as [H, S, 1].
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
    """Raises `InvalidUtilityError` at a range below 1e-290 that is not 0."""
    width = np.ptp(rewards.array, axis=(0, 1, 2))
    small = (width > 0) & (width < _LEAST_RANGE)
    if small.any():
        raise InvalidUtilityError(
            f"utility varies by {width[small][0]:.2g} only, expected 0 or at least "
            f"{_LEAST_RANGE:g}: a double holds neither its digits nor its rationality; multiply "
            f"it by a constant, which leaves MEG as it is and divides the rationality"
        )


def stack_rewards(parts: list[Rewards]) -> Rewards:
    """Several single-problem utilities as one batch, broadcast to a common shape."""
    t = max(p.array.shape[0] for p in parts)
    a = max(p.array.shape[1] for p in parts)
    s = parts[0].array.shape[2]
    full = [np.broadcast_to(p.array, (t, a, s, 1)) for p in parts]
    return Rewards(np.concatenate(full, axis=-1), parts[0].discount)


# --- Policies -------------------------------------------------------------------------------------
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
    """Return notes on policies, by name, whose rows were normalised by more than rounding."""
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

    This is the rule behind the published tables: epsilon = (A - 1) / A is the uniform policy. The
    policy, [S, A] or [H, S, A], is deterministic.
    """
    if not 0.0 <= epsilon <= 1.0:
        raise InvalidParameterError(
            f"epsilon is {shown(epsilon)}, expected a probability in [0, 1]"
        )
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
