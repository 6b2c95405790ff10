"""A linear reader of plans: multinomial logistic regression a step, on all tokens side by side.

What it tells lies open in the activations. What a decoder tells beyond it takes work.

The strength of the penalty is chosen by validation, an infinite one included: a step of which
nothing can be read gets the shares of the training part, and no more. Rows are met in the span of
the training rows, where the solution lies, so width costs little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from goalmeter._types import FloatArray, IntArray
from goalmeter.representation.plan.protocol import (
    PlanReading,
    check_plan_reading,
    check_tokens,
)
from goalmeter.representation.probes.heads import Standard
from goalmeter.representation.probes.protocol import Activations

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
