"""Read plans from activations: multinomial logistic regression and a small transformer decoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from goalmeter._errors import InvalidParameterError, finite, require, whole
from goalmeter._types import FloatArray, IntArray
from goalmeter.representation.plans.targets import END, NOTHING
from goalmeter.representation.probes.gradient import Schedule, best_checkpoint
from goalmeter.representation.probes.protocol import Activations, Standard, check_finite
from goalmeter.representation.scenes import Scenes, Split, folds, split

if TYPE_CHECKING:
    import torch
    from torch import nn


# --- Protocol -------------------------------------------------------------------------------------
# A reader sees the activations of one decision at one layer and position, and says at once what
# will be done from there on, step by step, and where it ends.


class PlanReading(NamedTuple):
    """Activations of N decisions with what was done from there on.

    Attributes:
        activations: [N, tokens, D].
        actions: [N, queries], as in `Plans`.
    """

    activations: Activations
    actions: IntArray

    def where(self, kept: IntArray) -> PlanReading:
        """Some of the decisions, by number."""
        return PlanReading(self.activations[kept], self.actions[kept])


class FittedPlanReader(Protocol):
    """A reader after its fit."""

    @property
    def parameters(self) -> int:
        """How many numbers were fitted."""

    def predicted(self, activations: Activations) -> IntArray:
        """The likeliest action of each step, or `END`, [N, queries]: argmax, nothing is drawn."""


class PlanReader(Protocol):
    """A way to read plans."""

    @property
    def name(self) -> str:
        """As it stands in tables."""

    def fit(self, train: PlanReading, validation: PlanReading, *, seed: int) -> FittedPlanReader:
        """Fit to some decisions, and choose by others, which lie in other grids.

        Args:
            train: what is fitted.
            validation: what tells when to stop, or how strong a penalty is to be.
            seed: of whatever is drawn at random.
        """


def check_plan_reading(reading: PlanReading, name: str) -> None:
    """Refuse activations that are no numbers or not one row a sequence."""
    rows, sequences = reading.activations, len(reading.actions)
    if rows.ndim != 3 or len(rows) != sequences or not rows.size:
        raise InvalidParameterError(
            f"{name} has activations of shape {rows.shape} for {sequences} sequences, expected "
            f"[{sequences}, tokens, dimensions]"
        )
    check_finite(rows, name, "leave out decisions that lack the position")


def check_tokens(activations: Activations, shape: tuple[int, int]) -> None:
    """Refuse activations that another reader was fitted to."""
    if activations.ndim != 3 or activations.shape[1:] != shape:
        raise InvalidParameterError(
            f"activations have shape {activations.shape}, expected [decisions, {shape[0]}, "
            f"{shape[1]}], as those that the reader was fitted to"
        )


def divided(scenes: Scenes, parts: int, seed: int) -> Sequence[Split]:
    """Divisions of decisions by the content of their grids: one, or one for each part.

    Args:
        scenes: the decisions.
        parts: 1 to score a quarter of the grids; more to score all of them, by as many fits.
        seed: of the order in which grids are dealt.
    """
    return [split(scenes, seed=seed)] if parts == 1 else folds(scenes, parts, seed=seed)


# --- Linear ---------------------------------------------------------------------------------------
# What it tells lies open in the activations. What a decoder tells beyond it takes work.
#
# The strength of the penalty is chosen by validation, an infinite one included: a step of which
# nothing can be read gets the shares of the training part, and no more. Rows are met in the span of
# the training rows, where the solution lies, so width costs little.

# Of half the squared weights, beside the mean of nats; rows have a length of about 1. Each is
# begun from the weights of the one before it.
PENALTIES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
_STEPS = 100
# Penalties in a row that do worse than the best one before them, after which no weaker is tried.
_PATIENCE = 2


class Head(NamedTuple):
    """Scores of some classes: rows · weights + shift."""

    classes: IntArray  # [C]
    weights: FloatArray  # [D, C]
    shift: FloatArray  # [C]

    def called(self, rows: FloatArray) -> IntArray:
        """The likeliest class of each row, [n]."""
        return np.asarray(self.classes[(rows @ self.weights + self.shift).argmax(axis=1)])


@dataclass(frozen=True)
class LinearSteps:
    """A linear head a step.

    Attributes:
        penalties: strengths to choose from, falling.
    """

    penalties: tuple[float, ...] = PENALTIES
    name: str = "linear"

    def fit(self, train: PlanReading, validation: PlanReading, *, seed: int) -> FittedSteps:
        """As `PlanReader.fit`; nothing is drawn at random."""
        check_plan_reading(train, "the training part")
        check_plan_reading(validation, "the validation part")
        scaled = Scaled.of(train.activations)
        rows, beside = (scaled(part.activations) for part in (train, validation))
        heads = []
        for step in range(train.actions.shape[1]):
            fitted, held = (part.actions[:, step] >= 0 for part in (train, validation))
            # Behind the longest sequence there is nothing to learn, and nothing to be told.
            if not fitted.any():
                break
            heads.append(
                head_of(
                    (rows[fitted], train.actions[fitted, step]),
                    (beside[held], validation.actions[held, step]),
                    self.penalties,
                )
            )
        return FittedSteps(scaled, tuple(heads), train.actions.shape[1])


@dataclass(frozen=True, eq=False)
class Scaled:
    """Activations with all tokens side by side, scaled, in the span of the training rows."""

    shape: tuple[int, int]
    standard: Standard
    basis: FloatArray | None  # [tokens x D, m]; None where there are fewer dimensions than rows

    @classmethod
    def of(cls, activations: Activations) -> Scaled:
        """Of the training rows, [n, tokens, D]."""
        flat = activations.reshape(len(activations), -1)
        standard = Standard.of(flat)
        # A length of about 1 whatever the width, so that a penalty means the same everywhere.
        standard = Standard(standard.mean, standard.weight / flat.shape[1] ** 0.5)
        basis = None
        if flat.shape[1] > len(flat):
            # The solution of a fit with squared weights is a combination of its rows.
            rows = standard(flat)
            spectrum, vectors = np.linalg.eigh(rows @ rows.T)
            there = spectrum > 1e-9 * spectrum.max(initial=1e-30)
            basis = rows.T @ (vectors[:, there] / np.sqrt(spectrum[there]))
        return cls((activations.shape[1], activations.shape[2]), standard, basis)

    def __call__(self, activations: Activations) -> FloatArray:
        """Rows of some decisions, [n, m]."""
        check_tokens(activations, self.shape)
        rows = self.standard(activations.reshape(len(activations), -1))
        return rows if self.basis is None else np.asarray(rows @ self.basis)


@dataclass(frozen=True, eq=False)
class FittedSteps:
    """A linear reader after its fit.

    Attributes:
        scaled: how activations become rows.
        heads: of the steps that training sequences have.
        queries: steps that are told; those without a head are told as the last that has one.
    """

    scaled: Scaled
    heads: tuple[Head, ...]
    queries: int

    @property
    def parameters(self) -> int:
        """As `FittedPlanReader.parameters`, counted in the activations' own dimensions."""
        width = self.scaled.shape[0] * self.scaled.shape[1]
        return sum((width + 1) * len(head.classes) for head in self.heads)

    def predicted(self, activations: Activations) -> IntArray:
        """As `FittedPlanReader.predicted`."""
        rows = self.scaled(activations)
        told = [head.called(rows) for head in self.heads]
        told += told[-1:] * (self.queries - len(told))
        return np.stack(told, axis=1)


def head_of(
    train: tuple[FloatArray, IntArray],
    validation: tuple[FloatArray, IntArray],
    penalties: tuple[float, ...],
) -> Head:
    """The head whose penalty does best on validation rows.

    Args:
        train: rows [n, D] and their labels [n], at least one.
        validation: others; where there are none nothing is read.
        penalties: strengths to choose from, falling.
    """
    rows, labels = train
    classes, which, counts = np.unique(labels, return_inverse=True, return_counts=True)
    best = Head(classes, np.zeros((rows.shape[1], len(classes))), np.log(counts / len(labels)))
    # A class that training does not have cannot be told by any of them.
    seen = np.isin(validation[1], classes)
    beside, named = validation[0][seen], np.searchsorted(classes, validation[1][seen])
    if len(classes) == 1 or not len(beside):
        return best
    least = _nats(beside @ best.weights + best.shift, named)[0]
    weights, shift, waited = best.weights, best.shift, 0
    for penalty in penalties:
        weights, shift = _regression(rows, which, penalty, weights, shift)
        nats = _nats(beside @ weights + shift, named)[0]
        if nats < least:
            best, least, waited = Head(classes, weights, shift), nats, 0
        else:
            waited += 1
            if waited >= _PATIENCE:
                break
    return best


def _regression(
    rows: FloatArray, labels: IntArray, penalty: float, weights: FloatArray, shift: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Multinomial logistic regression with squared weights, from a given start."""
    from scipy.optimize import minimize

    shape = (rows.shape[1] + 1, len(shift))
    minimised = minimize(
        _objective(rows, labels, penalty, shape),
        np.vstack([weights, shift]).ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _STEPS},
    )
    table = minimised.x.reshape(shape)
    return table[:-1], table[-1]


def _objective(
    rows: FloatArray, labels: IntArray, penalty: float, shape: tuple[int, int]
) -> Callable[[FloatArray], tuple[float, FloatArray]]:
    """Nats a row with the penalty, and its gradient; the last row of weights is the shift."""

    def value(flat: FloatArray) -> tuple[float, FloatArray]:
        table = flat.reshape(shape)
        nats, errors = _nats(rows @ table[:-1] + table[-1], labels)
        slope = np.vstack([rows.T @ errors / len(rows), errors.mean(axis=0)])
        slope[:-1] += penalty * table[:-1]
        return nats + 0.5 * penalty * float((table[:-1] ** 2).sum()), slope.ravel()

    return value


def _nats(scores: FloatArray, labels: IntArray) -> tuple[float, FloatArray]:
    """The mean of nats, and the derivative of their sum by the scores, [n, C]."""
    scores = scores - scores.max(axis=1, keepdims=True)
    shares = np.exp(scores)
    total = shares.sum(axis=1)
    at = np.arange(len(labels))
    nats = float((np.log(total) - scores[at, labels]).mean())
    shares /= total[:, None]
    shares[at, labels] -= 1.0
    return nats, shares


# --- Decoder --------------------------------------------------------------------------------------
# memory    a linear layer that all tokens share, LayerNorm, GELU, dropout; plus, for each token,
#               a learnt vector that says which one it is
#     queries   one a step, each the sum of a learnt query and a learnt position
#     blocks    pre-norm transformer decoder layers; queries see each other, no mask
#     scores    a linear layer from each query to the four actions and the end
#
# All steps are told at once and none is fed back, so nothing is told of a later step by way of a
# guess at an earlier one. The loss of a step weighs decay^step, padding counts for nothing, and the
# checkpoint with the least loss on validation grids is kept.
#
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents", section 5, and its code. There the tokens carry no mark of their place; ours are scaled
# token by token, which takes away what else would tell them apart. It keeps the last epoch, and
# draws predictions at temperature 1.

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
