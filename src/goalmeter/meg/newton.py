"""Newton systems of a soft model: information . v = gradient, and what information ignores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.soft_model import SoftModel

# Up to this many weights the information matrix is formed; beyond, conjugate gradients use
# products with it alone.
DIRECT_WEIGHTS = 160
# Eigenvalues below this share of the largest belong to directions that change no policy.
_NULL_SHARE = 1e-13
# Nor do eigenvalues this small in themselves: features are counted in visits, of which there is
# one a step, so anything below is a rounded zero (a model with nothing left to choose).
_FLOOR = 1e-20
_CG_STEPS = 400


class NewtonSystem:
    """Solves with the information of models that share their weights, where it is not null.

    Args:
        parts: models and the weight of each of their states, [T, S], in the information.
    """

    def __init__(self, parts: Sequence[tuple[SoftModel, FloatArray]]) -> None:
        """Nothing is computed before the first solve."""
        self._parts = parts
        self._direct = parts[0][0].utilities.n_weights <= DIRECT_WEIGHTS

    @cached_property
    def _spectrum(self) -> tuple[FloatArray, FloatArray]:
        values, vectors = np.linalg.eigh(sum(m.information(states) for m, states in self._parts))
        keep = values > max(_NULL_SHARE * values[-1], _FLOOR)
        return values[keep], vectors[:, keep]

    def solve(self, right: FloatArray, *, accuracy: float = 1e-12) -> FloatArray:
        """V [D] with information . v = right [D]; the shortest where many do."""
        if self._direct:
            values, vectors = self._spectrum
            return np.asarray(vectors @ ((vectors.T @ right) / values))
        return conjugate_gradients(self._curve, right, accuracy)

    def _curve(self, direction: FloatArray) -> FloatArray:
        return np.asarray(sum(m.curve(direction, states) for m, states in self._parts))

    def ignored(self, direction: FloatArray) -> FloatArray:
        """The part of a direction [D] along which no policy changes."""
        if self._direct:
            _, vectors = self._spectrum
            kept = direction - vectors @ (vectors.T @ direction)
            return np.asarray(kept - vectors @ (vectors.T @ kept))
        for _ in range(2):
            seen = self._curve(direction)
            direction = direction - conjugate_gradients(self._curve, seen, 1e-13)
        return direction


def conjugate_gradients(
    product: Callable[[FloatArray], FloatArray], right: FloatArray, accuracy: float
) -> FloatArray:
    """Least-norm solution of a consistent semi-definite system by conjugate gradients.

    SciPy's `cg` has no rule for singular systems: on the null space's doorstep its step is a
    ratio of two roundings. Here the iteration ends when curvature along it is lost.
    """
    x = np.zeros_like(right)
    residual = right.copy()
    step = residual.copy()
    size = float(residual @ residual)
    goal = accuracy**2 * size
    for _ in range(_CG_STEPS):
        if size <= goal:
            break
        moved = product(step)
        bend = float(step @ moved)
        if bend <= 0.0:
            break
        x += (size / bend) * step
        residual -= (size / bend) * moved
        fresh = float(residual @ residual)
        step = residual + (fresh / size) * step
        size = fresh
    return x
