"""The most entropy at a given expected utility, where no rationality leads there.

Maximise H subject to E[U] = u by the augmented Lagrangian

    H + m (E[U] - u) - (r / 2) (E[U] - u)^2 ,

whose maxima are constrained maxima of H once r outweighs the curvature of the greatest entropy as
a function of u. Every decision answers the others exactly here, too: with the softmax of
`goalmeter.meg.causal.search.ascent` at the rationality b that satisfies

    b = m - r (E[U] - u),      E[U] being what the answer at b attains,

one equation whose left side rises and whose right side falls. Then m becomes b. Newton's method on
the stationary equations and E[U] = u together finishes.

Source: MEG paper (NeurIPS 2024), Definition 3.1; Hestenes and Powell (1969), multipliers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.causal.search.ascent import Prospects, prospects_of, respond, score
from goalmeter.meg.causal.search.candidates import (
    Candidate,
    Task,
    best_of,
    column,
    distinct,
    stacked,
)
from goalmeter.meg.causal.search.outcomes import Policies
from goalmeter.meg.causal.search.stationary import finish
from goalmeter.meg.causal.search.supported import Maximisers, candidate

_SWEEPS = 320
# r, nats per squared unit of utility: to begin with, and at least.
_STIFFEST = 2e4
_STIFFNESS = 80.0
_LARGEST = 1e9
_RELAX = 0.9
# A multiplier beyond this, nats per unit of utility, and the share of columns that have to be done
# for them to drop out.
_HOPELESS = 1e5
_DROP = 0.1
_AWAY = 1e-3
_NEAR = 1e-5
_ROOT_STEPS = 20
# A finished point attains u, and answers itself, this well.
_EXACT = 1e-9
_CLOSE = 3e-3
# Nats that lie between a rough end and u at most.
_AHEAD = 0.02
_FINISHED = 6
# Entropies this close are equal; Newton's method leaves less.
ENTROPY_TIE = 1e-8


def held(
    task: Task, utility: FloatArray, policies: Policies, rationality: FloatArray
) -> tuple[Policies, FloatArray]:
    """Ascents of the augmented Lagrangian side by side.

    Each column has its u, [B], in the task's unit, its policies to begin with, [C, A, B] each, and
    its multiplier to begin with, [B].

    Returns:
        policies near stationary ones, and their multipliers [B].
    """
    table, value = task.table, task.value[:, None]
    out, multipliers = [p.copy() for p in policies], rationality.copy()
    running = np.arange(len(rationality))
    now, m, u = out, multipliers, utility
    b, before = m.copy(), np.full(len(m), np.inf)
    stiffness, least = np.full(len(m), _STIFFEST), np.full(len(m), _STIFFNESS)
    for sweep in range(_SWEEPS):
        moved = np.zeros(len(m))
        now = list(now)
        for i in range(len(now)):
            prospects = prospects_of(table, value, now, i)
            b = _root(prospects, now[i], b, m, u, stiffness)
            new = respond(prospects, b, now[i])
            moved = np.maximum(moved, np.abs(new - now[i]).max(axis=(0, 1)))
            now[i] = new
        # b = m - r (E[U] - u), so this is how far the answers still are from u.
        off = np.abs(b - m) / stiffness
        m = np.clip(b, -_LARGEST, _LARGEST)
        # A stiff r keeps u from the first sweep on, and slows what moves along it: it is relaxed,
        # unless it no longer outweighs the curvature and u gets away.
        lost = (off > 1.5 * before) & (off > _AWAY)
        stiffness = np.where(lost, 4.0 * stiffness, np.maximum(_RELAX * stiffness, least))
        stiffness = np.minimum(stiffness, _LARGEST)
        least = np.where(lost, 0.5 * stiffness, np.maximum(_RELAX * least, _STIFFNESS))
        before = off
        # Where the multiplier runs away, u cannot be attained nearby.
        done = (moved + off <= _NEAR) | ((np.abs(m) > _HOPELESS) & (stiffness <= least))
        if done.mean() > _DROP or sweep == _SWEEPS - 1:
            for whole, part in zip(out, now, strict=True):
                whole[..., running] = part
            multipliers[running] = m
            keep = ~done
            if not keep.any():
                break
            running, now = running[keep], [p[..., keep] for p in now]
            m, u, b, before = m[keep], u[keep], b[keep], before[keep]
            stiffness, least = stiffness[keep], least[keep]
    return out, multipliers


def _root(
    prospects: Prospects,
    old: FloatArray,
    guess: FloatArray,
    multiplier: FloatArray,
    utility: FloatArray,
    stiffness: FloatArray,
) -> FloatArray:
    """The b with b + r (E[U] at b - u) = m, [B], by Newton's method inside a shrinking bracket."""
    mass = prospects.mass.max(axis=1)
    low = multiplier - stiffness * ((mass * prospects.paid.max(axis=1)).sum(axis=0) - utility)
    high = multiplier - stiffness * ((mass * prospects.paid.min(axis=1)).sum(axis=0) - utility)
    # The left side rises with b and E[U] lies between its extremes, so the root is in the bracket.
    b = np.clip(guess, low, high)
    for _ in range(_ROOT_STEPS):
        policy = respond(prospects, b, old)
        mean = (policy * prospects.paid).sum(axis=1)
        attained = (mass * mean).sum(axis=0)
        spread = (mass * (policy * (prospects.paid - mean[:, None]) ** 2).sum(axis=1)).sum(axis=0)
        excess = b - multiplier + stiffness * (attained - utility)
        low = np.where(excess < 0, b, low)
        high = np.where(excess > 0, b, high)
        step = b - excess / (1.0 + stiffness * spread)
        new = np.where((step >= low) & (step <= high), step, 0.5 * (low + high))
        if (np.abs(new - b) <= 1e-8 * (1.0 + np.abs(b))).all():
            return new
        b = new
    return b


def greatest_entropies(
    task: Task,
    utilities: Sequence[float],
    starts: Sequence[tuple[Policies, FloatArray]],
) -> list[Maximisers]:
    """The greatest entropy that is reached at each of several expected utilities.

    Each u, in the task's unit, has its starts: policies [C, A, n] each, with multipliers [n].

    Returns:
        For each the equally good maximisers, and how many starts ended there; none where no
        ascent came to attain u.
    """
    ends = np.cumsum([len(b) for _, b in starts])
    owner = np.repeat(np.asarray(utilities), np.diff(ends, prepend=0))
    whole = stacked([p for p, _ in starts])
    b = np.concatenate([b for _, b in starts])
    for begin in range(0, len(owner), task.batch()):
        part = slice(begin, begin + task.batch())
        climbed, b[part] = held(task, owner[part], [p[..., part] for p in whole], b[part])
        for p, new in zip(whole, climbed, strict=True):
            p[..., part] = new
    out = []
    for u, begin, end in zip(utilities, [0, *ends], ends, strict=False):
        mine = [p[..., begin:end] for p in whole]
        out.append(_compared(task, u, mine, b[begin:end]))
    return out


def _compared(task: Task, u: float, climbed: Policies, b: FloatArray) -> Maximisers:
    attained = score(task.table, task.value[:, None], climbed)
    # What a rough end would have, were it to move along its multiplier to u.
    ahead = b * (attained.utility - u)
    rough = np.where(np.abs(ahead) <= _AHEAD, attained.entropy + ahead, -np.inf)
    if not np.isfinite(rough).any():
        return Maximisers([], 0)
    evidence = task.evidence(climbed)
    order = [int(i) for i in np.argsort(-rough, kind="stable") if np.isfinite(rough[i])]
    # Among equals the best predictors go first, so that none of them is left out.
    order.sort(key=lambda i: (-round(float(rough[i]), 4), -evidence[i]))
    done: list[Candidate] = []
    for i in distinct(climbed, order)[: 2 * _FINISHED]:
        if done and rough[i] < max(c.entropy for c in done) - _CLOSE:
            break
        finished = exact(task, u, column(climbed, i), float(b[i]))
        if finished is not None:
            done.append(finished)
    if not done:
        return Maximisers([], 0)
    best = best_of(done, [c.entropy for c in done], ENTROPY_TIE)
    return Maximisers(best, int((rough >= best[0].entropy - _CLOSE).sum()))


def exact(task: Task, u: float, policies: Policies, rationality: float) -> Candidate | None:
    """What Newton's method makes of policies [C, A] each that nearly attain u; None if it fails."""
    point = finish(task.table, task.value, rationality, policies, held=u)
    if point.residual > _EXACT:
        return None
    return candidate(task, point.rationality, point.policies)
