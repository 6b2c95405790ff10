"""A probe over (activation, cell) as it is first written: a matrix of rows by dimensions.

Every cell of every state is a row that repeats the state's activations and adds the cell's one-hot
row and column; one hidden layer reads it.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def whole_rows(activations: Any, shape: tuple[int, int]) -> Any:
    """[N · cells, D + rows + columns], float32."""
    row, column = (axis.ravel() for axis in np.indices(shape))
    cells = np.concatenate([np.eye(shape[0])[row], np.eye(shape[1])[column]], axis=1)
    repeated = np.repeat(activations, len(cells), axis=0)
    tiled = np.tile(cells.astype(np.float32), (len(activations), 1))
    return np.concatenate([repeated, tiled], axis=1)


def train_whole_rows(
    activations: Any, labels: Any, *, hidden: int, epochs: int, batch: int, seed: int
) -> float:
    """The last loss of some epochs, nats a row. Labels are [N, rows, columns]."""
    import torch
    from torch.nn import functional

    torch.manual_seed(seed)
    rows = torch.from_numpy(whole_rows(activations, labels.shape[1:]))
    target = torch.from_numpy(labels.reshape(-1))
    network = torch.nn.Sequential(
        torch.nn.Linear(rows.shape[1], hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, int(target.max()) + 1),
    )
    optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3)
    loss = 0.0
    for _ in range(epochs):
        for part in torch.split(torch.randperm(len(rows)), batch):
            cost = functional.cross_entropy(network(rows[part]), target[part])
            optimiser.zero_grad(set_to_none=True)
            cost.backward()
            optimiser.step()
            loss = float(cost.detach())
    return loss
