"""What a probe is asked for, and the checks that all of them share.

A probe is fitted to activations of some scenes and stops by others; what it gives is a posterior
over the classes of every cell. Position alone, shuffled activations and every other control are
probes too, or the same probes on other activations, so that nothing is compared across code.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray, IntArray
from goalmeter.representation.scenes import CLASSES, Scenes

# [N, D]: one layer and one position, tokens side by side; any precision.
Activations = npt.NDArray[np.floating[Any]]


class Reading(NamedTuple):
    """Scenes with what the model held in each of them: row i is scene i.

    Attributes:
        activations: [N, D].
        scenes: N of them.
    """

    activations: Activations
    scenes: Scenes

    def where(self, kept: IntArray) -> Reading:
        """Some of the scenes, by number."""
        return Reading(self.activations[kept], self.scenes.where(kept))


class FittedProbe(Protocol):
    """A probe after its fit."""

    @property
    def parameters(self) -> int:
        """How many numbers were fitted to activations; those of position alone do not count."""

    def posterior(self, activations: Activations, shapes: IntArray) -> FloatArray:
        """The probability of each class in each cell, [N, rows, columns, 7] of the largest shape.

        Args:
            activations: of N scenes, [N, D].
            shapes: rows and columns of each scene's world, [N, 2]. Cells outside are walls.
        """


class Probe(Protocol):
    """A way to read maps."""

    @property
    def name(self) -> str:
        """As it stands in tables."""

    def fit(self, train: Reading, validation: Reading, *, seed: int) -> FittedProbe:
        """Fit to some scenes, and stop by others, which lie in other grids.

        Args:
            train: what is fitted.
            validation: what tells when to stop; its shapes are among those of `train`.
            seed: of whatever is drawn at random.
        """


def check_reading(reading: Reading, name: str) -> None:
    """Refuse activations that are no numbers or not one row a scene."""
    rows, scenes = reading.activations, len(reading.scenes)
    if rows.ndim != 2 or len(rows) != scenes or not rows.shape[1]:
        raise InvalidParameterError(
            f"{name} has activations of shape {rows.shape} for {scenes} scenes, expected "
            f"[{scenes}, dimensions]"
        )
    # Half precision overflows in some models, and one bad row would spoil every weight.
    check_finite(rows, name, "leave it out, or read a model that is loaded in float32")


def check_finite(rows: Activations, name: str, mend: str) -> None:
    """Refuse activations that are no finite numbers.

    Args:
        rows: [N, ...].
        name: what they are called in the message.
        mend: what to do about it.
    """
    if not np.isfinite(rows).all():
        finite = np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
        raise InvalidParameterError(
            f"{name} has activations that are no finite numbers, first in row "
            f"{int(np.flatnonzero(~finite)[0])}; {mend}"
        )


def check_width(activations: Activations, width: int) -> None:
    """Refuse activations that another probe was fitted to."""
    if activations.ndim != 2 or activations.shape[1] != width:
        raise InvalidParameterError(
            f"activations have shape {activations.shape}, expected [scenes, {width}], as those "
            f"that the probe was fitted to"
        )


def walls_outside(shapes: IntArray) -> FloatArray:
    """A posterior that is certain of walls everywhere, [N, rows, columns, 7], to be written on."""
    # Outside of its world a cell is a wall: nobody can go there.
    rows, columns = shapes.max(axis=0)
    out = np.zeros((len(shapes), rows, columns, len(CLASSES)))
    out[..., CLASSES.index("wall")] = 1.0
    return out
