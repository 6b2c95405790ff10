"""Linear systems of stationary policies: (I - g P) x = b and its transpose."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from goalmeter._types import FloatArray

# Up to this many states a direct factorisation is quick whatever the sparsity pattern.
DIRECT_STATES = 3_000
_SWEEP_LIMIT = 1_000_000


class StationarySolver:
    """Solves with I - g P for one stationary policy's matrix P [S, S], 0 < g < 1."""

    def __init__(self, matrix: Any, discount: float) -> None:
        """Factorise if the matrix is small; larger ones are solved by iteration."""
        self._matrix = sp.csr_matrix(matrix)
        self._discount = discount
        self._factor: Any = None
        n = self._matrix.shape[0]
        if n <= DIRECT_STATES:
            from scipy.sparse.linalg import splu

            self._factor = splu(sp.csc_matrix(sp.identity(n) - discount * self._matrix))

    def solve(self, right: FloatArray, *, transpose: bool = False) -> FloatArray:
        """X with (I - g P) x = right, or (I - g P)^T x = right; right [S] or [S, k]."""
        if self._factor is not None:
            x = self._factor.solve(right, trans="T" if transpose else "N")
            # One step of refinement: residuals then stay at rounding even for g near 1.
            residual = right - self._apply(x, transpose)
            return np.asarray(x + self._factor.solve(residual, trans="T" if transpose else "N"))
        if right.ndim == 2:
            columns = [self.solve(right[:, i], transpose=transpose) for i in range(right.shape[1])]
            return np.stack(columns, axis=1)
        return self._iterate(right, transpose)

    def _apply(self, x: FloatArray, transpose: bool) -> FloatArray:
        moved = self._matrix.T @ x if transpose else self._matrix @ x
        return np.asarray(x - self._discount * moved)

    def _iterate(self, right: FloatArray, transpose: bool) -> FloatArray:
        """Krylov steps, then plain sweeps, which cannot fail, to a proven error.

        An error of r in the residual is at most r / (1 - g) in the solution (in the largest
        entry, or for the transpose in the sum of entries).
        """
        from scipy.sparse.linalg import LinearOperator, bicgstab

        n = right.shape[0]
        operator = LinearOperator(
            (n, n), matvec=lambda v: self._apply(np.ravel(v), transpose), dtype=np.float64
        )
        x, _ = bicgstab(operator, right, rtol=1e-14, atol=0.0, maxiter=500)
        x = x if np.isfinite(x).all() else np.zeros(n)

        def norm(v: FloatArray) -> float:
            size = np.abs(v)
            return float(size.sum() if transpose else size.max())

        goal = 1e-13 * max(norm(right), np.finfo(float).tiny)
        best = np.inf
        for sweep in range(_SWEEP_LIMIT):
            residual = right - self._apply(x, transpose)
            size = norm(residual)
            # Sweeps shrink the residual by g each; once they no longer do, rounding is reached.
            if size <= goal or (sweep > 10 and size > 0.999999 * best and size <= 1e3 * goal):
                break
            best = min(best, size)
            x = x + residual
        return np.asarray(x)
