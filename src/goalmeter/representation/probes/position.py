"""Probes that read nothing: position alone, and the most common class.

Position alone is what every probe has to be better than: the generator of a maze decides most cells
by their coordinates. It is the zero of the gain in bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._types import FloatArray, IntArray
from goalmeter.representation.probes.heads import FittedHeads, Standard
from goalmeter.representation.probes.places import Places
from goalmeter.representation.probes.protocol import Activations, Reading, walls_outside
from goalmeter.representation.scenes import CLASSES, OUTSIDE


@dataclass(frozen=True)
class PositionOnly:
    """How often each class is in each cell of a shape, over training scenes."""

    name: str = "position only"

    def fit(self, train: Reading, validation: Reading, *, seed: int) -> FittedHeads:
        """As `Probe.fit`; activations, validation and seed are not looked at."""
        places = Places.of(train.scenes)

        def scores(rows: FloatArray, number: int) -> FloatArray:
            return np.zeros((len(rows), *places.offsets[number].shape))

        # Activations are multiplied by 0, so that any of the right width do.
        width = train.activations.shape[1]
        return FittedHeads(places, Standard(np.zeros(width), np.zeros(width)), scores, 0)


@dataclass(frozen=True)
class Majority:
    """How often each class is in any cell, over training scenes: the same everywhere."""

    name: str = "majority"

    def fit(self, train: Reading, validation: Reading, *, seed: int) -> FittedMajority:
        """As `Probe.fit`; only the labels of the training scenes are looked at."""
        labels = train.scenes.labels
        counts = np.bincount(labels[labels != OUTSIDE], minlength=len(CLASSES))
        return FittedMajority(np.asarray(counts / counts.sum()))


@dataclass(frozen=True, eq=False)
class FittedMajority:
    """The shares of the classes, [7]."""

    shares: FloatArray
    parameters: int = 0

    def posterior(self, activations: Activations, shapes: IntArray) -> FloatArray:
        """As `FittedProbe.posterior`."""
        out = walls_outside(shapes)
        for scene, (rows, columns) in enumerate(shapes):
            out[scene, :rows, :columns] = self.shares
        return out
