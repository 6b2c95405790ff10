"""How well a posterior reads maps, with intervals by grid, against position alone.

Accuracy rewards knowing the generator: most cells of a maze are decided by their coordinates. So
there is the gain over position alone beside it, in bits a cell, and both for the cells that are
uncertain given their position. Of a class by itself:

- accuracy: the share of its cells that are called it;
- balanced accuracy: the mean of that and the share of other cells that are not called it;
- AUROC: of its probability, its cells against all others;
- gain: in the log-loss of whether a cell is of the class.

Of all classes together, balanced accuracy is the mean over the classes that occur, and there is no
AUROC. Posteriors are mixed with a little of every class before logarithms are taken, so that one
cell costs at most 13 bits.

An interval refers to this probe, trained on these training grids, in new grids of the same kind:
test grids are what is drawn. It is not an interval of what the best reader could know, nor of what
a probe of more training grids would score.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.representation.scenes import CLASSES, OUTSIDE, Scenes
from goalmeter.statistics.clustered import Estimate, estimate, estimate_of_sums
from goalmeter.statistics.discrimination import graded_area

UNIT = (0.0, 1.0)
ALL = "all"
# Of each class, mixed into every posterior.
FLOOR = 1e-4


@dataclass(frozen=True)
class Score:
    """How well a fitted probe reads one class, or all together, in some cells of new grids.

    Attributes:
        cells: which cells, by name.
        label: the class, or "all".
        accuracy: see above, like the next two.
        balanced_accuracy: of n cells.
        auroc: None for all classes together.
        gain_bits: over position alone, a cell.
    """

    cells: str
    label: str
    accuracy: Estimate
    balanced_accuracy: Estimate
    auroc: Estimate | None
    gain_bits: Estimate

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "cells": self.cells,
            "class": self.label,
            "accuracy": self.accuracy.to_json(),
            "balanced_accuracy": self.balanced_accuracy.to_json(),
            "auroc": self.auroc and self.auroc.to_json(),
            "gain_bits": self.gain_bits.to_json(),
        }


def scores(
    posterior: FloatArray,
    position: FloatArray,
    scenes: Scenes,
    cells: Mapping[str, BoolArray] | None = None,
) -> list[Score]:
    """Every class that occurs, and all together, in every set of cells.

    Args:
        posterior: of a probe, [N, rows, columns, 7].
        position: of position alone, the same shape.
        scenes: the truth.
        cells: further sets of cells by name, [N, rows, columns] each, beside all of them.
    """
    labels = scenes.labels
    for name, array in (("the posterior", posterior), ("that of position alone", position)):
        if array.shape != (*labels.shape, len(CLASSES)):
            raise InvalidParameterError(
                f"{name} has shape {array.shape}, expected {(*labels.shape, len(CLASSES))}, as "
                f"these scenes have"
            )
    out = []
    for name, chosen in {ALL: np.ones(labels.shape, dtype=bool), **(cells or {})}.items():
        kept = chosen & (labels != OUTSIDE)
        # All cells of all states of a grid are one cluster.
        cluster = np.broadcast_to(scenes.grids[:, None, None], labels.shape)[kept]
        if len(cluster):
            cluster = np.unique(cluster, return_inverse=True)[1]
            out += _of_cells(name, posterior[kept], position[kept], labels[kept], cluster)
    return out


def _of_cells(
    name: str, posterior: FloatArray, position: FloatArray, labels: IntArray, cluster: IntArray
) -> list[Score]:
    """Of M cells: posteriors [M, 7], labels and clusters [M]."""
    called = posterior.argmax(axis=1)
    ours, theirs = _mixed(posterior), _mixed(position)
    occurring = np.unique(labels)
    at = np.arange(len(labels))
    # Of each class its cells, and those of them that are called it.
    tables = [
        _sums(cluster, labels == k, (labels == k) & (called == k)) for k in occurring.tolist()
    ]
    out = [
        Score(
            name,
            ALL,
            _share(cluster, called == labels),
            _mean_of_shares(np.concatenate(tables, axis=1), len(labels)),
            None,
            _mean(cluster, np.log2(ours[at, labels] / theirs[at, labels])),
        )
    ]
    for k, table in zip(occurring.tolist(), tables, strict=True):
        is_it, called_it = labels == k, called == k
        # Spared: cells of other classes that are not called it.
        others = _sums(cluster, ~is_it, ~is_it & ~called_it)
        gain = np.where(
            is_it,
            np.log2(ours[:, k] / theirs[:, k]),
            np.log2((1.0 - ours[:, k]) / (1.0 - theirs[:, k])),
        )
        out.append(
            Score(
                name,
                CLASSES[k],
                _share(cluster[is_it], called_it[is_it]),
                _mean_of_shares(np.concatenate([table, others], axis=1), len(labels)),
                graded_area(posterior[:, k], is_it, cluster),
                _mean(cluster, gain),
            )
        )
    return out


def _mixed(posterior: FloatArray) -> FloatArray:
    return np.asarray((1.0 - FLOOR * len(CLASSES)) * posterior + FLOOR)


def _sums(cluster: IntArray, *columns: BoolArray) -> FloatArray:
    """How many are true in each cluster, [C, columns]."""
    n = int(cluster.max()) + 1
    return np.stack([np.bincount(cluster, column, n) for column in columns], axis=1)


def _share(cluster: IntArray, right: BoolArray) -> Estimate:
    counts = np.bincount(cluster)
    # How many cells a grid has is set before anything is read.
    return estimate(
        np.bincount(cluster, right), counts, heaviest=counts.max(), n=len(cluster), bounds=UNIT
    )


def _mean(cluster: IntArray, values: FloatArray) -> Estimate:
    return estimate(np.bincount(cluster, values), np.bincount(cluster), n=len(cluster))


def _mean_of_shares(table: FloatArray, n: int) -> Estimate:
    """The mean of shares whose counts are the even columns and whose parts are the odd ones."""

    def statistic(totals: FloatArray) -> FloatArray:
        counts, parts = totals[..., ::2], totals[..., 1::2]
        there = counts > 1e-9  # without a cluster a class may be gone
        shares = np.where(there, parts / np.where(there, counts, 1.0), 0.0)
        return np.asarray(shares.sum(axis=-1) / np.maximum(there.sum(axis=-1), 1))

    return estimate_of_sums(table, statistic, n=n, bounds=UNIT)
