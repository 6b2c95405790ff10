"""Logs that were padded to one length, and say nothing of it.

An array [N, L] holds trajectories of one length only, so shorter ones are padded, with zeros, with
-1 or with their last entry, and `length` says where each ends. Without `length`, padding would be
taken for moves. It gives itself away by what the world's dynamics can do: an end that repeats one
state and action, and that the world would not have produced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goalmeter._errors import InvalidTrajectoryError
from goalmeter._types import FloatArray, IntArray
from goalmeter.tabular.mdp import TabularMDP

if TYPE_CHECKING:
    from goalmeter.tabular.trajectories import Trajectories

# Ends that the dynamics repeat so rarely, over the whole log, are padding.
_RARE = 1e-9
_MEND = (
    "give the number of decisions of each trajectory, length=[N] (in a file the array 'length'), "
    "so that what comes after is not looked at"
)


def check_not_padded(mdp: TabularMDP, trajectories: Trajectories) -> None:
    """Raises if the trajectories of a log without `length` end in padding.

    Three signs, the first of which is enough: an end that repeats one pair which is no state or no
    action of the MDP; one that the MDP cannot move into; and ends that repeat one state so often
    that, by the transition probabilities alone, a whole log of that kind has a chance below 1e-9.
    The chance of one end is at most the product of its probabilities to stay, whatever the
    policy; over N trajectories, minus the sum of their logarithms is compared with the sum of N
    exponential variables (Fisher's method). A pair that stays for sure, as in an absorbing state,
    is no sign: an agent may well have done that, and `length` alone can tell.
    """
    if trajectories.length_given:
        return
    s, a = trajectories.states, trajectories.actions
    # Padding repeats one state and action, so only a constant end can be padding.
    first = _constant_end(s, a)
    n, steps = s.shape
    rows = np.arange(n)
    state, action = s[:, -1], a[:, -1]
    outside = (state < 0) | (state >= mdp.n_states) | (action < 0) | (action >= mdp.n_actions)
    if outside.any():
        i = int(np.argmax(outside))
        if first[i] > 0:
            raise InvalidTrajectoryError(
                f"trajectory {i} ends, from decision {first[i]} on, with state {state[i]} and "
                f"action {action[i]}, expected states 0..{mdp.n_states - 1} and actions "
                f"0..{mdp.n_actions - 1}: it looks padded; {_MEND}"
            )
        return
    # What led into the constant end is judged as well: padding needs no possible move.
    repeats = steps - 1 - first
    before = np.maximum(first - 1, 0)
    inside = (s[rows, before] >= 0) & (s[rows, before] < mdp.n_states)
    inside &= (a[rows, before] >= 0) & (a[rows, before] < mdp.n_actions)
    entered = np.ones(n)
    entered[inside] = mdp.transition.probability(
        s[rows, before][inside], a[rows, before][inside], state[inside]
    )
    strange = (first > 0) & (repeats > 0) & (entered <= 0)
    if strange.any():
        i = int(np.argmax(strange))
        raise InvalidTrajectoryError(
            f"trajectory {i} cannot move from state {s[i, before[i]]} by action "
            f"{a[i, before[i]]} to state {state[i]}, which it repeats with action {action[i]} "
            f"from decision {first[i]} to its end: it looks padded; {_MEND}"
        )
    stays = mdp.transition.probability(state, action, state)
    chance = _chance(repeats, stays)
    if chance < _RARE:
        i = int(np.argmin(repeats * np.log(np.maximum(stays, 1e-300))))
        raise InvalidTrajectoryError(
            f"trajectory {i} repeats state {state[i]} and action {action[i]} from decision "
            f"{first[i]} to its end, where the MDP stays with probability {stays[i]:.3g}; over the "
            f"whole log such ends have a chance of {chance:.1g}: it looks padded; {_MEND}"
        )


def _constant_end(states: IntArray, actions: IntArray) -> IntArray:
    """The decision from which on each trajectory repeats its last state and action, [N]."""
    differs = (states != states[:, -1:]) | (actions != actions[:, -1:])
    steps = states.shape[1]
    last = steps - 1 - np.argmax(differs[:, ::-1], axis=1)
    return np.where(differs.any(axis=1), last + 1, 0)


def _chance(repeats: IntArray, stays: FloatArray) -> float:
    """Chance of ends that repeat so often, by Fisher's method."""
    from scipy.special import gammaincc

    # The sum of N exponential variables is a gamma variable of shape N.
    logs = repeats * np.log(np.maximum(stays, 1e-300))
    return float(gammaincc(len(logs), max(-float(logs.sum()), 0.0)))
