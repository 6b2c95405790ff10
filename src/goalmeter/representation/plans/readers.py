"""Read plans from activations: multinomial logistic regression and a small transformer decoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goalmeter._errors import require
from goalmeter._types import FloatArray, IntArray
from goalmeter.representation.plans.targets import END, NOTHING
from goalmeter.representation.probes.gradient import Schedule
from goalmeter.representation.probes.protocol import Activations, Standard

if TYPE_CHECKING:
    import torch
    from torch import nn


class PlanReading(NamedTuple):
    """Activations of N decisions at a place, with the actions from there on."""

    activations: Activations  # [N, tokens, D]
    actions: IntArray  # [N, queries], as in `WalkPlans`

    def where(self, chosen: IntArray) -> PlanReading:
        """Return some of the decisions, by number."""
        return PlanReading(self.activations[chosen], self.actions[chosen])


# Returns the most probable action of each step, [N, queries].
Predictor = Callable[[Activations], IntArray]

# --- Linear heads ---------------------------------------------------------------------------------
# The strength of the penalty is chosen by validation, an infinite one included: a step of which
# nothing can be read gets the shares of the training part. Rows are projected to the span of the
# training rows, where the solution lies, so width costs little.

# Factors of half the squared weights, added to the mean of nats; rows have a length of about 1.
# Each fit starts from the weights of the one before it.
PENALTIES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
_STEPS = 100
# Number of penalties worse than the best one after which no weaker is tried.
_PATIENCE = 2


@dataclass(frozen=True)
class LinearSteps:
    """Multinomial logistic regression for each step."""

    penalties: tuple[float, ...] = PENALTIES  # strengths to choose from, decreasing
    name: str = "linear"
    # Whether a step that no training sequence has gets the prediction of the last one, or none.
    repeats: bool = True

    def fit(self, train: PlanReading, validation: PlanReading, *, seed: int) -> Predictor:
        """Fit deterministically."""
        scaled, queries = Scaled.of(train.activations), train.actions.shape[1]
        parts = [(scaled(part.activations), part.actions) for part in (train, validation)]
        heads = []
        for step in range(queries):
            known, held_out = (
                (rows[actions[:, step] >= 0], actions[actions[:, step] >= 0, step])
                for rows, actions in parts
            )
            # After the longest sequence there is nothing to learn.
            if not len(known[1]):
                break
            heads.append(head_of(known, held_out, self.penalties))

        def predicted(activations: Activations) -> IntArray:
            rows = scaled(activations)
            out = np.full((len(rows), queries), NOTHING)
            for step, head in enumerate(heads):
                out[:, step : None if self.repeats else step + 1] = head.called(rows)[:, None]
            return out

        return predicted


class Scaled(NamedTuple):
    """Scaled activations with all tokens concatenated, in the span of the training rows."""

    standard: Standard
    basis: FloatArray | None  # [tokens x D, m]; None where there are fewer dimensions than rows

    @classmethod
    def of(cls, activations: Activations) -> Scaled:
        """Scale by training rows, [n, tokens, D]."""
        flat = activations.reshape(len(activations), -1)
        standard = Standard.of(flat)
        # A length of about 1 whatever the width, so that a penalty means the same everywhere.
        standard = Standard(standard.mean, standard.weight / flat.shape[1] ** 0.5)
        if flat.shape[1] <= len(flat):
            return cls(standard, None)
        # The solution of a fit with squared weights is a combination of its rows.
        rows = standard(flat)
        spectrum, vectors = np.linalg.eigh(rows @ rows.T)
        there = spectrum > 1e-9 * spectrum.max(initial=1e-30)
        return cls(standard, rows.T @ (vectors[:, there] / np.sqrt(spectrum[there])))

    def __call__(self, activations: Activations) -> FloatArray:
        """Return rows of decisions, [n, m]."""
        rows = self.standard(activations.reshape(len(activations), -1))
        return rows if self.basis is None else np.asarray(rows @ self.basis)


class Head(NamedTuple):
    """Scores of classes: rows · weights + shift."""

    classes: IntArray  # [C]
    weights: FloatArray  # [D, C]
    shift: FloatArray  # [C]

    def called(self, rows: FloatArray) -> IntArray:
        """Return the most probable class of each row, [n]."""
        return np.asarray(self.classes[(rows @ self.weights + self.shift).argmax(axis=1)])


def head_of(
    train: tuple[FloatArray, IntArray],
    validation: tuple[FloatArray, IntArray],
    penalties: tuple[float, ...],
) -> Head:
    """Fit the head whose penalty is best on validation rows [n, D] with labels [n]."""
    rows, labels = train
    classes, which, counts = np.unique(labels, return_inverse=True, return_counts=True)
    weights, shift = np.zeros((rows.shape[1], len(classes))), np.log(counts / len(labels))
    best = Head(classes, weights, shift)
    # A class that training does not have cannot be predicted by any head.
    seen = np.isin(validation[1], classes)
    held_out, named = validation[0][seen], np.searchsorted(classes, validation[1][seen])
    if len(classes) == 1 or not len(held_out):
        return best
    least, waited = _nats(held_out @ weights + shift, named)[0], 0
    for penalty in penalties:
        weights, shift = _regression(rows, which, penalty, weights, shift)
        nats, waited = _nats(held_out @ weights + shift, named)[0], waited + 1
        if nats < least:
            best, least, waited = Head(classes, weights, shift), nats, 0
        elif waited >= _PATIENCE:
            break
    return best


def _regression(
    rows: FloatArray, labels: IntArray, penalty: float, weights: FloatArray, shift: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Fit multinomial logistic regression with squared weights, from a given start."""
    from scipy.optimize import minimize

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        """The penalised nats per row with its gradient; the last row of weights is the shift."""
        table = flat.reshape(start.shape)
        nats, errors = _nats(rows @ table[:-1] + table[-1], labels)
        slope = np.vstack([rows.T @ errors / len(rows), errors.mean(axis=0)])
        slope[:-1] += penalty * table[:-1]
        return nats + 0.5 * penalty * float((table[:-1] ** 2).sum()), slope.ravel()

    start = np.vstack([weights, shift])
    options = {"maxiter": _STEPS}
    found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    table = found.x.reshape(start.shape)
    return table[:-1], table[-1]


def _nats(scores: FloatArray, labels: IntArray) -> tuple[float, FloatArray]:
    """Return the mean of nats, and the derivative of their sum by the scores, [n, C]."""
    scores = scores - scores.max(axis=1, keepdims=True)
    shares = np.exp(scores)
    total = shares.sum(axis=1)
    at = np.arange(len(labels))
    nats = float((np.log(total) - scores[at, labels]).mean())
    shares /= total[:, None]
    shares[at, labels] -= 1.0
    return nats, shares


# --- Transformer decoder --------------------------------------------------------------------------
# memory     a linear layer that all tokens share, LayerNorm, GELU, dropout; plus a learnt vector
#            for each token
# queries    one per step, each the sum of a learnt query and a learnt position
# blocks     pre-norm transformer decoder layers; queries see each other, no mask
# scores     a linear layer from each query to the four actions and the end
#
# All steps are predicted at once and none is fed back, so no step depends on a guess at an earlier
# one. The loss of a step weighs decay^step, padding counts for nothing, and the checkpoint with the
# least loss on validation grids is used.
#
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents", section 5, and its code. There tokens have no learnt vector; ours are scaled token by
# token, which removes what else would distinguish them. It uses the last epoch, and samples
# predictions at temperature 1.

# As published, but for the number of epochs: training ends by validation.
PUBLISHED = Schedule(rate=1e-4, decay=1e-2, batch=32, epochs=200, patience=15)
_CLIP = 1.0
_CHUNK = 256


@dataclass(frozen=True)
class PlanDecoder:
    """A transformer that predicts all steps at once."""

    layers: int = 2  # number of blocks; the paper has 1, 2 and 4
    width: int = 1024  # of the memory and the queries, a multiple of `heads`
    heads: int = 8  # number of attention heads
    dropout: float = 0.1  # probability of dropout
    decay: float = 0.95  # weight of a step's loss relative to that of the step before
    schedule: Schedule = field(default_factory=lambda: PUBLISHED)  # training schedule

    @property
    def name(self) -> str:
        """Name in tables, with the layers."""
        return f"decoder({self.layers})"

    def fit(self, train: PlanReading, validation: PlanReading, *, seed: int) -> Predictor:
        """Train with early stopping."""
        require("torch", extra="lm", feature="a plan decoder")
        import torch
        from torch.nn import functional

        standard = Standard.of(train.activations.reshape(len(train.actions), -1))

        def inputs(activations: Activations) -> torch.Tensor:
            flat = standard.single(activations.reshape(len(activations), -1))
            return torch.from_numpy(flat.reshape(activations.shape))

        def nats(scores: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
            """Nats per known step, each weighing decay^step."""
            costs = functional.cross_entropy(
                scores.transpose(1, 2), actions, ignore_index=NOTHING, reduction="none"
            )
            weight = (actions != NOTHING) * self.decay ** torch.arange(actions.shape[1])
            return (costs * weight).sum() / weight.sum().clamp_min(1e-9)

        rows, held_out = (inputs(part.activations) for part in (train, validation))
        actions, later = (torch.from_numpy(part.actions) for part in (train, validation))
        rng = np.random.default_rng(seed)

        def batches() -> Sequence[torch.Tensor]:
            return torch.split(torch.from_numpy(rng.permutation(len(rows))), self.schedule.batch)

        def loss(batch: torch.Tensor) -> torch.Tensor:
            return nats(network(rows[batch]), actions[batch])

        def validation_loss() -> float:
            scores = torch.cat([network(part) for part in torch.split(held_out, _CHUNK)])
            return float(nats(scores, later))

        # Dropout draws from torch's own stream, which is restored.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = self._network(*train.activations.shape[1:], train.actions.shape[1])
            self.schedule.train(network, batches, loss, validation_loss, clip=_CLIP)

        def predicted(activations: Activations) -> IntArray:
            with torch.no_grad():
                parts = torch.split(inputs(activations), _CHUNK)
                return torch.cat([network(part).argmax(dim=-1) for part in parts]).numpy()

        return predicted

    def _network(self, tokens: int, dimensions: int, queries: int) -> nn.Module:
        import torch
        from torch import nn

        sizes, width = self, self.width

        class Network(nn.Module):
            def __init__(self) -> None:
                super().__init__()
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
                seen = self.blocks(asked, self.memory(rows) + self.places)
                scores: torch.Tensor = self.scores(seen)
                return scores

        return Network()


# Models that predict all later actions of a walk from the activations of one decision.
PlanReader = LinearSteps | PlanDecoder
