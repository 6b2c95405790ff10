"""A preconditioner for large classes: utilities seen as the values that they give rise to.

The information of a class is a badly conditioned matrix in the utility, because a utility that is
paid in one state changes what all states before it are worth. In the values W it is nearly local.
For a utility v let W be the expected sum of v under the model's policy pi from each state on, and
suppose that it hardly depended on the decision step. Then v = B W, with the sparse matrix
B = I - g P_pi (g the discount), and the information is a sum of variances of one action each,

    v . (information) v  =  sum_t E_pi[psi psi]  =  W . L W,     L = P^T C P,
    C(s) = sum_t d_t(s) (diag pi_t(s) - pi_t(s) pi_t(s)^T),

so that (information + E)^-1 is nearly B (L + B^T E B)^-1 B^T, E diagonal. In the infinite problem
W does not depend on time, L = g^2 P^T C P, and the formula is exact. With a finite horizon P_pi
is the average over decision steps, each weighted by how often it is in a state, and what follows
the last decision counts as 0.

Utilities over state-action pairs are a sum of two parts. What tells the actions of a state apart
has the information C itself, one small block a state. Payments w(s) - g E[w(s')] add up to what is
paid first and last, so that with a finite horizon little is felt of them, and in the infinite
problem nothing: their information is nearly that of one decision, P^T C P divided by the number of
decisions. The two inverses are added up.

Utilities of time and state have W_t - g P_pi W_(t+1) for B, and one matrix L for each decision:
nothing is averaged, and the formula is exact here too.

Where behaviour is all but certain in a world with chance, all of this is far from it. Classes
of some hundred weights are then solved with the matrix itself.

Source: `docs/mathematics.md`, which derives it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from goalmeter._types import FloatArray
from goalmeter.meg.soft_model import SoftModel
from goalmeter.meg.utility_class import LinearClass
from goalmeter.tabular.mdp import TabularMDP

Operator = Callable[[FloatArray], FloatArray]

# Added to a matrix whose diagonal is 1, so that directions which no policy feels can be divided by.
_RIDGE, _BLOCK_RIDGE = 1e-9, 1e-13
# A smaller entry of a diagonal is a rounded zero.
_LEAST_DIAGONAL = 1e-60
# A factorisation takes about states * bandwidth^2 multiplications at most (in the order of reverse
# Cuthill and McKee, which is worse than the one that is used). Above this many, or where the
# states of a large world are so entangled that the band is a good part of the matrix, diagonals
# do better.
_BAND_WORK = 3e11
_ENTANGLED, _SMALL = 0.25, 1000
# Up to this many weights the information itself is formed where the above does badly: by products
# with so many columns at a time that psi has this many entries.
_DENSE_WEIGHTS, _DENSE_ENTRIES, _NULL_SHARE = 800, 2**22, 1e-14


def can_be_dense(utilities: LinearClass) -> bool:
    """Whether a class is small enough to be solved with its information itself."""
    return utilities.n_weights <= _DENSE_WEIGHTS


class Space(ABC):
    """Preconditioners for the models of one class.

    `forms` is whether the nearly right matrix is formed at all; where it is not, and the
    information itself is not either, weights count one by one.
    """

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
        """What nearly solves (information + damping) v = right.

        Args:
            model: the model whose information is meant.
            visits: expected features of the model, [D], all positive.
            damping: the diagonal that is added, [D].
            states: whose information, [T, S]; default the model's own.
        """
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
        """How much a weight may be felt by a model, and by one that visits what is wanted: [D]."""
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
            potentials = self._potentials(spread / model.mdp.steps, damping)

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

    def _potentials(self, spread: FloatArray, damping: FloatArray) -> Operator:
        """What nearly solves for utilities w(s) - g E[w(s')], of which only the end is felt."""
        pays = _repeated(len(spread), spread.shape[-1]) - self._discount * self._rows
        system = self._rows.T @ (blocks_of(spread) @ self._rows)
        return _factorised(system + pays.T @ sp.diags(damping) @ pays)


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


def _repeated(n_actions: int, n_states: int) -> Any:
    """What takes a number for each state to one for each action and state, [A S, S]."""
    return sp.vstack([sp.identity(n_states, format="csr")] * n_actions, format="csr")


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
