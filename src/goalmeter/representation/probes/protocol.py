"""Common parts of all probes: readings, places, scaling, and baselines without activations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.representation.scenes import CLASSES, EMPTY, OUTSIDE, WALL, Scenes, Shape

# [N, D] for one layer and one position, with concatenated tokens, in any precision.
Activations = npt.NDArray[np.floating[Any]]
# Number of scenes scored at once, which bounds memory.
_CHUNK = 1024


class Reading(NamedTuple):
    """Activations of scenes: row i belongs to scene i."""

    activations: Activations  # [N, D]
    scenes: Scenes  # N

    def where(self, chosen: IntArray) -> Reading:
        """Return a subset of the scenes, by number."""
        return Reading(self.activations[chosen], self.scenes.where(chosen))

    def check(self, name: str) -> None:
        """Require finite activations, one row per scene."""
        rows, scenes = self.activations, len(self.scenes)
        if rows.ndim != 2 or len(rows) != scenes or not rows.shape[1]:
            raise InvalidParameterError(
                f"{name} has activations of shape {rows.shape} for {scenes} scenes, expected "
                f"[{scenes}, dimensions]"
            )
        # Half precision overflows in some models, and one bad row would corrupt every weight.
        if not (finite := np.isfinite(rows).all(axis=1)).all():
            raise InvalidParameterError(
                f"{name} has activations that are not finite, first in row {int(finite.argmin())}; "
                f"exclude it, or load the model in float32"
            )


def walls_outside(shapes: IntArray) -> FloatArray:
    """Return a posterior with walls everywhere, [N, rows, columns, 7], as initial values."""
    out = np.zeros((len(shapes), *shapes.max(axis=0), len(CLASSES)))
    out[..., WALL] = 1.0
    return out


# A probe of goalmeter outputs the log-odds of a wall for each cell and, for each object (agent,
# goal, key, ...), scores of a softmax over places: an object is in one cell, so its cells compete.
# "Nowhere" is an additional place for objects that some scenes lack. Both outputs are added to the
# predictions of position alone, so a probe that learns nothing is equal to the table of positions.
#
# Posterior over classes: let t_k(i) be the softmax of object k at cell i. Objects never share a
# cell, so
#
#     p_k(i) = t_k(i) prod_{l != k} (1 - t_l(i)) / Z_k
#
# with Z_k such that the probability of k being in some cell is preserved. The remaining probability
# is divided between wall and empty by the odds. For two objects this is exact.

# Pseudo-count spread over all outcomes (Krichevsky and Trofimov's half for wall and open): unseen
# outcomes are improbable but not impossible.
_PRIOR = 0.5


@dataclass(frozen=True, eq=False)
class Places:
    """Places of each shape: its P_s cells row by row, then nowhere."""

    shapes: tuple[Shape, ...]
    objects: tuple[int, ...]  # classes in the order of their columns
    # Predictions of position alone by shape, [P_s + 1, 1 + objects]: log-odds of a wall given no
    # object, and the log share of scenes with each object at the place.
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
            # Only an object that at least one scene lacks can be nowhere.
            absent = counts[-1] > 0
            counts[: cells + absent] += _PRIOR / (cells + absent)
            with np.errstate(divide="ignore"):  # log 0: the object is never nowhere
                out[:, column] = np.log(counts / counts.sum())
        return out

    def groups(self, shapes: IntArray) -> list[tuple[int, IntArray]]:
        """Return the index of each occurring shape with the numbers of its scenes."""
        out = []
        for shape in np.unique(shapes, axis=0).tolist():
            if tuple(shape) not in self.shapes:
                raise InvalidParameterError(
                    f"a world has {shape[0]} x {shape[1]} cells, but the probe was fitted to "
                    f"{', '.join(f'{r} x {c}' for r, c in self.shapes)}; fit it to this size too"
                )
            where = np.flatnonzero((shapes == shape).all(axis=1))
            out.append((self.shapes.index(tuple(shape)), where))
        return out

    def classes(self, number: int, scores: FloatArray) -> FloatArray:
        """Return class probabilities, [n, rows, columns, 7], of scores, [n, P + 1, 1 + objects]."""
        objects = np.moveaxis(scores[..., 1:], -1, 0)  # [objects, n, P + 1]
        objects = np.exp(objects - objects.max(axis=-1, keepdims=True, initial=-1e300))
        objects /= objects.sum(axis=-1, keepdims=True)
        cells = objects[..., :-1]
        # Multiply by the probability that no other object is in the cell.
        exclusive = cells.copy()
        for k in range(len(cells)):
            exclusive[k] *= np.prod(1.0 - np.delete(cells, k, axis=0), axis=0)
        # Exclusion must preserve the probability that an object is present.
        somewhere = 1.0 - objects[..., -1:]
        exclusive *= somewhere / np.maximum(exclusive.sum(axis=-1, keepdims=True), 1e-300)
        occupied = exclusive.sum(axis=0)
        # With three or more objects the probabilities of a cell can exceed 1 in total.
        exclusive /= np.maximum(occupied, 1.0)
        free = 1.0 - np.minimum(occupied, 1.0)
        # exp overflows beyond 700, where the odds are certain.
        wall = 1.0 / (1.0 + np.exp(-np.clip(scores[:, :-1, 0], -700, 700)))
        out = np.zeros((*wall.shape, len(CLASSES)))
        out[..., WALL], out[..., EMPTY] = free * wall, free * (1.0 - wall)
        out[..., list(self.objects)] = np.moveaxis(exclusive, 0, -1)
        return out.reshape(len(scores), *self.shapes[number], len(CLASSES))


class Targets(NamedTuple):
    """Targets of n scenes of one shape."""

    wall: BoolArray  # whether each cell is a wall, [n, P]
    free: BoolArray  # whether each cell has no object, so that its wall label counts, [n, P]
    place: IntArray  # place of each object, P for nowhere, [n, objects]

    @classmethod
    def of(cls, scenes: Scenes, objects: tuple[int, ...]) -> Targets:
        """Return the targets of scenes; other objects than `objects` count as empty cells."""
        rows, columns = scenes.worlds[0].shape
        labels = scenes.labels[:, :rows, :columns].reshape(len(scenes), -1)
        place = np.full((len(scenes), len(objects)), labels.shape[1])
        for column, label in enumerate(objects):
            there = labels == label
            place[:, column] = np.where(there.any(axis=1), there.argmax(axis=1), labels.shape[1])
        return cls(labels == WALL, (labels == WALL) | (labels == EMPTY), place)


class Standard(NamedTuple):
    """Standardisation of activations by mean and spread of the training scenes, [D]."""

    mean: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, activations: Activations) -> Standard:
        """Compute the scaling of training scenes."""
        mean = activations.mean(axis=0, dtype=np.float64)
        spread = activations.std(axis=0, dtype=np.float64)
        # A constant dimension gets weight 0. The threshold is relative to the mean because a
        # constant in single precision has a spread due to rounding.
        flat = spread <= 1e-7 * np.maximum(np.abs(mean), 1e-30)
        return cls(mean, np.where(flat, 0.0, 1.0 / np.where(flat, 1.0, spread)))

    def __call__(self, activations: Activations) -> FloatArray:
        """Return scaled activations, [n, D]."""
        return np.asarray((activations - self.mean) * self.weight)

    def single(self, activations: Activations) -> npt.NDArray[np.float32]:
        """Return scaled activations in single precision, converted in chunks to save memory."""
        out = np.empty(activations.shape, dtype=np.float32)
        for at in range(0, len(out), _CHUNK):
            out[at : at + _CHUNK] = self(activations[at : at + _CHUNK])
        return out


# Probes differ in the function that computes the scores. None of them builds a matrix of (scene,
# cell) rows by dimensions: activations are multiplied once per scene, cells once per shape.

# From scaled activations [n, D] and the index of a shape to scores [n, P + 1, 1 + objects].
Scores = Callable[[FloatArray, int], FloatArray]


@dataclass(frozen=True, eq=False)
class FittedHeads:
    """Fitted probe of goalmeter."""

    places: Places  # predictions of position alone
    standard: Standard
    scores: Scores  # scores that scaled activations add to those predictions
    parameters: int  # number of parameters of `scores`
    # Derivatives of the scores of a shape by activations, [D, P + 1, 1 + objects]; linear probes.
    slopes: Callable[[int], FloatArray] | None = None

    def posterior(self, activations: Activations, shapes: IntArray) -> FloatArray:
        """Return the probability of each class in each cell, [N, rows, columns, 7].

        `shapes` are the rows and columns of each world, [N, 2]. The posterior has the largest
        ones; cells outside a world are walls.
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
        """Return derivatives of wall log-odds by activations, [rows, columns, D]; linear probes."""
        if self.slopes is None or shape not in self.places.shapes:
            return None
        # The last place is nowhere; the first column is the wall score.
        slopes = self.slopes(self.places.shapes.index(shape))[:, :-1, 0]
        return np.asarray((slopes * self.standard.weight[:, None]).T.reshape(*shape, -1))


@dataclass(frozen=True)
class PositionOnly:
    """Share of training scenes with each class in each cell: the reference of gains in bits."""

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
    """Share of training cells of each class, predicted for every cell."""

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
        """Return the shares as the posterior of every cell (see `FittedHeads.posterior`)."""
        out = walls_outside(shapes)
        for scene, (rows, columns) in enumerate(shapes):
            out[scene, :rows, :columns] = self.shares
        return out
