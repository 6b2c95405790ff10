"""Many worlds of like shape as one: its states are those of all, and a run begins in each at once.

Nothing leads from one world to another, so whatever is worked out for every state of the one is
worked out for every state of all, at the cost of the interpreter's overhead for one. What is summed
over states is then summed over those of each world (`Sums`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from goalmeter._types import FloatArray
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.transition import BLOCK_STATES, Transition

# Worlds stand side by side as one block of states, so that sums over a block are sums of worlds:
# enough to make the interpreter's overhead small, few enough that a pass stays in cache.
MOST_STATES = BLOCK_STATES


@dataclass(frozen=True)
class Sums:
    """Sums over the states of each of W worlds side by side, or of the only world.

    With several worlds the batch axis of what comes in is 1, and of what comes out W.
    """

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
    """W worlds of S states each as one of W * S states, those of the first world first.

    The worlds have the same numbers of states and actions, horizon and discount. The initial
    distribution of the result adds up to W, and its reward is 0.
    """
    shape = (len(worlds), worlds[0].n_actions, worlds[0].n_states)
    initial = np.concatenate([world.initial for world in worlds])
    transition = Transition(_rows(worlds), initial.size, shape[1])
    first = worlds[0]
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
