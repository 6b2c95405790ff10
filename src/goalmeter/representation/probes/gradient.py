"""Train probes by gradient descent: logistic and bilinear heads, and a multilayer perceptron."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from goalmeter._errors import require, whole
from goalmeter._types import FloatArray
from goalmeter.representation.probes.protocol import (
    FittedHeads,
    Places,
    Reading,
    Standard,
    Targets,
)

if TYPE_CHECKING:
    import torch
    from torch import nn


# --- Training -------------------------------------------------------------------------------------
# The scores that a network adds are zero before the first step, so the loss there is that of
# position alone, and the best checkpoint may be that one. Classes count as often as they occur;
# nothing is oversampled.

# Weights of a network, in the format of its user.
Checkpoint = TypeVar("Checkpoint")


@dataclass(frozen=True)
class Schedule:
    """A training schedule of AdamW with early stopping."""

    rate: float = 1e-2
    decay: float = 1e-2  # of weights
    batch: int = 32  # scenes per step
    epochs: int = 100  # at most
    patience: int = 8  # epochs without a better validation loss


# Root mean square length of scaled activations of any width: rates are tuned to it.
LENGTH = 10.0


def begin(train: Reading) -> tuple[Places, Standard]:
    """Return the places and the scaling of training scenes.

    Activations are scaled to length `LENGTH`, so that a step of one rate moves scores as far
    whatever their width.
    """
    require("torch", extra="lm", feature="a probe that is trained by gradient")
    standard = Standard.of(train.activations)
    scale = LENGTH / train.activations.shape[1] ** 0.5
    return Places.of(train.scenes), Standard(standard.mean, scale * standard.weight)


def trained(
    network: nn.Module,
    places: Places,
    standard: Standard,
    train: Reading,
    validation: Reading,
    schedule: Schedule,
    seed: int,
) -> dict[str, FloatArray]:
    """Train a network and return the weights of the best checkpoint, by name.

    The network maps scaled activations [n, D] and the number of a shape to scores
    [n, P + 1, 1 + objects], which are zero before training. The seed orders the scenes.
    """
    import torch

    fitted, held_out = (_Batches(part, places, standard) for part in (train, validation))
    optimiser = torch.optim.AdamW(
        network.parameters(), lr=schedule.rate, weight_decay=schedule.decay
    )
    rng = np.random.default_rng(seed)

    def epoch() -> None:
        for number, rows in fitted.shuffled(rng, schedule.batch):
            optimiser.zero_grad(set_to_none=True)
            fitted.nats(network, number, rows).mean().backward()  # type: ignore[no-untyped-call]
            optimiser.step()

    return best_checkpoint(network, schedule, epoch, partial(held_out.loss, network), _weights)


def best_checkpoint(
    network: nn.Module,
    schedule: Schedule,
    epoch: Callable[[], None],
    loss: Callable[[], float],
    weights: Callable[[nn.Module], Checkpoint],
) -> Checkpoint:
    """Return a copy of the weights with the least validation loss, initial ones included."""
    best, least, waited = weights(network), loss(), 0
    for _ in range(schedule.epochs):
        network.train()
        epoch()
        now = loss()
        if now < least:
            best, least, waited = weights(network), now, 0
        else:
            waited += 1
            if waited >= schedule.patience:
                break
    return best


class _Batches:
    """Scenes as tensors, by shape."""

    def __init__(self, reading: Reading, places: Places, standard: Standard) -> None:
        import torch

        self._parts: dict[int, tuple[torch.Tensor, ...]] = {}
        for number, where in places.groups(reading.scenes.shapes):
            same_shape = reading.where(where)
            targets = Targets.of(same_shape.scenes, places.objects)
            arrays = (
                standard.single(same_shape.activations),
                targets.wall.astype(np.float32),
                targets.free.astype(np.float32),
                targets.place,
                places.offsets[number].astype(np.float32),
            )
            self._parts[number] = tuple(torch.from_numpy(array) for array in arrays)

    def shuffled(self, rng: np.random.Generator, batch: int) -> list[tuple[int, Any]]:
        """Return (shape, rows) of an epoch's batches, in a random order."""
        import torch

        out = []
        for number, (rows, *_) in self._parts.items():
            order = torch.from_numpy(rng.permutation(len(rows)))
            out += [(number, part) for part in torch.split(order, batch)]
        # Shapes alternate, so that what they share is not fitted to the last one.
        return [out[i] for i in rng.permutation(len(out))]

    def nats(self, network: nn.Module, number: int, rows: Any) -> torch.Tensor:
        """Return the loss of scenes of a shape, summed over cells, [n]."""
        from torch.nn import functional

        inputs, wall, free, place, offset = self._parts[number]
        scores = network(inputs[rows], number) + offset
        costs = functional.binary_cross_entropy_with_logits(
            scores[:, :-1, 0], wall[rows], reduction="none"
        )
        # A cell with an object has no wall label.
        total = (costs * free[rows]).sum(dim=1)
        for column in range(place.shape[1]):
            total = total + functional.cross_entropy(
                scores[:, :, 1 + column], place[rows, column], reduction="none"
            )
        return total

    def loss(self, network: nn.Module) -> float:
        """Return nats per scene."""
        import torch

        network.eval()
        total, count = 0.0, 0
        with torch.no_grad():
            for number, (rows, *_) in self._parts.items():
                for part in torch.split(torch.arange(len(rows)), 256):
                    total += float(self.nats(network, number, part).sum())
                count += len(rows)
        return total / count


def _weights(network: nn.Module) -> dict[str, FloatArray]:
    return {
        name: value.detach().double().numpy().copy() for name, value in network.state_dict().items()
    }


# --- Linear ---------------------------------------------------------------------------------------
# The scores of a cell are the activation times a matrix of that cell. Where every cell has its own
# matrix this is logistic regression per cell; a bilinear form of low rank, activation × cell, is
# the same with all matrices in the span of a few directions. The rank is the probe's size.

MOST_RANK = 4096


@dataclass(frozen=True)
class Logistic:
    """Multinomial logistic regression per cell, all cells trained together."""

    # A matrix per cell overfits few grids; more decay than this makes it too uncertain.
    schedule: Schedule = field(default_factory=lambda: Schedule(decay=0.1))
    name: str = "logistic"

    def fit(self, train: Reading, validation: Reading, *, seed: int) -> FittedHeads:
        """Train with early stopping."""
        return _fitted(train, validation, None, self.schedule, seed)


@dataclass(frozen=True)
class Bilinear:
    """A bilinear form of activation and cell; the rank counts directions that all cells share."""

    rank: int = 32
    schedule: Schedule = field(default_factory=Schedule)

    @property
    def name(self) -> str:
        """Name in tables, with the rank."""
        return f"bilinear({self.rank})"

    def fit(self, train: Reading, validation: Reading, *, seed: int) -> FittedHeads:
        """Train with early stopping."""
        rank = whole(self.rank, "rank", least=1, most=MOST_RANK)
        return _fitted(train, validation, rank, self.schedule, seed)


def _fitted(
    train: Reading, validation: Reading, rank: int | None, schedule: Schedule, seed: int
) -> FittedHeads:
    places, standard = begin(train)
    import torch
    from torch import nn

    shapes = [offset.shape for offset in places.offsets]
    # A matrix a cell is the same form without shared directions.
    inner = len(standard.mean) if rank is None else rank

    class Form(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            if rank is not None:
                # Directions are random and matrices zero, so that scores are zero and both move.
                start = torch.randn(len(standard.mean), rank) / LENGTH
                self.directions = nn.Parameter(start)
            self.heads = nn.ParameterList(
                nn.Parameter(torch.zeros(inner, places_ * columns)) for places_, columns in shapes
            )
            self.shifts = nn.ParameterList(nn.Parameter(torch.zeros(shape)) for shape in shapes)

        def forward(self, rows: torch.Tensor, number: int) -> torch.Tensor:
            seen = rows if rank is None else rows @ self.directions
            flat = seen @ self.heads[number]
            scores: torch.Tensor = flat.reshape(len(rows), *shapes[number]) + self.shifts[number]
            return scores

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Form()
    weights = trained(network, places, standard, train, validation, schedule, seed)
    directions = weights.get("directions")

    def slopes(number: int) -> FloatArray:
        head = weights[f"heads.{number}"]
        whole_head = head if directions is None else directions @ head
        return whole_head.reshape(-1, *shapes[number])

    def scores(rows: FloatArray, number: int) -> FloatArray:
        seen = rows if directions is None else rows @ directions
        flat = seen @ weights[f"heads.{number}"]
        return np.asarray(flat.reshape(len(rows), *shapes[number]) + weights[f"shifts.{number}"])

    parameters = sum(array.size for array in weights.values())
    return FittedHeads(places, standard, scores, parameters, slopes)


# --- Multilayer perceptron ------------------------------------------------------------------------
# On the concatenation [activation; one-hot row; one-hot column] the first layer is a sum,
#
#     W [a; row; column] = W_a a + W_r[row] + W_c[column]
#
# so W_a a is computed once per scene, the others once per cell, and the matrix of (scene, cell)
# rows by dimensions is never made. With one-hot cells a hidden unit can select one cell, which is
# hard with raw coordinates, as in the published probe.

MOST_HIDDEN = 65_536
# Scenes whose hidden units are computed at once: scenes x cells x hidden numbers.
_CHUNK = 32


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
        hidden = whole(self.hidden, "hidden", least=1, most=MOST_HIDDEN)
        places, standard = begin(train)
        import torch
        from torch import nn

        width, heads = len(standard.mean), 1 + len(places.objects)
        rows_of, columns_of = zip(*(_coordinates(shape) for shape in places.shapes), strict=True)
        # Nowhere has its own row and column, after the last.
        extent = np.max(places.shapes, axis=0) + 1

        class Hidden(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.activation = nn.Parameter(torch.randn(width, hidden) / LENGTH)
                self.row = nn.Parameter(torch.randn(extent[0], hidden))
                self.column = nn.Parameter(torch.randn(extent[1], hidden))
                # Position alone depends on the shape too.
                self.shape = nn.Parameter(torch.zeros(len(places.shapes), hidden))
                # Zero, so that training starts at position alone.
                self.out = nn.Parameter(torch.zeros(hidden, heads))
                self.shift = nn.Parameter(torch.zeros(heads))

            def forward(self, rows: torch.Tensor, number: int) -> torch.Tensor:
                cells = self.row[rows_of[number]] + self.column[columns_of[number]]
                seen = (rows @ self.activation)[:, None] + cells + self.shape[number]
                return torch.relu(seen) @ self.out + self.shift

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = Hidden()
        weights = trained(network, places, standard, train, validation, self.schedule, seed)

        def scores(rows: FloatArray, number: int) -> FloatArray:
            cells = weights["row"][rows_of[number]] + weights["column"][columns_of[number]]
            seen, cells = rows @ weights["activation"], cells + weights["shape"][number]
            parts = [
                np.maximum(seen[at : at + _CHUNK, None] + cells, 0.0) @ weights["out"]
                for at in range(0, len(seen), _CHUNK)
            ]
            return np.concatenate(parts) + weights["shift"]

        parameters = sum(array.size for array in weights.values())
        return FittedHeads(places, standard, scores, parameters)


def _coordinates(shape: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
    """Return the row and the column of every place of a shape, the last index for nowhere."""
    rows, columns = (np.append(axis.ravel(), -1) for axis in np.indices(shape))
    return rows, columns
