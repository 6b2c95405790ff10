"""Compare a probe with its controls on the same scenes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.representation.probes.protocol import (
    Activations,
    FittedProbe,
    Majority,
    PositionOnly,
    Probe,
    Reading,
    check_reading,
    walls_outside,
)
from goalmeter.representation.probes.scores import ALL, Localisation, Score, localisation, scores
from goalmeter.representation.scenes import (
    AGENT,
    GOAL,
    Scenes,
    Shape,
    Split,
    cells_in,
    link_cells,
    uncertain_cells,
)

# --- Controls -------------------------------------------------------------------------------------
# - position only, majority: probes that read nothing (`position`).
# - shuffled: activations of scenes in other grids. What is left over position alone is a leak.
# - random weights, prompt embeddings, and whatever else is named: the same probe on other
# activations
#   of the same scenes, which show what the architecture and the prompt's words give by themselves.
# - control task: each grid has the labels of another one, drawn once, and the probe is scored on
#   other scenes of the grids it was trained on. What it gains is what it can learn by heart, as no
#   map can be read that is not there; a probe's selectivity is its gain less this. The fit stops by
#   the scenes that are scored, which favours the control.
#
# Source: Hewitt and Liang, Designing and interpreting probes with control tasks (2019); Belinkov,
# Probing classifiers: promises, shortcomings, and advances (2022).


class ControlTask(NamedTuple):
    """Labels that cannot be read, only learnt.

    Attributes:
        scenes: all scenes, each with the map that its grid was given.
        split: of the scenes of training grids alone: the fit, and what is scored.
        scored: "other states of the same grids", or "the training states" where no grid has two.
    """

    scenes: Scenes
    split: Split
    scored: str


def exchanged(scenes: Scenes, *, seed: int) -> IntArray:
    """For each scene the number of a scene in another grid of its shape, [N]: a permutation."""
    rng = np.random.default_rng(seed)
    out = np.arange(len(scenes))
    for shape in np.unique(scenes.shapes, axis=0):
        where = np.flatnonzero((scenes.shapes == shape).all(axis=1))
        grids, which, sizes = np.unique(
            scenes.grids[where], return_inverse=True, return_counts=True
        )
        most = int(sizes.max())
        if 2 * most > len(where):
            raise InvalidParameterError(
                f"of {len(where)} scenes of {shape[0]} x {shape[1]} cells, {most} are in one grid, "
                f"so not every scene has one in another grid; walk through more grids"
            )
        # Grids in a random order, and within them scenes: then a turn by the largest grid leaves
        # no scene in its own.
        order = np.lexsort((rng.random(len(where)), rng.permutation(len(grids))[which]))
        out[where[order]] = where[np.roll(order, -most)]
    return out


def shuffled(reading: Reading, *, seed: int) -> Reading:
    """The scenes with the activations of other grids."""
    return Reading(reading.activations[exchanged(reading.scenes, seed=seed)], reading.scenes)


def control_task(scenes: Scenes, split: Split, *, seed: int) -> ControlTask:
    """Give every grid of the training part the map of another, and scenes to be scored on.

    A scene of the map that a grid was given stands in for all scenes of the grid, agent included,
    so that what is scored is known from training, if only by heart.

    Args:
        scenes: all of them.
        split: of which only the training part is used, so that test grids stay unseen.
        seed: of who is given what.
    """
    rng = np.random.default_rng(seed)
    train = scenes.where(split.train)
    donor = np.arange(len(scenes))
    donor[split.train] = split.train[exchanged(train, seed=seed)]
    fit: list[IntArray] = []
    beside: list[IntArray] = []
    for grid in np.unique(train.grids):
        rows = split.train[train.grids == grid]
        # One grid may stand there in several shapes only if it lies on its side; then each has
        # a map of its own.
        for shape in np.unique(scenes.shapes[rows], axis=0):
            same = rows[(scenes.shapes[rows] == shape).all(axis=1)]
            donor[same] = donor[same[0]]
            dealt = rng.permutation(same)
            # Half of the scenes, the larger half for the fit.
            fit.append(dealt[: (len(dealt) + 1) // 2])
            beside.append(dealt[(len(dealt) + 1) // 2 :])
    relabelled = Scenes(
        tuple(scenes.worlds[i] for i in donor),
        tuple(scenes.states[i] for i in donor),
        scenes.actions,
        scenes.grids,
    )
    fitted, scored = np.sort(np.concatenate(fit)), np.sort(np.concatenate(beside))
    # A shape whose grids have a scene each is scored by what it was trained on.
    alone = fitted[~_same_shape(relabelled, fitted, scored)]
    if len(alone) == len(fitted):
        return ControlTask(relabelled, Split(fitted, fitted, fitted), "the training states")
    what = "other states of the same grids"
    if len(alone):
        scored, what = np.sort(np.concatenate([scored, alone])), f"{what}, or else training states"
    return ControlTask(relabelled, Split(fitted, scored, scored), what)


def _same_shape(scenes: Scenes, rows: IntArray, others: IntArray) -> BoolArray:
    """Which of some scenes have the shape of some other one, [rows]."""
    shapes = {tuple(shape) for shape in scenes.shapes[others].tolist()}
    return np.array([tuple(shape) in shapes for shape in scenes.shapes[rows].tolist()], dtype=bool)


# --- Comparison -----------------------------------------------------------------------------------
# Every row but that of the control task is scored on the same test grids; that of the control
# task is scored on grids that were trained on, since random labels can only be learnt by heart.

# Uncertain cells are counted in training grids, links are a property of mazes.
UNCERTAIN, LINKS = "uncertain", "links"
SHUFFLED, CONTROL_TASK = "shuffled activations", "control task"


@dataclass(frozen=True)
class ProbeRow:
    """One fit and how it reads.

    Attributes:
        probe: its name.
        control: None for the probe itself, else the name of the control.
        parameters: numbers that were fitted to activations.
        scores: by cells and class.
        places: the error of agent and goal.
        scored: what was scored.
    """

    probe: str
    control: str | None
    parameters: int
    scores: tuple[Score, ...]
    places: tuple[Localisation, ...]
    scored: str = "test grids"

    def score(self, cells: str = ALL, label: str = ALL) -> Score:
        """That of one class in one set of cells."""
        return {(each.cells, each.label): each for each in self.scores}[cells, label]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "probe": self.probe,
            "control": self.control,
            "parameters": self.parameters,
            "scored": self.scored,
            "scores": [each.to_json() for each in self.scores],
            "places": [each.to_json() for each in self.places],
        }


@dataclass(frozen=True, eq=False)
class Comparison:
    """A probe with its controls.

    Attributes:
        rows: the probe first.
        fitted: the probe after its fit.
        scenes: the test scenes.
        posterior: what the probe says of them, [N, rows, columns, 7].
        position: what position alone says of them.
        left_out: why a control could not be made, by its name.
    """

    rows: tuple[ProbeRow, ...]
    fitted: FittedProbe
    scenes: Scenes
    posterior: FloatArray
    position: FloatArray
    left_out: Mapping[str, str] = field(default_factory=dict)

    def row(self, control: str | None = None) -> ProbeRow:
        """The probe, or one of its controls.

        Raises:
            KeyError: there is no such control.
        """
        return {each.control: each for each in self.rows}[control]

    def selectivity(self, cells: str = ALL, label: str = ALL) -> float:
        """Bits a cell that the probe gains beyond what it gains on random labels.

        Raises:
            KeyError: no labels could be exchanged between the training grids.
        """
        ours, theirs = (
            self.row(control).score(cells, label).gain_bits.value
            for control in (None, CONTROL_TASK)
        )
        return ours - theirs


def compare(
    probe: Probe,
    reading: Reading,
    split: Split,
    *,
    alternatives: Mapping[str, Activations] | None = None,
    seed: int = 0,
) -> Comparison:
    """Fit a probe and its controls, and score them all.

    Shuffled activations and the control task are exchanged between grids. Where one grid holds more
    than half of the scenes no exchange exists, and only that control is left out, with the reason.

    Args:
        probe: any.
        reading: activations of scenes.
        split: which are fitted, which stop the fit, which are scored.
        alternatives: other activations of the same scenes, by name, that the same probe is fitted
            to: of a model with random weights, of the prompt's embeddings. [N, D'] each.
        seed: of the fits and of what controls draw.

    Raises:
        InvalidParameterError: activations that do not belong to the scenes, or too few grids.
        MissingExtraError: the probe needs torch, which is not installed.
    """
    check_reading(reading, "the reading")
    table = _Table(probe.name, split, reading.scenes)
    position = table.fitted(PositionOnly(), reading, seed).posterior(
        table.test(reading).activations, table.scenes.shapes
    )
    ours = table.fitted(probe, reading, seed)
    posterior = ours.posterior(table.test(reading).activations, table.scenes.shapes)
    rows = [table.row(None, ours, posterior, position)]
    # A control is another probe on the same activations, or the same probe on others.
    others: dict[str, tuple[Probe, Reading]] = {
        PositionOnly().name: (PositionOnly(), reading),
        Majority().name: (Majority(), reading),
    }
    left_out: dict[str, str] = {}
    try:
        others[SHUFFLED] = (probe, _shuffled_within(reading, split, seed))
    except InvalidParameterError as cause:
        left_out[SHUFFLED] = str(cause)
    for name, activations in (alternatives or {}).items():
        alternative = Reading(activations, reading.scenes)
        check_reading(alternative, name)
        others[name] = (probe, alternative)
    for name, (kind, source) in others.items():
        fit = table.fitted(kind, source, seed)
        of_control = fit.posterior(table.test(source).activations, table.scenes.shapes)
        rows.append(table.row(name, fit, of_control, position))
    try:
        task = control_task(reading.scenes, split, seed=seed)
    except InvalidParameterError as cause:
        left_out[CONTROL_TASK] = f"in the training part, {cause}"
    else:
        rows.append(_control_row(probe, reading, task, seed))
    return Comparison(tuple(rows), ours, table.scenes, posterior, position, left_out)


def by_size(
    probes: Sequence[Probe], reading: Reading, split: Split, *, seed: int = 0
) -> tuple[ProbeRow, ...]:
    """Probes of growing size, without controls: what each gains, beside how large it is.

    If little is gained beyond a small size, the map lies open in few directions; if it takes all,
    the probe may be doing the work.

    Args:
        probes: such as `Bilinear(rank)` for some ranks.
        reading: as in `compare`, like the rest.
        split: the same for all.
        seed: of every fit.
    """
    check_reading(reading, "the reading")
    tested = reading.where(split.test)
    shapes = tested.scenes.shapes
    out = []
    for probe in probes:
        table = _Table(probe.name, split, reading.scenes)
        ours, position = (table.fitted(each, reading, seed) for each in (probe, PositionOnly()))
        posteriors = (fit.posterior(tested.activations, shapes) for fit in (ours, position))
        out.append(table.row(None, ours, *posteriors))
    return tuple(out)


def cross_fitted(
    probe: Probe, reading: Reading, splits: Sequence[Split], *, seed: int = 0
) -> FloatArray:
    """The posterior of every scene by a fit that saw nothing of its grid, [N, rows, columns, 7].

    So all walks can be looked at, and not only those of one test part.

    Args:
        probe: any.
        reading: activations of N scenes.
        splits: as `folds` gives them: each scene is scored in one.
        seed: of every fit.
    """
    check_reading(reading, "the reading")
    scored = np.concatenate([part.test for part in splits]) if splits else np.zeros(0, int)
    if not np.array_equal(np.sort(scored), np.arange(len(reading.scenes))):
        raise InvalidParameterError(
            f"the splits score {len(scored)} scenes of {len(reading.scenes)}, expected each scene "
            f"once; make them by folds"
        )
    out = walls_outside(reading.scenes.shapes)
    for part in splits:
        train, validation, test = (reading.where(rows) for rows in part)
        fitted = probe.fit(train, validation, seed=seed)
        posterior = fitted.posterior(test.activations, test.scenes.shapes)
        # The frame of a part is that of its own largest world.
        rows, columns = posterior.shape[1:3]
        out[part.test, :rows, :columns] = posterior
    return out


class _Table:
    """Fits on one split, and their rows."""

    def __init__(self, probe: str, split: Split, scenes: Scenes, scored: str = "test grids"):
        self.probe, self.split, self.scored = probe, split, scored
        self.scenes = scenes.where(split.test)
        self.cells = scored_cells(scenes.where(split.train), self.scenes)

    def test(self, reading: Reading) -> Reading:
        return reading.where(self.split.test)

    def fitted(self, probe: Probe, reading: Reading, seed: int) -> FittedProbe:
        train, validation = (reading.where(part) for part in self.split[:2])
        return probe.fit(train, validation, seed=seed)

    def row(
        self, control: str | None, fit: FittedProbe, posterior: FloatArray, position: FloatArray
    ) -> ProbeRow:
        places = (localisation(posterior, self.scenes, label) for label in (AGENT, GOAL))
        return ProbeRow(
            self.probe,
            control,
            fit.parameters,
            tuple(scores(posterior, position, self.scenes, self.cells)),
            tuple(place for place in places if place is not None),
            self.scored,
        )


def scored_cells(train: Scenes, scenes: Scenes) -> dict[str, BoolArray]:
    """The sets of cells that are scored beside all of them, by name, [N, rows, columns] each.

    Args:
        train: what decides which cells are uncertain.
        scenes: those that are scored.
    """
    shapes: set[Shape] = {world.shape for world in scenes.worlds}
    return {
        UNCERTAIN: cells_in(scenes, uncertain_cells(train)),
        LINKS: cells_in(scenes, {shape: link_cells(shape) for shape in shapes}),
    }


def _shuffled_within(reading: Reading, split: Split, seed: int) -> Reading:
    """Activations of other grids of the same part, so that no test row is trained on."""
    rows = np.array(reading.activations)
    # Within each part: a row that is scored is then one that no fit has seen.
    for name, part in zip(("training", "validation", "test"), split, strict=True):
        try:
            rows[part] = shuffled(reading.where(part), seed=seed).activations
        except InvalidParameterError as cause:
            raise InvalidParameterError(f"in the {name} part, {cause}") from cause
    return Reading(rows, reading.scenes)


def _control_row(probe: Probe, reading: Reading, task: ControlTask, seed: int) -> ProbeRow:
    # Position alone is fitted to the random labels as well: what they share with it is no learning.
    relabelled = Reading(reading.activations, task.scenes)
    table = _Table(probe.name, task.split, task.scenes, task.scored)
    tested = table.test(relabelled).activations
    position = table.fitted(PositionOnly(), relabelled, seed).posterior(tested, table.scenes.shapes)
    fit = table.fitted(probe, relabelled, seed)
    return table.row(CONTROL_TASK, fit, fit.posterior(tested, table.scenes.shapes), position)
