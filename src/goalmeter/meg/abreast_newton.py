"""Newton systems of W worlds at once: the information of each, scaled, and its spectrum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.newton import FLOOR, NULL_SHARE

# What keeps a damped system regular where the information is null; its solutions are steps on the
# way, so they need not be exact.
_REGULAR = 1e-12


def scaled(information: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The unit of each weight [W, D], 0 for those that do not matter, and matrices in these."""
    diagonal = np.diagonal(information, axis1=1, axis2=2)
    matters = diagonal > FLOOR
    unit = np.where(matters, 1.0 / np.sqrt(np.where(matters, diagonal, 1.0)), 0.0)
    return unit, information * unit[:, None, :] * unit[:, :, None]


def damped_steps(
    unit: FloatArray, matrices: FloatArray, right: FloatArray, damping: FloatArray
) -> FloatArray:
    """Steps [W, D] with (matrices + damping) . step = right, in scaled weights."""
    added = np.maximum(damping, _REGULAR)[:, None, None] * np.eye(matrices.shape[1])
    solution = np.linalg.solve(matrices + added, (unit * right)[..., None])[..., 0]
    return np.asarray(unit * solution)


@dataclass(frozen=True)
class Spectrum:
    """W scaled matrices by their eigenvalues and vectors."""

    unit: FloatArray
    inverse: FloatArray  # of the eigenvalues [W, D]; 0 for those that are null
    vectors: FloatArray

    @classmethod
    def of(cls, unit: FloatArray, matrices: FloatArray) -> Spectrum:
        """Of what `scaled` gives."""
        values, vectors = np.linalg.eigh(matrices)
        keep = values > np.maximum(NULL_SHARE * values[:, -1:], FLOOR)
        inverse = np.where(keep, 1.0 / np.where(keep, values, 1.0), 0.0)
        return cls(unit, inverse, vectors)

    def solve(self, right: FloatArray) -> FloatArray:
        """The exact Newton steps [W, D] of right sides [W, D]."""
        target = np.einsum("wdk,wd->wk", self.vectors, self.unit * right)
        return np.asarray(self.unit * np.einsum("wdk,wk->wd", self.vectors, self.inverse * target))

    def ignored(self, directions: FloatArray) -> FloatArray:
        """The parts of directions [W, D] along which no policy changes."""
        matters = self.unit > 0
        kept = np.where(matters, directions / np.where(matters, self.unit, 1.0), 0.0)
        # Twice, because one projection leaves what it rounds away.
        for _ in range(2):
            seen = np.einsum("wdk,wd->wk", self.vectors, kept)
            seen = np.where(self.inverse > 0, seen, 0.0)
            kept = kept - np.einsum("wdk,wk->wd", self.vectors, seen)
        return np.where(matters, kept * self.unit, directions)
