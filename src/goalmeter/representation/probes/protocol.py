"""What all probes share: readings, places, scaling, and baselines without activations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.representation.scenes import CLASSES, EMPTY, OUTSIDE, WALL, Scenes, Shape

# [N, D]: one layer and one position, tokens concatenated; any precision.
Activations = npt.NDArray[np.floating[Any]]
# Scenes that are scored at once, so that memory does not grow with their number.
_CHUNK = 1024


class Reading(NamedTuple):
    """Scenes with their activations: row i is scene i."""

    activations: Activations  # [N, D]
    scenes: Scenes  # N

    def where(self, chosen: IntArray) -> Reading:
        """Return some of the scenes, by number."""
        return Reading(self.activations[chosen], self.scenes.where(chosen))

    def check(self, name: str) -> None:
        """Refuse activations that are not finite or not one row per scene."""
        rows, scenes = self.activations, len(self.scenes)
        if rows.ndim != 2 or len(rows) != scenes or not rows.shape[1]:
            raise InvalidParameterError(
                f"{name} has activations of shape {rows.shape} for {scenes} scenes, expected "
                f"[{scenes}, dimensions]"
            )
        # Half precision overflows in some models, and one bad row would spoil every weight.
        if not (finite := np.isfinite(rows).all(axis=1)).all():
            raise InvalidParameterError(
                f"{name} has activations that are not finite, first in row {int(finite.argmin())}; "
                f"leave it out, or load the model in float32"
            )


def walls_outside(shapes: IntArray) -> FloatArray:
    """Return a posterior of walls everywhere, [N, rows, columns, 7], to be filled in."""
    out = np.zeros((len(shapes), *shapes.max(axis=0), len(CLASSES)))
    out[..., WALL] = 1.0
    return out


# A probe of ours gives, for every cell, the log-odds of a wall, and for every object (agent, goal,
# key, ...) a score in a softmax over places: an object is in one cell, so its cells compete. An
# object that some scenes lack may also be nowhere, which is a place as well. Both start from what
# position alone predicts, so a probe that learns nothing is the table of positions.
#
# From wall odds and objects to a posterior over classes: let t_k(i) be the softmax of object k at
# cell i. Objects never share a cell, so
#
#     p_k(i) = t_k(i) prod_{l != k} (1 - t_l(i)) / Z_k
#
# with Z_k such that k is somewhere, and not nowhere, as often as before; what no object takes is
# wall or empty by the odds. For two objects this is exact.

# Scenes that are added to the counts, spread over all outcomes (Krichevsky and Trofimov's half for
# wall and open): what was never seen is improbable and not impossible.
_PRIOR = 0.5


@dataclass(frozen=True, eq=False)
class Places:
    """The places of some shapes: P_s cells of each, row by row, and nowhere as the last."""

    shapes: tuple[Shape, ...]
    objects: tuple[int, ...]  # classes in the order of their columns
    # Prediction of position alone by shape, [P_s + 1, 1 + objects]: the log-odds of a wall where
    # there is no object, and the logarithm of each object's share of scenes.
    offsets: tuple[FloatArray, ...]

    @classmethod
    def of(cls, scenes: Scenes) -> Places:
        """Count the classes of cells over scenes."""
        objects = tuple(k for k in range(EMPTY + 1, len(CLASSES)) if (scenes.labels == k).any())
        shapes = tuple(sorted({world.shape for world in scenes.worlds}))
        return cls(shapes, objects, tuple(cls._log_shares(scenes, s, objects) for s in shapes))

    @staticmethod
    def _log_shares(scenes: Scenes, shape: Shape, objects: tuple[int, ...]) -> FloatArray:
        same = scenes.where((scenes.shapes == shape).all(axis=1))
        wall, free, place = Targets.of(same, objects)
        cells = wall.shape[1]
        out = np.zeros((cells + 1, 1 + len(objects)))
        walls, opens = ((kind & free).sum(axis=0) + _PRIOR for kind in (wall, ~wall))
        out[:-1, 0] = np.log(walls / opens)
        for column, places in enumerate(place.T, start=1):
            counts = np.bincount(places, minlength=cells + 1).astype(float)
            # Only an object that some scene lacks may be nowhere.
            absent = counts[-1] > 0
            counts[: cells + absent] += _PRIOR / (cells + absent)
            with np.errstate(divide="ignore"):  # never nowhere
                out[:, column] = np.log(counts / counts.sum())
        return out

    def groups(self, shapes: IntArray) -> list[tuple[int, IntArray]]:
        """Return the number of each shape that occurs, and the scenes that have it."""
        out = []
        for shape in np.unique(shapes, axis=0).tolist():
            if tuple(shape) not in self.shapes:
                raise InvalidParameterError(
                    f"a world has {shape[0]} x {shape[1]} cells, but the probe was fitted to "
                    f"{', '.join(f'{r} x {c}' for r, c in self.shapes)}; fit it to such worlds too"
                )
            where = np.flatnonzero((shapes == shape).all(axis=1))
            out.append((self.shapes.index(tuple(shape)), where))
        return out

    def classes(self, number: int, scores: FloatArray) -> FloatArray:
        """Turn scores of a shape, [n, P + 1, 1 + objects], into classes, [n, rows, columns, 7]."""
        objects = np.moveaxis(scores[..., 1:], -1, 0)  # [objects, n, P + 1]
        objects = np.exp(objects - objects.max(axis=-1, keepdims=True, initial=-1e300))
        objects /= objects.sum(axis=-1, keepdims=True)
        cells = objects[..., :-1]
        # The probability that no other object is there.
        alone = cells.copy()
        for k in range(len(cells)):
            alone[k] *= np.prod(1.0 - np.delete(cells, k, axis=0), axis=0)
        # Exclusion between objects must not make one of them less present.
        somewhere = 1.0 - objects[..., -1:]
        alone *= somewhere / np.maximum(alone.sum(axis=-1, keepdims=True), 1e-300)
        taken = alone.sum(axis=0)
        # Of three objects and more the parts can add up to more than the cell has.
        alone /= np.maximum(taken, 1.0)
        free = 1.0 - np.minimum(taken, 1.0)
        # Beyond 700 exp overflows; the odds are certain long before.
        wall = 1.0 / (1.0 + np.exp(-np.clip(scores[:, :-1, 0], -700, 700)))
        out = np.zeros((*wall.shape, len(CLASSES)))
        out[..., WALL], out[..., EMPTY] = free * wall, free * (1.0 - wall)
        out[..., list(self.objects)] = np.moveaxis(alone, 0, -1)
        return out.reshape(len(scores), *self.shapes[number], len(CLASSES))


class Targets(NamedTuple):
    """Targets of n scenes of one shape."""

    wall: BoolArray  # whether each cell is a wall, [n, P]
    free: BoolArray  # whether no object is in it, so that its being wall or not counts, [n, P]
    place: IntArray  # the place of each object, P for nowhere, [n, objects]

    @classmethod
    def of(cls, scenes: Scenes, objects: tuple[int, ...]) -> Targets:
        """Return the targets of scenes; an object that is not among `objects` is open ground."""
        rows, columns = scenes.worlds[0].shape
        labels = scenes.labels[:, :rows, :columns].reshape(len(scenes), -1)
        place = np.full((len(scenes), len(objects)), labels.shape[1])
        for column, label in enumerate(objects):
            there = labels == label
            place[:, column] = np.where(there.any(axis=1), there.argmax(axis=1), labels.shape[1])
        return cls(labels == WALL, (labels == WALL) | (labels == EMPTY), place)


class Standard(NamedTuple):
    """Scaling of activations by mean and spread of the training scenes, [D]."""

    mean: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, activations: Activations) -> Standard:
        """Compute the scaling of training scenes."""
        mean = activations.mean(axis=0, dtype=np.float64)
        spread = activations.std(axis=0, dtype=np.float64)
        # A dimension that does not vary gets weight 0. Relative to the mean: a constant in single
        # precision has a spread of rounding.
        flat = spread <= 1e-7 * np.maximum(np.abs(mean), 1e-30)
        return cls(mean, np.where(flat, 0.0, 1.0 / np.where(flat, 1.0, spread)))

    def __call__(self, activations: Activations) -> FloatArray:
        """Return scaled activations, [n, D]."""
        return np.asarray((activations - self.mean) * self.weight)

    def single(self, activations: Activations) -> npt.NDArray[np.float32]:
        """Return them in single precision, without a copy of all of them in double precision."""
        out = np.empty(activations.shape, dtype=np.float32)
        for at in range(0, len(out), _CHUNK):
            out[at : at + _CHUNK] = self(activations[at : at + _CHUNK])
        return out


# Probes of ours differ in the function that gives the scores. None of them makes a matrix of
# (scene, cell) rows by dimensions: activations are multiplied once per scene, cells once per shape.

# From scaled activations [n, D] and the number of a shape to scores [n, P + 1, 1 + objects].
Scores = Callable[[FloatArray, int], FloatArray]


@dataclass(frozen=True, eq=False)
class FittedHeads:
    """A probe of ours after its fit."""

    places: Places  # prediction of position alone
    standard: Standard
    scores: Scores  # what scaled activations add to it
    parameters: int  # number of parameters of `scores`
    # Derivatives of the scores of a shape if the probe is linear, [D, P + 1, 1 + objects].
    slopes: Callable[[int], FloatArray] | None = None

    def posterior(self, activations: Activations, shapes: IntArray) -> FloatArray:
        """Return the probability of each class in each cell, [N, rows, columns, 7].

        Shapes are rows and columns of each world, [N, 2]; the largest gives those of the posterior,
        in which cells outside a world are walls.
        """
        out = walls_outside(shapes)
        for number, where in self.places.groups(shapes):
            rows, columns = self.places.shapes[number]
            for chunk in np.array_split(where, range(_CHUNK, len(where), _CHUNK)):
                scores = self.scores(self.standard(activations[chunk]), number)
                posterior = self.places.classes(number, scores + self.places.offsets[number])
                out[chunk, :rows, :columns] = posterior
        return out

    def wall_directions(self, shape: Shape) -> FloatArray | None:
        """The derivative of wall log-odds by activations, [rows, columns, D], of a linear probe."""
        if self.slopes is None or shape not in self.places.shapes:
            return None
        # The last place is nowhere, and the first column that of walls.
        slopes = self.slopes(self.places.shapes.index(shape))[:, :-1, 0]
        return np.asarray((slopes * self.standard.weight[:, None]).T.reshape(*shape, -1))


@dataclass(frozen=True)
class PositionOnly:
    """Share of training scenes with each class in each cell: the zero of the gain in bits."""

    name: str = "position only"

    def fit(self, train: Reading, validation: Reading, *, seed: int) -> FittedHeads:
        """Count classes of training scenes."""
        places = Places.of(train.scenes)
        nothing = np.zeros(train.activations.shape[1])

        def scores(rows: FloatArray, number: int) -> FloatArray:
            return np.zeros((len(rows), *places.offsets[number].shape))

        return FittedHeads(places, Standard(nothing, nothing), scores, 0)


@dataclass(frozen=True)
class Majority:
    """Share of training cells of each class: the same prediction everywhere."""

    name: str = "majority"

    def fit(self, train: Reading, validation: Reading, *, seed: int) -> FittedMajority:
        """Count classes of training scenes."""
        labels = train.scenes.labels
        counts = np.bincount(labels[labels != OUTSIDE], minlength=len(CLASSES))
        return FittedMajority(np.asarray(counts / counts.sum()))


@dataclass(frozen=True, eq=False)
class FittedMajority:
    """Shares of the classes, [7]."""

    shares: FloatArray
    parameters: int = 0

    def posterior(self, activations: Activations, shapes: IntArray) -> FloatArray:
        """As `FittedHeads.posterior`."""
        out = walls_outside(shapes)
        for scene, (rows, columns) in enumerate(shapes):
            out[scene, :rows, :columns] = self.shares
        return out
