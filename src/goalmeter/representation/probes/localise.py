"""How far from the truth the agent or the goal is read: the error of a place, in steps.

The posterior of an object over cells is what its class has, divided by the sum over cells.
Distances are Manhattan. The published measure is there too: the mean distance of all cells that are
classified as the object, which says that a place is blurred where a class is oversampled; where no
cell is classified so it has no value, and how often that is stands beside it.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 5, and its code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._types import BoolArray, FloatArray
from goalmeter.representation.scenes import CLASSES, OUTSIDE, Scenes
from goalmeter.statistics.clustered import Estimate, estimate


@dataclass(frozen=True)
class Localisation:
    """Where an object is read to be.

    Attributes:
        label: the class.
        exact: share of scenes whose most probable cell is the true one.
        distance: steps from the most probable cell to the true one.
        expected: steps from the true cell, on average over the posterior.
        classified: cells a scene whose most probable class is the object (published).
        blur: mean steps of those cells from the true one, of scenes that have any (published).
        missing: share of scenes that have none.
    """

    label: str
    exact: Estimate
    distance: Estimate
    expected: Estimate
    classified: Estimate
    blur: Estimate
    missing: Estimate

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        names = ("exact", "distance", "expected", "classified", "blur", "missing")
        return {"class": self.label} | {name: getattr(self, name).to_json() for name in names}


def localisation(posterior: FloatArray, scenes: Scenes, label: int) -> Localisation | None:
    """The error of one object, in scenes that have it; None if none has.

    Args:
        posterior: [N, rows, columns, 7].
        scenes: the truth.
        label: its class, such as `AGENT`.
    """
    there = (scenes.labels == label).any(axis=(1, 2))
    if not there.any():
        return None
    n, (rows, columns) = int(there.sum()), posterior.shape[1:3]
    labels = scenes.labels[there].reshape(n, -1)
    seen = posterior[there].reshape(n, rows * columns, -1)
    outside = labels == OUTSIDE
    # A wall outside of the world has no place in the sum, whatever a posterior says of it.
    share = np.where(outside, 0.0, seen[..., label])
    share /= np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
    row, column = np.divmod(np.arange(rows * columns), columns)
    truth = (labels == label).argmax(axis=1)
    steps = np.abs(row - row[truth][:, None]) + np.abs(column - column[truth][:, None])
    best = share.argmax(axis=1)
    called = (seen.argmax(axis=-1) == label) & ~outside
    counts = called.sum(axis=1)
    # Where no cell is called so there is nothing to average; `missing` counts these scenes.
    blur = (called * steps).sum(axis=1) / np.maximum(counts, 1)
    cluster = np.unique(scenes.grids[there], return_inverse=True)[1]
    farthest, cells = float(rows + columns), float(rows * columns)

    def mean(
        values: FloatArray | BoolArray, most: float, among: BoolArray | None = None
    ) -> Estimate:
        kept = np.ones(n, dtype=bool) if among is None else among
        size = int(cluster.max()) + 1
        return estimate(
            np.bincount(cluster[kept], np.asarray(values, dtype=float)[kept], size),
            np.bincount(cluster[kept], minlength=size),
            heaviest=np.bincount(cluster).max(),
            n=int(kept.sum()),
            bounds=(0.0, most),
        )

    return Localisation(
        label=CLASSES[label],
        exact=mean(best == truth, 1.0),
        distance=mean(steps[np.arange(n), best].astype(float), farthest),
        expected=mean((share * steps).sum(axis=1), farthest),
        classified=mean(counts.astype(float), cells),
        blur=mean(blur, farthest, counts > 0),
        missing=mean(counts == 0, 1.0),
    )
