"""The cells of all shapes as places, and what position alone says of each.

A probe of ours gives, for every place, the log-odds of a wall, and for every object (agent, goal,
key, ...) a score in a softmax over places: an object is in one cell, so its cells compete, and a
class of its own at every cell would let several cells be the agent. An object that some scenes lack
may also be nowhere, which is a place as well. Both begin at what position alone says: what
activations add starts from zero, so a probe that learns nothing is the table of positions.

From wall odds and objects to a posterior over classes: let t_k(i) be the softmax of object k at
cell i. Objects never share a cell, so

    p_k(i) = t_k(i) prod_{l != k} (1 - t_l(i)) / Z_k

with Z_k such that k is somewhere, and not nowhere, as often as before; what no object takes is wall
or empty by the odds. For two objects this is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.representation.scenes import CLASSES, EMPTY, WALL, Scenes, Shape

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
