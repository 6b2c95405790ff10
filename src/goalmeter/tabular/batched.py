"""Many worlds of the same shape, planned as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from goalmeter._types import FloatArray
from goalmeter.tabular.backup import SoftProblem, problem
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import plan
from goalmeter.tabular.policies import Rewards, rewards_of, stack_rewards
from goalmeter.tabular.transition import BLOCK_STATES, Transition

# Nothing leads from one world to another, so what is worked out for every state of one world is
# worked out for every state of all. Sums over states are then sums of each world (`Sums`).

# Sums over a block are sums of worlds: enough to make the interpreter's overhead small, few enough
# that a pass stays in cache.
MOST_STATES = BLOCK_STATES


@dataclass(frozen=True)
class Sums:
    """Sums over the states of each of W worlds side by side (B is 1), or of the only world."""

    n_worlds: int = 1

    def total(self, values: FloatArray) -> FloatArray:
        """Sum over states of [n, B]: [B], or [W]."""
        if self.n_worlds == 1:
            return np.asarray(values.sum(axis=0))
        return np.asarray(values.reshape(self.n_worlds, -1).sum(axis=1))

    def dot(self, weights: FloatArray, values: FloatArray) -> FloatArray:
        """Sum over actions and states of weights [A, n, B or 1] * values [A, n, B or 1]."""
        if self.n_worlds == 1:
            if weights.shape != values.shape:
                weights, values = np.broadcast_arrays(weights, values)
            return np.asarray(np.einsum("anb,anb->b", weights, values))
        shape = (len(weights), self.n_worlds, -1)
        return np.asarray(np.einsum("aws,aws->w", weights.reshape(shape), values.reshape(shape)))

    def at_start(self, initial: FloatArray, values: FloatArray) -> FloatArray:
        """What is expected at the first decision, initial [n], of values [n, B]."""
        if self.n_worlds == 1:
            return np.asarray(initial @ values)
        return self.total(initial[:, None] * values)


ONE_WORLD = Sums()


def side_by_side(worlds: Sequence[TabularMDP]) -> TabularMDP:
    """W worlds alike, of S states each, as one of W * S states, without reward."""
    first, initial = worlds[0], np.concatenate([world.initial for world in worlds])
    transition = Transition(_rows(worlds), initial.size, first.n_actions)
    return TabularMDP.branching(transition, initial, horizon=first.horizon, discount=first.discount)


def column(values: FloatArray) -> FloatArray:
    """What each of W worlds has for its states, [..., S, W], for all states: [..., W * S, 1]."""
    return np.ascontiguousarray(values.swapaxes(-1, -2)).reshape(*values.shape[:-2], -1, 1)


def _rows(worlds: Sequence[TabularMDP]) -> sp.csr_matrix:
    """The compressed rows of all worlds, [A * W * S, W * S], action-major."""
    n_worlds, n_states, n_actions = len(worlds), worlds[0].n_states, worlds[0].n_actions
    matrices = [block.matrix for world in worlds for block in world.transition.blocks]
    if isinstance(matrices[0], np.ndarray):
        dense = np.stack(matrices).reshape(n_worlds, n_actions, n_states, n_states)
        rows = sp.csr_matrix(dense.transpose(1, 0, 2, 3).reshape(-1, n_states))
    else:
        order = np.arange(n_worlds * n_actions * n_states)
        order = order.reshape(n_worlds, n_actions, n_states).transpose(1, 0, 2).ravel()
        rows = sp.vstack(matrices, format="csr")[order]
    # Row (action, world, state) counts its successors from the first state of its world.
    offset = np.tile(np.repeat(np.arange(n_worlds) * n_states, n_states), n_actions)
    indices = rows.indices + np.repeat(offset, np.diff(rows.indptr))
    return sp.csr_matrix(
        (rows.data, indices.astype(rows.indices.dtype), rows.indptr),
        shape=(n_actions * n_worlds * n_states, n_worlds * n_states),
    )


def spread_out(task: SoftProblem, n_states: int) -> SoftProblem:
    """The problems of W worlds side by side, of which `task` has each as a column."""
    return task._replace(
        rewards=Rewards(column(task.rewards.array), task.rewards.discount),
        rationality=np.repeat(task.rationality, n_states)[None, :, None],
        tie=np.repeat(task.tie, n_states)[:, None],
    )


def optimal_policies(worlds: Sequence[TabularMDP]) -> list[FloatArray]:
    """`optimal_policy` of each world, in order."""
    return _planned(worlds, np.inf, greedy=True)


def soft_optimal_policies(worlds: Sequence[TabularMDP], rationality: float) -> list[FloatArray]:
    """The soft-optimal policy of each world, in order: [H, S, A], or [S, A] without a horizon."""
    return _planned(worlds, rationality, greedy=False)


def _planned(worlds: Sequence[TabularMDP], rationality: float, *, greedy: bool) -> list[FloatArray]:
    """The policies of worlds, which are planned side by side if they can be."""
    groups: dict[object, list[int]] = {}
    for i, world in enumerate(worlds):
        # The infinite problem is solved by factorising, which gains nothing from neighbours.
        like = (world.n_states, world.n_actions, world.horizon, world.discount)
        groups.setdefault(like if world.horizon is not None else i, []).append(i)
    out: dict[int, FloatArray] = {}
    for members in groups.values():
        room = max(1, MOST_STATES // worlds[members[0]].n_states)
        for start in range(0, len(members), room):
            part = members[start : start + room]
            some = [worlds[i] for i in part]
            rewards, unit = stack_rewards([rewards_of(world) for world in some]).normalised()
            whole = some[0] if len(some) == 1 else side_by_side(some)
            # A rationality beyond a double, in the utility's own unit, is the limit.
            with np.errstate(over="ignore"):
                task = problem(whole, rewards, rationality * unit)
            planned = plan(task if len(some) == 1 else spread_out(task, some[0].n_states))
            # [H, W * S, A], which is split into the policies of the worlds.
            policies = planned.greedy_policy() if greedy else planned.policy()[..., 0]
            if whole.horizon is None:
                out[part[0]] = policies[0] if greedy else policies
                continue
            each = np.split(policies, len(some), axis=1)
            out.update(zip(part, map(np.ascontiguousarray, each), strict=True))
    return [out[i] for i in range(len(worlds))]
