"""Score decoded maps and positions, and compare a probe with controls on the same scenes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._files import JsonFields
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.representation.probes import protocol
from goalmeter.representation.probes.protocol import Majority, PositionOnly, Reading
from goalmeter.representation.probes.registry import FittedProbe, Probe
from goalmeter.representation.result_rows import JsonRow
from goalmeter.representation.scenes import (
    AGENT,
    CLASSES,
    GOAL,
    OUTSIDE,
    Scenes,
    Split,
    cells_in,
    link_cells,
    mean_over_grids,
    uncertain_cells,
)
from goalmeter.statistics.clusters import Estimate, estimate_of_sums
from goalmeter.statistics.discrimination import graded_area

# The posterior of an object over cells is that of its class, normalised over cells. Distances are
# Manhattan distances. The published measure is the mean distance of all cells classified as the
# object, which reveals positions blurred by oversampling.
#
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents", section 5, and its code.


@dataclass(frozen=True)
class Localisation(JsonRow):
    """Error of the decoded position of an object."""

    label: str  # class of the object
    exact: Estimate  # share of scenes whose most probable cell is the true one
    distance: Estimate  # distance from the most probable cell to the true one
    expected: Estimate  # posterior mean of the distance to the true cell
    classified: Estimate  # cells per scene classified as the object (published)
    blur: Estimate  # mean distance of classified cells from the true one (published)
    missing: Estimate  # share of scenes without a classified cell


def localisation(posterior: FloatArray, scenes: Scenes, label: int) -> Localisation | None:
    """Score the decoded position of an object such as `AGENT`; None if no scene has it."""
    present = (scenes.labels == label).any(axis=(1, 2))
    if not present.any():
        return None
    n, (rows, columns) = int(present.sum()), posterior.shape[1:3]
    labels = scenes.labels[present].reshape(n, -1)
    probability = posterior[present].reshape(n, rows * columns, -1)
    outside = labels == OUTSIDE
    share = np.where(outside, 0.0, probability[..., label])
    share /= np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
    row, column = np.divmod(np.arange(rows * columns), columns)
    truth = (labels == label).argmax(axis=1)
    steps = np.abs(row - row[truth][:, None]) + np.abs(column - column[truth][:, None])
    best = share.argmax(axis=1)
    is_label = (probability.argmax(axis=-1) == label) & ~outside
    counts = is_label.sum(axis=1)
    blur = (is_label * steps).sum(axis=1) / np.maximum(counts, 1)
    farthest = (0.0, float(rows + columns))
    mean = partial(mean_over_grids, grids=scenes.grids[present])
    return Localisation(
        label=CLASSES[label],
        exact=mean(best == truth),
        distance=mean(steps[np.arange(n), best], bounds=farthest),
        expected=mean((share * steps).sum(axis=1), bounds=farthest),
        classified=mean(counts, bounds=(0.0, float(rows * columns))),
        blur=mean(blur, among=counts > 0, bounds=farthest),
        missing=mean(counts == 0),
    )


# Accuracy rewards knowledge of the generator: most cells of a maze are determined by their
# coordinates. So the gain over position alone, in bits per cell, is reported too, and both scores
# are also computed for the cells that are uncertain given their position. For a single class:
#
# accuracy              share of its cells classified correctly
# balanced accuracy     mean of that and the share of other cells not classified as the class
# AUROC                 of the class probability, cells of the class against all others
# gain                  reduction of the log-loss of class membership
#
# For all classes together, balanced accuracy is the mean over the classes that occur, and there is
# no AUROC. Posteriors are mixed with a small probability of every class before logarithms are
# taken, so that one cell costs at most 13 bits.
#
# Intervals refer to this probe, trained on these grids, in new grids of the same kind.

ALL = "all"
CellSets = Mapping[str, BoolArray]
# Probability of each class that is mixed into every posterior.
FLOOR = 1e-4


@dataclass(frozen=True)
class CellScore(JsonRow):
    """Scores of a fitted probe for one class, or for all together, on cells of new grids."""

    cells: str  # name of the set of cells
    label: str  # class, or "all"
    accuracy: Estimate  # share of the class's cells classified correctly
    balanced_accuracy: Estimate  # mean of sensitivity and specificity; n is the number of cells
    auroc: Estimate | None  # None for all classes together
    gain_bits: Estimate  # gain over position alone, in bits per cell


def scores(
    posterior: FloatArray, position: FloatArray, scenes: Scenes, cells: CellSets | None = None
) -> list[CellScore]:
    """Score every class that occurs, and all together, on every set of cells.

    The posteriors of the probe and of position alone have shape [N, rows, columns, 7]; `cells` are
    masks of further sets by name, [N, rows, columns].
    """
    labels = scenes.labels
    out = []
    for name, chosen in {ALL: np.ones(labels.shape, dtype=bool), **(cells or {})}.items():
        counted = chosen & (labels != OUTSIDE)
        # All cells of all states of a grid form one cluster.
        cluster = np.broadcast_to(scenes.grids[:, None, None], labels.shape)[counted]
        if len(cluster):
            cluster = np.unique(cluster, return_inverse=True)[1]
            out += _of_cells(name, posterior[counted], position[counted], labels[counted], cluster)
    return out


def _of_cells(
    name: str, posterior: FloatArray, position: FloatArray, labels: IntArray, cluster: IntArray
) -> list[CellScore]:
    """Score M cells: posteriors [M, 7], labels and clusters [M]."""
    predicted, at, n = posterior.argmax(axis=1), np.arange(len(labels)), int(cluster.max()) + 1
    ours, theirs = ((1.0 - FLOOR * len(CLASSES)) * each + FLOOR for each in (posterior, position))

    def counts(among: BoolArray, right: BoolArray) -> FloatArray:
        """Count the masked cells and the correct ones among them by cluster, [C, 2]."""
        return np.stack([np.bincount(cluster, each, n) for each in (among, among & right)], axis=1)

    def score(
        label: str, among: BoolArray, balanced: Estimate, area: Estimate | None, odds: FloatArray
    ) -> CellScore:
        right = mean_over_grids((predicted == labels)[among], cluster[among])
        gain = mean_over_grids(np.log2(odds), cluster, bounds=None)
        return CellScore(name, label, right, balanced, area, gain)

    # By class: number of its cells, and of those that are classified correctly.
    of_class = {k: counts(labels == k, predicted == k) for k in np.unique(labels).tolist()}
    all_cells = np.ones(len(labels), dtype=bool)
    odds = ours[at, labels] / theirs[at, labels]
    balanced = _mean_of_shares(list(of_class.values()), len(labels))
    out = [score(ALL, all_cells, balanced, None, odds)]
    for k, table in of_class.items():
        own = labels == k
        balanced = _mean_of_shares([table, counts(~own, predicted != k)], len(labels))
        area = graded_area(posterior[:, k], own, cluster)
        odds = np.where(own, ours[:, k] / theirs[:, k], (1.0 - ours[:, k]) / (1.0 - theirs[:, k]))
        out.append(score(CLASSES[k], own, balanced, area, odds))
    return out


def _mean_of_shares(tables: list[FloatArray], n: int) -> Estimate:
    """Return the mean of shares: the first column of each table counts all, the second a part."""

    def statistic(totals: FloatArray) -> FloatArray:
        counts, parts = totals[..., ::2], totals[..., 1::2]
        there = counts > 1e-9  # a class may be absent once a cluster is removed
        shares = np.where(there, parts / np.where(there, counts, 1.0), 0.0)
        return np.asarray(shares.sum(axis=-1) / np.maximum(there.sum(axis=-1), 1))

    return estimate_of_sums(np.concatenate(tables, axis=1), statistic, n=n, bounds=(0.0, 1.0))


# --- Comparison -----------------------------------------------------------------------------------
# Controls of a probe:
#
# position only, majority     probes without activations
# shuffled activations        activations of scenes in other grids; a gain over position alone
#                             indicates leakage
# random weights, ...         the same probe on other activations of the same scenes: information
#                             due to the architecture and the prompt alone
# control task                each grid gets the labels of a random other grid, and the probe is
#                             scored on other scenes of its training grids. Such labels can only be
#                             memorised; selectivity is the gain of the probe minus that of this
#                             control. Early stopping uses the scored scenes, in its favour
#
# Source: Hewitt and Liang, Designing and interpreting probes with control tasks (2019); Belinkov,
# Probing classifiers: promises, shortcomings, and advances (2022).

# Uncertain cells are determined on training grids; links are a property of mazes.
UNCERTAIN, LINKS = "uncertain", "links"
SHUFFLED, CONTROL_TASK = "shuffled activations", "control task"
_TEST_GRIDS = "test grids"


def exchanged(scenes: Scenes, *, seed: int) -> IntArray:
    """Return a permutation that gives each scene one in another grid of its shape."""
    rng = np.random.default_rng(seed)
    out = np.arange(len(scenes))
    for shape in np.unique(scenes.shapes, axis=0):
        where = np.flatnonzero((scenes.shapes == shape).all(axis=1))
        _, grid_of, sizes = np.unique(scenes.grids[where], return_inverse=True, return_counts=True)
        most = int(sizes.max())
        if 2 * most > len(where):
            raise InvalidParameterError(
                f"{most} of {len(where)} scenes of {shape[0]} x {shape[1]} cells are in one grid, "
                f"so not every scene can get one in another grid; use more grids"
            )
        # With grids, and scenes within them, in random order, a rotation by the size of the
        # largest grid moves every scene to another grid.
        order = np.lexsort((rng.random(len(where)), rng.permutation(len(sizes))[grid_of]))
        out[where[order]] = where[np.roll(order, -most)]
    return out


class ControlTask(NamedTuple):
    """Control task, whose labels can only be memorised."""

    scenes: Scenes  # all scenes, each with the map assigned to its grid
    split: Split  # split of the scenes of training grids
    scored: str  # "other states of the same grids", or "the training states" if no grid has two


def control_task(scenes: Scenes, split: Split, *, seed: int) -> ControlTask:
    """Assign the map of another grid to every training grid, and choose scenes to score."""
    rng = np.random.default_rng(seed)
    train = scenes.where(split.train)
    donor = np.arange(len(scenes))
    donor[split.train] = split.train[exchanged(train, seed=seed)]
    fit: list[int] = []
    others: list[int] = []
    # A grid has several shapes only if it also occurs rotated.
    keys = np.column_stack([train.grids, train.shapes])
    for key in np.unique(keys, axis=0):
        same = split.train[(keys == key).all(axis=1)]
        # One scene of the assigned map replaces all scenes of the grid, agent included, so that
        # the scored labels can be memorised in training.
        donor[same] = donor[same[0]]
        shuffled, half = rng.permutation(same).tolist(), (len(same) + 1) // 2
        fit += shuffled[:half]
        others += shuffled[half:]
    assigned = scenes.where(donor)
    relabelled = Scenes(assigned.worlds, assigned.states, scenes.actions, scenes.grids)
    # A shape whose grids have one scene each is scored on training scenes.
    shapes = [world.shape for world in relabelled.worlds]
    known = {shapes[row] for row in others}
    single = [row for row in fit if shapes[row] not in known]
    name = "other states of the same grids"
    if len(single) == len(fit):
        name = "the training states"
    elif single:
        name += ", or else training states"
    scored = np.array(sorted(others + single), dtype=np.int64)
    return ControlTask(relabelled, Split(np.sort(fit), scored, scored), name)


@dataclass(frozen=True)
class ProbeRow(JsonFields):
    """Scores of one fitted probe or control."""

    probe: str  # name of the probe
    control: str | None  # name of the control; None for the probe itself
    parameters: int  # number of parameters fitted to activations
    scores: tuple[CellScore, ...]  # by set of cells and class
    places: tuple[Localisation, ...]  # position errors of agent and goal
    scored: str = _TEST_GRIDS  # description of the scored scenes

    def score(self, cells: str = ALL, label: str = ALL) -> CellScore:
        """Return the score of one class in one set of cells."""
        return {(each.cells, each.label): each for each in self.scores}[cells, label]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Scores of a probe and its controls."""

    rows: tuple[ProbeRow, ...]  # row of the probe, then those of the controls
    fitted: FittedProbe  # fitted probe
    scenes: Scenes  # test scenes
    posterior: FloatArray  # posterior of the probe, [N, rows, columns, 7]
    position: FloatArray  # posterior of position alone, of the same shape
    left_out: Mapping[str, str] = field(default_factory=dict)  # reasons by omitted control

    def row(self, control: str | None = None) -> ProbeRow:
        """Return the row of the probe, or of one of its controls."""
        return {each.control: each for each in self.rows}[control]

    def selectivity(self, cells: str = ALL, label: str = ALL) -> float:
        """Return the gain of the probe minus that of the control task, in bits per cell."""
        both = (self.row(each).score(cells, label) for each in (None, CONTROL_TASK))
        ours, theirs = (score.gain_bits.value for score in both)
        return ours - theirs


def compare(
    probe: Probe,
    reading: Reading,
    split: Split,
    *,
    alternatives: Mapping[str, protocol.Activations] | None = None,
    seed: int = 0,
) -> Comparison:
    """Fit a probe and its controls, and score them all.

    Shuffled activations and the control task exchange scenes between grids. If one grid has more
    than half of the scenes, this is impossible: the control is omitted, and `left_out` has the
    reason.

    `alternatives` are other activations of the same scenes for the same probe, [N, D'] by name,
    such as those of a model with random weights or of the prompt's embeddings.
    """
    reading.check("the reading")
    scored = _Scored(reading, split, seed)
    ours, posterior = _fitted(probe, reading, split, seed)
    rows = [scored.row(probe, None, ours, posterior)]
    # A control is another probe on the same activations, or the same probe on other activations.
    others: dict[str, tuple[Probe, Reading]] = {
        each.name: (each, reading) for each in (PositionOnly(), Majority())
    }
    left_out: dict[str, str] = {}
    try:
        others[SHUFFLED] = (probe, _shuffled_within(reading, split, seed))
    except InvalidParameterError as cause:
        left_out[SHUFFLED] = str(cause)
    for name, activations in (alternatives or {}).items():
        others[name] = (probe, Reading(activations, reading.scenes))
        others[name][1].check(name)
    for name, (kind, source) in others.items():
        rows.append(scored.row(probe, name, *_fitted(kind, source, split, seed)))
    try:
        task = control_task(reading.scenes, split, seed=seed)
    except InvalidParameterError as cause:
        left_out[CONTROL_TASK] = f"in the training part, {cause}"
    else:
        relabelled = Reading(reading.activations, task.scenes)
        known = _Scored(relabelled, task.split, seed, task.scored)
        fits = _fitted(probe, relabelled, task.split, seed)
        rows.append(known.row(probe, CONTROL_TASK, *fits))
    return Comparison(tuple(rows), ours, scored.scenes, posterior, scored.position, left_out)


def by_size(
    probes: Sequence[Probe], reading: Reading, split: Split, *, seed: int = 0
) -> tuple[ProbeRow, ...]:
    """Score probes of several sizes, such as `Bilinear(rank)` by rank, without controls."""
    reading.check("the reading")
    scored = _Scored(reading, split, seed)
    return tuple(scored.row(probe, None, *_fitted(probe, reading, split, seed)) for probe in probes)


def cross_fitted(
    probe: Probe, reading: Reading, splits: Sequence[Split], *, seed: int = 0
) -> FloatArray:
    """Return cross-fitted posteriors of all scenes, [N, rows, columns, 7]; `splits` as `folds`."""
    reading.check("the reading")
    out = protocol.walls_outside(reading.scenes.shapes)
    for part in splits:
        _, posterior = _fitted(probe, reading, part, seed)
        rows, columns = posterior.shape[1:3]
        out[part.test, :rows, :columns] = posterior
    return out


def _fitted(
    probe: Probe, reading: Reading, split: Split, seed: int
) -> tuple[FittedProbe, FloatArray]:
    """Return a fitted probe and its posterior of the test scenes."""
    train, validation, test = map(reading.where, split)
    fit = probe.fit(train, validation, seed=seed)
    return fit, fit.posterior(test.activations, test.scenes.shapes)


class _Scored:
    """Scored scenes, their sets of cells, and the posterior of position alone."""

    def __init__(self, reading: Reading, split: Split, seed: int, name: str = _TEST_GRIDS) -> None:
        self.name, self.scenes = name, reading.scenes.where(split.test)
        self.cells = scored_cells(reading.scenes.where(split.train), self.scenes)
        _, self.position = _fitted(PositionOnly(), reading, split, seed)

    def row(
        self, probe: Probe, control: str | None, fit: FittedProbe, posterior: FloatArray
    ) -> ProbeRow:
        places = (localisation(posterior, self.scenes, label) for label in (AGENT, GOAL))
        return ProbeRow(
            probe.name,
            control,
            fit.parameters,
            tuple(scores(posterior, self.position, self.scenes, self.cells)),
            tuple(place for place in places if place is not None),
            self.name,
        )


def scored_cells(train: Scenes, scenes: Scenes) -> dict[str, BoolArray]:
    """Return masks of scored cells by name, [N, rows, columns], determined on training scenes."""
    links = {world.shape: link_cells(world.shape) for world in scenes.worlds}
    by_name = {UNCERTAIN: uncertain_cells(train), LINKS: links}
    return {name: cells_in(scenes, cells) for name, cells in by_name.items()}


def _shuffled_within(reading: Reading, split: Split, seed: int) -> Reading:
    """Exchange activations between grids of the same part, so that no test row is in training."""
    rows = np.array(reading.activations)
    for name, part in zip(("training", "validation", "test"), split, strict=True):
        activations, scenes = reading.where(part)
        try:
            rows[part] = activations[exchanged(scenes, seed=seed)]
        except InvalidParameterError as cause:
            raise InvalidParameterError(f"in the {name} part, {cause}") from cause
    return Reading(rows, reading.scenes)
