"""The paper's two probes as published: linear, and one hidden layer, on [activation; row; column].

Each (state, cell) is a row of z-scored activations with the cell's raw row and column behind them;
classes are brought to the count of the most common one by drawing cells again; the weights of the
last epoch are kept. Grids of several sizes are padded to the largest, with padding as a class,
which is taken out before anything is scored.

Two objects to know. The linear probe adds to every cell of a state the same number for each class,
so it cannot say that one cell of this grid is a wall and another is not: that it fails says nothing
of how a map is encoded. And drawn classes are no posterior at natural prevalence: with the agent as
common as walls, several cells are taken for the agent.

Differences: rows of a state stand in the same batch, so that its activations are multiplied once
and no matrix of rows × dimensions is made; a batch holds as many rows as the published one on
average. Nothing is stopped early, as nothing was.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 5 and its code: AdamW, rate 3e-4, decay 1e-3, batches of 2,048, 50 epochs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._errors import require
from goalmeter._types import FloatArray, IntArray
from goalmeter.representation.probes.heads import Standard
from goalmeter.representation.probes.protocol import (
    Activations,
    Reading,
    check_reading,
    check_width,
    walls_outside,
)
from goalmeter.representation.scenes import CLASSES, OUTSIDE

RATE, DECAY, BATCH, EPOCHS = 3e-4, 1e-3, 2048, 50
HIDDEN = 1024
# A class beside the real ones, in training only.
_PADDING = len(CLASSES)
# States whose hidden units are computed at once.
_CHUNK = 32


@dataclass(frozen=True)
class Published:
    """One of the paper's probes.

    Attributes:
        hidden: units of the hidden layer; None for the linear probe.
        epochs: passes over the rows.
    """

    hidden: int | None = None
    epochs: int = EPOCHS

    @property
    def name(self) -> str:
        """Labelled as published."""
        return "linear (as published)" if self.hidden is None else "MLP (as published)"

    def fit(self, train: Reading, validation: Reading, *, seed: int) -> FittedPublished:
        """As `Probe.fit`; the validation scenes stop nothing."""
        require("torch", extra="lm", feature="a published probe")
        check_reading(train, "the training part")
        check_reading(validation, "the validation part")
        standard = Standard.of(train.activations)
        import torch
        from torch import nn
        from torch.nn import functional

        labels = np.where(train.scenes.labels == OUTSIDE, _PADDING, train.scenes.labels)
        classes, flat = np.unique(labels, return_inverse=True)
        rng = np.random.default_rng(seed)
        target = torch.from_numpy(flat.reshape(len(labels), -1))
        often = torch.from_numpy(_drawn(target.numpy(), rng).astype(np.float32))
        where = torch.from_numpy(_coordinates(labels.shape[1:]).astype(np.float32))
        rows = torch.from_numpy(standard.single(train.activations))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            first = nn.Linear(rows.shape[1] + 2, self.hidden or len(classes))
            last = nn.Identity() if self.hidden is None else nn.Linear(self.hidden, len(classes))
        parts = [*first.parameters(), *last.parameters()]
        optimiser = torch.optim.AdamW(parts, lr=RATE, weight_decay=DECAY)
        # Rows that are drawn several times have a weight instead, so a batch is counted in weights.
        states = max(1, round(BATCH * len(rows) / float(often.sum())))
        for _ in range(self.epochs):
            order = torch.from_numpy(rng.permutation(len(rows)))
            for batch in torch.split(order, states):
                # The first layer taken apart: a product a state, and one a cell.
                whole, cells = first.weight.T[:-2], first.weight.T[-2:]
                seen = (rows[batch] @ whole)[:, None] + where @ cells + first.bias
                scores = seen if self.hidden is None else last(torch.relu(seen))
                costs = functional.cross_entropy(
                    scores.flatten(0, 1), target[batch].flatten(), reduction="none"
                )
                weight = often[batch].flatten()
                loss = (costs * weight).sum() / weight.sum()
                optimiser.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        weights = [part.detach().double().numpy() for part in parts]
        return FittedPublished(standard, classes, tuple(weights))


@dataclass(frozen=True, eq=False)
class FittedPublished:
    """One of the paper's probes after its fit.

    Attributes:
        standard: how activations are scaled.
        classes: what the outputs stand for, [K]; the last may be padding.
        weights: of the first layer, [hidden or K, D + 2] and a shift, and of the second.
    """

    standard: Standard
    classes: IntArray
    weights: tuple[FloatArray, ...]

    @property
    def parameters(self) -> int:
        """As `FittedProbe.parameters`."""
        return sum(array.size for array in self.weights)

    def posterior(self, activations: Activations, shapes: IntArray) -> FloatArray:
        """As `FittedProbe.posterior`: over real classes, and so at the drawn prevalence."""
        check_width(activations, len(self.standard.mean))
        out = walls_outside(shapes)
        # The probe sees only row and column, so any frame can be asked for.
        frame = (int(shapes[:, 0].max()), int(shapes[:, 1].max()))
        real = self.classes != _PADDING
        cells = _coordinates(frame) @ self.weights[0].T[-2:] + self.weights[1]
        for at in range(0, len(activations), _CHUNK):
            chunk = slice(at, at + _CHUNK)
            rows = self.standard(activations[chunk])
            scores = (rows @ self.weights[0].T[:-2])[:, None] + cells
            if len(self.weights) > 2:
                scores = np.maximum(scores, 0.0) @ self.weights[2].T + self.weights[3]
            scores = np.exp(scores[..., real] - scores[..., real].max(axis=-1, keepdims=True))
            shares = (scores / scores.sum(axis=-1, keepdims=True)).reshape(len(rows), *frame, -1)
            for scene, (height, width) in enumerate(shapes[chunk], start=at):
                out[scene, :height, :width] = 0.0
                known = self.classes[real]
                out[scene, :height, :width, known] = np.moveaxis(
                    shares[scene - at, :height, :width], -1, 0
                )
        return out


def _coordinates(frame: tuple[int, ...]) -> FloatArray:
    """The raw row and column of every cell, [P, 2]."""
    return np.stack([axis.ravel() for axis in np.indices(frame)], axis=1).astype(float)


def _drawn(target: IntArray, rng: np.random.Generator) -> IntArray:
    """How often each row is there once every class is as common as the most common one, [N, P]."""
    flat = target.ravel()
    counts = np.bincount(flat)
    out = np.zeros(len(flat), dtype=np.int64)
    for number, count in enumerate(counts.tolist()):
        # Every row of the class as often as it goes, and what is missing without repetition.
        times, missing = divmod(int(counts.max()), count)
        members = np.flatnonzero(flat == number)
        out[members] = times
        out[rng.choice(members, missing, replace=False)] += 1
    return out.reshape(target.shape)
