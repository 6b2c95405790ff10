"""A probe with one hidden layer over activation and cell, whose first layer is taken apart.

On the concatenation [activation; one-hot row; one-hot column] the first layer is a sum,

    W [a; row; column] = W_a a + W_r[row] + W_c[column]

so W_a a is computed once a scene, the others once a cell, and the matrix of (scene, cell) rows by
dimensions is never made. With one-hot cells the hidden units can ask for one cell, which raw
coordinates, as in the published probe, make hard.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from goalmeter._arguments import whole
from goalmeter._types import FloatArray
from goalmeter.representation.probes.heads import FittedHeads
from goalmeter.representation.probes.protocol import Reading
from goalmeter.representation.probes.training import LENGTH, Schedule, begin, trained

MOST_HIDDEN = 65_536
# Scenes whose hidden units are computed at once: scenes x cells x hidden numbers.
_CHUNK = 32


@dataclass(frozen=True)
class Mlp:
    """One hidden layer of rectified units over [activation; one-hot row; one-hot column].

    Attributes:
        hidden: units.
        schedule: of the training.
    """

    hidden: int = 512
    # What is not linear is learnt after a while in which nothing seems to be.
    schedule: Schedule = field(default_factory=lambda: Schedule(epochs=200, patience=20))

    @property
    def name(self) -> str:
        """With its size."""
        return f"mlp({self.hidden})"

    def fit(self, train: Reading, validation: Reading, *, seed: int) -> FittedHeads:
        """As `Probe.fit`."""
        hidden = whole(self.hidden, "hidden", least=1, most=MOST_HIDDEN)
        places, standard = begin(train, validation)
        import torch
        from torch import nn

        width, heads = len(standard.mean), 1 + len(places.objects)
        rows_of, columns_of = zip(*(_coordinates(shape) for shape in places.shapes), strict=True)
        # Nowhere has a row and a column of its own, behind the last.
        extent = np.max(places.shapes, axis=0) + 1

        class Hidden(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.activation = nn.Parameter(torch.randn(width, hidden) / LENGTH)
                self.row = nn.Parameter(torch.randn(extent[0], hidden))
                self.column = nn.Parameter(torch.randn(extent[1], hidden))
                # Position alone knows the shape too, so the probe is told of it.
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
    """The row and the column of every place of a shape, the last index for nowhere."""
    rows, columns = (np.append(axis.ravel(), -1) for axis in np.indices(shape))
    return rows, columns
