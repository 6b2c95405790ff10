"""Train probes by gradient descent: logistic and bilinear heads, and a multilayer perceptron."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from goalmeter._errors import require, whole
from goalmeter._types import FloatArray
from goalmeter.representation.probes.protocol import FittedHeads, Places, Reading, Standard, Targets

if TYPE_CHECKING:
    import torch
    from torch import nn


# --- Training -------------------------------------------------------------------------------------
# The scores that a network adds are zero before the first step, so the loss there is that of
# position alone, and the best checkpoint may be that one. Classes count as often as they occur;
# nothing is oversampled.

Batch = TypeVar("Batch")
# Root mean square length of scaled activations of any width: rates are tuned to it.
LENGTH = 10.0


@dataclass(frozen=True)
class Schedule:
    """A training schedule of AdamW with early stopping."""

    rate: float = 1e-2
    decay: float = 1e-2  # of weights
    batch: int = 32  # scenes per step
    epochs: int = 100  # at most
    patience: int = 8  # epochs without a better validation loss

    def train(
        self,
        network: nn.Module,
        batches: Callable[[], Iterable[Batch]],
        loss: Callable[[Batch], torch.Tensor],
        validation_loss: Callable[[], float],
        *,
        clip: float = float("inf"),
    ) -> None:
        """Train a network in place to the least validation loss, initial weights included.

        `batches` are those of an epoch, and `clip` is the largest norm of a gradient.
        """
        import torch

        optimiser = torch.optim.AdamW(network.parameters(), lr=self.rate, weight_decay=self.decay)

        def validated() -> float:
            network.eval()
            with torch.no_grad():
                return validation_loss()

        best, least, waited = deepcopy(network.state_dict()), validated(), 0
        for _ in range(self.epochs):
            network.train()
            for batch in batches():
                optimiser.zero_grad(set_to_none=True)
                loss(batch).backward()  # type: ignore[no-untyped-call]
                if np.isfinite(clip):
                    torch.nn.utils.clip_grad_norm_(network.parameters(), clip)
                optimiser.step()
            now = validated()
            if now < least:
                best, least, waited = deepcopy(network.state_dict()), now, 0
            else:
                waited += 1
                if waited >= self.patience:
                    break
        network.load_state_dict(best)
        network.eval()


class _Training:
    """The scaling of scenes, and the training of a network on them.

    Activations are scaled to length `LENGTH`, so that a step of one rate moves scores as far
    whatever their width.
    """

    def __init__(self, train: Reading, validation: Reading, schedule: Schedule, seed: int) -> None:
        require("torch", extra="lm", feature="a probe that is trained by gradient")
        standard = Standard.of(train.activations)
        scale = LENGTH / train.activations.shape[1] ** 0.5
        self.places = Places.of(train.scenes)
        self.standard = Standard(standard.mean, scale * standard.weight)
        self._readings, self._schedule, self._seed = (train, validation), schedule, seed

    def fitted(
        self, kind: Callable[[], nn.Module], slopes: Callable[[Any, int], Any] | None = None
    ) -> FittedHeads:
        """Make a network whose random numbers come from the seed alone, and train it.

        The network maps scaled activations [n, D] and the number of a shape to scores
        [n, P + 1, 1 + objects], which are zero before training. The seed orders the scenes, too.
        """
        import torch

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            network = kind()
        train, held_out = map(self._tensors, self._readings)
        rng = np.random.default_rng(self._seed)

        def batches() -> Iterable[tuple[int, Any]]:
            listed = []
            for number, (rows, *_) in train.items():
                order = torch.from_numpy(rng.permutation(len(rows)))
                listed += [(number, part) for part in torch.split(order, self._schedule.batch)]
            # Shapes alternate, so that what they share is not fitted to the last one.
            return [listed[place] for place in rng.permutation(len(listed))]

        def loss(batch: tuple[int, Any]) -> torch.Tensor:
            number, rows = batch
            return _nats(network, number, train[number], rows).mean()

        def validation_loss() -> float:
            """Nats per scene."""
            total = 0.0
            for number, tensors in held_out.items():
                for part in torch.split(torch.arange(len(tensors[0])), 256):
                    total += float(_nats(network, number, tensors, part).sum())
            return total / sum(len(rows) for rows, *_ in held_out.values())

        self._schedule.train(network, batches, loss, validation_loss)
        network.double()

        def scores(rows: FloatArray, number: int) -> FloatArray:
            with torch.no_grad():
                parts = torch.split(torch.from_numpy(rows), _CHUNK)
                return np.concatenate([network(part, number).numpy() for part in parts])

        def numbers(number: int) -> FloatArray:
            assert slopes is not None
            return np.asarray(slopes(network, number).detach().numpy())

        parameters = sum(weights.numel() for weights in network.parameters())
        of_shape = None if slopes is None else numbers
        return FittedHeads(self.places, self.standard, scores, parameters, of_shape)

    def _tensors(self, reading: Reading) -> dict[int, tuple[torch.Tensor, ...]]:
        """Return activations, targets and position alone, by the number of the shape."""
        import torch

        out = {}
        for number, where in self.places.groups(reading.scenes.shapes):
            same_shape = reading.where(where)
            targets = Targets.of(same_shape.scenes, self.places.objects)
            arrays = (
                self.standard.single(same_shape.activations),
                targets.wall.astype(np.float32),
                targets.free.astype(np.float32),
                targets.place,
                self.places.offsets[number].astype(np.float32),
            )
            out[number] = tuple(torch.from_numpy(array) for array in arrays)
        return out


def _nats(
    network: nn.Module, number: int, tensors: tuple[torch.Tensor, ...], rows: Any
) -> torch.Tensor:
    """Return the loss of scenes of a shape, summed over cells, [n]."""
    from torch.nn import functional

    inputs, wall, free, place, offset = tensors
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
        return _linear(_Training(train, validation, self.schedule, seed), None)


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
        return _linear(_Training(train, validation, self.schedule, seed), rank)


def _linear(training: _Training, rank: int | None) -> FittedHeads:
    import torch
    from torch import nn

    shapes = [offset.shape for offset in training.places.offsets]
    width = len(training.standard.mean)
    # A matrix a cell is the same form without shared directions.
    inner = width if rank is None else rank

    class Form(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            if rank is not None:
                # Directions are random and matrices zero, so that scores are zero and both move.
                self.directions = nn.Parameter(torch.randn(width, rank) / LENGTH)
            self.heads = nn.ParameterList(
                nn.Parameter(torch.zeros(inner, places * columns)) for places, columns in shapes
            )
            self.shifts = nn.ParameterList(nn.Parameter(torch.zeros(shape)) for shape in shapes)

        def forward(self, rows: torch.Tensor, number: int) -> torch.Tensor:
            seen = rows if rank is None else rows @ self.directions
            flat = seen @ self.heads[number]
            scores: torch.Tensor = flat.reshape(len(rows), *shapes[number]) + self.shifts[number]
            return scores

    def slopes(form: Form, number: int) -> torch.Tensor:
        head = form.heads[number]
        matrix: torch.Tensor = head if rank is None else form.directions @ head
        return matrix.reshape(-1, *shapes[number])

    return training.fitted(Form, slopes)


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
        training = _Training(train, validation, self.schedule, seed)
        import torch
        from torch import nn

        places, width = training.places, len(training.standard.mean)
        # Rows and columns of each place; nowhere has its own, after the last.
        cells_of = [
            [np.append(axis.ravel(), -1) for axis in np.indices(shape)] for shape in places.shapes
        ]
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
                self.out = nn.Parameter(torch.zeros(hidden, 1 + len(places.objects)))
                self.shift = nn.Parameter(torch.zeros(1 + len(places.objects)))

            def forward(self, rows: torch.Tensor, number: int) -> torch.Tensor:
                row, column = cells_of[number]
                cells = self.row[row] + self.column[column]
                seen = (rows @ self.activation)[:, None] + cells + self.shape[number]
                return torch.relu(seen) @ self.out + self.shift

        return training.fitted(Hidden)
