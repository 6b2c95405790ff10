"""Score decoded maps and decoded positions, with confidence intervals clustered by grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.representation.result_rows import JsonRow
from goalmeter.representation.scenes import CLASSES, OUTSIDE, Scenes, mean_over_grids
from goalmeter.statistics.clusters import Estimate, estimate_of_sums
from goalmeter.statistics.discrimination import graded_area

# The posterior of an object over cells is that of its class, divided by the sum over cells.
# Distances are Manhattan. The published measure is included: the mean distance of all cells that
# are classified as the object, which shows that a position is blurred where a class is
# oversampled; where no cell is classified so it has no value, and the share of such scenes is
# given.
#
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents", section 5, and its code.


@dataclass(frozen=True)
class Localisation(JsonRow):
    """Error of the decoded position of an object."""

    label: str  # the class
    exact: Estimate  # share of scenes whose most probable cell is the true one
    distance: Estimate  # steps from the most probable cell to the true one
    expected: Estimate  # steps from the true cell, on average over the posterior
    classified: Estimate  # cells per scene whose most probable class is the object (published)
    # Mean steps of those cells from the true one, of scenes that have any (published).
    blur: Estimate
    missing: Estimate  # share of scenes that have none


def localisation(posterior: FloatArray, scenes: Scenes, label: int) -> Localisation | None:
    """Score the position of an object such as `AGENT`; None if no scene has it."""
    there = (scenes.labels == label).any(axis=(1, 2))
    if not there.any():
        return None
    n, (rows, columns) = int(there.sum()), posterior.shape[1:3]
    labels = scenes.labels[there].reshape(n, -1)
    seen = posterior[there].reshape(n, rows * columns, -1)
    outside = labels == OUTSIDE
    share = np.where(outside, 0.0, seen[..., label])
    share /= np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
    row, column = np.divmod(np.arange(rows * columns), columns)
    truth = (labels == label).argmax(axis=1)
    steps = np.abs(row - row[truth][:, None]) + np.abs(column - column[truth][:, None])
    best = share.argmax(axis=1)
    called = (seen.argmax(axis=-1) == label) & ~outside
    counts = called.sum(axis=1)
    blur = (called * steps).sum(axis=1) / np.maximum(counts, 1)
    farthest = (0.0, float(rows + columns))
    mean = partial(mean_over_grids, grids=scenes.grids[there])
    return Localisation(
        label=CLASSES[label],
        exact=mean(best == truth),
        distance=mean(steps[np.arange(n), best], bounds=farthest),
        expected=mean((share * steps).sum(axis=1), bounds=farthest),
        classified=mean(counts, bounds=(0.0, float(rows * columns))),
        blur=mean(blur, among=counts > 0, bounds=farthest),
        missing=mean(counts == 0),
    )


# Accuracy rewards knowing the generator: most cells of a maze are decided by their coordinates. So
# there is the gain over position alone, in bits per cell, and both for the cells that are uncertain
# given their position. Of a single class:
#
# accuracy              share of its cells that are classified so
# balanced accuracy     mean of that and the share of other cells that are not classified so
# AUROC                 of its probability, its cells against all others
# gain                  in the log-loss of whether a cell is of the class
#
# Of all classes together, balanced accuracy is the mean over the classes that occur, and there is
# no AUROC. Posteriors are mixed with a little of every class before logarithms are taken, so that
# one cell costs at most 13 bits.
#
# An interval refers to this probe, trained on these grids, in new grids of the same kind. It is not
# an interval of what the best reader could know, nor of a probe of more training grids.

ALL = "all"
# Of each class, mixed into every posterior.
FLOOR = 1e-4


@dataclass(frozen=True)
class CellScore(JsonRow):
    """Scores of a fitted probe for one class, or all together, in some cells of new grids."""

    cells: str  # name of the set of cells
    label: str  # the class, or "all"
    accuracy: Estimate  # see above, like the next two
    balanced_accuracy: Estimate  # of n cells
    auroc: Estimate | None  # None for all classes together
    gain_bits: Estimate  # over position alone, per cell


def scores(
    posterior: FloatArray,
    position: FloatArray,
    scenes: Scenes,
    cells: Mapping[str, BoolArray] | None = None,
) -> list[CellScore]:
    """Score every class that occurs, and all together, in every set of cells.

    Posteriors of the probe and of position alone have shape [N, rows, columns, 7], further sets of
    cells [N, rows, columns].
    """
    labels = scenes.labels
    out = []
    for name, chosen in {ALL: np.ones(labels.shape, dtype=bool), **(cells or {})}.items():
        counted = chosen & (labels != OUTSIDE)
        # All cells of all states of a grid are one cluster.
        cluster = np.broadcast_to(scenes.grids[:, None, None], labels.shape)[counted]
        if len(cluster):
            cluster = np.unique(cluster, return_inverse=True)[1]
            out += _of_cells(name, posterior[counted], position[counted], labels[counted], cluster)
    return out


def _of_cells(
    name: str, posterior: FloatArray, position: FloatArray, labels: IntArray, cluster: IntArray
) -> list[CellScore]:
    """Score M cells: posteriors [M, 7], labels and clusters [M]."""
    called, at, n = posterior.argmax(axis=1), np.arange(len(labels)), int(cluster.max()) + 1
    ours, theirs = ((1.0 - FLOOR * len(CLASSES)) * each + FLOOR for each in (posterior, position))

    def counts(among: BoolArray, right: BoolArray) -> FloatArray:
        """Count the cells of a kind in each cluster, and those that are right, [C, 2]."""
        return np.stack([np.bincount(cluster, each, n) for each in (among, among & right)], axis=1)

    def score(
        label: str,
        among: BoolArray,
        tables: list[FloatArray],
        auroc: Estimate | None,
        odds: FloatArray,
    ) -> CellScore:
        right = mean_over_grids((called == labels)[among], cluster[among])
        gain = mean_over_grids(np.log2(odds), cluster, bounds=None)
        return CellScore(name, label, right, _mean_of_shares(tables, len(labels)), auroc, gain)

    # Of each class its cells, and those of them that are classified so.
    of_class = {k: counts(labels == k, called == k) for k in np.unique(labels).tolist()}
    everything = np.ones(len(labels), dtype=bool)
    odds = ours[at, labels] / theirs[at, labels]
    out = [score(ALL, everything, list(of_class.values()), None, odds)]
    for k, table in of_class.items():
        is_it = labels == k
        tables = [table, counts(~is_it, called != k)]
        area = graded_area(posterior[:, k], is_it, cluster)
        odds = np.where(is_it, ours[:, k] / theirs[:, k], (1.0 - ours[:, k]) / (1.0 - theirs[:, k]))
        out.append(score(CLASSES[k], is_it, tables, area, odds))
    return out


def _mean_of_shares(tables: list[FloatArray], n: int) -> Estimate:
    """Return the mean of shares whose counts are the first columns and whose parts the second."""

    def statistic(totals: FloatArray) -> FloatArray:
        counts, parts = totals[..., ::2], totals[..., 1::2]
        there = counts > 1e-9  # without a cluster a class may be gone
        shares = np.where(there, parts / np.where(there, counts, 1.0), 0.0)
        return np.asarray(shares.sum(axis=-1) / np.maximum(there.sum(axis=-1), 1))

    return estimate_of_sums(np.concatenate(tables, axis=1), statistic, n=n, bounds=(0.0, 1.0))
