"""Policies that answer each other exactly: Newton's method, and how they move with the utility.

A stationary point of b E[U] + H is a set of policies each of which is the best answer to the
others (`search.ascent`):  log pi = A(log pi), up to a constant in each context. Block
ascent gets near at a linear rate; Newton's method on the same equations finishes in a few steps,
and their derivative says how the policies move with the utility (the implicit function theorem).

With a held utility, E[U] = u is one more equation and b one more unknown: stationary points of the
entropy on the set of policies that attain u.

K is the number of contexts and actions of all decisions together.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.causal.search.outcomes import OutcomeTable, Policies, safe_log

# Equations of more unknowns than this are not formed; ascent alone has to do.
MAX_UNKNOWNS = 600
_STEPS = 30
_LONGEST = 4.0


class Point(NamedTuple):
    """Policies [C, A] each and the b at which they are stationary."""

    policies: Policies
    rationality: float
    residual: float


class Linearised:
    """The equations at one set of policies, and their derivatives.

    Args:
        utility: of each row, [R].
        rationality: b.
        policies: [C, A] each.

    Attributes:
        chances: the probability of each row but for one decision's choice, [R] for each.
        masses: probability of each context, seen from each action, [C, A] each.
        answers: the logs of the best answers, [K].
        error: what the answers differ by from the policies, in logs, [K].
        pull: d(answers) / db, [K].
    """

    def __init__(
        self, table: OutcomeTable, utility: FloatArray, rationality: float, policies: Policies
    ) -> None:
        self.table, self.utility, self.policies = table, utility, policies
        self.logs = [safe_log(p) for p in policies]
        self.chances = _without_each(
            table.weight, [table.rows(i, p) for i, p in enumerate(policies)]
        )
        surprises = [table.rows(i, -log) for i, log in enumerate(self.logs)]
        self.masses, paid, logits, self._excess = [], [], [], []
        for i, chance in enumerate(self.chances):
            mass = table.total(i, chance)
            known = np.where(mass > 0, mass, 1.0)
            worth = table.total(i, chance * utility) / known
            surprise = sum((surprises[j] for j in table.later[i]), np.zeros(len(chance)))
            value = rationality * worth + table.total(i, chance * surprise) / known
            # Where nothing can come up nothing is asked.
            value = np.where(mass > 0, value, self.logs[i])
            self._excess.append(rationality * utility + surprise - table.rows(i, value))
            self.masses.append(mass)
            paid.append(worth)
            logits.append(value)
        answers = [x - x.max(axis=1, keepdims=True) for x in logits]
        answers = [x - np.log(np.exp(x).sum(axis=1, keepdims=True)) for x in answers]
        self.answers = _flat(answers)
        self.error = self.answers - _flat(self.logs)
        self.pull = self.centred(_flat(paid)[:, None])[:, 0]

    @cached_property
    def matrix(self) -> FloatArray:
        """d(policies - answers) / d(logs of policies), [K, K]."""
        return np.asarray(np.eye(self.error.size) - self.centred(self._cross()))

    def _cross(self) -> FloatArray:
        """d(answers, before they are normalised) / d(logs of policies), [K, K]."""
        table = self.table
        sizes = [p.size for p in self.policies]
        ends = np.cumsum(sizes)
        out = np.zeros((ends[-1], ends[-1]))
        for i, mine in enumerate(sizes):
            mass = self.masses[i].reshape(-1, 1)
            # What can never come up answers nothing: by infinity, its derivatives are 0.
            known = np.where(mass > 0, mass, np.inf)
            for k, theirs in enumerate(sizes):
                if k == i:
                    continue
                # A later decision's surprise is -log pi_k, so its own derivative adds -1 to the
                # others.
                excess = self._excess[i] - 1.0 if k in table.later[i] else self._excess[i]
                sums = np.bincount(
                    table.pairs[i, k], weights=self.chances[i] * excess, minlength=mine * theirs
                )
                block: FloatArray = sums.reshape(mine, theirs) / known
                # Logs move so that each context's probabilities still sum to 1.
                moved = block - self._mean_rows(block, k)
                out[ends[i] - mine : ends[i], ends[k] - theirs : ends[k]] = moved
        return out

    def paid_features(self) -> FloatArray:
        """E[features | context, action] of all decisions, [K, D]."""
        features = self.table.features
        parts = []
        for i, chance in enumerate(self.chances):
            mass = self.masses[i][..., None]
            total = self.table.total(i, chance[:, None] * features)
            paid = np.divide(total, mass, out=np.zeros_like(total), where=mass > 0)
            parts.append(paid.reshape(-1, features.shape[1]))
        return np.concatenate(parts)

    def moves(self) -> FloatArray:
        """d(logs of stationary policies) / d(weights of the features, times b), [K, D]."""
        moved = np.linalg.solve(self.matrix, self.centred(self.paid_features()))
        return self.centred(np.asarray(moved))

    def bordered(self) -> FloatArray:
        """`matrix` with b as one more unknown and E[U] as one more equation, [K + 1, K + 1]."""
        gain = _flat(self.centred_slopes(self.gains()))
        top = np.hstack([self.matrix, -self.pull[:, None]])
        return np.vstack([top, np.append(gain, 0.0)])

    def gains(self) -> Policies:
        """D E[U] / d(logs of policies), [C, A] each."""
        return [
            self.table.total(i, chance * self.utility) * p
            for (i, chance), p in zip(enumerate(self.chances), self.policies, strict=True)
        ]

    def centred_slopes(self, slopes: Policies) -> Policies:
        """Derivatives in the logs of policies where those stay normalised, [C, A] each."""
        return [
            d - p * d.sum(axis=1, keepdims=True) for d, p in zip(slopes, self.policies, strict=True)
        ]

    def _mean_rows(self, block: FloatArray, k: int) -> FloatArray:
        """(sum over the actions of a context of block) times their probabilities."""
        policy = self.policies[k]
        summed = block.reshape(len(block), *policy.shape).sum(axis=2)
        return np.asarray(summed[:, :, None] * policy).reshape(block.shape)

    def centred(self, values: FloatArray) -> FloatArray:
        """Numbers [K, n] less their mean under the policy of their context."""
        out, start = np.empty_like(values), 0
        for policy in self.policies:
            part = values[start : start + policy.size].reshape(*policy.shape, -1)
            part = part - (policy[..., None] * part).sum(axis=1, keepdims=True)
            out[start : start + policy.size] = part.reshape(policy.size, -1)
            start += policy.size
        return out

    def moved(self, step: FloatArray) -> Policies:
        """The policies after their logs are moved by [K], and normalised."""
        out, start = [], 0
        for policy, log in zip(self.policies, self.logs, strict=True):
            logits = log + step[start : start + policy.size].reshape(policy.shape)
            new = np.where(policy > 0, np.exp(logits - logits.max(axis=1, keepdims=True)), 0.0)
            out.append(new / new.sum(axis=1, keepdims=True))
            start += policy.size
        return out


def finish(
    table: OutcomeTable,
    utility: FloatArray,
    rationality: float,
    policies: Policies,
    held: float | None = None,
) -> Point:
    """Newton's method from policies that are nearly stationary.

    The utility is that of each row, [R], b finite, and `held` the E[U] that is to be attained, by
    whatever b; None keeps b.

    Returns:
        The point; the one that came in if no step brought the equations nearer.
    """
    best = Point(policies, rationality, np.inf)
    if sum(p.size for p in policies) > MAX_UNKNOWNS:
        return best
    b, now = rationality, policies
    for _ in range(_STEPS):
        at = Linearised(table, utility, b, now)
        flat = _flat(now)
        error = np.where(flat > 0, at.error, 0.0)
        attained = float((at.chances[0] * table.rows(0, now[0])) @ utility)
        missing = 0.0 if held is None else held - attained
        # An answer that leaves a probability where it is to 1e-16 is as good as can be seen.
        residual = float(np.abs(flat * error).max(initial=0.0)) + abs(missing)
        # Newton's method either shrinks the residual fast or, at rounding or where two branches
        # meet, not at all: going on would only wander.
        if not residual < 0.8 * best.residual:
            return Point(now, b, residual) if residual < best.residual else best
        best = Point(now, b, residual)
        step, change = _newton(at, error, missing, held is not None)
        if step is None:
            break
        now, b = at.moved(step), b + change
    return best


def _newton(
    at: Linearised, error: FloatArray, missing: float, bordered: bool
) -> tuple[FloatArray | None, float]:
    """The step in the logs [K], and in b."""
    matrix = at.bordered() if bordered else at.matrix
    right = np.append(error, missing) if bordered else error
    try:
        solution = np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        return None, 0.0
    if not np.isfinite(solution).all():
        return None, 0.0
    step, change = (solution[:-1], float(solution[-1])) if bordered else (solution, 0.0)
    step = at.centred(step[:, None])[:, 0]
    # Far from the solution the linearised step can be absurd; a factor e^4 in a probability is the
    # most that is believed.
    longest = float(np.abs(step).max(initial=0.0))
    scale = min(1.0, _LONGEST / longest) if longest > 0 else 1.0
    return scale * step, scale * change


def implicit_gradient(
    table: OutcomeTable,
    utility: FloatArray,
    rationality: float,
    policies: Policies,
    slopes: Policies,
    *,
    held: bool,
) -> tuple[FloatArray, float]:
    """How what depends on stationary policies moves with the utility.

    Args:
        table: the outcomes, with features [R, D].
        utility: of each row, features @ weights up to a constant, [R].
        rationality: b.
        policies: stationary at b, [C, A] each.
        slopes: derivative of what is asked about in the logs of the policies, [C, A] each.
        held: whether E[U] is kept, by whatever b, as the weights move; if not, b is.

    Returns:
        The derivative in the weights [D], and that in the E[U] to be kept (0 if it is not).
    """
    at = Linearised(table, utility, rationality, policies)
    # Solved backwards: one system for all weights, however many there are.
    right = _flat(at.centred_slopes(slopes))
    if held:
        backwards = np.linalg.solve(at.bordered().T, np.append(right, 0.0))
        backwards, by_utility = backwards[:-1], float(backwards[-1])
    else:
        backwards, by_utility = np.linalg.solve(at.matrix.T, right), 0.0
    chance = at.chances[0] * table.rows(0, policies[0])
    out, start = -by_utility * (chance @ table.features), 0
    # The adjoint of centring, then of the features that each context and action can expect.
    for i, policy in enumerate(policies):
        part = backwards[start : start + policy.size].reshape(policy.shape)
        start += policy.size
        part = part - policy * part.sum(axis=1, keepdims=True)
        share = np.divide(part, at.masses[i], out=np.zeros_like(part), where=at.masses[i] > 0)
        out = out + rationality * ((at.chances[i] * table.rows(i, share)) @ table.features)
    return out, by_utility


def _without_each(weight: FloatArray, rows: list[FloatArray]) -> list[FloatArray]:
    """The product of the weight and all rows but one, for each one."""
    before = [weight]
    for row in rows[:-1]:
        before.append(before[-1] * row)
    out, after = [], np.ones_like(weight)
    for first, row in zip(reversed(before), reversed(rows), strict=True):
        out.append(first * after)
        after = after * row
    return out[::-1]


def _flat(parts: Policies) -> FloatArray:
    return np.concatenate([part.reshape(-1) for part in parts])
