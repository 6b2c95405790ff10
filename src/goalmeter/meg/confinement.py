"""The face of policies that stay where the behaviour does.

What a behaviour never visits, a utility may make ever less attractive: along the direction that
pays -1 for it and 0 elsewhere, all policies that surely stay inside what is visited are equally
good, and all others are worse. So the evidence of the class is at most, and in the limit, that of
models which are confined to the first: a face, proven by its direction (see
`goalmeter.meg.face`). The actions that surely stay inside are found from the last decision
backwards; in the infinite problem as a greatest fixed point. Nothing is compared but zeros.
"""

from __future__ import annotations

import numpy as np

from goalmeter._types import BoolArray, FloatArray
from goalmeter.tabular.mdp import TabularMDP


def staying_inside(mdp: TabularMDP, visits: FloatArray) -> BoolArray | None:
    """Actions that surely lead to nothing but what is visited, [T, A, S]; None if any may be taken.

    Args:
        mdp: the world.
        visits: expected visits of a behaviour, 0 where there are none, [T, A or 1, S].

    Where a state is not visited itself, or none of its actions stays inside, all are allowed: no
    policy that stays inside gets there.
    """
    if (visits > 0).all():
        return None
    visited = visits > 0
    n_steps = mdp.steps
    allowed = np.empty((n_steps, mdp.n_actions, mdp.n_states), dtype=bool)
    if mdp.horizon is None:
        inside = np.ones(mdp.n_states, dtype=bool)
        while True:
            # Ever fewer states are inside, so this ends.
            stays, fewer = _step(mdp, visited[0], inside)
            if (fewer == inside).all():
                break
            inside = fewer
        allowed[0] = stays
        return _binding(mdp, _with_outside(allowed, visited))
    # What the last action leads to is never paid.
    inside = np.ones(mdp.n_states, dtype=bool)
    for t in reversed(range(n_steps)):
        allowed[t], inside = _step(mdp, visited[min(t, len(visited) - 1)], inside)
    return _binding(mdp, _with_outside(allowed, visited))


def _step(mdp: TabularMDP, visited: BoolArray, inside: BoolArray) -> tuple[BoolArray, BoolArray]:
    """Actions that stay [A, S], and states that have one [S], before being `inside` [S]."""
    leaves = mdp.transition.expect_all((~inside).astype(np.float64)) > 0
    stays: BoolArray = ~leaves & visited
    return stays, np.asarray(stays.any(axis=0))


def _with_outside(stays: BoolArray, visited: BoolArray) -> BoolArray:
    """The actions that stay, and all actions of states that have none."""
    return np.asarray(stays | ~stays.any(axis=1, keepdims=True))


def _binding(mdp: TabularMDP, allowed: BoolArray) -> BoolArray | None:
    """The allowed actions, or None if no policy that stays inside ever gets to any other.

    What is out of reach altogether is never visited by any policy, and leads nowhere.
    """
    reached = np.asarray(mdp.initial > 0)
    while True:
        for now in allowed:
            if not now[:, reached].all():
                return allowed
            after = np.asarray(mdp.transition.push((now & reached).astype(np.float64)) > 0)
            before, reached = reached, (after | reached if mdp.horizon is None else after)
        if mdp.horizon is not None or (before == reached).all():
            return None
