"""Interface of all probes, the cells that they score, and baselines without activations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.representation.scenes import CLASSES, EMPTY, OUTSIDE, WALL, Scenes, Shape

# --- Protocol -------------------------------------------------------------------------------------
# A probe is fitted to activations of some scenes and stops by others; what it gives is a posterior
# over the classes of every cell. Position alone, shuffled activations and every other control are
# probes too, or the same probes on other activations, so that nothing is compared across code.

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


# --- Places ---------------------------------------------------------------------------------------
# A probe of ours gives, for every place, the log-odds of a wall, and for every object (agent,
# goal, key, ...) a score in a softmax over places: an object is in one cell, so its cells
# compete, and a class of its own at every cell would let several cells be the agent. An object
# that some scenes lack may also be nowhere, which is a place as well. Both begin at what position
# alone says: what activations add starts from zero, so a probe that learns nothing is the table
# of positions.
#
# From wall odds and objects to a posterior over classes: let t_k(i) be the softmax of object k at
# cell i. Objects never share a cell, so
#
#     p_k(i) = t_k(i) prod_{l != k} (1 - t_l(i)) / Z_k
#
# with Z_k such that k is somewhere, and not nowhere, as often as before; what no object takes is
# wall or empty by the odds. For two objects this is exact.

# Scenes that are added to what was counted, spread over all outcomes (Krichevsky and Trofimov's
# half for wall and open): what was never seen is improbable and not impossible.
_PRIOR = 0.5


@dataclass(frozen=True, eq=False)
class Places:
    """The places of some shapes: P_s cells of each, row by row, and nowhere as the last.

    Attributes:
        shapes: those that were there in training.
        objects: the classes that are somewhere or nowhere, in the order of their columns.
        offsets: what position alone says, for each shape [P_s + 1, 1 + objects]: the log-odds of a
            wall where there is no object, and the logarithm of each object's share of scenes; -inf
            where an object that is always somewhere is nowhere.
    """

    shapes: tuple[Shape, ...]
    objects: tuple[int, ...]
    offsets: tuple[FloatArray, ...]

    @classmethod
    def of(cls, scenes: Scenes) -> Places:
        """Count, over scenes, what is where."""
        labels = scenes.labels
        objects = tuple(k for k in range(EMPTY + 1, len(CLASSES)) if (labels == k).any())
        shapes = tuple(sorted({world.shape for world in scenes.worlds}))
        offsets = []
        for shape in shapes:
            targets = Targets.of(scenes.where(_has(scenes, shape)), objects)
            offsets.append(_log_shares(targets))
        return cls(shapes, objects, tuple(offsets))

    def groups(self, shapes: IntArray) -> list[tuple[int, IntArray]]:
        """(number of the shape, numbers of the scenes that have it), for each that occurs."""
        out = []
        for row in np.unique(shapes, axis=0):
            shape = (int(row[0]), int(row[1]))
            if shape not in self.shapes:
                raise InvalidParameterError(
                    f"a world has {shape[0]} x {shape[1]} cells, but the probe was fitted to "
                    f"{', '.join(f'{r} x {c}' for r, c in self.shapes)}; fit it to such worlds too"
                )
            where = np.flatnonzero((shapes == row).all(axis=1))
            out.append((self.shapes.index(shape), where))
        return out

    def classes(self, number: int, scores: FloatArray) -> FloatArray:
        """The posterior that scores stand for.

        Args:
            number: of the shape.
            scores: as `offsets`, of n scenes, [n, P + 1, 1 + objects].

        Returns:
            [n, rows, columns, 7].
        """
        rows, columns = self.shapes[number]
        objects = np.moveaxis(scores[..., 1:], -1, 0)  # [objects, n, P + 1]
        objects = np.exp(objects - objects.max(axis=-1, keepdims=True, initial=-1e300))
        objects /= objects.sum(axis=-1, keepdims=True)
        # Exclusion between objects must not make one of them less present.
        somewhere = 1.0 - objects[..., -1:]
        cells = objects[..., :-1]
        # Where no other object is.
        alone = np.stack(
            [
                cells[k] * np.prod(1.0 - np.delete(cells, k, axis=0), axis=0)
                for k in range(len(cells))
            ]
            or [np.zeros((0, *scores.shape[:1], scores.shape[1] - 1))]
        ).reshape(cells.shape)
        alone *= somewhere / np.maximum(alone.sum(axis=-1, keepdims=True), 1e-300)
        taken = alone.sum(axis=0)
        # Of three objects and more the parts can add up to more than the cell has.
        alone /= np.maximum(taken, 1.0)
        free = 1.0 - np.minimum(taken, 1.0)
        # Beyond 700 exp overflows; the odds are certain long before.
        wall = 1.0 / (1.0 + np.exp(-np.clip(scores[:, :-1, 0], -700, 700)))
        out = np.zeros((len(scores), scores.shape[1] - 1, len(CLASSES)))
        out[..., WALL], out[..., EMPTY] = free * wall, free * (1.0 - wall)
        for label, shares in zip(self.objects, alone, strict=True):
            out[..., label] = shares
        return out.reshape(len(scores), rows, columns, len(CLASSES))


@dataclass(frozen=True, eq=False)
class Targets:
    """What is to be predicted in n scenes of one shape.

    Attributes:
        wall: whether each cell is a wall, [n, P].
        free: whether no object is in it, so that its being wall or not counts, [n, P].
        place: the place of each object, P for nowhere, [n, objects].
    """

    wall: BoolArray
    free: BoolArray
    place: IntArray

    @classmethod
    def of(cls, scenes: Scenes, objects: tuple[int, ...]) -> Targets:
        """Of scenes of one shape; an object that is not among `objects` is open ground."""
        rows, columns = scenes.worlds[0].shape
        labels = scenes.labels[:, :rows, :columns].reshape(len(scenes), -1)
        place = np.full((len(scenes), len(objects)), labels.shape[1])
        for column, label in enumerate(objects):
            there = labels == label
            place[:, column] = np.where(there.any(axis=1), there.argmax(axis=1), labels.shape[1])
        return cls(labels == WALL, (labels == WALL) | (labels == EMPTY), place)

    def where(self, kept: IntArray) -> Targets:
        """Some of the scenes."""
        return Targets(self.wall[kept], self.free[kept], self.place[kept])


def _has(scenes: Scenes, shape: Shape) -> IntArray:
    return np.flatnonzero((scenes.shapes == shape).all(axis=1))


def _log_shares(targets: Targets) -> FloatArray:
    cells = targets.wall.shape[1]
    out = np.zeros((cells + 1, 1 + targets.place.shape[1]))
    walls = (targets.wall & targets.free).sum(axis=0) + _PRIOR
    opens = (~targets.wall & targets.free).sum(axis=0) + _PRIOR
    out[:-1, 0] = np.log(walls / opens)
    for column, places in enumerate(targets.place.T, start=1):
        counts = np.bincount(places, minlength=cells + 1).astype(float)
        # Only what was missing from some scene may be nowhere.
        absent = counts[-1] > 0
        counts[: cells + absent] += _PRIOR / (cells + absent)
        with np.errstate(divide="ignore"):  # never nowhere
            out[:, column] = np.log(counts / counts.sum())
    return out


# --- Heads ----------------------------------------------------------------------------------------
# A probe differs from the next only in the function that gives the scores. None of them ever
# makes a matrix of (scene, cell) rows by dimensions: activations are met once a scene, cells once
# a shape.

# Scenes that are scored at once, so that memory does not grow with their number.
_CHUNK = 1024

# From scaled activations [n, D] and the number of a shape to scores [n, P + 1, 1 + objects].
Scores = Callable[[FloatArray, int], FloatArray]


@dataclass(frozen=True, eq=False)
class Standard:
    """How activations are brought to one scale: by mean and spread of the training scenes, [D].

    A dimension that does not vary there is left out: its weight would be one of rounding.
    """

    mean: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, activations: Activations) -> Standard:
        """Of the training scenes."""
        mean = activations.mean(axis=0, dtype=np.float64)
        spread = activations.std(axis=0, dtype=np.float64)
        # Relative to the mean: a constant in single precision has a spread of rounding.
        flat = spread <= 1e-7 * np.maximum(np.abs(mean), 1e-30)
        return cls(mean, np.where(flat, 0.0, 1.0 / np.where(flat, 1.0, spread)))

    def __call__(self, activations: Activations) -> FloatArray:
        """Scaled activations, [n, D]."""
        return np.asarray((activations - self.mean) * self.weight)

    def single(self, activations: Activations) -> npt.NDArray[np.float32]:
        """The same in single precision, without a copy in double precision of all of them."""
        out = np.empty(activations.shape, dtype=np.float32)
        for at in range(0, len(out), _CHUNK):
            out[at : at + _CHUNK] = self(activations[at : at + _CHUNK])
        return out


@dataclass(frozen=True, eq=False)
class FittedHeads:
    """A probe of ours after its fit.

    Attributes:
        places: what position alone says.
        standard: how activations are scaled.
        scores: what they add.
        parameters: how many numbers `scores` has.
        slopes: for a linear probe, the derivative of each score by the scaled activations, for
            the number of a shape: [D, P + 1, 1 + objects]. None for a probe that is not linear.
    """

    places: Places
    standard: Standard
    scores: Scores
    parameters: int
    slopes: Callable[[int], FloatArray] | None = None

    def posterior(self, activations: Activations, shapes: IntArray) -> FloatArray:
        """As `FittedProbe.posterior`."""
        check_width(activations, len(self.standard.mean))
        out = walls_outside(shapes)
        for number, where in self.places.groups(shapes):
            rows, columns = self.places.shapes[number]
            for chunk in np.array_split(where, range(_CHUNK, len(where), _CHUNK)):
                scores = self.scores(self.standard(activations[chunk]), number)
                posterior = self.places.classes(number, scores + self.places.offsets[number])
                out[chunk, :rows, :columns] = posterior
        return out

    def wall_directions(self, shape: Shape) -> FloatArray | None:
        """How the log-odds of a wall in each cell change with the activations, [rows, columns, D].

        In units of the activations as they came, so that adding a multiple of a direction to them
        writes a wall. None for a probe that is not linear, and for a shape that it does not know.
        """
        if self.slopes is None or shape not in self.places.shapes:
            return None
        # The last place is nowhere, and the first column that of walls.
        slopes = self.slopes(self.places.shapes.index(shape))[:, :-1, 0]
        return np.asarray((slopes * self.standard.weight[:, None]).T.reshape(*shape, -1))


# --- Position -------------------------------------------------------------------------------------
# Position alone is what every probe has to be better than: the generator of a maze decides most
# cells by their coordinates. It is the zero of the gain in bits.


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
