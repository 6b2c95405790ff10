"""What could embarrass a probe: the same fit where there is nothing to read, or to learn.

- position only, majority: probes that read nothing (`position`).
- shuffled: activations of scenes in other grids. What is left over position alone is a leak.
- random weights, prompt embeddings, and whatever else is named: the same probe on other activations
  of the same scenes, which show what the architecture and the prompt's words give by themselves.
- control task: each grid has the labels of another one, drawn once, and the probe is scored on
  other scenes of the grids it was trained on. What it gains is what it can learn by heart, as no
  map can be read that is not there; a probe's selectivity is its gain less this. The fit stops by
  the scenes that are scored, which favours the control.

Source: Hewitt and Liang, Designing and interpreting probes with control tasks (2019); Belinkov,
Probing classifiers: promises, shortcomings, and advances (2022).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray, IntArray
from goalmeter.representation.probes.protocol import Reading
from goalmeter.representation.probes.splits import Split
from goalmeter.representation.scenes import Scenes


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
