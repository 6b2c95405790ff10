"""Optima at infinity: the faces of policies that a diverging utility singles out.

Faces are found from a Newton direction, from the states that the behaviour never leaves, or by a
linear program over all utilities under which the behaviour is optimal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from goalmeter._types import BoolArray, FloatArray
from goalmeter.meg.behaviour import Behaviour
from goalmeter.meg.soft_model import ALL, SoftModel
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.policies import rewards_of


class Face(NamedTuple):
    """A verified face: its models, and the direction that leads to it."""

    model: SoftModel
    direction: FloatArray


# --- Confinement ----------------------------------------------------------------------------------
# What a behaviour never visits, a utility may make ever less attractive: along the direction that
# pays -1 for it and 0 elsewhere, all policies that surely stay inside what is visited are equally
# good, and all others are worse. The actions that surely stay inside form a face; they are found
# from the last decision backwards, in the infinite problem as a greatest fixed point.


def find_inside_actions(mdp: TabularMDP, visits: FloatArray) -> BoolArray | None:
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


# --- Linear program -------------------------------------------------------------------------------
# Given rows G, the program  max over x of  sum min(1, G x)  subject to  G x >= 0  makes as many
# inequalities strict as possible, all at once: x may be scaled up, so every row that some feasible
# x makes positive reaches 1. HiGHS solves its dual, which has a constraint for each entry of x,
#
#     max over a, b of  sum a   subject to  G' (a + b) = 0,   0 <= a <= 1,   0 <= b;
#
# x are the multipliers of its constraints. The solution is a suggestion: what is used of it is
# proven by regrets.

# Seconds after which a linear program is given up.
_MOST_SECONDS = 300.0


class Rows(NamedTuple):
    """Rows G = [dense, sparse] of a system of inequalities: [N, k] and CSR [N, n]."""

    dense: FloatArray
    sparse: Any

    def times(self, x: FloatArray) -> FloatArray:
        """G x for x [k + n]: [N]."""
        k = self.dense.shape[1]
        return np.asarray(self.dense @ x[:k] + self.sparse @ x[k:])

    def only(self, which: Any) -> Rows:
        """Some of the rows."""
        return Rows(self.dense[which], self.sparse[which])


def solve_strict_rows(rows: Rows, seconds: float | None = None) -> FloatArray | None:
    """Return an x [k + n] that makes the most inequalities strict; None if HiGHS finds none."""
    from scipy.optimize import linprog

    n = rows.dense.shape[0]
    transposed = sp.hstack([sp.csr_matrix(rows.dense), rows.sparse], format="csr").T
    limit = _MOST_SECONDS if seconds is None else min(max(seconds, 0.0), _MOST_SECONDS)
    solved = linprog(
        np.repeat([-1.0, 0.0], n),
        A_eq=sp.hstack([transposed, transposed], format="csc"),
        b_eq=np.zeros(transposed.shape[0]),
        bounds=[(0.0, 1.0)] * n + [(0.0, None)] * n,
        method="highs-ds",
        options={"time_limit": limit},
    )
    return -np.asarray(solved.eqlin.marginals) if solved.status == 0 else None


# --- Directions of recession ----------------------------------------------------------------------
# The evidence of a behaviour grows for ever along a utility v exactly if the behaviour is optimal
# for v, and somewhere gives up something else: an action with a regret. In the limit that action
# is never taken, so the supremum is that of models confined to actions without regret. Which
# actions can have one is a linear program over v and the values W that v gives rise to, one for
# each state and decision,
#
#     W_t(s) - v(s) - E[W_(t+1)(s')]  is  0 for what the behaviour does,  and >= 0 for all else,
#
# and the program above makes as many as can be positive.
# Where the behaviour goes, W follows from v alone: only in states that others may reach W is
# unknown.
#
# The program is solved with rounding, so its v is only a suggestion. It is projected on what ties
# all that is to be tied, and planned for. A face is accepted if the planner finds that all that the
# behaviour does is optimal, to rounding, and that every action outside is clearly worse: these
# regrets are the proof. The next program looks inside the face, so that directions of very
# different sizes come one after another.
#
# Source: the cone of rewards under which a policy is optimal (Ng and Russell 2000); facial
# reduction.

# Largest programs: entries, rows times squared weights, and unknown values where the behaviour does
# not go.
_MOST_ENTRIES, _MOST_WORK, _MOST_UNKNOWNS = 2**25, 2e9, 4000
# Ties of up to so many unknowns are projected on.
_MOST_PROJECTED = 2500
# Relative to a direction's largest entry: what the behaviour gives up at most, and what every
# action outside a face gives up at least.
_TIED, _WORSE = 1e-12, 1e-9
# Rows of the program, scaled to 1, that count as tied in one attempt after another.
_CUTS = (1e-4, 1e-6, 1e-2, 1e-1)
# A row that no utility feels, and singular values that are rounded zeros.
_UNFELT, _NULL_SHARE = 1e-11, 1e-12
_MOST_FACES = 12


def recession_faces(
    model: SoftModel,
    behaviour: Behaviour,
    check: Callable[[], None] = lambda: None,
    left: Callable[[], float | None] = lambda: None,
) -> Iterator[Face]:
    """The faces at infinity that a behaviour lies in, each inside the one before.

    Args:
        model: any model of the class, which may be confined already; the world's own reward is
            tried as a direction first.
        behaviour: what is to be predicted, by the actions that the model is allowed.
        check: called now and then; it raises what ends the search.
        left: seconds that remain, None without a limit.
    """
    used = np.stack([behaviour.weights(t, ALL)[..., 0] > 0 for t in range(model.mdp.steps)])
    reward = _reward(model)
    if reward is not None and (face := _exposed(model, reward, used)) is not None:
        yield face
        model = face.model
    for _ in range(_MOST_FACES):
        face = _next_face(model, behaviour, used, check, left)
        if face is None:
            return
        yield face
        model = face.model


def _reward(model: SoftModel) -> FloatArray | None:
    """The world's own reward as weights of the class, if it is a utility of the class."""
    array, utilities = rewards_of(model.mdp).array[..., 0], model.utilities
    if utilities.matrix is not None or array.shape[1] > utilities.shape[1]:
        return None
    return np.broadcast_to(array, utilities.shape).ravel().copy()


def _exposed(model: SoftModel, direction: FloatArray, used: BoolArray) -> Face | None:
    """The face that a direction [D] proves, or None if it proves none."""
    direction = direction - (direction.max() + direction.min()) / 2.0
    size = float(np.abs(direction).max())
    if not (np.isfinite(size) and size > 0):
        return None
    direction = direction / size
    regrets = model.regrets(direction, exact=True)
    if regrets[used].max(initial=0.0) > _TIED:
        return None
    inside = model.confined(regrets <= _TIED)
    # Also where a rounded chance of getting there is 0, the behaviour's own states count.
    reached = (inside.states > 0) | used.any(axis=1)
    worse = (regrets > _TIED) & np.isfinite(regrets) & reached[:, None]
    if not worse.any() or regrets[worse].min() < _WORSE:
        return None
    return Face(inside, direction)


def _next_face(
    model: SoftModel,
    behaviour: Behaviour,
    used: BoolArray,
    check: Callable[[], None],
    left: Callable[[], float | None],
) -> Face | None:
    program = _program(model, behaviour, used)
    if program is None:
        return None
    rows, basis = program
    k = basis.shape[1]
    check()
    x = solve_strict_rows(rows, left())
    check()
    if x is None:
        return None
    strict = rows.times(x)
    for cut in _CUTS:
        check()
        tied = strict < cut
        if tied.all():
            return None
        within = rows.only(tied)
        # Only unknown values that tied rows speak of are bound by them.
        bound = np.flatnonzero(np.diff(sp.csc_matrix(within.sparse).indptr))
        if k + len(bound) > _MOST_PROJECTED:
            return None
        joined = np.hstack([within.dense, within.sparse[:, bound].toarray()])
        weights = _tying(joined, np.concatenate([x[:k], x[k + bound]]))[:k]
        face = _exposed(model, basis @ weights, used)
        if face is not None:
            return face
    return None


class _Program(NamedTuple):
    """Inequalities in (basis coordinates of v, unknown values); the basis is [D, k]."""

    rows: Rows
    basis: FloatArray


def _program(model: SoftModel, behaviour: Behaviour, used: BoolArray) -> _Program | None:
    """What must not be negative; None if nothing is open, or the program would be too large."""
    steps, d = model.mdp.steps, model.utilities.n_weights
    allowed = np.ones(used.shape, dtype=bool)
    if model.log_reference is not None:
        allowed = np.broadcast_to(~np.isneginf(model.log_reference), used.shape)
    visited: BoolArray = np.asarray(used.any(axis=1))
    reached = (model.states > 0) | visited
    unknown = reached & ~visited
    asked = allowed & reached[:, None] & ~used
    if not (asked & visited[:, None]).any():
        return None
    if model.mdp.horizon is not None and not model.utilities.on_actions:
        # What the last action leads to is never paid; a value that is not known still is at least
        # what is paid in its state.
        asked[-1] &= unknown[-1]
    n_asked, n_unknown = int(asked.sum()), int(unknown.sum())
    too_large = n_asked * d > _MOST_ENTRIES or n_asked * d**2 > _MOST_WORK
    if too_large or n_unknown > _MOST_UNKNOWNS or used.size * d > 16 * _MOST_ENTRIES:
        return None
    place = np.full(unknown.shape, -1)
    place[unknown] = np.arange(n_unknown)
    dense, sparse, equal = [], [], []
    by_action = model.mdp.transition.by_action()
    for t, gains in _advantages(model, behaviour, visited):
        after = place[min(t + 1, steps - 1)]
        if model.mdp.horizon is not None and t + 1 == steps:
            after = np.full_like(after, -1)
        dense.append(-gains[asked[t]])
        sparse.append(_values(by_action, asked[t], place[t], after, n_unknown, model))
        # Of several actions that the behaviour takes, all must be equally good.
        several = used[t] & (used[t].sum(axis=0) > 1)
        equal.append(gains[several])
    basis = _null_space(np.concatenate(equal), d)
    rows = Rows(np.concatenate(dense) @ basis, sp.vstack(sparse, format="csr"))
    size = np.maximum(np.abs(rows.dense).max(axis=1, initial=0.0), _largest(rows.sparse))
    felt = size > _UNFELT
    if not felt.any() or basis.shape[1] == 0:
        return None
    kept = rows.only(felt)
    scale = 1.0 / size[felt]
    return _Program(Rows(kept.dense * scale[:, None], sp.diags(scale) @ kept.sparse), basis)


def _largest(matrix: Any) -> FloatArray:
    """The largest absolute entry of each row of a sparse matrix: [N]."""
    if matrix.shape[1] == 0:
        return np.zeros(matrix.shape[0])
    return np.asarray(abs(matrix).max(axis=1).toarray()).ravel()


def _advantages(
    model: SoftModel, behaviour: Behaviour, visited: BoolArray
) -> Iterator[tuple[int, FloatArray]]:
    """What an action gains on the behaviour by each weight, (t, [A, S, D]), the last t first.

    Unknown values count as 0, after an action and of its state.
    """
    mdp, d = model.mdp, model.utilities.n_weights
    rewards = model.utilities.rewards(np.eye(d))

    def followed(t: int) -> FloatArray:
        weights = behaviour.weights(t, ALL)[..., 0]
        total = weights.sum(axis=0)
        return np.asarray(np.where(visited[t], weights / np.where(total > 0, total, 1.0), 0.0))

    if mdp.horizon is None:
        from goalmeter.tabular.planning import StationarySolver

        policy, now = followed(0), rewards.at(0, ALL)
        shape = (*policy.shape, d)
        paid = np.einsum("as,asd->sd", policy, np.broadcast_to(now, shape))
        # A behaviour never leaves where it goes; elsewhere it takes no action, and W is 0.
        worth = StationarySolver(mdp.transition.under(policy), mdp.discount).solve(paid)
        gains = mdp.discount * mdp.transition.expect_all(worth) + now
        yield 0, np.asarray(gains - worth)
        return
    worth = np.zeros((mdp.n_states, d))
    for t in reversed(range(mdp.steps)):
        gains = mdp.transition.expect_all(worth) + rewards.discount**t * rewards.at(t, ALL)
        worth = np.einsum("as,asd->sd", followed(t), gains)
        gains -= worth
        yield t, gains


def _values(
    by_action: Any,
    asked: BoolArray,
    before: Any,
    after: Any,
    n_unknown: int,
    model: SoftModel,
) -> Any:
    """What unknown values add to the inequalities of one decision: CSR [asked, unknown]."""
    n_states = asked.shape[1]
    action, state = np.nonzero(asked)
    discount = model.mdp.discount if model.mdp.horizon is None else 1.0
    leads = sp.coo_matrix(by_action[action * n_states + state])
    known = after[leads.col] < 0
    row, column = leads.row[~known], after[leads.col[~known]]
    own = np.flatnonzero(before[state] >= 0)
    entries = np.concatenate([-discount * leads.data[~known], np.ones(len(own))])
    rows, columns = np.concatenate([row, own]), np.concatenate([column, before[state[own]]])
    return sp.csr_matrix((entries, (rows, columns)), shape=(len(state), n_unknown))


def _null_space(rows: FloatArray, d: int) -> FloatArray:
    """An orthonormal basis [d, k] of what rows [N, d] send to 0."""
    if not len(rows) or not np.abs(rows).max() > _UNFELT:
        return np.eye(d)
    _, sizes, directions = np.linalg.svd(np.linalg.qr(rows, mode="r"), full_matrices=True)
    rank = int((sizes > _NULL_SHARE * sizes[0]).sum())
    return np.asarray(directions[rank:].T)


def _tying(rows: FloatArray, x: FloatArray) -> FloatArray:
    """The part of x that rows [N, n] send to 0."""
    basis = _null_space(rows, len(x))
    return np.asarray(basis @ (basis.T @ x))
