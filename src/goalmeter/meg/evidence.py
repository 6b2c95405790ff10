"""The evidence that behaviour gives for soft-optimal models, and its slope in rationality."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.behaviour import Behaviour
from goalmeter.tabular.backup import Backup, SoftProblem
from goalmeter.tabular.planning import backward
from goalmeter.tabular.transition import Block


@dataclass(frozen=True)
class Evidence:
    """f(b) = E[sum log(pi_b / reference)] for B behaviours and its derivatives in b >= 0.

    The slope is `model_loss - loss`: the regret that the model of rationality b would have,
    less the regret of the behaviour (MEG paper, section 5: the difference in expected utility).
    For a policy `model_loss` equals `start_loss`, the model's own expected regret; on sampled
    transitions it does not exactly. All arrays [B].
    """

    value: FloatArray
    model_loss: FloatArray
    loss: FloatArray
    curvature: FloatArray
    start_loss: FloatArray

    @property
    def slope(self) -> FloatArray:
        """df/db."""
        return np.asarray(self.model_loss - self.loss)

    def __add__(self, other: Evidence) -> Evidence:
        """Evidence of independent behaviours under one rationality."""
        return Evidence(
            self.value + other.value,
            self.model_loss + other.model_loss,
            self.loss + other.loss,
            self.curvature + other.curvature,
            self.start_loss + other.start_loss,
        )


@dataclass(frozen=True)
class Shares:
    """Where the evidence comes from: by_step [H, B] and by_state [S, B], nats."""

    by_step: FloatArray
    by_state: FloatArray


def evidence(task: SoftProblem, behaviour: Behaviour) -> Evidence:
    """Evidence of behaviours for the soft-optimal policies of `task`."""
    return _measure(task, behaviour, None)


def model_evidence(task: SoftProblem, loss: FloatArray) -> Evidence:
    """Slope and curvature for policies whose regret is known; cheaper, and without the value.

    For a policy's behaviour the model's regret sums to what it expects at the start.
    """
    start = backward(task)
    assert start.loss is not None and start.spread is not None
    initial = task.mdp.initial
    expected = initial @ start.loss
    unknown = np.full_like(expected, np.nan)
    return Evidence(unknown, expected, loss, -(initial @ start.spread), expected)


def shared_evidence(task: SoftProblem, behaviour: Behaviour) -> tuple[Evidence, Shares]:
    """The same, with the share of every step and state."""
    mdp, batch = task.mdp, task.rationality.shape[0]
    shares = Shares(np.zeros((mdp.steps, batch)), np.zeros((mdp.n_states, batch)))
    total = _measure(task, behaviour, shares)
    return total, shares


def _measure(task: SoftProblem, behaviour: Behaviour, shares: Shares | None) -> Evidence:
    mdp, batch = task.mdp, task.rationality.shape[0]
    blocks = mdp.transition.blocks
    # One row of sums a block: threads never add to the same number, and the order is fixed.
    sums = np.zeros((len(blocks), 4, batch))
    row = {block.start: i for i, block in enumerate(blocks)}
    by_step = np.zeros((len(blocks), mdp.steps, batch)) if shares is not None else None

    def visit(step: int, block: Block, done: Backup) -> None:
        assert done.loss is not None and done.next_loss is not None
        assert done.spread is not None and done.next_spread is not None
        weights = behaviour.weights(step, block.states)
        used = weights > 0
        total = sums[row[block.start]]
        share = np.where(used, weights * done.log_ratio, 0.0).sum(axis=0)
        total[0] += share.sum(axis=0)
        total[1] += _dot(weights, done.loss - done.next_loss)
        total[2] += task.weight(step) * _dot(weights, done.gap)
        total[3] += _dot(weights, done.next_spread - done.spread)
        if shares is not None and by_step is not None:
            by_step[row[block.start], step] = share.sum(axis=0)
            shares.by_state[block.states] += share

    with np.errstate(invalid="ignore"):
        start = backward(task, visit)
    if shares is not None and by_step is not None:
        shares.by_step[...] = by_step.sum(axis=0)
    value, model_loss, loss, curvature = sums.sum(axis=0)
    assert start.loss is not None
    return Evidence(value, model_loss, loss, curvature, mdp.initial @ start.loss)


def _dot(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Sum over actions and states of weights [A, n, B or 1] * values [A, n, B or 1]: [B]."""
    return np.asarray(np.einsum("anb,anb->b", *np.broadcast_arrays(weights, values)))
