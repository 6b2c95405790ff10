"""Trajectories of tabular MDPs: validation, sampling, loading and saving."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidTrajectoryError, shown
from goalmeter._types import ArrayLike, BoolArray, FloatArray, IntArray
from goalmeter.tabular.arrays import (
    load_arrays,
    naming,
    read_only,
    save_arrays,
    shape_text,
    wrong_shape,
)
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.policies import check_policy

# Trajectories shorter than the array [N, L] are padded with zeros, -1 or their last entry, and
# `length` has their number of decisions. Without `length`, padding is recognized as an end that
# repeats one state and action in a way that the world would not have produced.

_RARE = 1e-9  # less probable repetitions, over the whole log, are padding
_FIX = (
    "give the number of decisions of each trajectory, length=[N] (in a file the array 'length'), "
    "so that padding is ignored"
)


def check_not_padded(mdp: TabularMDP, trajectories: Trajectories) -> None:
    """Raise InvalidTrajectoryError if trajectories without `length` end in padding."""
    # Padding is an end that repeats an invalid state or action, or one that the MDP cannot move
    # into, or ends whose repetitions have a probability below 1e-9 over the whole log: that of one
    # end is at most the product of its probabilities to stay, and minus the sum of their logarithms
    # is compared with N exponential variables (Fisher's method).
    if trajectories.length_given:
        return
    s, a = trajectories.states, trajectories.actions
    n, steps = s.shape
    # Decision from which on each trajectory repeats one state and action, [N].
    differs = (s != s[:, -1:]) | (a != a[:, -1:])
    first = np.where(differs.any(axis=1), steps - np.argmax(differs[:, ::-1], axis=1), 0)
    state, action = s[:, -1], a[:, -1]
    outside = ~_inside(mdp, state, action)
    if outside.any():
        i = int(np.argmax(outside))
        if first[i] > 0:
            raise InvalidTrajectoryError(
                f"trajectory {i} ends, from decision {first[i]} on, with state {state[i]} and "
                f"action {action[i]}, expected states 0..{mdp.n_states - 1} and actions "
                f"0..{mdp.n_actions - 1}: it looks padded; {_FIX}"
            )
        return
    # The move into the constant end is checked too: for padding it may be impossible.
    before = np.arange(n), np.maximum(first - 1, 0)
    from_state, by_action = s[before], a[before]
    inside = _inside(mdp, from_state, by_action)
    entered, moves = np.ones(n), (from_state[inside], by_action[inside], state[inside])
    entered[inside] = mdp.transition.probability(*moves)
    repeats = steps - 1 - first
    strange = (first > 0) & (repeats > 0) & (entered <= 0)
    if strange.any():
        i = int(np.argmax(strange))
        raise InvalidTrajectoryError(
            f"trajectory {i} cannot move from state {from_state[i]} by action {by_action[i]} to "
            f"state {state[i]}, which it repeats with action {action[i]} from decision {first[i]} "
            f"to its end: it looks padded; {_FIX}"
        )
    from scipy.special import gammaincc

    stays = mdp.transition.probability(state, action, state)
    logs = repeats * np.log(np.maximum(stays, 1e-300))
    # The sum of N exponential variables is a gamma variable of shape N.
    chance = float(gammaincc(n, max(-float(logs.sum()), 0.0)))
    if chance < _RARE:
        i = int(np.argmin(logs))
        raise InvalidTrajectoryError(
            f"trajectory {i} repeats state {state[i]} and action {action[i]} from decision "
            f"{first[i]} to its end, where the MDP stays with probability {stays[i]:.3g}; such "
            f"ends have probability {chance:.1g} over the log: it looks padded; {_FIX}"
        )


def _inside(mdp: TabularMDP, states: IntArray, actions: IntArray) -> BoolArray:
    known = (states >= 0) & (states < mdp.n_states)
    return np.asarray(known & (actions >= 0) & (actions < mdp.n_actions))


@dataclass(frozen=True, eq=False)
class Trajectories:
    """N trajectories of states and actions; immutable."""

    states: IntArray  # [N, L]; entries after a trajectory's `length` are ignored
    actions: IntArray  # [N, L]
    # Number of logged decisions of each trajectory, [N]; L by default. The later decisions of a
    # trajectory shorter than the horizon are unobserved.
    length: IntArray
    length_given: bool  # if False, trajectories that look padded raise an error on use

    def __init__(
        self, states: ArrayLike, actions: ArrayLike, length: ArrayLike | None = None
    ) -> None:
        s, a = _integers(states, "states", 2), _integers(actions, "actions", 2)
        if s.shape != a.shape or s.size == 0:
            raise InvalidTrajectoryError(
                f"states has shape {shape_text(s.shape)} and actions {shape_text(a.shape)}, "
                f"expected the same shape [N, L] with at least one decision, an action per state"
            )
        full = np.full(len(s), s.shape[1]) if length is None else length
        n = _integers(full, "length", 1)
        if n.shape != (len(s),):
            expected = f"[{len(s)}], one per trajectory"
            raise wrong_shape("length", n.shape, expected, InvalidTrajectoryError)
        if n.min() < 1 or n.max() > s.shape[1]:
            bad = int(np.argmax((n < 1) | (n > s.shape[1])))
            raise InvalidTrajectoryError(f"length[{bad}] is {n[bad]}, expected 1..{s.shape[1]}")
        for name, value in (("states", s), ("actions", a), ("length", n)):
            object.__setattr__(self, name, read_only(value))
        object.__setattr__(self, "length_given", length is not None)

    def __len__(self) -> int:
        return len(self.states)

    def __repr__(self) -> str:
        low, high = int(self.length.min()), int(self.length.max())
        span = f"{low}" if low == high else f"{low} to {high}"
        return f"Trajectories({len(self)} trajectories of {span} decisions)"

    @property
    def seen(self) -> BoolArray:
        """Mask of logged decisions, [N, L]."""
        return np.arange(self.states.shape[1]) < self.length[:, None]

    def subset(self, index: ArrayLike) -> Trajectories:
        """Return a subset of the trajectories."""
        chosen = np.asarray(index)
        length = self.length[chosen] if self.length_given else None
        return Trajectories(self.states[chosen], self.actions[chosen], length)

    @classmethod
    def from_npz(cls, path: str | Path) -> Trajectories:
        """Read `states` [N, L], `actions` [N, L] and optionally `length` [N] from an .npz file."""
        arrays = load_arrays(path, required=("states", "actions"), optional=("length",))
        with naming(path):
            return cls(arrays["states"], arrays["actions"], arrays.get("length"))


def load_trajectories(path: str | Path) -> Trajectories:
    """Read a trajectories file, which is validated against a world on use."""
    return Trajectories.from_npz(path)


def save_trajectories(trajectories: Trajectories, path: str | Path) -> Path:
    """Write a trajectories file and return its path."""
    # A log without lengths is written without lengths, so that padding is still detected.
    names = ("states", "actions", *(("length",) if trajectories.length_given else ()))
    return save_arrays(path, {name: getattr(trajectories, name) for name in names})


def check_trajectories(mdp: TabularMDP, trajectories: Trajectories) -> Trajectories:
    """Return the trajectories after validating that the MDP can produce them."""
    check_not_padded(mdp, trajectories)
    s, a, seen = trajectories.states, trajectories.actions, trajectories.seen
    longest = int(trajectories.length.max())
    if mdp.horizon is not None and longest > mdp.horizon:
        i = int(np.argmax(trajectories.length))
        raise InvalidTrajectoryError(
            f"trajectory {i} has {longest} decisions, expected at most the horizon, {mdp.horizon}; "
            f"raise the MDP's horizon or cut the trajectory"
        )
    for name, array, count in (("states", s, mdp.n_states), ("actions", a, mdp.n_actions)):
        bad = seen & ((array < 0) | (array >= count))
        if bad.any():
            i, t = np.argwhere(bad)[0]
            raise InvalidTrajectoryError(
                f"{name}[{i}, {t}] is {array[i, t]}, expected 0..{count - 1}"
            )
    # A likelihood of 0 would make the evidence of every goal meaningless.
    impossible = mdp.initial[s[:, 0]] <= 0
    if impossible.any():
        i = int(np.argmax(impossible))
        raise InvalidTrajectoryError(
            f"trajectory {i} starts in state {s[i, 0]}, which has initial probability 0; "
            f"expected a possible start; correct the log or the MDP's initial"
        )
    # One step at a time, since all moves together need memory for N * L rows of the transition.
    for t in range(longest - 1):
        at = np.flatnonzero(seen[:, t + 1])
        chance = mdp.transition.probability(s[at, t], a[at, t], s[at, t + 1])
        if (chance <= 0).any():
            i = int(at[np.argmax(chance <= 0)])
            raise InvalidTrajectoryError(
                f"trajectory {i} moves from state {s[i, t]} by action {a[i, t]} to state "
                f"{s[i, t + 1]} at decision {t}, which has probability 0 in the MDP; "
                f"expected possible moves; correct the log or the transition"
            )
    return trajectories


def sample_trajectories(
    mdp: TabularMDP,
    policy: ArrayLike,
    n: int,
    *,
    rng: np.random.Generator,
    steps: int | None = None,
) -> Trajectories:
    """Draw trajectories of a policy.

    The policy is [S, A] or [H, S, A]; `n` trajectories have `steps` decisions each, by default the
    horizon. The infinite problem requires `steps`.
    """
    major = check_policy(mdp, policy)
    steps = mdp.horizon if steps is None else steps
    if steps is None or steps < 1 or (mdp.horizon is not None and steps > mdp.horizon):
        raise InvalidParameterError(
            f"steps is {shown(steps)}, expected 1..{mdp.horizon or 'any number'}; it is required "
            f"for the infinite problem, which has no horizon"
        )
    if n < 1:
        raise InvalidParameterError(f"n is {shown(n)}, expected at least one trajectory")
    states, actions = np.empty((2, n, steps), dtype=np.int64)
    now = draw_from_rows(np.cumsum(mdp.initial)[None], np.zeros(n, dtype=np.int64), rng)
    for t in range(steps):
        states[:, t] = now
        choice = np.cumsum(major[min(t, len(major) - 1)], axis=0).T
        actions[:, t] = draw_from_rows(choice, now, rng)
        if t + 1 < steps:
            now = mdp.transition.sample(now, actions[:, t], rng)
    return Trajectories(states, actions)


def draw_from_rows(cumulative: FloatArray, rows: IntArray, rng: np.random.Generator) -> IntArray:
    """Draw one index from each of the given rows of cumulative probabilities."""
    chosen = cumulative[rows]
    # Scaling by the row's total keeps draws within the row in spite of rounding. Draws are strictly
    # below the total, so entries of probability 0 are never drawn.
    target = rng.random(len(rows)) * chosen[:, -1]
    return np.asarray((chosen <= target[:, None]).sum(axis=1), dtype=np.int64)


def _integers(value: ArrayLike, name: str, axes: int) -> IntArray:
    try:
        array = np.asarray(value)
    except ValueError as cause:
        raise InvalidTrajectoryError(
            f"{name} is ragged, expected one array [N, L]; pad shorter trajectories with any state "
            f"and action, and give length=[N]"
        ) from cause
    if array.ndim != axes:
        expected = "[N, L]" if axes == 2 else "[N]"
        raise wrong_shape(name, array.shape, expected, InvalidTrajectoryError)
    if array.dtype.kind not in "iu":
        padded = axes == 2 and array.dtype.kind == "f" and bool(np.isnan(array).any())
        fix = "; pad with any integer instead of NaN, and give length=[N]" if padded else ""
        raise InvalidTrajectoryError(
            f"{name} has type {array.dtype}, expected integers: indices of states and actions{fix}"
        )
    return np.array(array, dtype=np.int64)
