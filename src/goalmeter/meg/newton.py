"""Newton systems of a soft model: information . v = gradient, and what information ignores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.soft_model import SoftModel

# The information matrix is formed for up to this many weights, and for more where an exact
# solution is wanted and forming it takes no more than this many multiplications; beyond,
# conjugate gradients use products with it alone.
DIRECT_WEIGHTS = 160
DIRECT_WORK = 4e11
# Eigenvalues below this share of the largest belong to directions that change no policy.
NULL_SHARE = 1e-13
# Nor does a weight matter whose own information is this small: features are counted in visits,
# of which there is one a step, so anything below is a rounded zero.
FLOOR = 1e-20
_CG_STEPS = 400
# Relative residual that is good enough for a step on the way.
_STEP_ACCURACY = 1e-3


class NewtonSystem:
    """Solves with the information of models that share their weights, where it is not null.

    `parts` are models and the weight of each of their states, [T, S], in the information; `exact`
    is whether solutions are wanted to rounding, not just good enough for a step.
    """

    def __init__(
        self, parts: Sequence[tuple[SoftModel, FloatArray]], *, exact: bool = True
    ) -> None:
        self._parts = parts
        self._accuracy = 1e-12 if exact else _STEP_ACCURACY
        d = parts[0][0].utilities.n_weights
        rows = sum(m.mdp.steps * m.mdp.n_actions * m.mdp.n_states for m, _ in parts)
        self._direct = d <= DIRECT_WEIGHTS or (exact and rows * d**2 <= DIRECT_WORK)

    @cached_property
    def _information(self) -> FloatArray:
        return np.asarray(sum(m.information(states) for m, states in self._parts))

    @cached_property
    def _unit(self) -> FloatArray:
        """The unit that each weight is scaled by [D]; 0 for weights that do not matter."""
        # Scaled by their own information, states that are rarely visited count like any other, in
        # the damping and in what is taken for zero.
        if self._direct:
            information = np.diagonal(self._information)
        else:
            information = np.sum([m.feature_squares(states) for m, states in self._parts], axis=0)
        return np.where(information > FLOOR, 1.0 / np.sqrt(np.maximum(information, FLOOR)), 0.0)

    @cached_property
    def _spectrum(self) -> tuple[FloatArray, FloatArray]:
        scaled = self._information * self._unit * self._unit[:, None]
        values, vectors = np.linalg.eigh(scaled)
        keep = values > max(NULL_SHARE * values[-1], FLOOR)
        return values[keep], vectors[:, keep]

    def solve(self, right: FloatArray, *, damping: float = 0.0) -> FloatArray:
        """The vector v [D] with (information + damping) . v = right [D], in scaled weights."""
        target = self._unit * right
        if self._direct:
            values, vectors = self._spectrum
            return np.asarray(self._unit * (vectors @ ((vectors.T @ target) / (values + damping))))
        solution = conjugate_gradients(
            lambda v: self._scaled_product(v) + damping * v, target, self._accuracy
        )
        return np.asarray(self._unit * solution)

    def _scaled_product(self, direction: FloatArray) -> FloatArray:
        scaled = self._unit * direction
        return np.asarray(self._unit * sum(m.curve(scaled, states) for m, states in self._parts))

    def ignored(self, direction: FloatArray) -> FloatArray:
        """The part of a direction [D] along which no policy changes."""
        kept = np.where(self._unit > 0, direction / np.where(self._unit > 0, self._unit, 1.0), 0.0)
        # Twice, because one projection leaves what it rounds away.
        for _ in range(2):
            if self._direct:
                _, vectors = self._spectrum
                kept = kept - vectors @ (vectors.T @ kept)
            else:
                seen = self._scaled_product(kept)
                kept = kept - conjugate_gradients(self._scaled_product, seen, 1e-13)
        return np.where(self._unit > 0, kept * self._unit, direction)


def newton_step(model: SoftModel, gradient: FloatArray) -> tuple[FloatArray, dict[int, FloatArray]]:
    """The exact Newton step of one model [D], and its tangents t -> [A, S, 1]."""
    step = NewtonSystem([(model, model.states)]).solve(gradient)
    return step, dict(model.tangents(step[:, None]))


def conjugate_gradients(
    product: Callable[[FloatArray], FloatArray],
    right: FloatArray,
    accuracy: float,
    precondition: Callable[[FloatArray], FloatArray] | None = None,
    steps: int = _CG_STEPS,
    ended: Callable[[FloatArray, FloatArray], bool] | None = None,
) -> FloatArray:
    """Least-norm solution of a consistent semi-definite system by conjugate gradients.

    `precondition` nearly inverts the system; without it, norms are Euclidean. The accuracy is that
    of the residual, in the norm of the preconditioner; `ended` is asked whether a solution so far
    with its residual will do, arrays that the next step overwrites.
    """
    # SciPy's `cg` has no rule for singular systems: on the null space's doorstep its step is a
    # ratio of two roundings. Here the iteration ends when curvature along it is lost.
    x = np.zeros_like(right)
    residual = right.copy()
    nearly = residual if precondition is None else precondition(residual)
    step = nearly.copy()
    size = float(residual @ nearly)
    goal = accuracy**2 * size
    for _ in range(steps):
        # Asked first, so that it sees the last solution too.
        if ended is not None and ended(x, residual):
            break
        # Not even positive: what is left of the residual is rounding in the preconditioner.
        if size <= goal or size <= 0.0:
            break
        moved = product(step)
        bend = float(step @ moved)
        if bend <= 0.0:
            break
        x += (size / bend) * step
        residual -= (size / bend) * moved
        nearly = residual if precondition is None else precondition(residual)
        fresh = float(residual @ nearly)
        step = nearly + (fresh / size) * step
        size = fresh
    return x
