"""Linear probes that are trained by gradient: a head a cell, or all heads through a few directions.

The score of a cell is the activation times a matrix of that cell. Where every cell has a matrix of
its own this is logistic regression a cell; a bilinear form of low rank, activation × cell, is the
same with all matrices in the span of a few directions. The rank is the probe's size: what a small
rank gives, few directions of the activations hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from goalmeter._arguments import whole
from goalmeter._types import FloatArray
from goalmeter.representation.probes.heads import FittedHeads
from goalmeter.representation.probes.protocol import Reading
from goalmeter.representation.probes.training import LENGTH, Schedule, begin, trained

MOST_RANK = 4096


@dataclass(frozen=True)
class Logistic:
    """Multinomial logistic regression a cell, all cells trained together.

    Attributes:
        schedule: of the training.
    """

    # A matrix a cell learns few grids by heart; more decay than this makes it too unsure of itself.
    schedule: Schedule = field(default_factory=lambda: Schedule(decay=0.1))
    name: str = "logistic"

    def fit(self, train: Reading, validation: Reading, *, seed: int) -> FittedHeads:
        """As `Probe.fit`."""
        return _fitted(train, validation, None, self.schedule, seed)


@dataclass(frozen=True)
class Bilinear:
    """A bilinear form of activation and cell, of some rank.

    Attributes:
        rank: directions of the activations that all cells share.
        schedule: of the training.
    """

    rank: int = 32
    schedule: Schedule = field(default_factory=Schedule)

    @property
    def name(self) -> str:
        """With its rank."""
        return f"bilinear({self.rank})"

    def fit(self, train: Reading, validation: Reading, *, seed: int) -> FittedHeads:
        """As `Probe.fit`."""
        rank = whole(self.rank, "rank", least=1, most=MOST_RANK)
        return _fitted(train, validation, rank, self.schedule, seed)


def _fitted(
    train: Reading, validation: Reading, rank: int | None, schedule: Schedule, seed: int
) -> FittedHeads:
    places, standard = begin(train, validation)
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
