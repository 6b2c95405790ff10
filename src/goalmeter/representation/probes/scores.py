"""Score decoded maps and decoded positions, with confidence intervals clustered by grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.representation.scenes import CLASSES, OUTSIDE, Scenes
from goalmeter.statistics.clusters import Estimate, estimate, estimate_of_sums
from goalmeter.statistics.discrimination import graded_area

# --- Localise -------------------------------------------------------------------------------------
# The posterior of an object over cells is what its class has, divided by the sum over cells.
# Distances are Manhattan. The published measure is there too: the mean distance of all cells that
# are classified as the object, which says that a place is blurred where a class is oversampled;
# where no cell is classified so it has no value, and how often that is stands beside it.
#
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents", section 5, and its code.


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


# --- Scores ---------------------------------------------------------------------------------------
# Accuracy rewards knowing the generator: most cells of a maze are decided by their coordinates. So
# there is the gain over position alone beside it, in bits a cell, and both for the cells that are
# uncertain given their position. Of a class by itself:
#
# - accuracy: the share of its cells that are called it;
# - balanced accuracy: the mean of that and the share of other cells that are not called it;
# - AUROC: of its probability, its cells against all others;
# - gain: in the log-loss of whether a cell is of the class.
#
# Of all classes together, balanced accuracy is the mean over the classes that occur, and there is
# no
# AUROC. Posteriors are mixed with a little of every class before logarithms are taken, so that one
# cell costs at most 13 bits.
#
# An interval refers to this probe, trained on these training grids, in new grids of the same
# kind: test grids are what is drawn. It is not an interval of what the best reader could know,
# nor of what a probe of more training grids would score.

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
