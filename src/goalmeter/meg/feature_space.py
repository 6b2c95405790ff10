"""A preconditioner for classes of features: each seen as what it still adds up to.

With features Phi and the information H of utilities, the information of weights is Phi^T H Phi. In
the values that utilities give rise to H is nearly local (`goalmeter.meg.value_space`), and the
values of features are what is still to be expected of each: with P_pi averaged over decision steps,

    W = (I - g P_pi)^-1 (features, averaged over pi),     Y(s, a) = features(s, a) + g E[W(s')],
    Phi^T H Phi  is nearly  sum over s of Y(s)^T C(s) Y(s),  C(s) = sum_t d_t (diag pi - pi pi^T),

because psi(s, a) is Y(s, a) less its mean over actions. What the last decision leads to is never
paid, so its C(s) meets the features alone. Where the features of a state are alike for all actions,
they drop out. In the infinite problem nothing is nearly. The matrix has an entry for two weights,
no more than the features themselves where there are no more weights than states.

Source: `docs/mathematics.md`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from goalmeter._types import FloatArray
from goalmeter.meg.counted import model_entries
from goalmeter.meg.soft_model import SoftModel
from goalmeter.meg.value_space import (
    Operator,
    Space,
    ValueSpace,
    add_spread,
    blocks_of,
    gathered,
    to_unit,
)

_RIDGE = 1e-13
# Beyond, weights count one by one: forming the matrix would take longer than many products.
_MOST_WEIGHTS = 4000


class FeatureSpace(Space):
    """Preconditioners for the models of one class of features.

    `target` are the visits of the behaviour that is fitted, [T, A or 1, S, 1].
    """

    def __init__(self, model: SoftModel, target: FloatArray) -> None:
        utilities = model.utilities
        super().__init__(model, forms=utilities.n_weights <= _MOST_WEIGHTS)
        # Features may be large where hardly anything goes: what counts is how far they are spread
        # about what the behaviour expects, where the visits are.
        matrix: Any = utilities.matrix
        if sp.issparse(matrix):
            self._squares = matrix.multiply(matrix).tocsr()
        else:
            mean = utilities.collect(target)[:, 0] / target.sum()
            self._squares = (matrix - mean) ** 2
        self._target_spread = np.asarray(self._squares.T @ target.ravel())

    def scale(self, model: SoftModel, visits: FloatArray, wanted: FloatArray) -> FloatArray:
        """How much each weight may be felt by a model, and by the behaviour if any is wanted: [D].

        `visits` are expected features, which do not tell it: see `ValueSpace`.
        """
        spread = np.asarray(self._squares.T @ model_entries(model).ravel())
        return spread + self._target_spread if wanted.any() else spread

    def _formed(
        self, model: SoftModel, visits: FloatArray, damping: FloatArray, states: FloatArray
    ) -> Operator:
        system = self.nearly(model, states)
        system[np.diag_indices_from(system)] += damping
        return by_cholesky(system)

    def nearly(self, model: SoftModel, states: FloatArray) -> FloatArray:
        """Nearly the information of the weights, [D, D]."""
        matrix: Any = model.utilities.matrix
        now = _moments(model, states)
        moves = self._discount * (gathered(now.share) @ self._rows)
        if not model.utilities.on_actions:
            later = self._discount * _summed(moves, matrix)
            felt = self._rows.T @ (blocks_of(now.spread) @ self._rows)
            return np.asarray(later.T @ (felt @ later))
        mean = gathered(now.policy) @ matrix
        felt = matrix + self._discount * (self._rows @ _summed(moves, mean))
        felt = np.asarray(felt)
        # What the last decision leads to is not paid any more.
        last = matrix.T @ (blocks_of(now.ending) @ matrix)
        last = last.toarray() if sp.issparse(last) else last
        return np.asarray(felt.T @ (blocks_of(now.spread) @ felt) + last)


def space_of(model: SoftModel, target: FloatArray) -> Space:
    """The preconditioners for a model's class; `target` as in `FeatureSpace`."""
    return ValueSpace(model) if model.utilities.matrix is None else FeatureSpace(model, target)


class _Moments(NamedTuple):
    """What a model does on average, all decisions but the last together."""

    share: FloatArray  # of the visits of a state, those that take an action and go on: [A, S]
    policy: FloatArray  # of all its visits, those that take an action: [A, S]
    spread: FloatArray  # C: [A, A, S]
    ending: FloatArray  # that of the last decision: [A, A, S]; 0 in the infinite problem


def _moments(model: SoftModel, states: FloatArray) -> _Moments:
    mdp, discount = model.mdp, model.utilities.discount
    uses, visits = np.zeros((mdp.n_actions, mdp.n_states)), np.zeros(mdp.n_states)
    spread = np.zeros((mdp.n_actions, mdp.n_actions, mdp.n_states))
    ending = np.zeros_like(spread)
    followed = np.zeros_like(uses)
    for t in range(mdp.steps):
        policy, weight = model.policy(t), discount**t
        uses += weight * policy * model.states[t]
        visits += weight * model.states[t]
        if t + 1 == mdp.horizon:
            add_spread(ending, policy, weight**2 * states[t])
        else:
            add_spread(spread, policy, weight**2 * states[t])
            followed += weight * policy * model.states[t]
    visits = np.maximum(visits, np.finfo(float).tiny)
    return _Moments(followed / visits, uses / visits, spread, ending)


def _summed(moves: Any, paid: Any) -> FloatArray:
    """All that is paid from each state on, [S, D], where `paid` is so at every visit."""
    from scipy.sparse.linalg import splu

    paid = paid.toarray() if sp.issparse(paid) else paid
    factor = splu(sp.csc_matrix(sp.identity(moves.shape[0]) - moves))
    return np.asarray(factor.solve(np.ascontiguousarray(paid)))


def by_cholesky(system: FloatArray) -> Operator:
    """What solves a positive semi-definite system [D, D], but for a little ridge."""
    from scipy.linalg import cho_factor, cho_solve

    scale = to_unit(system.diagonal())
    scaled = scale[:, None] * system * scale
    ridge = _RIDGE
    while True:
        try:
            factor = cho_factor(scaled + ridge * np.eye(len(scale)))
            break
        except np.linalg.LinAlgError:
            ridge *= 10.0
    return lambda right: np.asarray(scale * cho_solve(factor, scale * right))
