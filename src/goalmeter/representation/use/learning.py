"""Directions in the residual stream along which probes tell walls from open cells.

A direction is a unit vector u and a gap: by how much the mean of u · x with a wall lies above the
mean without one. A dose of 1 adds as much as lies between the two means, so it puts an open cell to
where walls are on average. A probe's direction is that of its weights and not of the difference of
the means: what varies besides, and would tell nothing, it leaves alone.

Source: Friedman (1989), Regularized discriminant analysis, for weights between the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._types import BoolArray, FloatArray
from goalmeter.representation.probes.heads import Standard

# Of a ridge regression, for each row of scaled activations; more than predicts best. At dose 2
# penalties of 0.01, 0.1, 0.3, 1 and 3 flipped 0, 2, 15, 26 and 28 of 34 moves of the mouse: weights
# that undo whatever varies besides point to where no activations are. With larger ones the gap, and
# with it a random direction as long, becomes large enough to break answers.
PENALTY = 1.0


@dataclass(frozen=True, eq=False)
class Direction:
    """Where walls lie, seen from open cells.

    Attributes:
        unit: of length 1, [D].
        gap: of the means with and without a wall along it; never negative.
    """

    unit: FloatArray
    gap: float

    def vector(self, dose: float) -> FloatArray:
        """What a dose adds to the residual stream, [D]."""
        return self.unit * (self.gap * dose)

    @classmethod
    def between(cls, difference: FloatArray) -> Direction | None:
        """That of a difference of means, [D]; None if it is none."""
        length = float(np.linalg.norm(difference))
        return cls(difference / length, length) if length > 0 else None


def along(weights: FloatArray, rows: FloatArray, wall: BoolArray) -> Direction | None:
    """The direction of a probe's weights, [D], with the gap that rows show along it.

    Args:
        weights: how the score of a wall changes with the activations, as they came.
        rows: activations, [n, D].
        wall: of which rows there is a wall, [n].

    Returns:
        None if the weights are zero, or if the rows are all of one kind.
    """
    length = float(np.linalg.norm(weights))
    if not length > 0 or wall.all() or not wall.any():
        return None
    unit = weights / length
    gap = float(unit @ (rows[wall].mean(axis=0) - rows[~wall].mean(axis=0)))
    # Weights that see walls on the wrong side have learnt nothing.
    return Direction(unit, gap) if gap > 0 else None


def ridge_directions(rows: FloatArray, wall: BoolArray) -> tuple[Direction | None, ...]:
    """The directions of ridge regressions on whether there is a wall, one for each question.

    Args:
        rows: activations, [n, D].
        wall: whether there is a wall, by question, [n, Q].

    Returns:
        None for a question with one answer only.
    """
    if not len(rows):
        return tuple(None for _ in range(wall.shape[1]))
    standard = Standard.of(rows)
    scaled = standard(rows)
    left, spectrum, right = np.linalg.svd(scaled, full_matrices=False)
    loads = left.T @ (wall - wall.mean(axis=0))
    shrunk = spectrum / (spectrum**2 + PENALTY * len(rows))
    weights: FloatArray = right.T @ (shrunk[:, None] * loads) * standard.weight[:, None]
    return tuple(along(weights[:, q], rows, wall[:, q]) for q in range(wall.shape[1]))
