"""Registry of probes: ridge, probes trained by gradient descent, and the two published ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from goalmeter._errors import InvalidParameterError, require
from goalmeter._names import did_you_mean
from goalmeter._types import FloatArray, IntArray
from goalmeter.representation.probes import protocol
from goalmeter.representation.probes.protocol import FittedHeads, Places, Reading, Standard, Targets
from goalmeter.representation.scenes import CLASSES, OUTSIDE

if TYPE_CHECKING:
    import torch
    from torch import nn

# --- Ridge ----------------------------------------------------------------------------------------
# The heads of all cells share one decomposition of the activations. A regression on labels 0 and 1
# does not return odds. If both classes are normal with equal covariance, its prediction is linear
# in the log-odds: with r the prediction minus the share q of walls and R² the explained variance,
#
#     log-odds = logit q + r / c + (q - 1/2) M
#     c = q (1 - q) (1 - R²),    M = R² / ((1 - R²) q (1 - q))
#
# The fit is converted to odds with the R² of validation scenes; a head that explains nothing there
# adds nothing. Objects, one of each per scene, get one scale each.
#
# Source: Fisher (1936), as in Hastie, Tibshirani and Friedman, The Elements of Statistical
# Learning, section 4.3 and exercise 4.2, for regression and discriminants.

PENALTIES = (1.0, 10.0, 100.0, 300.0, 1e3, 3e3, 1e4, 1e5)
# Scales of an object's scores in the softmax; 0 is position alone.
_SCALES = np.concatenate([[0.0], np.geomspace(0.1, 100.0, 31)])
# Factors of the log-odds of the formula.
_CONFIDENCES = np.linspace(0.0, 1.5, 16)
# Above this share of explained variance a few scenes would determine the odds.
_MOST_EXPLAINED = 0.98
_CHUNK = 1024


@dataclass(frozen=True)
class Ridge:
    """Linear head per cell, fitted by ridge regression; validation chooses the penalty."""

    penalties: tuple[float, ...] = PENALTIES
    name: str = "ridge"

    def fit(self, train: Reading, validation: Reading, *, seed: int) -> FittedHeads:
        """Fit deterministically."""
        places, standard = Places.of(train.scenes), Standard.of(train.activations)
        known = dict(places.groups(validation.scenes.shapes))
        # By shape: centre [D], weights [D, P + 1, 1 + objects] and shift [P + 1, 1 + objects].
        heads: dict[int, tuple[FloatArray, FloatArray, FloatArray]] = {}
        for number, where in places.groups(train.scenes.shapes):
            if number not in known:
                raise InvalidParameterError(
                    f"training scenes have {places.shapes[number]} cells, but no validation scene "
                    f"has; divide the scenes by split or folds, which stratify by shape"
                )
            (rows, scenes), (held_out, later) = train.where(where), validation.where(known[number])
            centre = standard(rows.mean(axis=0, dtype=np.float64))
            residuals = _residuals(Targets.of(scenes, places.objects))
            basis, spectrum, loads = _decomposed(rows, standard, centre, residuals)
            projected, offset = (standard(held_out) - centre) @ basis, places.offsets[number]
            targets = Targets.of(later, places.objects)
            trials = [
                _calibrated((projected / (spectrum + penalty)) @ loads, targets, offset)
                for penalty in self.penalties
            ]
            best = min(range(len(trials)), key=lambda trial: trials[trial][0])
            _, scale, shift = trials[best]
            weights = basis @ (loads / (spectrum + self.penalties[best])[:, None])
            heads[number] = centre, weights.reshape(-1, *offset.shape) * scale, shift

        def scores(rows: FloatArray, number: int) -> FloatArray:
            centre, weights, shift = heads[number]
            return np.asarray(np.tensordot(rows - centre, weights, 1) + shift)

        parameters = sum(int(np.count_nonzero(weights)) for _, weights, _ in heads.values())
        return FittedHeads(places, standard, scores, parameters, lambda n: heads[n][1])


def _residuals(targets: Targets) -> FloatArray:
    """Return residuals of position alone, [n, (P + 1) (1 + objects)], columns with mean 0."""
    n, cells = targets.wall.shape
    out = np.zeros((n, cells + 1, 1 + targets.place.shape[1]))
    # A cell with an object has no wall label: it gets the mean of the others.
    free = np.maximum(targets.free.sum(axis=0), 1)
    share = (targets.wall & targets.free).sum(axis=0) / free
    out[:, :-1, 0] = np.where(targets.free, targets.wall - share, 0.0)
    for column, places in enumerate(targets.place.T, start=1):
        out[np.arange(n), places, column] = 1.0
        out[..., column] -= out[..., column].mean(axis=0)
    return out.reshape(n, -1)


def _decomposed(
    activations: protocol.Activations, standard: Standard, centre: FloatArray, targets: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return basis [D, m], spectrum [m] and loads [m, T]: basis (loads / (spectrum + penalty))."""
    n, dimensions = activations.shape
    if n < dimensions:
        rows = standard(activations) - centre
        spectrum, vectors = np.linalg.eigh(rows @ rows.T)
        return rows.T @ vectors, np.maximum(spectrum, 0.0), vectors.T @ targets
    gram, moments = np.zeros((dimensions, dimensions)), np.zeros((dimensions, targets.shape[1]))
    # Chunks avoid a copy of all rows in double precision.
    for at in range(0, n, _CHUNK):
        rows = standard(activations[at : at + _CHUNK]) - centre
        gram += rows.T @ rows
        moments += rows.T @ targets[at : at + _CHUNK]
    spectrum, basis = np.linalg.eigh(gram)
    return basis, np.maximum(spectrum, 0.0), basis.T @ moments


def _calibrated(
    predictions: FloatArray, targets: Targets, offset: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return nats per scene, and scale and shift of predictions [n, (P + 1) (1 + objects)]."""
    predicted = predictions.reshape(len(predictions), *offset.shape)
    scale, shift = np.zeros_like(offset), np.zeros_like(offset)
    wall, free = targets.wall, targets.free
    q = 1.0 / (1.0 + np.exp(-offset[:-1, 0]))
    residual = np.where(free, wall - q, 0.0)
    unexplained = np.where(free, residual - predicted[:, :-1, 0], 0.0)
    total = (residual**2).sum(axis=0)
    explained = 1.0 - (unexplained**2).sum(axis=0) / np.where(total > 0, total, np.inf)
    explained = np.where(total > 0, np.clip(explained, 0.0, _MOST_EXPLAINED), 0.0)
    spread = np.maximum(q * (1.0 - q), 1e-9)
    slope = np.where(explained > 0, 1.0 / (spread * (1.0 - explained)), 0.0)
    lift = (q - 0.5) * explained / ((1.0 - explained) * spread)
    log_odds = predicted[:, :-1, 0] * slope + lift

    def wall_loss(confidence: float) -> float:
        odds = offset[:-1, 0] + confidence * log_odds
        nats = np.logaddexp(0.0, np.where(wall, -odds, odds))
        return float(np.where(free, nats, 0.0).sum(axis=1).mean())

    def place_loss(scores: FloatArray, places: IntArray) -> float:
        top = scores.max(axis=1, keepdims=True)
        total = np.log(np.exp(scores - top).sum(axis=1)) + top[:, 0]
        return float((total - scores[np.arange(len(scores)), places]).mean())

    losses = [wall_loss(confidence) for confidence in _CONFIDENCES]
    loss, best = min(losses), _CONFIDENCES[int(np.argmin(losses))]
    scale[:-1, 0], shift[:-1, 0] = best * slope, best * lift
    for column, places in enumerate(targets.place.T, start=1):
        evidence = predicted[..., column]
        costs = [place_loss(offset[:, column] + size * evidence, places) for size in _SCALES]
        scale[:, column] = _SCALES[int(np.argmin(costs))]
        loss += min(costs)
    return loss, scale, shift


# --- Gradient descent -----------------------------------------------------------------------------
Batch = TypeVar("Batch")
# Scenes per batch of inference, which holds scenes x cells x hidden numbers.
_STATES = 32
# Root mean square norm of scaled activations of any width; learning rates are tuned to it.
LENGTH = 10.0


@dataclass(frozen=True)
class Schedule:
    """Training schedule of AdamW with early stopping."""

    rate: float = 1e-2  # learning rate
    decay: float = 1e-2  # weight decay
    batch: int = 32  # scenes per step
    epochs: int = 100  # maximum number
    patience: int = 8  # epochs without improvement of the validation loss

    def train(
        self,
        network: nn.Module,
        batches: Callable[[], Iterable[Batch]],
        loss: Callable[[Batch], torch.Tensor],
        validation_loss: Callable[[], float],
        *,
        clip: float = float("inf"),
    ) -> None:
        """Train in place to the lowest validation loss; gradient norms are clipped to `clip`."""
        import torch

        optimiser = torch.optim.AdamW(network.parameters(), lr=self.rate, weight_decay=self.decay)

        def validated() -> float:
            network.eval()
            with torch.no_grad():
                return validation_loss()

        best, least, worse = deepcopy(network.state_dict()), validated(), 0
        for _ in range(self.epochs):
            network.train()
            for batch in batches():
                optimiser.zero_grad(set_to_none=True)
                loss(batch).backward()  # type: ignore[no-untyped-call]
                if np.isfinite(clip):
                    torch.nn.utils.clip_grad_norm_(network.parameters(), clip)
                optimiser.step()
            current, worse = validated(), worse + 1
            if current < least:
                best, least, worse = deepcopy(network.state_dict()), current, 0
            elif worse >= self.patience:
                break
        network.load_state_dict(best)
        network.eval()


# The scores of a network are zero before the first step: its loss is then that of position alone,
# and this checkpoint may be the best one. No class is oversampled.
def _trained(
    train: Reading, validation: Reading, schedule: Schedule, seed: int, make: Callable[..., Any]
) -> FittedHeads:
    """Train a network that maps scaled activations [n, D] and a shape's index to scores."""
    import torch
    from torch.nn import functional

    width = train.activations.shape[1]
    standard, places = Standard.of(train.activations), Places.of(train.scenes)
    # Scaling to `LENGTH` makes the effect of the learning rate independent of the width.
    standard = Standard(standard.mean, LENGTH / width**0.5 * standard.weight)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = make(places, width)
    rng = np.random.default_rng(seed)

    def tensors(reading: Reading) -> dict[int, tuple[torch.Tensor, ...]]:
        """Return activations, targets and predictions of position alone by index of the shape."""
        out = {}
        for number, where in places.groups(reading.scenes.shapes):
            rows, scenes = reading.where(where)
            wall, free, place = Targets.of(scenes, places.objects)
            floats = (each.astype(np.float32) for each in (wall, free, places.offsets[number]))
            arrays = (standard.single(rows), place, *floats)
            out[number] = tuple(map(torch.from_numpy, arrays))
        return out

    known, held_out = map(tensors, (train, validation))

    def nats(number: int, of_shape: tuple[torch.Tensor, ...], rows: Any) -> torch.Tensor:
        """Return the loss of scenes of a shape, summed over cells, [n]."""
        inputs, place, wall, free, offset = of_shape
        scores = network(inputs[rows], number) + offset
        costs = functional.binary_cross_entropy_with_logits(
            scores[:, :-1, 0], wall[rows], reduction="none"
        )
        # A cell with an object has no wall label.
        total = (costs * free[rows]).sum(dim=1)
        for column, places in enumerate(place[rows].T, start=1):
            total = total + functional.cross_entropy(scores[..., column], places, reduction="none")
        return total

    def batches() -> Iterable[tuple[int, Any]]:
        listed = []
        for number, (rows, *_) in known.items():
            order = torch.from_numpy(rng.permutation(len(rows)))
            listed += [(number, part) for part in torch.split(order, schedule.batch)]
        # Shapes alternate, so that shared weights are not fitted to the last shape.
        return [listed[place] for place in rng.permutation(len(listed))]

    def loss(batch: tuple[int, Any]) -> torch.Tensor:
        number, rows = batch
        return nats(number, known[number], rows).mean()

    def validation_loss() -> float:
        """Return nats per scene."""
        total = 0.0
        for number, of_shape in held_out.items():
            for part in torch.split(torch.arange(len(of_shape[0])), 256):
                total += float(nats(number, of_shape, part).sum())
        return total / len(validation.scenes)

    schedule.train(network, batches, loss, validation_loss)
    network.double()

    def scores(rows: FloatArray, number: int) -> FloatArray:
        with torch.no_grad():
            parts = torch.split(torch.from_numpy(rows), _STATES)
            return np.concatenate([network(part, number).numpy() for part in parts])

    slopes = getattr(network, "slopes", None)
    derivative = slopes and (lambda number: slopes(number).detach().numpy())
    parameters = sum(weights.numel() for weights in network.parameters())
    return FittedHeads(places, standard, scores, parameters, derivative)


# The scores of a cell are the activation times the matrix of that cell: a logistic regression per
# cell or, if all matrices lie in the span of a few directions, a bilinear form of low rank.
@dataclass(frozen=True)
class Bilinear:
    """Bilinear form of activation and cell, or one matrix per cell if `rank` is None."""

    rank: int | None = 32  # number of directions shared by all cells
    schedule: Schedule = field(default_factory=Schedule)

    @property
    def name(self) -> str:
        """Name in tables, with the rank."""
        return "logistic" if self.rank is None else f"bilinear({self.rank})"

    def fit(self, train: Reading, validation: Reading, *, seed: int) -> FittedHeads:
        """Train with early stopping."""
        require("torch", extra="lm", feature="a probe trained by gradient descent")
        import torch
        from torch import nn

        rank = self.rank

        class Form(nn.Module):
            def __init__(self, places: Places, width: int) -> None:
                super().__init__()
                self.shapes = [offset.shape for offset in places.offsets]
                if rank is not None:
                    # Random directions and zero matrices: scores are zero, gradients are not.
                    self.directions = nn.Parameter(torch.randn(width, rank) / LENGTH)
                flat = [(width if rank is None else rank, a * b) for a, b in self.shapes]
                self.heads = nn.ParameterList(nn.Parameter(torch.zeros(each)) for each in flat)
                self.shifts = nn.ParameterList(nn.Parameter(torch.zeros(s)) for s in self.shapes)

            def forward(self, rows: torch.Tensor, number: int) -> torch.Tensor:
                projected = rows if rank is None else rows @ self.directions
                flat = projected @ self.heads[number]
                scores: torch.Tensor = flat.reshape(-1, *self.shapes[number]) + self.shifts[number]
                return scores

            def slopes(self, number: int) -> torch.Tensor:
                head = self.heads[number]
                matrix: torch.Tensor = head if rank is None else self.directions @ head
                return matrix.reshape(-1, *self.shapes[number])

        return _trained(train, validation, self.schedule, seed, Form)


# One matrix per cell overfits few grids; a larger decay would make it underconfident.
LOGISTIC = Bilinear(None, Schedule(decay=0.1))


# The first layer is the sum W [a; row; column] = W_a a + W_r[row] + W_c[column]: W_a a is computed
# once per scene, the other terms once per cell. With one-hot coordinates a hidden unit can select
# one cell, which is hard with the raw coordinates of the published probe.
@dataclass(frozen=True)
class Mlp:
    """One hidden layer of rectified units over [activation; one-hot row; one-hot column]."""

    hidden: int = 512
    # Nonlinear features are learnt after a plateau.
    schedule: Schedule = field(default_factory=lambda: Schedule(epochs=200, patience=20))

    @property
    def name(self) -> str:
        """Name in tables, with the size."""
        return f"mlp({self.hidden})"

    def fit(self, train: Reading, validation: Reading, *, seed: int) -> FittedHeads:
        """Train with early stopping."""
        require("torch", extra="lm", feature="a probe trained by gradient descent")
        import torch
        from torch import nn

        hidden = self.hidden

        class Hidden(nn.Module):
            def __init__(self, places: Places, width: int) -> None:
                super().__init__()
                # Rows and columns of each place; nowhere has additional ones after the last.
                self.cells = [
                    [np.append(axis.ravel(), -1) for axis in np.indices(s)] for s in places.shapes
                ]
                extent = np.max(places.shapes, axis=0) + 1
                self.activation = nn.Parameter(torch.randn(width, hidden) / LENGTH)
                self.row = nn.Parameter(torch.randn(extent[0], hidden))
                self.column = nn.Parameter(torch.randn(extent[1], hidden))
                # Positions alone also depend on the shape.
                self.shape = nn.Parameter(torch.zeros(len(places.shapes), hidden))
                # Zeros make training start at position alone.
                self.out = nn.Parameter(torch.zeros(hidden, 1 + len(places.objects)))
                self.shift = nn.Parameter(torch.zeros(1 + len(places.objects)))

            def forward(self, rows: torch.Tensor, number: int) -> torch.Tensor:
                row, column = self.cells[number]
                cells = self.row[row] + self.column[column]
                sums = (rows @ self.activation)[:, None] + cells + self.shape[number]
                return torch.relu(sums) @ self.out + self.shift

        return _trained(train, validation, self.schedule, seed, Hidden)


# --- Published probes -----------------------------------------------------------------------------
# Each (state, cell) is a row of z-scored activations followed by the cell's raw row and column.
# Classes are balanced by oversampling cells to the count of the most common class; the weights of
# the last epoch are used. Grids are padded to the largest size; padding is an additional class that
# is removed before scoring.
#
# The linear probe adds the same number for each class to every cell of a state, so its failure
# does not show how a map is encoded. Oversampled classes do not yield a posterior at natural
# prevalence: with agents as common as walls, several cells are classified as the agent.
#
# In this implementation all rows of a state are in one batch, so that its activations are
# multiplied once; a batch has as many rows as the published one on average.
#
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents", section 5 and its code: AdamW, rate 3e-4, decay 1e-3, batches of 2,048, 50 epochs.

RATE, DECAY, BATCH, EPOCHS = 3e-4, 1e-3, 2048, 50
HIDDEN = 1024
# Additional class, used in training only.
_PADDING = len(CLASSES)


@dataclass(frozen=True)
class Published:
    """MLP probe of the paper, or its linear probe if `hidden` is None."""

    hidden: int | None = None
    epochs: int = EPOCHS

    @property
    def name(self) -> str:
        """Name in tables."""
        return "linear (as published)" if self.hidden is None else "MLP (as published)"

    def fit(self, train: Reading, validation: Reading, *, seed: int) -> FittedPublished:
        """Train without early stopping."""
        require("torch", extra="lm", feature="a published probe")
        import torch
        from torch import nn
        from torch.nn import functional

        standard = Standard.of(train.activations)
        labels = np.where(train.scenes.labels == OUTSIDE, _PADDING, train.scenes.labels)
        classes, flat = np.unique(labels, return_inverse=True)
        rng = np.random.default_rng(seed)
        target = torch.from_numpy(flat.reshape(len(labels), -1))
        repeats = torch.from_numpy(_drawn(target.numpy(), rng).astype(np.float32))
        where = torch.from_numpy(_coordinates(labels.shape[1:]).astype(np.float32))
        rows = torch.from_numpy(standard.single(train.activations))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            first = nn.Linear(rows.shape[1] + 2, self.hidden or len(classes))
            last = nn.Identity() if self.hidden is None else nn.Linear(self.hidden, len(classes))
        parts = [*first.parameters(), *last.parameters()]
        optimiser = torch.optim.AdamW(parts, lr=RATE, weight_decay=DECAY)
        # Oversampled rows have weights instead of copies, so batch sizes are sums of weights.
        states = max(1, round(BATCH * len(rows) / float(repeats.sum())))
        for _ in range(self.epochs):
            order = torch.from_numpy(rng.permutation(len(rows)))
            for batch in torch.split(order, states):
                # The first layer as one product per state and one per cell.
                whole, cells = first.weight.T[:-2], first.weight.T[-2:]
                sums = (rows[batch] @ whole)[:, None] + where @ cells + first.bias
                scores = sums if self.hidden is None else last(torch.relu(sums))
                costs = functional.cross_entropy(
                    scores.flatten(0, 1), target[batch].flatten(), reduction="none"
                )
                weight = repeats[batch].flatten()
                loss = (costs * weight).sum() / weight.sum()
                optimiser.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        weights = [part.detach().double().numpy() for part in parts]
        return FittedPublished(standard, classes, tuple(weights))


@dataclass(frozen=True, eq=False)
class FittedPublished:
    """Fitted probe of the paper."""

    standard: Standard
    classes: IntArray  # class of each output, [K]; the last may be padding
    weights: tuple[FloatArray, ...]  # [hidden or K, D + 2] and a shift; the same of a second layer

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return sum(array.size for array in self.weights)

    def posterior(self, activations: protocol.Activations, shapes: IntArray) -> FloatArray:
        """Return class probabilities at the prevalence of oversampled classes."""
        out = protocol.walls_outside(shapes)
        frame = out.shape[1:3]
        real = self.classes != _PADDING
        cells = _coordinates(frame) @ self.weights[0].T[-2:] + self.weights[1]
        for at in range(0, len(activations), _STATES):
            rows = self.standard(activations[at : at + _STATES])
            scores = (rows @ self.weights[0].T[:-2])[:, None] + cells
            if len(self.weights) > 2:
                scores = np.maximum(scores, 0.0) @ self.weights[2].T + self.weights[3]
            scores = np.exp(scores[..., real] - scores[..., real].max(axis=-1, keepdims=True))
            shares = (scores / scores.sum(axis=-1, keepdims=True)).reshape(len(rows), *frame, -1)
            for scene, (height, width) in enumerate(shapes[at : at + len(rows)], start=at):
                inside = np.zeros((height, width, len(CLASSES)))
                inside[..., self.classes[real]] = shares[scene - at, :height, :width]
                out[scene, :height, :width] = inside
        return out


def _coordinates(frame: tuple[int, ...]) -> FloatArray:
    """Return the raw row and column of every cell, [P, 2]."""
    return np.argwhere(np.ones(frame)).astype(float)


def _drawn(target: IntArray, rng: np.random.Generator) -> IntArray:
    """Count copies of each row after oversampling classes to the most common one, [N, P]."""
    flat = target.ravel()
    counts = np.bincount(flat)
    times, missing = np.divmod(counts.max(), counts)
    out: IntArray = times[flat]
    for number, more in enumerate(missing.tolist()):
        out[rng.choice(np.flatnonzero(flat == number), more, replace=False)] += 1
    return out.reshape(target.shape)


# Probes have a name in tables; they are fitted to training scenes and stopped on validation scenes.
Probe = Ridge | Bilinear | Mlp | Published | protocol.PositionOnly | protocol.Majority
FittedProbe = FittedHeads | FittedPublished | protocol.FittedMajority
_TRAINED = Ridge(), LOGISTIC, Bilinear(), Mlp(), Published(), Published(HIDDEN)
_LISTED = (*_TRAINED, protocol.PositionOnly(), protocol.Majority())
# Probes by name. The fields of a probe are its hyperparameters, as in `Bilinear(rank=8)`.
PROBES: dict[str, Probe] = {each.name: each for each in _LISTED}


def probe(name: str) -> Probe:
    """Return a probe by its name in tables."""
    if name not in PROBES:
        raise InvalidParameterError(
            f"unknown probe {name!r}{did_you_mean(name, PROBES, quoted=True)}; expected one of "
            f"{', '.join(PROBES)}"
        )
    return PROBES[name]
