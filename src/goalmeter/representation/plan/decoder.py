"""A reader of plans that is a small transformer: learnt queries look at the activations, once.

    memory    a linear layer that all tokens share, LayerNorm, GELU, dropout; plus, for each token,
              a learnt vector that says which one it is
    queries   one a step, each the sum of a learnt query and a learnt position
    blocks    pre-norm transformer decoder layers; queries see each other, no mask
    scores    a linear layer from each query to the four actions and the end

All steps are told at once and none is fed back, so nothing is told of a later step by way of a
guess at an earlier one. The loss of a step weighs decay^step, padding counts for nothing, and the
checkpoint with the least loss on validation grids is kept.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 5, and its code. There the tokens carry no mark of their place; ours are scaled
token by token, which takes away what else would tell them apart. It keeps the last epoch, and draws
predictions at temperature 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from goalmeter._arguments import finite, whole
from goalmeter._errors import InvalidParameterError, require
from goalmeter._types import IntArray
from goalmeter.representation.plan.protocol import (
    PlanReading,
    check_plan_reading,
    check_tokens,
)
from goalmeter.representation.plan.targets import END, NOTHING
from goalmeter.representation.probes.heads import Standard
from goalmeter.representation.probes.protocol import Activations
from goalmeter.representation.probes.training import Schedule, best_checkpoint

if TYPE_CHECKING:
    import torch
    from torch import nn

# As published, but for the number of epochs: training ends by validation.
PUBLISHED = Schedule(rate=1e-4, decay=1e-2, batch=32, epochs=200, patience=15)
_CLIP = 1.0
_CHUNK = 256
_MOST_LAYERS, _MOST_WIDTH = 64, 65_536


@dataclass(frozen=True)
class PlanDecoder:
    """A transformer that tells all steps at once.

    Attributes:
        layers: blocks; the paper has 1, 2 and 4.
        width: of the memory and the queries, a multiple of `heads`.
        heads: of attention.
        dropout: share of units that are left out in training.
        decay: weight of a step's loss relative to that of the step before.
        schedule: of the training.
    """

    layers: int = 2
    width: int = 1024
    heads: int = 8
    dropout: float = 0.1
    decay: float = 0.95
    schedule: Schedule = field(default_factory=lambda: PUBLISHED)

    @property
    def name(self) -> str:
        """With its layers."""
        return f"decoder({self.layers})"

    def fit(self, train: PlanReading, validation: PlanReading, *, seed: int) -> FittedDecoder:
        """As `PlanReader.fit`."""
        self._check()
        require("torch", extra="lm", feature="a plan decoder")
        check_plan_reading(train, "the training part")
        check_plan_reading(validation, "the validation part")
        import torch

        tokens, dimensions = train.activations.shape[1:]
        standard = Standard.of(train.activations.reshape(len(train.actions), -1))
        # Dropout draws from torch's own stream, which is put back as it was.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = _network(self, tokens, dimensions, train.actions.shape[1])
            _train(self, network, standard, train, validation, seed)
        return FittedDecoder((tokens, dimensions), standard, network)

    def _check(self) -> None:
        whole(self.layers, "layers", least=1, most=_MOST_LAYERS)
        whole(self.heads, "heads", least=1, most=_MOST_WIDTH)
        whole(self.width, "width", least=1, most=_MOST_WIDTH)
        finite(self.dropout, "dropout", least=0.0, most=0.99)
        finite(self.decay, "decay", least=1e-6, most=1.0)
        if self.width % self.heads:
            raise InvalidParameterError(
                f"width is {self.width} with {self.heads} heads, expected a multiple of the heads"
            )
        schedule = self.schedule
        if min(schedule.epochs, schedule.batch, schedule.patience) < 1:
            raise InvalidParameterError(
                f"the schedule is {schedule}, expected at least one epoch, one decision a step and "
                f"one epoch of patience"
            )


@dataclass(frozen=True, eq=False)
class FittedDecoder:
    """A decoder after its fit.

    Attributes:
        shape: tokens and dimensions of what it reads.
        standard: how activations are scaled.
        network: from scaled activations [n, tokens, D] to scores [n, queries, 5].
    """

    shape: tuple[int, int]
    standard: Standard
    network: nn.Module

    @property
    def parameters(self) -> int:
        """As `FittedPlanReader.parameters`."""
        return sum(each.numel() for each in self.network.parameters())

    def predicted(self, activations: Activations) -> IntArray:
        """As `FittedPlanReader.predicted`."""
        import torch

        check_tokens(activations, self.shape)
        self.network.eval()
        out = []
        with torch.no_grad():
            for begin in range(0, len(activations), _CHUNK):
                rows = _inputs(self.standard, activations[begin : begin + _CHUNK])
                out.append(self.network(rows).argmax(dim=-1).numpy())
        return np.concatenate(out).astype(np.int64)


def _network(sizes: PlanDecoder, tokens: int, dimensions: int, queries: int) -> nn.Module:
    import torch
    from torch import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            width = sizes.width
            self.memory = nn.Sequential(
                nn.Linear(dimensions, width),
                nn.LayerNorm(width),
                nn.GELU(),
                nn.Dropout(sizes.dropout),
            )
            self.places = nn.Parameter(0.02 * torch.randn(tokens, width))
            self.queries = nn.Parameter(0.02 * torch.randn(queries, width))
            self.positions = nn.Parameter(0.02 * torch.randn(queries, width))
            block = nn.TransformerDecoderLayer(
                width,
                sizes.heads,
                4 * width,
                sizes.dropout,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            self.blocks = nn.TransformerDecoder(block, sizes.layers, nn.LayerNorm(width))
            self.scores = nn.Linear(width, END + 1)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            asked = (self.queries + self.positions).expand(len(rows), -1, -1)
            told: torch.Tensor = self.scores(self.blocks(asked, self.memory(rows) + self.places))
            return told

    return Network()


def _train(
    sizes: PlanDecoder,
    network: nn.Module,
    standard: Standard,
    train: PlanReading,
    validation: PlanReading,
    seed: int,
) -> None:
    """Train the network in place, and leave it at the best checkpoint."""
    import torch

    schedule = sizes.schedule
    (rows, actions), held = _tensors(standard, train), _tensors(standard, validation)
    loss = _weighted(sizes.decay)
    optimiser = torch.optim.AdamW(
        network.parameters(), lr=schedule.rate, weight_decay=schedule.decay
    )
    rng = np.random.default_rng(seed)

    def epoch() -> None:
        order = torch.from_numpy(rng.permutation(len(rows)))
        for batch in torch.split(order, schedule.batch):
            optimiser.zero_grad(set_to_none=True)
            loss(network(rows[batch]), actions[batch]).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), _CLIP)
            optimiser.step()

    best = best_checkpoint(
        network, schedule, epoch, lambda: _loss_of(network, held, loss), _weights
    )
    network.load_state_dict(best)


def _weighted(decay: float) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Nats a step that is there, each weighing decay^step."""
    import torch
    from torch.nn import functional

    def loss(scores: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        nats = functional.cross_entropy(
            scores.transpose(1, 2), actions, ignore_index=NOTHING, reduction="none"
        )
        weight = (actions != NOTHING) * decay ** torch.arange(actions.shape[1])
        return (nats * weight).sum() / weight.sum().clamp_min(1e-9)

    return loss


def _loss_of(
    network: nn.Module,
    held: tuple[torch.Tensor, torch.Tensor],
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> float:
    import torch

    network.eval()
    with torch.no_grad():
        scores = torch.cat([network(rows) for rows in torch.split(held[0], _CHUNK)])
        return float(loss(scores, held[1]))


def _tensors(standard: Standard, reading: PlanReading) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    return _inputs(standard, reading.activations), torch.from_numpy(reading.actions)


def _inputs(standard: Standard, activations: Activations) -> torch.Tensor:
    import torch

    flat = standard.single(activations.reshape(len(activations), -1))
    return torch.from_numpy(flat.reshape(activations.shape))


def _weights(network: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}
