"""Linear systems of stationary policies: (I - g P) x = b and its transpose."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from goalmeter._types import FloatArray

# Up to this many states a direct factorisation is quick whatever the sparsity pattern.
DIRECT_STATES = 3_000
_RESTARTS = 20
_SWEEP_LIMIT = 100_000


class StationarySolver:
    """Solves with I - g P for one stationary policy's matrix P [S, S], 0 < g < 1."""

    def __init__(self, matrix: Any, discount: float) -> None:
        """Factorise if the matrix is small; larger ones are solved by iteration."""
        self._matrix = sp.csr_matrix(matrix)
        self._discount = discount
        self._factor: Any = None
        n = self._matrix.shape[0]
        if n <= DIRECT_STATES:
            self._factorise()

    def solve(self, right: FloatArray, *, transpose: bool = False) -> FloatArray:
        """The x with (I - g P) x = right, or (I - g P)^T x = right; right [S] or [S, k]."""
        if self._factor is not None:
            x = self._factor.solve(right, trans="T" if transpose else "N")
            # One step of refinement: residuals then stay at rounding even for g near 1.
            residual = right - self._apply(x, transpose)
            return np.asarray(x + self._factor.solve(residual, trans="T" if transpose else "N"))
        if right.ndim == 2:
            columns = [self.solve(right[:, i], transpose=transpose) for i in range(right.shape[1])]
            return np.stack(columns, axis=1)
        return self._iterate(right, transpose)

    def _factorise(self) -> None:
        from scipy.sparse.linalg import splu

        n = self._matrix.shape[0]
        self._factor = splu(sp.csc_matrix(sp.identity(n) - self._discount * self._matrix))

    def _apply(self, x: FloatArray, transpose: bool) -> FloatArray:
        moved = self._matrix.T @ x if transpose else self._matrix @ x
        return np.asarray(x - self._discount * moved)

    def _iterate(self, right: FloatArray, transpose: bool) -> FloatArray:
        """Krylov steps, then plain sweeps or a factorisation, to a proven error.

        An error of r in the residual is at most r / (1 - g) in the solution (in the largest
        entry, or for the transpose in the sum of entries).
        """
        from scipy.sparse.linalg import LinearOperator, bicgstab

        def size(v: FloatArray) -> float:
            return float(np.abs(v).sum() if transpose else np.abs(v).max())

        def done(x: FloatArray, residual: FloatArray) -> bool:
            # The second term is what rounding leaves in the residual of the best solution.
            return size(residual) <= max(1e-13 * size(right), 4 * np.finfo(float).eps * size(x))

        n = right.shape[0]
        operator = LinearOperator(
            (n, n), matvec=lambda v: self._apply(np.ravel(v), transpose), dtype=np.float64
        )
        x, residual = np.zeros(n), right
        for _ in range(_RESTARTS):
            if done(x, residual):
                return x
            step, _ = bicgstab(operator, residual, rtol=1e-8, atol=0.0, maxiter=500)
            after = residual - self._apply(step, transpose)
            if not size(after) <= size(residual) / 2:  # also where it is NaN
                break
            x = x + step
            residual = right - self._apply(x, transpose)

        # Each sweep shrinks the residual by g.
        sweeps = int(np.log(1e-16) / np.log(self._discount)) + 1
        if sweeps <= _SWEEP_LIMIT:
            for _ in range(sweeps):
                if done(x, residual):
                    break
                x = x + residual
                residual = right - self._apply(x, transpose)
            return x
        # Krylov steps fail in long corridors, whose factors are sparse.
        self._factorise()
        return self.solve(right, transpose=transpose)
