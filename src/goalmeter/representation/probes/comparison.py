"""Score decoded maps and positions, and compare a probe with its controls on the same scenes."""

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

# The posterior of an object over cells is that of its class, divided by the sum over cells.
# Distances are Manhattan. The published measure is the mean distance of all cells that are
# classified as the object, which shows that a position is blurred where a class is oversampled.
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
    blur: Estimate  # mean steps of those cells from the true one, if any (published)
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
# An interval refers to this probe, trained on these grids, in new grids of the same kind.

ALL = "all"
CellSets = Mapping[str, BoolArray]
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
    posterior: FloatArray, position: FloatArray, scenes: Scenes, cells: CellSets | None = None
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
        label: str, among: BoolArray, balanced: Estimate, area: Estimate | None, odds: FloatArray
    ) -> CellScore:
        right = mean_over_grids((called == labels)[among], cluster[among])
        gain = mean_over_grids(np.log2(odds), cluster, bounds=None)
        return CellScore(name, label, right, balanced, area, gain)

    # Of each class its cells, and those of them that are classified so.
    of_class = {k: counts(labels == k, called == k) for k in np.unique(labels).tolist()}
    everything = np.ones(len(labels), dtype=bool)
    odds = ours[at, labels] / theirs[at, labels]
    balanced = _mean_of_shares(list(of_class.values()), len(labels))
    out = [score(ALL, everything, balanced, None, odds)]
    for k, table in of_class.items():
        is_it = labels == k
        balanced = _mean_of_shares([table, counts(~is_it, called != k)], len(labels))
        area = graded_area(posterior[:, k], is_it, cluster)
        odds = np.where(is_it, ours[:, k] / theirs[:, k], (1.0 - ours[:, k]) / (1.0 - theirs[:, k]))
        out.append(score(CLASSES[k], is_it, balanced, area, odds))
    return out


def _mean_of_shares(tables: list[FloatArray], n: int) -> Estimate:
    """Return the mean of shares whose counts are the first columns and whose parts the second."""

    def statistic(totals: FloatArray) -> FloatArray:
        counts, parts = totals[..., ::2], totals[..., 1::2]
        there = counts > 1e-9  # without a cluster a class may be gone
        shares = np.where(there, parts / np.where(there, counts, 1.0), 0.0)
        return np.asarray(shares.sum(axis=-1) / np.maximum(there.sum(axis=-1), 1))

    return estimate_of_sums(np.concatenate(tables, axis=1), statistic, n=n, bounds=(0.0, 1.0))


# --- Comparison -----------------------------------------------------------------------------------
# Controls of a probe:
#
# position only, majority     probes without activations
# shuffled activations        those of scenes in other grids. A gain over position alone is a leak
# random weights, ...         the same probe on other activations of the same scenes: what the
#                             architecture and the words of the prompt give by themselves
# control task                each grid has the labels of another one, drawn once, and the probe is
#                             scored on other scenes of its training grids. Such labels can only be
#                             memorised; a probe's selectivity is its gain less this one. The fit
#                             stops by the scored scenes, which favours the control
#
# Source: Hewitt and Liang, Designing and interpreting probes with control tasks (2019); Belinkov,
# Probing classifiers: promises, shortcomings, and advances (2022).

# Uncertain cells are counted in training grids, links are a property of mazes.
UNCERTAIN, LINKS = "uncertain", "links"
SHUFFLED, CONTROL_TASK = "shuffled activations", "control task"
_TEST_GRIDS = "test grids"


def exchanged(scenes: Scenes, *, seed: int) -> IntArray:
    """Return for each scene the number of a scene in another grid of its shape: a permutation."""
    rng = np.random.default_rng(seed)
    out = np.arange(len(scenes))
    for shape in np.unique(scenes.shapes, axis=0):
        where = np.flatnonzero((scenes.shapes == shape).all(axis=1))
        _, which, sizes = np.unique(scenes.grids[where], return_inverse=True, return_counts=True)
        most = int(sizes.max())
        if 2 * most > len(where):
            raise InvalidParameterError(
                f"of {len(where)} scenes of {shape[0]} x {shape[1]} cells, {most} are in one grid, "
                f"so not every scene has one in another grid; walk through more grids"
            )
        # Grids in a random order, and within them scenes: then a rotation by the size of the
        # largest grid leaves no scene in its own.
        order = np.lexsort((rng.random(len(where)), rng.permutation(len(sizes))[which]))
        out[where[order]] = where[np.roll(order, -most)]
    return out


class ControlTask(NamedTuple):
    """Labels that can only be memorised."""

    scenes: Scenes  # all of them, each with the map assigned to its grid
    split: Split  # of the scenes of training grids only
    scored: str  # "other states of the same grids", or "the training states" where no grid has two


def control_task(scenes: Scenes, split: Split, *, seed: int) -> ControlTask:
    """Assign to every training grid the map of another, and choose scenes to score."""
    rng = np.random.default_rng(seed)
    train = scenes.where(split.train)
    donor = np.arange(len(scenes))
    donor[split.train] = split.train[exchanged(train, seed=seed)]
    fit: list[int] = []
    others: list[int] = []
    # One grid has several shapes only if it is also turned on its side.
    keys = np.column_stack([train.grids, train.shapes])
    for key in np.unique(keys, axis=0):
        same = split.train[(keys == key).all(axis=1)]
        # One scene of the assigned map replaces all scenes of the grid, agent included, so that
        # what is scored can be memorised in training.
        donor[same] = donor[same[0]]
        dealt, half = rng.permutation(same).tolist(), (len(same) + 1) // 2
        fit += dealt[:half]
        others += dealt[half:]
    assigned = scenes.where(donor)
    relabelled = Scenes(assigned.worlds, assigned.states, scenes.actions, scenes.grids)
    # A shape whose grids have one scene each is scored on its training scenes.
    shapes = [world.shape for world in relabelled.worlds]
    known = {shapes[row] for row in others}
    alone = [row for row in fit if shapes[row] not in known]
    what = "other states of the same grids"
    if len(alone) == len(fit):
        what = "the training states"
    elif alone:
        what += ", or else training states"
    scored = np.array(sorted(others + alone), dtype=np.int64)
    return ControlTask(relabelled, Split(np.sort(fit), scored, scored), what)


@dataclass(frozen=True)
class ProbeRow(JsonFields):
    """Scores of one fit."""

    probe: str  # name of the probe
    control: str | None  # None for the probe itself, else the name of the control
    parameters: int  # number of parameters fitted to activations
    scores: tuple[CellScore, ...]  # by cells and class
    places: tuple[Localisation, ...]  # errors of agent and goal
    scored: str = _TEST_GRIDS  # scored scenes

    def score(self, cells: str = ALL, label: str = ALL) -> CellScore:
        """Return the score of one class in one set of cells."""
        return {(each.cells, each.label): each for each in self.scores}[cells, label]


@dataclass(frozen=True, eq=False)
class Comparison:
    """A probe with its controls."""

    rows: tuple[ProbeRow, ...]  # the probe first
    fitted: FittedProbe  # the probe after its fit
    scenes: Scenes  # the test scenes
    posterior: FloatArray  # of the probe, [N, rows, columns, 7]
    position: FloatArray  # posterior of position alone
    left_out: Mapping[str, str] = field(default_factory=dict)  # reasons by control

    def row(self, control: str | None = None) -> ProbeRow:
        """Return the row of the probe, or of one of its controls."""
        return {each.control: each for each in self.rows}[control]

    def selectivity(self, cells: str = ALL, label: str = ALL) -> float:
        """Return the gain of the probe less that of the control task, in bits per cell."""
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

    Shuffled activations and the control task are exchanged between grids. Where one grid has more
    than half of the scenes this is impossible, and that control is left out, with the reason.

    `alternatives` are other activations of the same scenes, [N, D'] by name, for the same probe: of
    a model with random weights, of the prompt's embeddings.
    """
    reading.check("the reading")
    scored = _Scored(reading, split, seed)
    ours, posterior = _fitted(probe, reading, split, seed)
    rows = [scored.row(probe, None, ours, posterior)]
    # A control is another probe on the same activations, or the same probe on others.
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
    """Score probes of growing size, such as `Bilinear(rank)` for some ranks, without controls."""
    reading.check("the reading")
    scored = _Scored(reading, split, seed)
    return tuple(scored.row(probe, None, *_fitted(probe, reading, split, seed)) for probe in probes)


def cross_fitted(
    probe: Probe, reading: Reading, splits: Sequence[Split], *, seed: int = 0
) -> FloatArray:
    """Return posteriors of all scenes by fits to other grids (`folds`), [N, rows, columns, 7]."""
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
    """Fit a probe, and return its posterior of the test scenes too."""
    train, validation, test = map(reading.where, split)
    fit = probe.fit(train, validation, seed=seed)
    return fit, fit.posterior(test.activations, test.scenes.shapes)


class _Scored:
    """The scenes that fits are scored on, their sets of cells, and position alone there."""

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
    """Return sets of scored cells by name, [N, rows, columns]; training scenes decide on them."""
    links = {world.shape: link_cells(world.shape) for world in scenes.worlds}
    by_name = {UNCERTAIN: uncertain_cells(train), LINKS: links}
    return {name: cells_in(scenes, cells) for name, cells in by_name.items()}


def _shuffled_within(reading: Reading, split: Split, seed: int) -> Reading:
    """Exchange activations between grids of the same part, so that no test row is trained on."""
    rows = np.array(reading.activations)
    for name, part in zip(("training", "validation", "test"), split, strict=True):
        activations, scenes = reading.where(part)
        try:
            rows[part] = activations[exchanged(scenes, seed=seed)]
        except InvalidParameterError as cause:
            raise InvalidParameterError(f"in the {name} part, {cause}") from cause
    return Reading(rows, reading.scenes)
