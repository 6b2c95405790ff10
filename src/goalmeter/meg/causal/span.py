"""Linear classes of utilities in a decision process, in coordinates that choices can tell apart.

Most of what one can add to a utility over targets changes no policy: a constant, a constant for
each value of something out of reach, anything about outcomes that never come about. And what
does change policies may do so on very different scales, where a decision has a small part in a
large world. Both are taken out beforehand: with psi [rows, D] the derivative of the uniform
policy's log-probabilities in the weights, psi = W diag(s) V^T, the class is fitted in the
coordinates s V^T of its weights. Their number is the rank of what the decisions can do, often far
below the number of outcomes.

Large classes are fitted in their own weights: there features are probabilities of outcomes, which
`goalmeter.meg.visit_matching` can count, and what is never met is told by zeros. Only what is shown
of them is projected on the range of V.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.causal.contexts import DecisionProcess
from goalmeter.meg.linear import is_large
from goalmeter.meg.utility_class import LinearClass
from goalmeter.tabular.evaluation import state_occupancy
from goalmeter.tabular.policies import check_policy

# Singular values below this share of the largest are rounding.
_NULL_SHARE = 1e-12
# Multiplications that the singular values of a class may take; larger ones are fitted as they are.
_MAX_WORK = 2e10


@dataclass(frozen=True)
class Span:
    """A linear class with D weights and the K coordinates in which it is fitted."""

    utilities: LinearClass  # the class as it is fitted: in K coordinates, or in its D weights
    # Weights of each coordinate, [D, K], orthonormal where the D weights are fitted themselves;
    # None where nothing is known of what choices can tell apart.
    basis: FloatArray | None
    plain: LinearClass  # the class in its D weights

    def weights(self, fitted: FloatArray) -> FloatArray:
        """The least weights [D] that say what was fitted, [K] or [D]."""
        if self.basis is None:
            return fitted
        coordinates = self.basis.T @ fitted if self.utilities is self.plain else fitted
        return np.asarray(self.basis @ coordinates)

    def shown(self, weights: FloatArray) -> tuple[FloatArray, float]:
        """Weights [D] scaled to -1..1 and the scale; NaN where the decisions have no say."""
        scale = float(np.abs(weights).max(initial=0.0))
        shown = weights / scale if scale > 0 else weights.copy()
        shown[np.abs(shown) < 1e-9] = 0.0
        if self.basis is not None:
            reach = np.abs(self.basis).max(axis=1, initial=0.0)
            shown[reach <= 1e-9 * reach.max(initial=0.0)] = np.nan
        return shown, scale


def linear_in(process: DecisionProcess, features: FloatArray, name: str) -> LinearClass:
    """The class of utilities that are linear in expected features [S, A, D]."""
    s, a, d = features.shape
    matrix = np.ascontiguousarray(features.transpose(1, 0, 2)).reshape(a * s, d)
    return LinearClass((1, a, s), matrix, 1.0, name)


def span_of(process: DecisionProcess, features: FloatArray, name: str) -> Span:
    """The class of utilities that are linear in expected features [S, A, D], made fit to fit."""
    plain = linear_in(process, features, name)
    d = features.shape[-1]
    rows = features.shape[0] * features.shape[1]
    if rows * d * min(rows, d) > _MAX_WORK:
        return Span(plain, None, plain)
    _, sizes, right = np.linalg.svd(_tangents(process, features), full_matrices=False)
    keep = sizes > _NULL_SHARE * max(float(sizes.max(initial=0.0)), 1e-300)
    if is_large(process.mdp, plain):
        return Span(plain, right[keep].T, plain)
    basis = right[keep].T / sizes[keep]
    if not keep.any():
        # Nothing the decisions do makes a difference; one idle coordinate keeps the shapes.
        basis = np.zeros((d, 1))
    fitted = _centred(process, features) @ basis
    # What is exactly alike stays so.
    alike = np.ptp(features, axis=1).max(axis=-1, initial=0.0) == 0.0
    fitted = np.where(alike[:, None, None], fitted[:, :1], fitted)
    return Span(linear_in(process, fitted, name), basis, plain)


def _tangents(process: DecisionProcess, features: FloatArray) -> FloatArray:
    """Derivatives of the uniform policy's log-probabilities in the weights, as weighted rows."""
    # What `SoftModel.tangents` gives for all D directions at once, without forming them.
    mdp = process.mdp
    policy = np.exp(process.log_uniform[0])
    uniform = np.ascontiguousarray(policy.T)
    visits = state_occupancy(mdp, check_policy(mdp, uniform)[..., None])[..., 0]
    paid = features.transpose(1, 0, 2)
    later = np.zeros((mdp.n_states, features.shape[-1]))
    parts = []
    for t in reversed(range(mdp.steps)):
        value = mdp.transition.expect_all(later) + paid
        later = np.einsum("as,asd->sd", policy, value)
        weight = np.sqrt(policy * visits[t])
        used = weight > 0
        parts.append((value - later)[used] * weight[used][:, None])
    return np.concatenate(parts)


def _centred(process: DecisionProcess, features: FloatArray) -> FloatArray:
    """The features less what no choice can change, which small differences would drown in."""
    # What a first decision expects in a context whatever it does is nobody's doing; of later ones
    # only a constant is.
    out = features.copy()
    for d in process.decisions:
        expected = out[d.states, : d.n_actions]
        axes = 1 if d.level == 0 else (0, 1)
        out[d.states] -= expected.mean(axis=axes, keepdims=True)
    return out
