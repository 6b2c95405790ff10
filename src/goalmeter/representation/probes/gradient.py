"""Train probes by gradient descent: logistic and bilinear heads, and a multilayer perceptron."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from goalmeter._errors import require
from goalmeter._types import FloatArray
from goalmeter.representation.probes.protocol import FittedHeads, Places, Reading, Standard, Targets

if TYPE_CHECKING:
    import torch
    from torch import nn

Batch = TypeVar("Batch")
# Root mean square length of scaled activations of any width: rates are tuned to it.
LENGTH = 10.0
# Scenes whose hidden units are computed at once: scenes x cells x hidden numbers.
_CHUNK = 32


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
        """Train in place to the least validation loss, initial weights included.

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
            now, waited = validated(), waited + 1
            if now < least:
                best, least, waited = deepcopy(network.state_dict()), now, 0
            elif waited >= self.patience:
                break
        network.load_state_dict(best)
        network.eval()


# The scores that a network adds are zero before the first step, so the loss there is that of
# position alone, and the best checkpoint may be that one. Classes count as often as they occur;
# nothing is oversampled. The seed decides the network's random numbers and the order of scenes.
def _trained(
    train: Reading,
    validation: Reading,
    schedule: Schedule,
    seed: int,
    make: Callable[[Places, int], nn.Module],
    slopes: Callable[[Any, int], Any] | None = None,
) -> FittedHeads:
    """Train a network on scaled activations [n, D] and the number of a shape."""
    import torch

    width = train.activations.shape[1]
    standard, places = Standard.of(train.activations), Places.of(train.scenes)
    # To `LENGTH`, so that a step of one rate moves scores as far whatever the width.
    standard = Standard(standard.mean, LENGTH / width**0.5 * standard.weight)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = make(places, width)
    rng = np.random.default_rng(seed)

    def tensors(reading: Reading) -> dict[int, tuple[torch.Tensor, ...]]:
        """Activations, targets and position alone, by the number of the shape."""
        out = {}
        for number, where in places.groups(reading.scenes.shapes):
            rows, scenes = reading.where(where)
            wall, free, place = Targets.of(scenes, places.objects)
            floats = (each.astype(np.float32) for each in (wall, free, places.offsets[number]))
            arrays = (standard.single(rows), place, *floats)
            out[number] = tuple(map(torch.from_numpy, arrays))
        return out

    known, held_out = map(tensors, (train, validation))

    def batches() -> Iterable[tuple[int, Any]]:
        listed = []
        for number, (rows, *_) in known.items():
            order = torch.from_numpy(rng.permutation(len(rows)))
            listed += [(number, part) for part in torch.split(order, schedule.batch)]
        # Shapes alternate, so that what they share is not fitted to the last one.
        return [listed[place] for place in rng.permutation(len(listed))]

    def loss(batch: tuple[int, Any]) -> torch.Tensor:
        number, rows = batch
        return _nats(network, number, known[number], rows).mean()

    def validation_loss() -> float:
        """Nats per scene."""
        total = 0.0
        for number, of_shape in held_out.items():
            for part in torch.split(torch.arange(len(of_shape[0])), 256):
                total += float(_nats(network, number, of_shape, part).sum())
        return total / len(validation.scenes)

    schedule.train(network, batches, loss, validation_loss)
    network.double()

    def scores(rows: FloatArray, number: int) -> FloatArray:
        with torch.no_grad():
            parts = torch.split(torch.from_numpy(rows), _CHUNK)
            return np.concatenate([network(part, number).numpy() for part in parts])

    def slopes_of(number: int) -> FloatArray:
        assert slopes is not None
        return np.asarray(slopes(network, number).detach().numpy())

    parameters = sum(weights.numel() for weights in network.parameters())
    return FittedHeads(places, standard, scores, parameters, slopes and slopes_of)


def _nats(
    network: nn.Module, number: int, tensors: tuple[torch.Tensor, ...], rows: Any
) -> torch.Tensor:
    """The loss of scenes of a shape, summed over cells, [n]."""
    from torch.nn import functional

    inputs, place, wall, free, offset = tensors
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


# The scores of a cell are the activation times a matrix of that cell. Where every cell has its own
# matrix this is logistic regression per cell; a bilinear form of low rank, activation × cell, is
# the same with all matrices in the span of a few directions. The rank is the probe's size.
@dataclass(frozen=True)
class Logistic:
    """Multinomial logistic regression per cell, all cells trained together."""

    # A matrix per cell overfits few grids; more decay than this makes it too uncertain.
    schedule: Schedule = field(default_factory=lambda: Schedule(decay=0.1))
    name: str = "logistic"

    def fit(self, train: Reading, validation: Reading, *, seed: int) -> FittedHeads:
        """Train with early stopping."""
        return _linear(train, validation, self.schedule, seed, None)


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
        return _linear(train, validation, self.schedule, seed, self.rank)


def _linear(
    train: Reading, validation: Reading, schedule: Schedule, seed: int, rank: int | None
) -> FittedHeads:
    """Train a bilinear form, or a matrix a cell without shared directions if there is no rank."""
    require("torch", extra="lm", feature="a probe that is trained by gradient")
    import torch
    from torch import nn

    class Form(nn.Module):
        def __init__(self, places: Places, width: int) -> None:
            super().__init__()
            self.shapes = [offset.shape for offset in places.offsets]
            if rank is not None:
                # Directions are random and matrices zero, so that scores are zero and both move.
                self.directions = nn.Parameter(torch.randn(width, rank) / LENGTH)
            inner = width if rank is None else rank
            self.heads = nn.ParameterList(
                nn.Parameter(torch.zeros(inner, cells * columns)) for cells, columns in self.shapes
            )
            self.shifts = nn.ParameterList(nn.Parameter(torch.zeros(s)) for s in self.shapes)

        def forward(self, rows: torch.Tensor, number: int) -> torch.Tensor:
            seen = rows if rank is None else rows @ self.directions
            scores: torch.Tensor = (seen @ self.heads[number]).reshape(-1, *self.shapes[number])
            return scores + self.shifts[number]

    def slopes(form: Form, number: int) -> torch.Tensor:
        head = form.heads[number]
        matrix: torch.Tensor = head if rank is None else form.directions @ head
        return matrix.reshape(-1, *form.shapes[number])

    return _trained(train, validation, schedule, seed, Form, slopes)


# On the concatenation [activation; one-hot row; one-hot column] the first layer is a sum,
#
#     W [a; row; column] = W_a a + W_r[row] + W_c[column]
#
# so W_a a is computed once per scene, the others once per cell, and the matrix of (scene, cell)
# rows by dimensions is never made. With one-hot cells a hidden unit can select one cell, which is
# hard with raw coordinates, as in the published probe.
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
        require("torch", extra="lm", feature="a probe that is trained by gradient")
        import torch
        from torch import nn

        hidden = self.hidden

        class Hidden(nn.Module):
            def __init__(self, places: Places, width: int) -> None:
                super().__init__()
                # Rows and columns of each place; nowhere has its own, after the last.
                self.cells = [
                    [np.append(axis.ravel(), -1) for axis in np.indices(s)] for s in places.shapes
                ]
                extent = np.max(places.shapes, axis=0) + 1
                self.activation = nn.Parameter(torch.randn(width, hidden) / LENGTH)
                self.row = nn.Parameter(torch.randn(extent[0], hidden))
                self.column = nn.Parameter(torch.randn(extent[1], hidden))
                # Position alone depends on the shape too.
                self.shape = nn.Parameter(torch.zeros(len(places.shapes), hidden))
                # Zero, so that training starts at position alone.
                self.out = nn.Parameter(torch.zeros(hidden, 1 + len(places.objects)))
                self.shift = nn.Parameter(torch.zeros(1 + len(places.objects)))

            def forward(self, rows: torch.Tensor, number: int) -> torch.Tensor:
                row, column = self.cells[number]
                cells = self.row[row] + self.column[column]
                seen = (rows @ self.activation)[:, None] + cells + self.shape[number]
                return torch.relu(seen) @ self.out + self.shift

        return _trained(train, validation, self.schedule, seed, Hidden)
