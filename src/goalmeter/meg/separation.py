"""Which of many linear inequalities can be strict at once: a linear program, by interior points.

Given rows G, the program

    max over x of  sum min(1, G x)     subject to  G x >= 0

makes as many inequalities strict as can be, all at once: x may be scaled up, so in exact arithmetic
every row that some feasible x makes positive reaches 1. An interior-point method is wanted for
that, since it ends in the middle of all solutions and not in a corner, where rows are zero that
need not be. What it finds is a suggestion: `goalmeter.meg.recession` proves what it uses of it.

Source: Mehrotra's predictor-corrector method (SIAM Journal on Optimization 2, 1992); strict
complementarity of linear programs (Goldman and Tucker 1956).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from goalmeter._types import FloatArray

# The largest ratio of a multiplier to its slack that a step is taken with.
_LARGEST = 1e150
_ITERATIONS = 400
# Rounding ends the method where those products are so many times the least that was reached, and
# so does standing still: neither of the two is halved in so many iterations.
_LOST, _IDLE = 1e2, 40
# The method ends where products of slacks and multipliers are this small, and all residuals too.
_ACCURATE, _FEASIBLE = 1e-10, 1e-8
# Of the way to the nearest constraint.
_STEP = 0.995
# A share of x' x / 2 that is taken off, because x may otherwise grow for ever; and what is added to
# the diagonals of scaled systems, in which rows that cannot be strict weigh ever more.
_RIDGE, _JITTERS = 1e-14, (1e-14, 1e-11, 1e-8)
# So many rows are squared at a time.
_CHUNK = 4096


class Rows(NamedTuple):
    """Rows G = [dense, sparse] of a system of inequalities: [N, k] and CSR [N, n]."""

    dense: FloatArray
    sparse: Any

    def times(self, x: FloatArray) -> FloatArray:
        """G x for x [k + n]: [N]."""
        k = self.dense.shape[1]
        return np.asarray(self.dense @ x[:k] + self.sparse @ x[k:])

    def transposed(self, y: FloatArray) -> FloatArray:
        """G' y for y [N]: [k + n]."""
        return np.concatenate([self.dense.T @ y, self.sparse.T @ y])

    def only(self, which: Any) -> Rows:
        """Some of the rows."""
        return Rows(self.dense[which], self.sparse[which])


def strictest(rows: Rows, check: Callable[[], None]) -> FloatArray:
    """An x [k + n] in the middle of those that make the most inequalities strict, nearly.

    `check` is called in every iteration; it raises what ends the search.
    """
    n = rows.dense.shape[0]
    x = np.zeros(sum(part.shape[1] for part in rows))
    # y <= G x and 0 <= y <= 1, as slacks that are positive, with a multiplier each: [3, N].
    y = np.full(n, 0.5)
    slack = np.stack([np.ones(n), 1.0 - y, y])
    multiplier = np.ones((3, n))
    best, least = x, np.inf
    halved, idle = np.array([np.inf, np.inf]), 0
    for _ in range(_ITERATIONS):
        check()
        left = rows.times(x) - slack[2] - slack[0], 1.0 - slack[2] - slack[1]
        dual_y = multiplier[0] + multiplier[1] - multiplier[2] - 1.0
        dual_x = _RIDGE * x - rows.transposed(multiplier[0])
        size = float((slack * multiplier).mean())
        worst = max(np.abs(part).max() for part in (*left, dual_y, dual_x))
        if size < least:
            best, least = x, size
        if (size < _ACCURATE and worst < _FEASIBLE) or not size < _LOST * least:
            break
        now = np.array([size, worst])
        idle = 0 if (now < 0.5 * halved).any() else idle + 1
        halved = np.where(now < 0.5 * halved, now, halved)
        if idle == _IDLE:
            break
        if (slack * _LARGEST < multiplier).any():
            break  # products of such ratios overflow
        system = _System(rows, multiplier / slack)
        residuals = (left, dual_y, dual_x)
        step = system.step(residuals, -slack * multiplier, slack)
        if step is None:
            break
        # How far the plain Newton step gets says how much to keep to the middle.
        primal, dual = _longest(slack, step.slack), _longest(multiplier, step.multiplier)
        ahead = (slack + primal * step.slack) * (multiplier + dual * step.multiplier)
        middle = size * (float(ahead.mean()) / size) ** 3
        aim = middle - slack * multiplier - step.slack * step.multiplier
        step = system.step(residuals, aim, slack)
        if step is None:
            break
        primal, dual = _longest(slack, step.slack), _longest(multiplier, step.multiplier)
        x = x + _STEP * primal * step.x
        slack = slack + _STEP * primal * step.slack
        multiplier = multiplier + _STEP * dual * step.multiplier
    return best


class _Step(NamedTuple):
    """A Newton step: of x [k + n], of the slacks and of the multipliers [3, N]."""

    x: FloatArray
    slack: FloatArray
    multiplier: FloatArray


class _System:
    """The linear system of one iteration, brought down to x; `ratio` is multiplier / slack."""

    def __init__(self, rows: Rows, ratio: FloatArray) -> None:
        self._rows, self._ratio = rows, ratio
        self._total = ratio.sum(axis=0)
        self._weight = ratio[0] * (ratio[1] + ratio[2]) / self._total
        self._solve = _factorised(rows, self._weight)

    def step(self, residuals: Any, aim: FloatArray, slack: FloatArray) -> _Step | None:
        """The step that changes slack times multiplier by `aim` [3, N], to first order."""
        if self._solve is None:
            return None
        (short, over), dual_y, dual_x = residuals
        ratio, rows = self._ratio, self._rows
        wanted = aim / slack
        wanted[0] -= ratio[0] * short
        wanted[1] -= ratio[1] * over
        fixed = (wanted[2] - wanted[0] - wanted[1] - dual_y) / self._total
        right = rows.transposed(wanted[0] + ratio[0] * fixed) - dual_x
        x = self._solve(right)
        # Once more for what was left: the systems are as badly scaled as the problem is.
        x = x + self._solve(right - _RIDGE * x - rows.transposed(self._weight * rows.times(x)))
        moved = rows.times(x)
        y = fixed + ratio[0] / self._total * moved
        multiplier = wanted + ratio * np.stack([y - moved, y, -y])
        if not np.isfinite(x).all():
            return None
        return _Step(x, np.stack([moved - y + short, over - y, y]), multiplier)


def _longest(at: FloatArray, step: FloatArray) -> float:
    """The part of a step, at most 1, that leaves everything non-negative."""
    falls = step < 0
    return min(1.0, float((-at[falls] / step[falls]).min())) if falls.any() else 1.0


def _factorised(rows: Rows, weight: FloatArray) -> Callable[[FloatArray], FloatArray] | None:
    """What solves (ridge + G' diag(weight) G) x = right; None if it cannot be factorised."""
    from scipy.linalg import cho_factor, cho_solve
    from scipy.sparse.linalg import splu

    dense, sparse = rows
    k, n = dense.shape[1], sparse.shape[1]
    corner = np.zeros((k, k))
    for first in range(0, len(dense), _CHUNK):
        part = dense[first : first + _CHUNK]
        corner += (part * weight[first : first + _CHUNK, None]).T @ part
    corner[np.diag_indices(k)] += _RIDGE
    border, inner = np.zeros((n, k)), None
    if n:
        weighted = sp.diags(weight) @ sparse
        border = np.asarray(weighted.T @ dense)
        block = sp.csc_matrix(sparse.T @ weighted + _RIDGE * sp.identity(n))
        scale = 1.0 / np.sqrt(block.diagonal())
        block = sp.diags(scale) @ block @ sp.diags(scale) + _JITTERS[0] * sp.identity(n)
        factor = splu(sp.csc_matrix(block), diag_pivot_thresh=0.0, options={"SymmetricMode": True})

        def inner(right: FloatArray) -> FloatArray:
            scaled = scale[:, None] * right
            return np.asarray(scale[:, None] * factor.solve(scaled))

        corner -= border.T @ inner(border)
    unit = 1.0 / np.sqrt(np.maximum(corner.diagonal(), _RIDGE))
    for jitter in _JITTERS:
        try:
            triangle = cho_factor(corner * unit * unit[:, None] + jitter * np.eye(k))
            break
        except np.linalg.LinAlgError:
            continue
    else:
        return None

    def solve(right: FloatArray) -> FloatArray:
        if inner is None:
            return np.asarray(unit * cho_solve(triangle, unit * right))
        first, second = right[:k], right[k:, None]
        first = first - border.T @ inner(second)[:, 0]
        x = unit * cho_solve(triangle, unit * first)
        return np.concatenate([x, inner(second - (border @ x)[:, None])[:, 0]])

    return solve
