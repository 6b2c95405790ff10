"""Preconditioners for large linear classes: in values of utilities, and for features as counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from goalmeter._types import BoolArray, FloatArray
from goalmeter.meg.behaviour import Behaviour, LinearClass
from goalmeter.meg.soft_model import ALL, SoftModel
from goalmeter.tabular.mdp import TabularMDP

# --- Value space ----------------------------------------------------------------------------------
# In the values W = B^-1 v that a utility v gives rise to under the policy pi, B = I - g P_pi, the
# information is nearly local (derived in `docs/notes/mathematics.md`):
#
#     v . (information) v  =  W . L W,     L = P^T C P,
#     C(s) = sum_t d_t(s) (diag pi_t(s) - pi_t(s) pi_t(s)^T),
#
# so (information + E)^-1 is nearly B (L + B^T E B)^-1 B^T, E diagonal; in the infinite problem
# exactly, with g^2 L. With a horizon P_pi is averaged over decisions, and what follows the last one
# counts as 0. Utilities of time and state have one exact L for each decision. For those over state-
# action pairs two inverses are added up: of C itself, for what tells actions apart, and of payments
# w(s) - g E[w(s')], of which only the ends are felt: P^T C P over the number of decisions.

Operator = Callable[[FloatArray], FloatArray]

# Added to a matrix whose diagonal is 1, so that directions which no policy feels can be divided by.
_RIDGE, _BLOCK_RIDGE = 1e-9, 1e-13
_LEAST_DIAGONAL = 1e-60  # a smaller entry is a rounded zero
# A factorisation takes about states * bandwidth^2 multiplications at most. Above this many, or
# where the band is a good part of the matrix of a large world, diagonals do better.
_BAND_WORK = 3e11
_ENTANGLED, _SMALL = 0.25, 1000
# Up to this many weights the information itself is formed where the above does badly: by products
# with so many columns at a time that psi has this many entries.
_DENSE_WEIGHTS, _DENSE_ENTRIES, _NULL_SHARE = 800, 2**22, 1e-14


def can_be_dense(utilities: LinearClass) -> bool:
    """Whether a class is small enough to be solved with its information itself."""
    return utilities.n_weights <= _DENSE_WEIGHTS


class Space(ABC):
    """Preconditioners for the models of one class."""

    # Where `forms` is False and the information itself is not formed, weights count one by one.

    def __init__(self, model: SoftModel, *, forms: bool = True) -> None:
        mdp = model.mdp
        # What a step is worth one step earlier, whichever of the two holds the discount.
        self._discount = mdp.discount if mdp.horizon is None else model.utilities.discount
        self._rows = mdp.transition.by_action()
        self.forms = forms and _has_narrow_band(self._rows, mdp)
        self._dense_allowed = can_be_dense(model.utilities)
        self._dense = False

    def give_up(self) -> bool:
        """Solve densely from now on, if that is possible and was not done yet."""
        changes = self._dense_allowed and not self._dense
        self._dense = self._dense or changes
        return changes

    @abstractmethod
    def scale(self, model: SoftModel, visits: FloatArray, wanted: FloatArray) -> FloatArray:
        """How much a weight may be felt by a model, and by one that visits what is wanted: [D]."""

    def preconditioner(
        self,
        model: SoftModel,
        visits: FloatArray,
        damping: FloatArray,
        states: FloatArray | None = None,
    ) -> Operator:
        """What nearly solves (information + damping) v = right, damping diagonal [D]."""
        # `visits` are expected features of the model, [D], all positive; `states` [T, S] are whose
        # information is meant.
        states = model.states if states is None else states
        if self._dense:
            return _densely(model, damping, states)
        if not self.forms:
            return lambda right: right / (visits + damping)
        return self._formed(model, visits, damping, states)

    @abstractmethod
    def _formed(
        self, model: SoftModel, visits: FloatArray, damping: FloatArray, states: FloatArray
    ) -> Operator:
        """What solves for the nearly right matrix, see `preconditioner`."""


class ValueSpace(Space):
    """Preconditioners for the models of one class, each entry of whose utilities is a weight."""

    def __init__(self, model: SoftModel) -> None:
        super().__init__(model)
        self._on_actions = model.utilities.on_actions
        self._timed = model.utilities.shape[0] > 1

    def scale(self, model: SoftModel, visits: FloatArray, wanted: FloatArray) -> FloatArray:
        """The larger of both visits, as `Space.scale`."""
        return visits + np.maximum(wanted, 0.0)

    def _formed(
        self, model: SoftModel, visits: FloatArray, damping: FloatArray, states: FloatArray
    ) -> Operator:
        if self._timed:
            return self._by_steps(model, damping, states)
        uses, spread = self._moments(model, states)
        if self._on_actions:
            return self._by_pairs(model, uses, spread, damping)
        return self._by_states(uses, spread, visits, damping)

    def _moments(self, model: SoftModel, states: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Uses [A, S] of each action that can matter, and C [A, A, S]."""
        mdp, g = model.mdp, model.utilities.discount
        n_actions = mdp.n_actions
        uses = np.zeros((n_actions, mdp.n_states))
        spread = np.zeros((n_actions, n_actions, mdp.n_states))
        last = mdp.steps if mdp.horizon is None else mdp.steps - 1
        for t in range(mdp.steps if self._on_actions else last):
            policy = model.policy(t)
            if t < last or self._on_actions:
                uses += g**t * policy * model.states[t]
            weight = g ** (2 * t) if self._on_actions else (g ** (t + 1)) ** 2
            add_spread(spread, policy, weight * states[t])
        if mdp.horizon is None and not self._on_actions:
            spread *= mdp.discount**2
        return uses, spread

    def _by_states(
        self, uses: FloatArray, spread: FloatArray, visits: FloatArray, damping: FloatArray
    ) -> Operator:
        # P_pi averaged over decision steps: where a visit leads, [S, S].
        moves = gathered(uses / visits) @ self._rows
        values = (sp.identity(len(visits), format="csr") - self._discount * moves).tocsr()
        system = self._rows.T @ (blocks_of(spread) @ self._rows)
        solve = _factorised(system + values.T @ sp.diags(damping) @ values)
        transposed = values.T.tocsr()
        return lambda right: values @ solve(transposed @ right)

    def _by_pairs(
        self, model: SoftModel, uses: FloatArray, spread: FloatArray, damping: FloatArray
    ) -> Operator:
        push, expect = model.mdp.transition.push, model.mdp.transition.expect_all
        n_actions, _, n_states = spread.shape
        g, added = self._discount, damping.reshape(n_actions, n_states)
        # What is paid alike for all actions is not told apart here: any weight will do for it.
        blocks = spread.transpose(2, 0, 1) + np.zeros((n_states, 1, 1))
        index = np.arange(n_actions)
        alike = blocks[:, index, index].mean(axis=1) + added.mean(axis=0)
        blocks += alike[:, None, None] / n_actions
        blocks[:, index, index] += added.T
        # To a diagonal of 1, because some states are visited a million million times as often.
        scale = to_unit(blocks[:, index, index])
        both = scale[:, :, None] * scale[:, None, :]
        blocks = blocks * both + _BLOCK_RIDGE * np.eye(n_actions)
        inverse = (np.linalg.inv(blocks) * both).transpose(1, 2, 0)
        policy = uses / np.maximum(uses.sum(axis=0), np.finfo(float).tiny)
        potentials = None
        if model.mdp.horizon is not None:
            # Utilities w(s) - g E[w(s')], of which only the end is felt.
            pays = sp.vstack([sp.identity(n_states, format="csr")] * n_actions, format="csr")
            pays = pays - g * self._rows
            system = self._rows.T @ (blocks_of(spread / model.mdp.steps) @ self._rows)
            potentials = _factorised(system + pays.T @ sp.diags(damping) @ pays)

        def solve(right: FloatArray) -> FloatArray:
            paid = right.reshape(n_actions, n_states)
            if potentials is None:
                # Both ways through what has mean 0 under the policy, as psi has.
                out = np.einsum("abs,bs->as", inverse, paid - policy * paid.sum(axis=0))
                return np.asarray(out - (policy * out).sum(axis=0)).ravel()
            w = potentials(paid.sum(axis=0) - g * push(paid))
            out = np.einsum("abs,bs->as", inverse, paid) + w - g * expect(w)
            return np.asarray(out).ravel()

        return solve

    def _by_steps(self, model: SoftModel, damping: FloatArray, states: FloatArray) -> Operator:
        mdp, g = model.mdp, model.utilities.discount
        steps, shape = mdp.steps, (mdp.steps, mdp.n_states)
        added, weight = damping.reshape(shape), g ** np.arange(float(mdp.steps))[:, None]
        solves = [lambda right: right / added[0]]
        for t in range(1, steps):
            spread = np.zeros((mdp.n_actions, mdp.n_actions, mdp.n_states))
            add_spread(spread, model.policy(t - 1), states[t - 1])
            system = self._rows.T @ (blocks_of(spread) @ self._rows)
            solves.append(_factorised(system + sp.diags(added[t] / weight[t] ** 2)))

        def solve(right: FloatArray) -> FloatArray:
            paid = right.reshape(shape) / weight
            values = paid.copy()
            for t in range(1, steps):
                values[t] -= mdp.transition.push(model.policy(t - 1) * paid[t - 1])
            values = np.stack([solves[t](values[t]) for t in range(steps)])
            out = values.copy()
            for t in range(steps - 1):
                expected = mdp.transition.expect_all(values[t + 1])
                out[t] -= (model.policy(t) * expected).sum(axis=0)
            return np.asarray(out / weight).ravel()

        return solve


def gathered(weights: FloatArray) -> Any:
    """What adds up the actions of each state, weighted [A, S]: [S, A S], action-major."""
    entries = np.arange(weights.size)
    place = (entries % weights.shape[1], entries)
    return sp.csr_matrix((weights.ravel(), place), shape=(weights.shape[1], weights.size))


def to_unit(diagonal: FloatArray) -> FloatArray:
    """What scales a matrix from both sides so that its diagonal is 1, rounded zeros aside."""
    return np.asarray(1.0 / np.sqrt(np.maximum(diagonal, _LEAST_DIAGONAL)))


def add_spread(spread: FloatArray, policy: FloatArray, states: FloatArray) -> None:
    """Add `states` [S] times (diag pi - pi pi^T) of a policy [A, S] to blocks [A, A, S]."""
    for a, mass in enumerate(policy * states):
        spread[a, a] += mass
        spread[a] -= mass * policy


def _factorised(system: Any) -> Operator:
    """What solves a sparse positive semi-definite system [n, n], but for a little ridge."""
    from scipy.sparse.linalg import splu

    scale = to_unit(system.diagonal())
    scaled = sp.diags(scale) @ system @ sp.diags(scale) + _RIDGE * sp.identity(len(scale))
    factor = splu(
        sp.csc_matrix(scaled),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return lambda right: np.asarray(scale * factor.solve(scale * right))


def _densely(model: SoftModel, damping: FloatArray, states: FloatArray) -> Operator:
    """What solves (information + damping) v = right to rounding, by the matrix itself."""
    d = len(damping)
    system = np.diag(damping)
    # So many columns at a time that psi, which has an entry for each, stays small.
    entries = model.mdp.steps * model.mdp.n_actions * model.mdp.n_states
    width = max(1, _DENSE_ENTRIES // entries)
    for first in range(0, d, width):
        columns = np.eye(d, min(width, d - first), -first)
        system[:, first : first + width] += model.curves(columns, states)
    scale = to_unit(system.diagonal())
    scaled = scale[:, None] * (0.5 * (system + system.T)) * scale
    values, vectors = np.linalg.eigh(scaled)
    # Below this, an eigenvalue is what rounding made of a smaller one.
    values = np.maximum(values, _NULL_SHARE * values[-1])
    return lambda right: np.asarray(scale * (vectors @ ((vectors.T @ (scale * right)) / values)))


def blocks_of(spread: FloatArray) -> Any:
    """The blocks [A, A, S], one for each state, as one matrix [A S, A S], action-major."""
    n_actions, _, n_states = spread.shape
    index = np.arange(n_actions * n_states).reshape(n_actions, n_states)
    rows = np.broadcast_to(index[:, None], spread.shape)
    columns = np.broadcast_to(index[None, :], spread.shape)
    entries = (spread.ravel(), (rows.ravel(), columns.ravel()))
    return sp.csr_matrix(entries, shape=(index.size, index.size))


def _has_narrow_band(rows: Any, mdp: TabularMDP) -> bool:
    """Whether P^T C P, which joins all that can follow a state, is cheap to factorise."""
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    n = mdp.n_states
    if n <= _SMALL:
        return True
    follows = sum(rows[a * n : (a + 1) * n] for a in range(mdp.n_actions)) + sp.identity(n)
    joined = sp.csr_matrix(follows.T @ follows)
    place = np.empty(n, dtype=np.int64)
    place[reverse_cuthill_mckee(joined, symmetric_mode=True)] = np.arange(n)
    entries = joined.tocoo()
    width = int(np.abs(place[entries.row] - place[entries.col]).max())
    return width <= _ENTANGLED * n and float(n) * width**2 <= _BAND_WORK


# --- Counted --------------------------------------------------------------------------------------
# Every feature is counted from its least value, which changes no policy: expectations are then
# positive, as visits are, and changes of their logarithms make sense (generalised iterative
# scaling, Darroch and Ratcliff 1972). Where a behaviour only ever meets the least value of a
# feature, or the largest, that is a face of its own (`goalmeter.meg.faces`).

_SPARSE = 0.1  # with so small a share of entries that are not 0, products are quicker compressed


def tabular(utilities: LinearClass) -> LinearClass:
    """The class without features where it has a feature for each entry of a utility."""
    if utilities.matrix is None or utilities.matrix.shape[0] != utilities.n_weights:
        return utilities
    # One weight an entry: each feature and each entry is told apart from the rest exactly once.
    apart = utilities.matrix != np.median(utilities.matrix, axis=0)
    if not ((apart.sum(axis=0) == 1).all() and (apart.sum(axis=1) == 1).all()):
        return utilities
    return replace(utilities, matrix=None)


def counted(model: SoftModel) -> SoftModel:
    """The same model, its features counted from their least values; itself without features."""
    matrix: Any = model.utilities.matrix
    if matrix is None or sp.issparse(matrix):
        return model
    matrix = matrix - matrix.min(axis=0)
    if np.count_nonzero(matrix) <= _SPARSE * matrix.size:
        matrix = sp.csr_matrix(matrix)
    return model.restated(replace(model.utilities, matrix=matrix))


def met(utilities: LinearClass, visits: FloatArray) -> tuple[BoolArray, FloatArray]:
    """The entries that a behaviour of some visits may meet, as far as single features tell."""
    # Also the weights [D] of a utility that is at its largest there, and nowhere else.
    if utilities.matrix is None:
        return visits[..., 0] > 0, np.where(visits.ravel() > 0, 0.0, -1.0)
    matrix: Any = utilities.matrix
    matrix = matrix.toarray() if sp.issparse(matrix) else matrix
    seen = matrix[visits.ravel() > 0]
    least, most = matrix.min(axis=0), matrix.max(axis=0)
    lowest, highest = (seen == least).all(axis=0), (seen == most).all(axis=0)
    direction = np.where(least < most, 1.0 * highest - 1.0 * lowest, 0.0)
    inside = (~lowest | (matrix == least)).all(axis=1) & (~highest | (matrix == most)).all(axis=1)
    return inside.reshape(utilities.shape), direction


def features_moved(model: SoftModel, change: FloatArray) -> FloatArray:
    """The change of a model's features [D] whose logarithms are to change by `change` [D]."""
    # Each visit takes the average of what its features ask for, and the sum of all visits is held:
    # policies cannot bring about anything else.
    matrix: Any = model.utilities.matrix
    visits = model_entries(model).ravel()
    total = np.asarray(matrix.sum(axis=1)).ravel()
    moved = np.asarray(matrix @ change) / np.where(total > 0, total, 1.0)
    moved -= float(visits @ moved) / float(visits.sum())
    return np.asarray(matrix.T @ (visits * moved))


def model_entries(model: SoftModel) -> FloatArray:
    """What a model is expected to visit in the entries of its utilities, [T, A or 1, S, 1]."""
    visits = model.utilities.visits(1)
    for t in range(model.mdp.steps):
        model.utilities.tally(visits, t, (model.policy(t) * model.states[t])[..., None])
    return visits


def behaviour_entries(utilities: LinearClass, behaviour: Behaviour) -> FloatArray:
    """What a behaviour is expected to visit in the entries of utilities, [T, A or 1, S, 1]."""
    visits = utilities.visits(1)
    for t in range(behaviour.mdp.steps):
        utilities.tally(visits, t, behaviour.weights(t, ALL))
    return visits


def model_visits(model: SoftModel) -> FloatArray:
    """What a model is expected to visit, in the weights of its class: [D]."""
    return model.utilities.collect(model_entries(model))[:, 0]


# --- Feature space --------------------------------------------------------------------------------
# With features Phi, values W of what is still to be expected of each, and P_pi averaged over steps,
#
#     W = (I - g P_pi)^-1 (features, averaged over pi),     Y(s, a) = features(s, a) + g E[W(s')],
#     information  is nearly  sum over s of Y(s)^T C(s) Y(s),  C(s) = sum_t d_t (diag pi - pi pi^T).
#
# What the last decision leads to is never paid, so its C(s) meets the features alone. Features that
# are alike for all actions of a state drop out. See `docs/notes/mathematics.md`.

_FEATURE_SPACE_RIDGE = 1e-13
# Beyond, weights count one by one: forming the matrix would take longer than many products.
_MOST_WEIGHTS = 4000


class FeatureSpace(Space):
    """Preconditioners for one class of features; `target` are the visits of the behaviour."""

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
        """How much each weight is felt by a model, and by the behaviour if any is wanted: [D]."""
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
        share, policy, spread, ending = _moments(model, states)
        moves = self._discount * (gathered(share) @ self._rows)
        if not model.utilities.on_actions:
            later = self._discount * _summed(moves, matrix)
            felt = self._rows.T @ (blocks_of(spread) @ self._rows)
            return np.asarray(later.T @ (felt @ later))
        mean = gathered(policy) @ matrix
        felt = matrix + self._discount * (self._rows @ _summed(moves, mean))
        felt = np.asarray(felt)
        # What the last decision leads to is not paid any more.
        last = matrix.T @ (blocks_of(ending) @ matrix)
        last = last.toarray() if sp.issparse(last) else last
        return np.asarray(felt.T @ (blocks_of(spread) @ felt) + last)


def space_of(model: SoftModel, target: FloatArray) -> Space:
    """The preconditioners for a model's class; `target` as in `FeatureSpace`."""
    return ValueSpace(model) if model.utilities.matrix is None else FeatureSpace(model, target)


def _moments(
    model: SoftModel, states: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """What a model does on average, all decisions but the last together."""
    # Of the visits of a state, the share that takes an action and goes on [A, S], and that takes it
    # [A, S]; C [A, A, S], and that of the last decision, which is 0 in the infinite problem.
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
    return followed / visits, uses / visits, spread, ending


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
    ridge = _FEATURE_SPACE_RIDGE
    while True:
        try:
            factor = cho_factor(scaled + ridge * np.eye(len(scale)))
            break
        except np.linalg.LinAlgError:
            ridge *= 10.0
    return lambda right: np.asarray(scale * cho_solve(factor, scale * right))
