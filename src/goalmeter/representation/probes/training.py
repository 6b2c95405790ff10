"""Training of our probes by gradient: it starts at position alone and stops by validation grids.

The scores that a network adds are zero before the first step, so the loss there is that of position
alone, and the best checkpoint may be that one: a probe that learns nothing says nothing. Classes
count as often as they occur; nothing is oversampled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from goalmeter._errors import InvalidParameterError, require
from goalmeter._types import FloatArray
from goalmeter.representation.probes.heads import Standard
from goalmeter.representation.probes.places import Places, Targets
from goalmeter.representation.probes.protocol import Reading, check_reading

if TYPE_CHECKING:
    import torch
    from torch import nn

# The weights of a network, as its user wants them.
Checkpoint = TypeVar("Checkpoint")


@dataclass(frozen=True)
class Schedule:
    """How long and how fast.

    Attributes:
        rate: of AdamW.
        decay: of weights, by AdamW.
        batch: scenes a step.
        epochs: at most so many.
        patience: epochs without a better validation loss after which it ends.
    """

    rate: float = 1e-2
    decay: float = 1e-2
    batch: int = 32
    epochs: int = 100
    patience: int = 8


# What scaled activations of any width have together: rates are tuned to it.
LENGTH = 10.0


def begin(train: Reading, validation: Reading) -> tuple[Places, Standard]:
    """Check what a probe is fitted to, and take from it what needs no gradient.

    Activations are brought to length `LENGTH`, so that a step of one rate moves scores as far
    whatever their width.
    """
    require("torch", extra="lm", feature="a probe that is trained by gradient")
    check_reading(train, "the training part")
    check_reading(validation, "the validation part")
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
    """The weights of the best checkpoint, by the names that the network gives them.

    Args:
        network: from scaled activations [n, D] and the number of a shape to scores
            [n, P + 1, 1 + objects], zero before it is trained.
        places: what scores are added to.
        standard: scales them.
        train: what is fitted.
        validation: what stops it.
        schedule: how long and how fast.
        seed: of the order of scenes.
    """
    import torch

    if schedule.epochs < 1 or schedule.batch < 1 or schedule.patience < 1:
        raise InvalidParameterError(
            f"the schedule is {schedule}, expected at least one epoch, one scene a step and one "
            f"epoch of patience"
        )
    fitted, beside = (_Batches(part, places, standard) for part in (train, validation))
    optimiser = torch.optim.AdamW(
        network.parameters(), lr=schedule.rate, weight_decay=schedule.decay
    )
    rng = np.random.default_rng(seed)

    def epoch() -> None:
        for number, rows in fitted.shuffled(rng, schedule.batch):
            optimiser.zero_grad(set_to_none=True)
            fitted.nats(network, number, rows).mean().backward()  # type: ignore[no-untyped-call]
            optimiser.step()

    return best_checkpoint(network, schedule, epoch, partial(beside.loss, network), _weights)


def best_checkpoint(
    network: nn.Module,
    schedule: Schedule,
    epoch: Callable[[], None],
    loss: Callable[[], float],
    weights: Callable[[nn.Module], Checkpoint],
) -> Checkpoint:
    """The weights with the least validation loss, of those before training and after each epoch.

    Args:
        network: is trained in place, and left as the last epoch has it.
        schedule: how many epochs, and how many without a better loss end it.
        epoch: trains it for one.
        loss: of the validation part, now.
        weights: copies those of the network.
    """
    # The first checkpoint is the fit's start: one that only gets worse is never kept.
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
        """(shape, rows) of an epoch's batches, in a random order."""
        import torch

        out = []
        for number, (rows, *_) in self._parts.items():
            order = torch.from_numpy(rng.permutation(len(rows)))
            out += [(number, part) for part in torch.split(order, batch)]
        # Shapes alternate, so that what they share is not fitted to the last one.
        return [out[i] for i in rng.permutation(len(out))]

    def nats(self, network: nn.Module, number: int, rows: Any) -> torch.Tensor:
        """What each of some scenes of a shape costs, summed over its cells, [n]."""
        from torch.nn import functional

        inputs, wall, free, place, offset = self._parts[number]
        scores = network(inputs[rows], number) + offset
        costs = functional.binary_cross_entropy_with_logits(
            scores[:, :-1, 0], wall[rows], reduction="none"
        )
        # A cell with an object says nothing of walls.
        total = (costs * free[rows]).sum(dim=1)
        for column in range(place.shape[1]):
            total = total + functional.cross_entropy(
                scores[:, :, 1 + column], place[rows, column], reduction="none"
            )
        return total

    def loss(self, network: nn.Module) -> float:
        """Nats a scene."""
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
    # In double precision, as everything that is scored without torch.
    return {
        name: value.detach().double().numpy().copy() for name, value in network.state_dict().items()
    }
