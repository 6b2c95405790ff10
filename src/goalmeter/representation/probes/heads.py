"""What all probes of ours give: scores of places that activations add to those of position alone.

A probe differs from the next only in the function that gives the scores. None of them ever makes a
matrix of (scene, cell) rows by dimensions: activations are met once a scene, cells once a shape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from goalmeter._types import FloatArray, IntArray
from goalmeter.representation.probes.places import Places
from goalmeter.representation.probes.protocol import Activations, check_width, walls_outside
from goalmeter.representation.scenes import Shape

# Scenes that are scored at once, so that memory does not grow with their number.
_CHUNK = 1024

# From scaled activations [n, D] and the number of a shape to scores [n, P + 1, 1 + objects].
Scores = Callable[[FloatArray, int], FloatArray]


@dataclass(frozen=True, eq=False)
class Standard:
    """How activations are brought to one scale: by mean and spread of the training scenes, [D].

    A dimension that does not vary there is left out: its weight would be one of rounding.
    """

    mean: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, activations: Activations) -> Standard:
        """Of the training scenes."""
        mean = activations.mean(axis=0, dtype=np.float64)
        spread = activations.std(axis=0, dtype=np.float64)
        # Relative to the mean: a constant in single precision has a spread of rounding.
        flat = spread <= 1e-7 * np.maximum(np.abs(mean), 1e-30)
        return cls(mean, np.where(flat, 0.0, 1.0 / np.where(flat, 1.0, spread)))

    def __call__(self, activations: Activations) -> FloatArray:
        """Scaled activations, [n, D]."""
        return np.asarray((activations - self.mean) * self.weight)

    def single(self, activations: Activations) -> npt.NDArray[np.float32]:
        """The same in single precision, without a copy in double precision of all of them."""
        out = np.empty(activations.shape, dtype=np.float32)
        for at in range(0, len(out), _CHUNK):
            out[at : at + _CHUNK] = self(activations[at : at + _CHUNK])
        return out


@dataclass(frozen=True, eq=False)
class FittedHeads:
    """A probe of ours after its fit.

    Attributes:
        places: what position alone says.
        standard: how activations are scaled.
        scores: what they add.
        parameters: how many numbers `scores` has.
        slopes: for a linear probe, the derivative of each score by the scaled activations, for
            the number of a shape: [D, P + 1, 1 + objects]. None for a probe that is not linear.
    """

    places: Places
    standard: Standard
    scores: Scores
    parameters: int
    slopes: Callable[[int], FloatArray] | None = None

    def posterior(self, activations: Activations, shapes: IntArray) -> FloatArray:
        """As `FittedProbe.posterior`."""
        check_width(activations, len(self.standard.mean))
        out = walls_outside(shapes)
        for number, where in self.places.groups(shapes):
            rows, columns = self.places.shapes[number]
            for chunk in np.array_split(where, range(_CHUNK, len(where), _CHUNK)):
                scores = self.scores(self.standard(activations[chunk]), number)
                posterior = self.places.classes(number, scores + self.places.offsets[number])
                out[chunk, :rows, :columns] = posterior
        return out

    def wall_directions(self, shape: Shape) -> FloatArray | None:
        """How the log-odds of a wall in each cell change with the activations, [rows, columns, D].

        In units of the activations as they came, so that adding a multiple of a direction to them
        writes a wall. None for a probe that is not linear, and for a shape that it does not know.
        """
        if self.slopes is None or shape not in self.places.shapes:
            return None
        # The last place is nowhere, and the first column that of walls.
        slopes = self.slopes(self.places.shapes.index(shape))[:, :-1, 0]
        return np.asarray((slopes * self.standard.weight[:, None]).T.reshape(*shape, -1))
