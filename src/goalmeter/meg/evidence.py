"""The evidence that behaviour gives for soft-optimal models, and the rationality with the most.

f is concave in b and its slope is M(b) - c, with M(b) > 0 the regret of the model, falling to 0
as b grows, and c the regret of the behaviour. If c = 0 the optimum lies at infinity. Otherwise
log M(b) = log c is solved by Newton steps: M falls like an exponential, so its log is
close to a line, and steps stay good from b = 0 to the largest b. A bracket guards each step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.behaviour import Behaviour
from goalmeter.tabular.backup import Backup, SoftProblem
from goalmeter.tabular.planning import backward
from goalmeter.tabular.side_by_side import ONE_WORLD, Sums
from goalmeter.tabular.transition import Block

# Slopes at b = 0 below this share of the regrets are rounding: the optimum is b = 0.
ZERO_SLOPE = 1e-13
# Newton steps square the relative error: after one this small, the rest is rounding.
_LAST_STEP = 1e-7
_NARROW = 1e-13
MOST_STEPS = 200


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
        return Evidence(*map(np.add, vars(self).values(), vars(other).values()))


@dataclass(frozen=True)
class Shares:
    """Where the evidence comes from: by_step [H, B] and by_state [S, B], nats.

    With W worlds side by side [H, W] and [W * S, 1].
    """

    by_step: FloatArray
    by_state: FloatArray


def model_evidence(task: SoftProblem, loss: FloatArray, sums: Sums = ONE_WORLD) -> Evidence:
    """Slope and curvature for policies whose regret is known; cheaper, and without the value.

    For a policy's behaviour the model's regret sums to what it expects at the start.
    """
    start = backward(task)
    assert start.loss is not None and start.spread is not None
    initial = task.mdp.initial
    expected = sums.at_start(initial, start.loss)
    unknown = np.full_like(expected, np.nan)
    spread = sums.at_start(initial, start.spread)
    return Evidence(unknown, expected, loss, -spread, expected)


def shared_evidence(
    task: SoftProblem, behaviour: Behaviour, sums: Sums = ONE_WORLD
) -> tuple[Evidence, Shares]:
    """`evidence`, with the share of every step and state."""
    mdp, batch = task.mdp, task.rationality.shape[0]
    by_step = np.zeros((mdp.steps, batch * sums.n_worlds))
    shares = Shares(by_step, np.zeros((mdp.n_states, batch)))
    return evidence(task, behaviour, shares, sums), shares


def evidence(
    task: SoftProblem,
    behaviour: Behaviour,
    shares: Shares | None = None,
    sums: Sums = ONE_WORLD,
) -> Evidence:
    """Evidence of behaviours for the soft-optimal policies of `task`; `shares` are filled in.

    With W worlds side by side (`sums`) it is that of each world, [W] in place of [B].
    """
    mdp, batch = task.mdp, task.rationality.shape[0] * sums.n_worlds
    blocks = mdp.transition.blocks
    # One row of sums a block: threads never add to the same number, and the order is fixed.
    tally = np.zeros((len(blocks), 4, batch))
    row = {block.start: i for i, block in enumerate(blocks)}
    by_step = np.zeros((len(blocks), mdp.steps, batch if shares is not None else 0))

    def visit(step: int, block: Block, done: Backup) -> None:
        assert done.loss is not None and done.next_loss is not None
        assert done.spread is not None and done.next_spread is not None
        weights = behaviour.weights(step, block.states)
        used = weights > 0
        total = tally[row[block.start]]
        share = np.where(used, weights * done.log_ratio, 0.0).sum(axis=0)
        total[0] += sums.total(share)
        total[1] += sums.dot(weights, done.loss - done.next_loss)
        total[2] += task.weight(step) * sums.dot(weights, done.gap)
        total[3] += sums.dot(weights, done.next_spread - done.spread)
        if shares is not None:
            by_step[row[block.start], step] = sums.total(share)
            shares.by_state[block.states] += share

    with np.errstate(invalid="ignore"):
        start = backward(task, visit)
    if shares is not None:
        shares.by_step[...] = by_step.sum(axis=0)
    value, model_loss, loss, curvature = tally.sum(axis=0)
    assert start.loss is not None
    return Evidence(value, model_loss, loss, curvature, sums.at_start(mdp.initial, start.loss))


Evaluate = Callable[[FloatArray], Evidence]


def first_size(at_zero: Evidence) -> FloatArray:
    """Where a Newton step from 0 leads; 1 where the evidence is not concave there.

    Utilities are normalised, so 1 is a sensible size. Logs that stop early can be convex at 0.
    """
    bends = at_zero.curvature < 0
    return np.where(bends, np.abs(at_zero.slope) / np.where(bends, -at_zero.curvature, 1.0), 1.0)


def best_rationality(evaluate: Evaluate, at_zero: Evidence) -> FloatArray:
    """Argmax over b in [-inf, inf] of the evidence of B behaviours: [B].

    `evaluate` gives the evidence at signed rationalities [B], with slopes with respect to |b|;
    the slope of `at_zero`, its value at zeros, decides the sign.
    """
    scale = at_zero.model_loss + at_zero.loss
    sign = np.where(np.abs(at_zero.slope) <= ZERO_SLOPE * scale, 0.0, np.sign(at_zero.slope))
    # A utility that no choice influences: nothing is lost whatever is chosen.
    sign = np.where(at_zero.start_loss <= 0.0, 0.0, sign)
    size = np.where(sign == 0, 0.0, first_size(at_zero))
    low, high = np.zeros_like(size), np.full_like(size, np.inf)
    open_ = sign != 0
    for _ in range(MOST_STEPS):
        if not open_.any():
            break
        now = evaluate(sign * size)
        # A behaviour that gives nothing up is explained ever better by larger b.
        infinite = open_ & (now.loss <= 0.0)
        size = np.where(infinite, np.inf, size)
        open_ &= ~infinite
        rising = now.slope > 0
        low = np.where(open_ & rising, size, low)
        high = np.where(open_ & ~rising, size, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # Newton's step for log M(b) = log c, in which M' is the curvature.
            step = -now.model_loss * np.log(now.model_loss / now.loss) / now.curvature
            guess = size + step
            middle = np.where(np.isinf(high), 4.0 * size, 0.5 * (low + high))
        inside = np.isfinite(guess) & (guess > low) & (guess < high)
        settled = inside & (np.abs(step) <= _LAST_STEP * size)
        settled |= (now.slope == 0) | (high - low <= _NARROW * size)
        size = np.where(
            open_, np.where(settled | inside, np.where(inside, guess, size), middle), size
        )
        open_ &= ~settled
    return np.asarray(sign * size)
