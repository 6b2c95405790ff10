"""A linear head a cell, in closed form: ridge regression on whether the cell is a wall.

The heads of all cells share one decomposition of the activations, so a thousand of them cost little
more than one, and the strength of the penalty is chosen by validation for nothing. A regression on
0 and 1 gives no odds. Where both classes are normal with one covariance, what it gives is linear in
them: with r the prediction less the share q of walls, R² what it explains,

    log-odds = logit q + r / c + (q - 1/2) M
    c = q (1 - q) (1 - R²),    M = R² / ((1 - R²) q (1 - q))

so the fit is turned into odds with R² taken on validation scenes; a head that explains nothing
there adds nothing. Objects, of which there is one a scene, get one scale each.

Source: Fisher (1936), as in Hastie, Tibshirani and Friedman, The Elements of Statistical Learning,
section 4.3 and exercise 4.2, for regression and discriminants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray, IntArray
from goalmeter.representation.probes.heads import FittedHeads, Standard
from goalmeter.representation.probes.places import Places, Targets
from goalmeter.representation.probes.protocol import Activations, Reading, check_reading
from goalmeter.representation.scenes import Scenes

PENALTIES = (1.0, 10.0, 100.0, 300.0, 1e3, 3e3, 1e4, 1e5)
# Of an object's softmax; 0 is position alone.
_SCALES = np.concatenate([[0.0], np.geomspace(0.1, 100.0, 31)])
# How sure of itself a head may be told to be, as a share of what the formula says.
_CONFIDENCES = np.linspace(0.0, 1.5, 16)
# Above this share of variance odds would be decided by a few scenes.
_MOST_EXPLAINED = 0.98
_CHUNK = 1024


@dataclass(frozen=True)
class Ridge:
    """A linear head a cell, by ridge regression.

    Attributes:
        penalties: strengths to choose from.
    """

    penalties: tuple[float, ...] = PENALTIES
    name: str = "ridge"

    def fit(self, train: Reading, validation: Reading, *, seed: int) -> FittedHeads:
        """As `Probe.fit`; nothing is drawn at random."""
        check_reading(train, "the training part")
        check_reading(validation, "the validation part")
        places, standard = Places.of(train.scenes), Standard.of(train.activations)
        heads: dict[int, _Head] = {}
        known = dict(places.groups(validation.scenes.shapes))
        for number, where in places.groups(train.scenes.shapes):
            if number not in known:
                raise InvalidParameterError(
                    f"no validation scene has {places.shapes[number]} cells, as training scenes "
                    f"have; divide the scenes by split or folds, which give every part its share"
                )
            heads[number] = _head(
                train.where(where),
                validation.where(known[number]),
                standard,
                places.offsets[number],
                places.objects,
                self.penalties,
            )

        def scores(rows: FloatArray, number: int) -> FloatArray:
            head = heads[number]
            return np.asarray(np.tensordot(rows - head.centre, head.weights, 1) + head.shift)

        # The decomposition is shared, the penalty and the scales are few: weights are what counts.
        parameters = sum(int(np.count_nonzero(head.weights)) for head in heads.values())
        return FittedHeads(places, standard, scores, parameters, lambda n: heads[n].weights)


class _Head(NamedTuple):
    """Scores of one shape: (rows - centre) · weights + shift."""

    centre: FloatArray  # [D]
    weights: FloatArray  # [D, P + 1, 1 + objects]
    shift: FloatArray  # [P + 1, 1 + objects]


class _Trial(NamedTuple):
    """What one penalty gives: its loss on validation scenes, and how predictions become scores."""

    loss: float  # nats a scene
    penalty: float
    scale: FloatArray  # [P + 1, 1 + objects]
    shift: FloatArray  # [P + 1, 1 + objects]


def _head(
    train: Reading,
    validation: Reading,
    standard: Standard,
    offset: FloatArray,
    objects: tuple[int, ...],
    penalties: tuple[float, ...],
) -> _Head:
    """The heads of one shape; `offset` is what position alone says, [P + 1, 1 + objects]."""
    centre = standard(train.activations.mean(axis=0, dtype=np.float64))
    residuals = _residuals(train.scenes, objects)
    basis, spectrum, loads = _decomposed(train.activations, standard, centre, residuals)
    beside = (standard(validation.activations) - centre) @ basis
    targets = Targets.of(validation.scenes, objects)
    trials = [
        _trial((beside / (spectrum + penalty)) @ loads, targets, offset, penalty)
        for penalty in penalties
    ]
    best = min(trials, key=lambda trial: trial.loss)
    weights = basis @ (loads / (spectrum + best.penalty)[:, None])
    return _Head(centre, weights.reshape(-1, *offset.shape) * best.scale, best.shift)


def _residuals(scenes: Scenes, objects: tuple[int, ...]) -> FloatArray:
    """What position leaves to be explained, [n, (P + 1) (1 + objects)], columns with mean 0."""
    targets = Targets.of(scenes, objects)
    n, cells = targets.wall.shape
    out = np.zeros((n, cells + 1, 1 + len(objects)))
    # A cell with an object says nothing of walls there: it is put at the mean of the others.
    free = np.maximum(targets.free.sum(axis=0), 1)
    share = (targets.wall & targets.free).sum(axis=0) / free
    out[:, :-1, 0] = np.where(targets.free, targets.wall - share, 0.0)
    for column, places in enumerate(targets.place.T, start=1):
        out[np.arange(n), places, column] = 1.0
        out[..., column] -= out[..., column].mean(axis=0)
    return out.reshape(n, -1)


def _decomposed(
    activations: Activations, standard: Standard, centre: FloatArray, targets: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Basis [D, m], spectrum [m] and loads [m, T], by the smaller of the rows' two products.

    Weights are basis (loads / (spectrum + penalty)).
    """
    n, dimensions = activations.shape
    if n >= dimensions:
        gram, moments = np.zeros((dimensions, dimensions)), np.zeros((dimensions, targets.shape[1]))
        # In parts: all rows in double precision would be the largest array by far.
        for at in range(0, n, _CHUNK):
            rows = standard(activations[at : at + _CHUNK]) - centre
            gram += rows.T @ rows
            moments += rows.T @ targets[at : at + _CHUNK]
        spectrum, basis = np.linalg.eigh(gram)
        return basis, np.maximum(spectrum, 0.0), basis.T @ moments
    rows = standard(activations) - centre
    spectrum, vectors = np.linalg.eigh(rows @ rows.T)
    return rows.T @ vectors, np.maximum(spectrum, 0.0), vectors.T @ targets


def _trial(raised: FloatArray, targets: Targets, offset: FloatArray, penalty: float) -> _Trial:
    """Turn predictions of validation scenes, [n, (P + 1) (1 + objects)], into scores."""
    predicted = raised.reshape(len(raised), *offset.shape)
    scale, shift = np.zeros_like(offset), np.zeros_like(offset)
    wall, free = targets.wall, targets.free
    q = 1.0 / (1.0 + np.exp(-offset[:-1, 0]))
    residual = np.where(free, wall - q, 0.0)
    left = np.where(free, residual - predicted[:, :-1, 0], 0.0)
    total = (residual**2).sum(axis=0)
    explained = 1.0 - (left**2).sum(axis=0) / np.where(total > 0, total, np.inf)
    explained = np.where(total > 0, np.clip(explained, 0.0, _MOST_EXPLAINED), 0.0)
    spread = np.maximum(q * (1.0 - q), 1e-9)
    slope = np.where(explained > 0, 1.0 / (spread * (1.0 - explained)), 0.0)
    lift = (q - 0.5) * explained / ((1.0 - explained) * spread)
    adds = predicted[:, :-1, 0] * slope + lift
    losses = []
    for confidence in _CONFIDENCES:
        odds = offset[:-1, 0] + confidence * adds
        nats = np.logaddexp(0.0, np.where(wall, -odds, odds))
        losses.append(float(np.where(free, nats, 0.0).sum(axis=1).mean()))
    best = int(np.argmin(losses))
    scale[:-1, 0], shift[:-1, 0] = _CONFIDENCES[best] * slope, _CONFIDENCES[best] * lift
    loss = losses[best]
    for column, places in enumerate(targets.place.T, start=1):
        costs = [
            _choice_loss(offset[:, column] + size * predicted[..., column], places)
            for size in _SCALES
        ]
        scale[:, column] = _SCALES[int(np.argmin(costs))]
        loss += min(costs)
    return _Trial(loss, penalty, scale, shift)


def _choice_loss(scores: FloatArray, places: IntArray) -> float:
    """Nats a scene of a softmax over places."""
    top = scores.max(axis=1, keepdims=True)
    total = np.log(np.exp(scores - top).sum(axis=1)) + top[:, 0]
    return float((total - scores[np.arange(len(scores)), places]).mean())
