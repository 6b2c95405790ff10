"""Optima at infinity: the faces of policies that a diverging utility singles out.

Faces are found from a Newton direction, from the states that the behaviour never leaves, or by a
linear program over all utilities under which the behaviour is optimal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from goalmeter._types import BoolArray, FloatArray
from goalmeter.meg.behaviour import Behaviour
from goalmeter.meg.soft_model import ALL, NewtonSystem, SoftModel
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import StationarySolver
from goalmeter.tabular.policies import rewards_of

# The supremum of the evidence may lie at infinity: it is then the best among models confined to the
# actions that are optimal for a diverging direction (facial reduction of the maximum-entropy dual),
# read off a Newton step: far out, a step lowers the log-probability of each action that is dying
# out by about one. A face is accepted only when its direction is proven to leave all its policies
# equally good, and to make every action outside worse.

# A Newton step that lowers the log-probability of an unused action by this much is killing it.
DYING = 0.3
# Relative to the direction's largest entry: ties inside the face, and clear losses outside.
TIE = 1e-8
CLEAR = 1e-5


class Face(NamedTuple):
    """A verified face: its models, and the direction that leads to it."""

    model: SoftModel
    direction: FloatArray


def find_face(
    model: SoftModel, step: FloatArray, psi: dict[int, FloatArray], behaviour: Behaviour
) -> Face | None:
    """The face that a model's Newton step [D] diverges towards, or None if none is proven."""
    # `psi` are the step's tangents, t -> [A, S, 1]; the behaviour must stay inside the face.
    weights = [behaviour.weights(t, ALL)[..., 0] for t in range(model.mdp.steps)]
    allowed, shrinks = survivors(model, psi, weights)
    if not shrinks[0]:
        return None
    confined = model.confined(allowed)
    system = NewtonSystem([(confined, confined.states)])
    for candidate in (step, model.theta):
        direction = system.ignored(candidate)
        scale = float(np.abs(direction).max())
        if not (np.isfinite(scale) and scale > 0):
            continue
        direction = direction / scale
        if exposes(model, confined, direction, allowed, weights)[0]:
            return Face(confined, direction)
    return None


def survivors(
    model: SoftModel, psi: dict[int, FloatArray], weights: Sequence[FloatArray], n_worlds: int = 1
) -> tuple[BoolArray, BoolArray]:
    """Actions [T, A, W * S] that are not dying out, and in which of W worlds some do: [W]."""
    allowed = np.empty((model.mdp.steps, model.mdp.n_actions, model.mdp.n_states), dtype=bool)
    shrinks = np.zeros(n_worlds, dtype=bool)
    for t, used in enumerate(weights):
        policy, unused = model.policy(t), used <= 0
        alive = ~((psi[t][..., 0] < -DYING) & unused)
        # A state where everything dies is not visited any more; leave it as it is.
        alive |= ~alive.any(axis=0)
        dying = ~alive & (policy > 0) & (model.states[t] > 0)
        shrinks |= dying.reshape(len(dying), n_worlds, -1).any(axis=(0, 2))
        # What the behaviour does stays open, however little of it and however sure the model is
        # that it does not: ruling it out would cost everything.
        allowed[t] = (alive & (policy > 0)) | ~unused
        allowed[t] |= ~allowed[t].any(axis=0)
    return allowed, shrinks


def exposes(
    model: SoftModel,
    confined: SoftModel,
    direction: FloatArray,
    allowed: BoolArray,
    weights: Sequence[FloatArray],
    n_worlds: int = 1,
) -> BoolArray:
    """Whether exactly the allowed actions are optimal for a direction, where it matters: [W]."""
    regrets = model.regrets(direction)
    out = np.ones(n_worlds, dtype=bool)
    for t, used in enumerate(weights):
        # It matters where the face goes, and where the behaviour goes: small chances may be too
        # small for the face's own numbers.
        reached = (confined.states[t] > 0) | (used.sum(axis=0) > 0)
        wrong = np.where(allowed[t], regrets[t] > TIE, regrets[t] < CLEAR) & reached
        out &= ~wrong.reshape(len(wrong), n_worlds, -1).any(axis=(0, 2))
    return out


# --- Confinement ----------------------------------------------------------------------------------
# Along the direction that pays -1 for what a behaviour never visits and 0 elsewhere, the policies
# that surely stay inside are equally good, and all others worse: a face. Its actions are found from
# the last decision backwards, or as a greatest fixed point, by comparing zeros.


def staying_inside(mdp: TabularMDP, visits: FloatArray) -> BoolArray | None:
    """Actions that surely lead to what is visited, [T, A, S]; None if any may be taken."""
    # Where a state is not visited, or none of its actions stays inside, all are allowed: no policy
    # that stays inside gets there. `visits` are those expected of a behaviour, [T, A or 1, S].
    visited = visits > 0
    if visited.all():
        return None
    allowed = np.empty((mdp.steps, mdp.n_actions, mdp.n_states), dtype=bool)
    # What the last action of a horizon leads to is never paid.
    inside = np.ones(mdp.n_states, dtype=bool)
    while True:
        after = inside
        for t in reversed(range(mdp.steps)):
            leaves = mdp.transition.expect_all((~inside).astype(np.float64)) > 0
            allowed[t] = ~leaves & visited[min(t, len(visited) - 1)]
            inside = allowed[t].any(axis=0)
        # In the infinite problem ever fewer states are inside, so this ends.
        if mdp.horizon is not None or (inside == after).all():
            break
    allowed |= ~allowed.any(axis=1, keepdims=True)
    # What no policy that stays inside ever gets to, or out of, restricts nothing.
    reached = np.asarray(mdp.initial > 0)
    while True:
        for now in allowed:
            if not now[:, reached].all():
                return allowed
            moved = np.asarray(mdp.transition.push((now & reached).astype(np.float64)) > 0)
            before, reached = reached, (moved | reached if mdp.horizon is None else moved)
        if mdp.horizon is not None or (before == reached).all():
            return None


# --- Separation -----------------------------------------------------------------------------------
# Given rows G, the program
#
#     max over x of  sum min(1, G x)     subject to  G x >= 0
#
# makes as many inequalities strict as can be. An interior-point method (Mehrotra, SIAM Journal on
# Optimization 2, 1992) ends in the middle of all solutions and not in a corner, where rows are zero
# that need not be. What it finds is a suggestion, of which nothing is used unproven.

_ITERATIONS = 400
# The method ends where products of slacks and multipliers are this small, and all residuals too;
# where rounding makes the products so many times the least that was reached; where neither of the
# two is halved in so many iterations; and at this ratio of a multiplier to its slack.
_ACCURATE, _FEASIBLE, _LOST, _IDLE, _LARGEST = 1e-10, 1e-8, 1e2, 40, 1e150
_STEP = 0.995  # of the way to the nearest constraint
# A share of x' x / 2 that is taken off, because x may otherwise grow for ever; and what is added to
# the diagonals of scaled systems, in which rows that cannot be strict weigh ever more.
_RIDGE, _JITTERS = 1e-14, (1e-14, 1e-11, 1e-8)
_CHUNK = 4096  # so many rows are squared at a time


class Rows(NamedTuple):
    """Rows G = [dense, sparse] of a system of inequalities: [N, k] and CSR [N, n]."""

    dense: FloatArray
    sparse: Any

    def times(self, x: FloatArray) -> FloatArray:
        """G x for x [k + n]: [N]."""
        k = self.dense.shape[1]
        return np.asarray(self.dense @ x[:k] + self.sparse @ x[k:])

    def transposed(self, y: FloatArray) -> FloatArray:
        """G' y for y [N]: [k + n]."""
        return np.concatenate([self.dense.T @ y, self.sparse.T @ y])

    def only(self, which: Any) -> Rows:
        """Some of the rows."""
        return Rows(self.dense[which], self.sparse[which])


def strictest(rows: Rows, check: Callable[[], None]) -> FloatArray:
    """An x [k + n] in the middle of those that make the most inequalities strict, nearly."""
    n = rows.dense.shape[0]
    x = np.zeros(sum(part.shape[1] for part in rows))
    # y <= G x and 0 <= y <= 1, as slacks that are positive, with a multiplier each: [3, N].
    y = np.full(n, 0.5)
    slack = np.stack([np.ones(n), 1.0 - y, y])
    multiplier = np.ones((3, n))
    best, least = x, np.inf
    halved, idle = np.array([np.inf, np.inf]), 0
    for _ in range(_ITERATIONS):
        check()
        left = rows.times(x) - slack[2] - slack[0], 1.0 - slack[2] - slack[1]
        dual_y = multiplier[0] + multiplier[1] - multiplier[2] - 1.0
        dual_x = _RIDGE * x - rows.transposed(multiplier[0])
        size = float((slack * multiplier).mean())
        worst = max(np.abs(part).max() for part in (*left, dual_y, dual_x))
        if size < least:
            best, least = x, size
        if (size < _ACCURATE and worst < _FEASIBLE) or not size < _LOST * least:
            break
        now = np.array([size, worst])
        idle = 0 if (now < 0.5 * halved).any() else idle + 1
        halved = np.where(now < 0.5 * halved, now, halved)
        if idle == _IDLE:
            break
        if (slack * _LARGEST < multiplier).any():
            break  # products of such ratios overflow
        step = _newton_step(rows, multiplier / slack, (left, dual_y, dual_x), slack)
        plain = step(-slack * multiplier)
        if plain is None:
            break
        _, to_slack, to_multiplier = plain
        # How far the plain Newton step gets says how much to keep to the middle.
        primal, dual = _longest(slack, to_slack), _longest(multiplier, to_multiplier)
        ahead = (slack + primal * to_slack) * (multiplier + dual * to_multiplier)
        middle = size * (float(ahead.mean()) / size) ** 3
        corrected = step(middle - slack * multiplier - to_slack * to_multiplier)
        if corrected is None:
            break
        to_x, to_slack, to_multiplier = corrected
        primal, dual = _longest(slack, to_slack), _longest(multiplier, to_multiplier)
        x = x + _STEP * primal * to_x
        slack = slack + _STEP * primal * to_slack
        multiplier = multiplier + _STEP * dual * to_multiplier
    return best


def _newton_step(
    rows: Rows, ratio: FloatArray, residuals: Any, slack: FloatArray
) -> Callable[[FloatArray], tuple[FloatArray, FloatArray, FloatArray] | None]:
    """What gives the step that changes slack times multiplier by an aim [3, N], to first order."""
    # The system of one iteration, brought down to x; `ratio` is multiplier / slack. A step is one
    # of x [k + n], of the slacks and of the multipliers [3, N].
    total = ratio.sum(axis=0)
    weight = ratio[0] * (ratio[1] + ratio[2]) / total
    solve = _factorised(rows, weight)
    (short, over), dual_y, dual_x = residuals

    def step(aim: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        if solve is None:
            return None
        wanted = aim / slack
        wanted[0] -= ratio[0] * short
        wanted[1] -= ratio[1] * over
        fixed = (wanted[2] - wanted[0] - wanted[1] - dual_y) / total
        right = rows.transposed(wanted[0] + ratio[0] * fixed) - dual_x
        x = solve(right)
        # Once more for what was left: the systems are as badly scaled as the problem is.
        x = x + solve(right - _RIDGE * x - rows.transposed(weight * rows.times(x)))
        moved = rows.times(x)
        y = fixed + ratio[0] / total * moved
        multiplier = wanted + ratio * np.stack([y - moved, y, -y])
        if not np.isfinite(x).all():
            return None
        return x, np.stack([moved - y + short, over - y, y]), multiplier

    return step


def _longest(at: FloatArray, step: FloatArray) -> float:
    """The part of a step, at most 1, that leaves everything non-negative."""
    falls = step < 0
    return min(1.0, float((-at[falls] / step[falls]).min())) if falls.any() else 1.0


def _factorised(rows: Rows, weight: FloatArray) -> Callable[[FloatArray], FloatArray] | None:
    """What solves (ridge + G' diag(weight) G) x = right; None if it cannot be factorised."""
    from scipy.linalg import cho_factor, cho_solve
    from scipy.sparse.linalg import splu

    dense, sparse = rows
    k, n = dense.shape[1], sparse.shape[1]
    corner = np.zeros((k, k))
    for first in range(0, len(dense), _CHUNK):
        part = dense[first : first + _CHUNK]
        corner += (part * weight[first : first + _CHUNK, None]).T @ part
    corner[np.diag_indices(k)] += _RIDGE
    border, inner = np.zeros((n, k)), None
    if n:
        weighted = sp.diags(weight) @ sparse
        border = np.asarray(weighted.T @ dense)
        block = sp.csc_matrix(sparse.T @ weighted + _RIDGE * sp.identity(n))
        scale = 1.0 / np.sqrt(block.diagonal())
        block = sp.diags(scale) @ block @ sp.diags(scale) + _JITTERS[0] * sp.identity(n)
        factor = splu(sp.csc_matrix(block), diag_pivot_thresh=0.0, options={"SymmetricMode": True})

        def inner(right: FloatArray) -> FloatArray:
            scaled = scale[:, None] * right
            return np.asarray(scale[:, None] * factor.solve(scaled))

        corner -= border.T @ inner(border)
    unit = 1.0 / np.sqrt(np.maximum(corner.diagonal(), _RIDGE))
    for jitter in _JITTERS:
        try:
            triangle = cho_factor(corner * unit * unit[:, None] + jitter * np.eye(k))
            break
        except np.linalg.LinAlgError:
            continue
    else:
        return None

    def solve(right: FloatArray) -> FloatArray:
        if inner is None:
            return np.asarray(unit * cho_solve(triangle, unit * right))
        first, second = right[:k], right[k:, None]
        first = first - border.T @ inner(second)[:, 0]
        x = unit * cho_solve(triangle, unit * first)
        return np.concatenate([x, inner(second - (border @ x)[:, None])[:, 0]])

    return solve


# --- Recession ------------------------------------------------------------------------------------
# The evidence grows for ever along a utility v exactly if the behaviour is optimal for v, and
# somewhere an action has a regret. Which actions can have one is a linear program over v and its
# values W (Ng and Russell 2000), solved in the middle of all solutions:
#
#     W_t(s) - v(s) - E[W_(t+1)(s')]  is  0 for what the behaviour does,  and >= 0 for all else.
#
# Where the behaviour goes, W follows from v alone. v is projected on what ties all that is to be
# tied, and planned for: a face is accepted if the planner's regrets prove it. What one direction
# closes is left out of the program for the next, inside the face.

# A program is worth solving with so many entries, so many multiplications in one of a hundred
# iterations (about a second), and so many unknown values where the behaviour does not go.
_MOST_ENTRIES, _MOST_WORK, _MOST_UNKNOWNS = 2**25, 2e9, 4000
_MOST_PROJECTED = 2500  # ties of up to so many unknowns are projected on
# Relative to a direction's largest entry: what the behaviour gives up at most, and what every
# action outside a face gives up at least.
_TIED, _WORSE = 1e-12, 1e-9
# Rows of the program, scaled to 1, that count as tied in one attempt after another.
_CUTS = (1e-4, 1e-6, 1e-2, 1e-1)
# A row that no utility feels, and singular values that are rounded zeros.
_UNFELT, _NULL_SHARE = 1e-11, 1e-12
_MOST_FACES = 12


def recession_faces(
    model: SoftModel, behaviour: Behaviour, check: Callable[[], None]
) -> Iterator[Face]:
    """The faces at infinity that a behaviour lies in, each inside the one before."""
    used = np.stack([behaviour.weights(t, ALL)[..., 0] > 0 for t in range(model.mdp.steps)])
    # The world's own reward is tried first, if it is a utility of the class.
    array, utilities = rewards_of(model.mdp).array[..., 0], model.utilities
    if utilities.matrix is None and array.shape[1] <= utilities.shape[1]:
        reward = np.broadcast_to(array, utilities.shape).ravel().copy()
        if (face := _exposed(model, reward, used)) is not None:
            yield face
            model = face.model
    for _ in range(_MOST_FACES):
        face = _next_face(model, behaviour, used, check)
        if face is None:
            return
        yield face
        model = face.model


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
    model: SoftModel, behaviour: Behaviour, used: BoolArray, check: Callable[[], None]
) -> Face | None:
    program = _program(model, behaviour, used)
    if program is None:
        return None
    rows, basis = program
    k = basis.shape[1]
    x = strictest(rows, check)
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
        # The part of x that the tied rows send to 0.
        part = np.concatenate([x[:k], x[k + bound]])
        null = _null_space(joined, len(part))
        face = _exposed(model, basis @ (null @ (null.T @ part))[:k], used)
        if face is not None:
            return face
    return None


def _program(
    model: SoftModel, behaviour: Behaviour, used: BoolArray
) -> tuple[Rows, FloatArray] | None:
    """What must not be negative; None if nothing is open, or the program would be too large."""
    # Inequalities in (basis coordinates of v, unknown values); and the basis, [D, k].
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
    discount = model.mdp.discount if model.mdp.horizon is None else 1.0
    for t, gains in _advantages(model, behaviour, visited):
        after = place[min(t + 1, steps - 1)]
        if model.mdp.horizon is not None and t + 1 == steps:
            after = np.full_like(after, -1)
        dense.append(-gains[asked[t]])
        # What unknown values add: those of where an action leads, and of its own state.
        action, state = np.nonzero(asked[t])
        leads = sp.coo_matrix(by_action[action * model.mdp.n_states + state])
        known = after[leads.col] < 0
        own = np.flatnonzero(place[t][state] >= 0)
        entries = np.concatenate([-discount * leads.data[~known], np.ones(len(own))])
        inequality = np.concatenate([leads.row[~known], own])
        value = np.concatenate([after[leads.col[~known]], place[t][state[own]]])
        shape = (len(state), n_unknown)
        sparse.append(sp.csr_matrix((entries, (inequality, value)), shape=shape))
        # Of several actions that the behaviour takes, all must be equally good.
        several = used[t] & (used[t].sum(axis=0) > 1)
        equal.append(gains[several])
    basis = _null_space(np.concatenate(equal), d)
    rows = Rows(np.concatenate(dense) @ basis, sp.vstack(sparse, format="csr"))
    size = np.abs(rows.dense).max(axis=1, initial=0.0)
    if n_unknown:
        size = np.maximum(size, abs(rows.sparse).max(axis=1).toarray().ravel())
    felt = size > _UNFELT
    if not felt.any() or basis.shape[1] == 0:
        return None
    kept = rows.only(felt)
    scale = 1.0 / size[felt]
    return Rows(kept.dense * scale[:, None], sp.diags(scale) @ kept.sparse), basis


def _advantages(
    model: SoftModel, behaviour: Behaviour, visited: BoolArray
) -> Iterator[tuple[int, FloatArray]]:
    """What an action gains on the behaviour by each weight, (t, [A, S, D]), the last t first."""
    # Unknown values count as 0, after an action and of its state.
    mdp, d = model.mdp, model.utilities.n_weights
    rewards = model.utilities.rewards(np.eye(d))

    def followed(t: int) -> FloatArray:
        weights = behaviour.weights(t, ALL)[..., 0]
        total = weights.sum(axis=0)
        return np.asarray(np.where(visited[t], weights / np.where(total > 0, total, 1.0), 0.0))

    if mdp.horizon is None:
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


def _null_space(rows: FloatArray, d: int) -> FloatArray:
    """An orthonormal basis [d, k] of what rows [N, d] send to 0."""
    if not len(rows) or not np.abs(rows).max() > _UNFELT:
        return np.eye(d)
    _, sizes, directions = np.linalg.svd(np.linalg.qr(rows, mode="r"), full_matrices=True)
    rank = int((sizes > _NULL_SHARE * sizes[0]).sum())
    return np.asarray(directions[rank:].T)
